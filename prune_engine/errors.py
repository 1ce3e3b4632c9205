"""One error tree. A message says who failed, what was got, what was expected and what to do about it."""

from __future__ import annotations


class PruneEngineError(Exception):
    """Base of every error that prune_engine raises on purpose.

    Args:
        problem: what went wrong, one clause, no full stop.
        who: the file, plugin, option or task concerned.
        got: the value that was met.
        expected: what would have been accepted.
        remedy: what the reader can do, as a sentence.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        who: str | None = None,
        got: object = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem, self.who, self.got, self.expected, self.remedy = problem, who, got, expected, remedy
        text = f"{who}: {problem}" if who else problem
        if got is not None:
            text += f"; got {got}"
        if expected:
            text += f"; expected {expected}"
        text += "" if text.endswith((".", "!", "?")) else "."
        if remedy:
            text += f" {remedy}"
        super().__init__(text)


class ConfigError(PruneEngineError):
    """An option, a configuration value or a combination of them cannot be used."""

    exit_code = 2


class TargetError(ConfigError):
    """The compiler on this machine cannot generate code for the target asked for."""


class ModelImportError(PruneEngineError):
    """A model file cannot be turned into tuning tasks.

    ``node``, ``operator`` and ``opset`` name the place in the model where that is known.
    """

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        node: str | None = None,
        operator: str | None = None,
        opset: int | None = None,
        who: str | None = None,
        got: object = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.node, self.operator, self.opset = node, operator, opset
        place = [
            *([f"operator {operator}"] if operator else []),
            *([f"node {node!r}"] if node else []),
            *([f"opset {opset}"] if opset is not None else []),
        ]
        if place:
            problem = f"{problem} ({', '.join(place)})"
        super().__init__(problem, who=who, got=got, expected=expected, remedy=remedy)


class SpaceError(PruneEngineError):
    """A design space cannot be generated or read."""


class SearchStateError(PruneEngineError):
    """A search strategy that a compiler drives was called out of order."""


class WhitelistError(PruneEngineError):
    """A schedule is not fit to be whitelisted: illegal, wrong in its numbers, or slow."""


class TellError(PruneEngineError):
    """A search was told something that it cannot take: of an unknown candidate, twice, or no latency."""


class PluginError(PruneEngineError):
    """A plugin cannot be loaded or registered something unusable."""


class PluginContractError(PluginError):
    """A strategy returned something outside its contract (shape, dtype, range, finiteness)."""


class PluginTimeoutError(PluginContractError):
    """A plugin's hook or strategy did not return within its time limit."""


class ProfileError(ConfigError):
    """A hardware profile is malformed, unknown or of a newer schema.

    ``mistakes`` are those of a file, each with its line (from 1), the field and what is wrong, and the remedy.
    """

    mistakes: tuple[tuple[int, str, str], ...] = ()


class StoreError(PruneEngineError):
    """The store cannot be opened, read or written."""

    exit_code = 4


class StoreLockedError(StoreError):
    """Another process held the store's write lock for longer than we wait."""


class StoreVersionError(StoreError):
    """The store was written by a newer prune_engine."""


class StoreFullError(StoreError):
    """No space is left where the store lives; what was committed before is intact."""


class OutputError(PruneEngineError):
    """A result cannot be written to where it was asked for."""

    exit_code = 5


class ArtifactError(PruneEngineError):
    """A compiled model cannot be loaded or run."""

    exit_code = 6


class NothingMeasuredError(PruneEngineError):
    """A run ended without a single successful measurement."""

    exit_code = 7


class NumericsError(PruneEngineError):
    """A tuned model's outputs differ from the reference by more than its tolerance."""

    exit_code = 8


class MeasureServerError(PruneEngineError):
    """The measurement processes cannot be started or died for good."""

    exit_code = 9
