"""Options of a run, validated once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prune_engine.errors import ConfigError

#: Values of ``prior`` that are no path of a file.
NAMED_PRIORS = ("builtin", "none")
#: Of a kernel's measurements in a run of transfer, the share that the search's own picks have.
SEARCH_SHARE = 0.5


class EngineConfig(BaseModel):
    """Every option of the engine. Times in seconds, sizes in bytes.

    ``n_trials`` counts the measured candidates of the whole job, earlier runs on the same store included;
    ``budget_secs`` counts this run alone. At least one of them should be set.

    A task is measured in batches of ``batch_size``, but of ``first_batch_size``, if that is smaller, until it has
    ``first_trials``: what the first trials teach is worth most. Of ``explore_size`` proposals of the explorer the
    best ``draft_size`` reach the verifier. ``epsilon`` is the share of a batch that is drawn at random of these,
    ``probe_share`` that of candidates drawn out of all that there are, the better the likelier, and
    ``first_probe_share`` the same of a task's first 16 trials. ``audit_fraction`` is the share of what a guess
    drops that may be measured all the same; with ``audit_tables`` also of the rows that rules cut out of choice
    tables, in candidates that no explorer proposes. ``build_aversion`` is what a score loses by each doubling of
    the unrolled code, which takes long to build. ``prior`` is what a verifier starts from: ``builtin`` models of
    other devices, ``none``, or the path of a model file.

    With ``transfer`` a task begins with up to ``transfer_trials`` schedules that were good for kernels like it,
    from the library in the store and, with ``builtin_library``, from what is shipped. One that comes within
    ``transfer_margin`` of what the library promises ends the task. With ``transfer_only`` a task is closed after
    ``transfer_trials``, of which the share ``transfer_search_share``, and what seeds leave over, goes to what draft
    and verifier think best of the whole space; 0 means that nothing but seeds is measured. If ``transfer_trials``
    is 0 then, the schedule that is ranked first ships unmeasured. With ``harvest`` the winners of the run are added
    to the library. ``transfer_source`` is what is transferred from: all of the
    ``library``, the ``best`` of its models by ``source_form`` (see source_choice), or the model of that name.

    A hook of a plugin that takes longer than ``hook_limit_secs`` for one call, or a strategy that takes longer than
    ``strategy_limit_secs``, is interrupted and done without from then on; None sets no limit.

    ``fp_tolerance`` is the relative error that is accepted of floating-point results, None what suits their type.
    With ``strict_fp`` every candidate is dropped that adds up in another order than the untuned kernel. With
    ``stress_check`` a schedule ships only if it is right on inputs that are hard on numbers.

    A task ends after ``plateau_trials`` that gain less than ``plateau_gain``, or after half as many in a row of
    which the verifier expected no more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_trials: int | None = Field(default=None, ge=0)
    budget_secs: float | None = Field(default=None, gt=0)
    batch_size: int = Field(default=16, ge=1, le=4096)
    first_batch_size: int = Field(default=8, ge=1, le=4096)
    first_trials: int = Field(default=32, ge=0)
    explore_size: int = Field(default=2048, ge=1)
    draft_size: int = Field(default=512, ge=1)
    epsilon: float = Field(default=0.02, ge=0, le=1)
    first_probe_share: float = Field(default=0.5, ge=0, le=1)
    probe_share: float = Field(default=0.2, ge=0, le=1)
    audit_fraction: float = Field(default=0.02, ge=0, le=1)
    audit_tables: bool = True
    build_aversion: float = Field(default=0.08, ge=0, lt=1)
    plateau_trials: int = Field(default=96, ge=1)
    plateau_gain: float = Field(default=0.01, ge=0)
    transfer: bool = True
    transfer_trials: int = Field(default=16, ge=0, le=4096)
    transfer_margin: float = Field(default=0.05, ge=0, lt=1)
    transfer_only: bool = False
    transfer_search_share: float = Field(default=SEARCH_SHARE, ge=0, le=1)
    transfer_source: str = "library"
    source_form: Literal["covered", "squared", "linear", "count"] = "covered"
    builtin_library: bool = True
    harvest: bool = True
    fp_tolerance: float | None = Field(default=None, ge=0, lt=1)
    strict_fp: bool = False
    stress_check: bool = True
    n_finalists: int = Field(default=3, ge=1, le=32)
    seed: int = Field(default=0, ge=0, lt=2**31)
    explorer: str = "explore.evolution"
    draft_scorer: str | None = "draft.symbols"
    verifier: str | None = "lightgbm.residual"
    selector: str = "select.diverse"
    prior: str = "builtin"
    disabled_rules: tuple[str, ...] = ()
    blocked_plugins: tuple[str, ...] = ()
    plugin_files: tuple[Path, ...] = ()
    strict: bool = False
    hook_limit_secs: float | None = Field(default=30.0, gt=0)
    strategy_limit_secs: float | None = Field(default=60.0, gt=0)

    @classmethod
    def of(cls, **options: object) -> EngineConfig:
        """Validate options. Raises ConfigError naming each that is wrong."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            lines = [
                f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']} (got {e['input']!r})" for e in error.errors()
            ]
            raise ConfigError(
                "invalid options: " + "; ".join(lines),
                who="engine configuration",
                remedy="Correct them and run again.",
            ) from error
