"""The strategies that plugins registered, and the active ones chosen by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from prune_engine.config import NAMED_PRIORS, EngineConfig
from prune_engine.errors import ConfigError, PluginError
from prune_engine.plugins import PluginHost
from prune_engine.read_only import ReadOnlyDict
from prune_engine.strategies import DraftScorer, Explorer, Rule, ScheduleTransfer, Selector, Strategy, Verifier
from prune_engine.symbols.builtin import BUILTIN_SYMBOLS
from prune_engine.symbols.table import SymbolDef, symbol_table

S = TypeVar("S", bound=Strategy)

#: Kinds that a run can do without, and the option that names each.
_OPTIONAL = {"draft_scorer": "--draft", "verifier": "--verifier"}


@dataclass(frozen=True, slots=True)
class Strategies:
    """What is active in an engine. ``owners`` maps a strategy's name to its plugin's."""

    rules: tuple[Rule, ...]
    explorer: Explorer
    draft_scorer: DraftScorer | None
    verifier: Verifier | None
    selector: Selector
    transfers: tuple[ScheduleTransfer, ...]
    symbols: Mapping[str, SymbolDef]
    owners: Mapping[str, str]


def load_strategies(host: PluginHost, config: EngineConfig) -> Strategies:
    """Ask every plugin for its strategies; the host has checked their kinds and names.

    Raises ConfigError when one that the options name is missing, or a prior is a file that nobody would read.
    """
    owners: dict[str, str] = {}

    def collect(hook: str) -> list[Strategy]:
        found = [(plugin, cast(Strategy, item)) for plugin, item in host.collect(hook, config=config)]
        owners.update({strategy.name: plugin for plugin, strategy in found})
        return [strategy for _, strategy in found]

    rules = cast("list[Rule]", collect("register_rules"))
    explorers = cast("list[Explorer]", collect("register_explorers"))
    drafts = cast("list[DraftScorer]", collect("register_draft_scorers"))
    verifiers = cast("list[Verifier]", collect("register_verifiers"))
    selectors = cast("list[Selector]", collect("register_selectors"))
    transfers = cast("list[ScheduleTransfer]", collect("register_transfers"))
    unknown = set(config.disabled_rules) - {rule.name for rule in rules}
    if unknown:
        raise ConfigError(
            "unknown rule",
            who="disabled_rules",
            got=", ".join(sorted(unknown)),
            expected="one of: " + (", ".join(sorted(r.name for r in rules)) or "(no plugin registers a rule)"),
        )
    verifier = _named(verifiers, config.verifier, "verifier") if config.verifier else None
    if config.prior not in NAMED_PRIORS and not (verifier and verifier.takes_prior):
        raise ConfigError(
            f"verifier {verifier.name} starts from no file"
            if verifier
            else "there is no verifier to start from it",
            who=config.prior,
            expected="one of: "
            + (", ".join(sorted(v.name for v in verifiers if v.takes_prior)) or "(none is loaded)"),
            remedy="Leave out --prior, or choose such a verifier by --verifier.",
        )
    return Strategies(
        rules=tuple(rules),
        explorer=_named(explorers, config.explorer, "explorer"),
        draft_scorer=_named(drafts, config.draft_scorer, "draft_scorer") if config.draft_scorer else None,
        verifier=verifier,
        selector=_named(selectors, config.selector, "selector"),
        transfers=tuple(sorted(transfers, key=lambda t: (t.order, t.name))),
        symbols=_symbols(host, config),
        owners=owners,
    )


def _symbols(host: PluginHost, config: EngineConfig) -> Mapping[str, SymbolDef]:
    """All symbols by name, the built-in ones first.

    Of two of one name the second plugin's is left out, or PluginError if strict.
    """
    table: dict[str, SymbolDef] = {**symbol_table(BUILTIN_SYMBOLS)}
    for plugin, item in host.collect("register_symbols", config=config):
        definition = cast(SymbolDef, item)
        try:
            table = {**symbol_table([*table.values(), definition])}
        except PluginError as error:
            if config.strict:
                raise
            host.fail(plugin, str(error))
    return ReadOnlyDict(table)  # every batch shows it to every plugin


def _named(strategies: Sequence[S], name: str, option: str) -> S:
    for strategy in strategies:
        if strategy.name == name:
            return strategy
    raise ConfigError(
        "no such strategy",
        who=option,
        got=repr(name),
        expected="one of: " + (", ".join(sorted(s.name for s in strategies)) or "(none is registered)"),
        remedy="`prune-engine plugins` lists what is loaded and why something is not. "
        + (
            f"Or do without: {_OPTIONAL[option]} none."
            if option in _OPTIONAL
            else f"Or choose another by --{option}."
        ),
    )
