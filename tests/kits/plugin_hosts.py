"""Plugin hosts with a few small plugins, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable

from prune_engine.config import EngineConfig
from prune_engine.hookspecs import hookimpl
from prune_engine.plugins import PluginHost, PluginRecord
from prune_engine.strategies import Rule


class NamedRule(Rule):
    def __init__(self, name: object) -> None:
        self.name = name  # type: ignore[misc,assignment]


class RulePlugin:
    """Registers one rule per name."""

    def __init__(self, *names: object) -> None:
        self.rules: Iterable[object] = [NamedRule(name) for name in names]

    @hookimpl
    def register_rules(self) -> Iterable[object]:
        return self.rules


def host_with(*, strict: bool = False, blocked: tuple[str, ...] = (), **plugins: object) -> PluginHost:
    host = PluginHost(EngineConfig(strict=strict, blocked_plugins=blocked))
    for name, plugin in plugins.items():
        host.register(plugin, name)
    return host


def record(host: PluginHost, name: str) -> PluginRecord:
    return next(r for r in host.records if r.name == name)


def rule_names(host: PluginHost) -> list[tuple[str, object]]:
    found = host.collect("register_rules", config=EngineConfig())
    return [(plugin, rule.name) for plugin, rule in found if isinstance(rule, Rule)]


GOOD = """
    from prune_engine.hookspecs import hookimpl
    from prune_engine.strategies import Rule

    class Fine(Rule):
        name = "good.fine"

    @hookimpl
    def register_rules():
        return [Fine()]
"""
LEAVES_A_MARK = """
    import pathlib
    pathlib.Path(__file__).with_suffix(".imported").touch()
"""
