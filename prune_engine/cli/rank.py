"""`prune-engine rank`: how well the draft, or draft and verifier, order a recorded space."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import redirect_stdout
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prune_engine.cli import study_options as options
from prune_engine.cli.recorded_tables import is_table, profile_of_device
from prune_engine.display.streams import say, writing_to_stdout

if TYPE_CHECKING:
    from prune_engine.config import EngineConfig
    from prune_engine.hardware.schema import HardwareProfile
    from prune_engine.recorded.ranking import Ranking
    from prune_engine.recorded.spaces import RecordedSpace

_DEVICE, _STRATEGY, _SAMPLES = "Device", "Strategies", "Measured candidates"


class Sampling(str, Enum):
    """How the measured candidates are chosen."""

    LOOP = "loop"
    RANDOM = "random"


def rank(
    context: typer.Context,
    db: Annotated[
        Path,
        typer.Argument(
            metavar="DB",
            help="Folder of a MetaSchedule JSON database, or a table of kernels (.tsv, .tsv.gz).",
            show_default=False,
        ),
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_DEVICE,
            help="Hardware profile: auto, a name, or a YAML file.",
            show_default="auto; that of --device",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_DEVICE,
            min=1,
            help="Threads the kernels ran on: the profile is cut to as many cores.",
            show_default="the profile's cores",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(rich_help_panel=_DEVICE, help="The device of a table to look at.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_DEVICE, help="Device of a table whose rows the verifier knows before: adaptation."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(rich_help_panel=_SAMPLES, min=0, help="Candidates measured, by looking them up, before.")
    ] = 0,
    sampling: Annotated[
        Sampling,
        typer.Option(
            rich_help_panel=_SAMPLES, help="How those are chosen: as the engine would in its rounds, or at random."
        ),
    ] = Sampling.LOOP,
    seed: options.Seed = 0,
    draft: Annotated[
        str | None, typer.Option(rich_help_panel=_STRATEGY, help="Draft to use, or none.", show_default=False)
    ] = None,
    verifier: Annotated[
        str | None, typer.Option(rich_help_panel=_STRATEGY, help="Verifier to use, or none.", show_default=False)
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_STRATEGY, help="What the verifier starts from: builtin, none, or a model file."
        ),
    ] = None,
    block: options.Block = None,
    plugin: options.Plugin = None,
    as_json: options.AsJson = False,
) -> None:
    """Order the candidates of a recorded space without measuring, and say how good the order is.

    For each workload: the best run time of the recording divided by the best one
    among the first 1, 4, 8, 16 and 64 candidates (1.00 is perfect), and the rank
    correlation. With --samples the measured ones count as found.
    """
    from prune_engine.cli.options import check_blocked, refuse_without_effect
    from prune_engine.cli.rank_tables import print_rankings
    from prune_engine.config import EngineConfig
    from prune_engine.errors import ConfigError

    of_table = device is not None or is_table(db)
    if of_table:
        refuse_without_effect(context, ["threads"], "on a table of kernels, which ran on whole devices")
    if not samples:
        refuse_without_effect(context, ["sampling"], "without --samples")
    given = {"draft_scorer": draft, "verifier": verifier, "prior": prior}
    chosen = {field: None if text == "none" and field != "prior" else text for field, text in given.items() if text}
    config = EngineConfig.of(
        seed=seed, blocked_plugins=tuple(block or ()), plugin_files=tuple(plugin or ()), **chosen
    )
    check_blocked(config.blocked_plugins, config.plugin_files)
    with redirect_stdout(sys.stderr):  # stdout is for the result alone, whatever plugins print
        if of_table:
            rows = _table_rows(db, device, source, profile, config, samples, sampling.value)
        else:
            rows = _database_rows(db, source, profile, threads, config, samples, sampling.value)
    for line in dict.fromkeys(
        f"warning: plugin {name} {why}" for row in rows for name, why in row.get("failed_plugins", {}).items()
    ):
        say(line)
    if all(row["error"] for row in rows):
        raise ConfigError(
            "no candidate of any workload ran",
            who=str(db),
            got="; ".join(f"{row['name']}: {row['n_candidates']} recorded" for row in rows) or "no workload",
            expected="a recording with at least one run time",
        )
    record = {
        "db": str(db),
        "n_samples": samples,
        "sampling": sampling.value if samples else None,
        "seed": seed,
        "source": source,
        "workloads": rows,
    }
    with writing_to_stdout("Redirect it to a place with room."):
        if as_json:
            typer.echo(json.dumps(record, indent=2))
        else:
            print_rankings(record)


def _database_rows(
    db: Path,
    source: str | None,
    profile: str | None,
    threads: int | None,
    config: EngineConfig,
    n_samples: int,
    sampling: str,
) -> list[dict[str, Any]]:
    from prune_engine.errors import ConfigError
    from prune_engine.hardware.fit import check_fits
    from prune_engine.hardware.registry import ProfileRegistry
    from prune_engine.hardware.slice import with_threads
    from prune_engine.metaschedule.recorded import read_recorded

    if source is not None:
        raise ConfigError(
            "needs a table of kernels", who="--source", got=str(db), expected="a .tsv file and --device"
        )
    chosen = ProfileRegistry().resolve(profile or "auto", n_threads=threads)
    chosen = with_threads(chosen, threads) if threads else chosen
    recording = read_recorded(db)
    for remark in recording.remarks:
        say(f"warning: {remark}")
    for space in recording.spaces:
        check_fits(chosen, space.task.target, remedy="Name the device of the recording by --profile.")
    return [_row(space, chosen, config, n_samples, sampling) for space in recording.spaces]


def _table_rows(
    path: Path,
    device: str | None,
    source: str | None,
    profile: str | None,
    config: EngineConfig,
    n_samples: int,
    sampling: str,
) -> list[dict[str, Any]]:
    from prune_engine.config import NAMED_PRIORS
    from prune_engine.errors import ConfigError
    from prune_engine.recorded.kernel_table_files import read_kernel_tables
    from prune_engine.recorded.ranking import train_prior

    if source is not None and config.prior not in NAMED_PRIORS:
        raise ConfigError(
            "the verifier starts from one of the two",
            who="rank",
            got=f"--source {source} and --prior {config.prior}",
            expected="--source or --prior",
        )
    rows = []
    for table in read_kernel_tables(path):
        for remark in table.remarks:
            say(f"warning: {table.name}: {remark}")
        if device is None:
            raise ConfigError(
                "a table has several devices", who=str(path), expected=f"--device {' or '.join(table.devices)}"
            )
        target = table.recorded(device)
        on_device = profile_of_device(table.device(device), profile)
        if source is None:
            rows.append(_row(target, on_device, config, n_samples, sampling, table.device(device)))
            continue
        known, known_profile = table.recorded(source), profile_of_device(table.device(source), None)
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "prior"
            train_prior(known, config, known_profile, model)
            adapted = config.model_copy(update={"prior": str(model)})
            try:
                rows.append(_row(target, on_device, adapted, n_samples, sampling, table.device(device)))
            except ConfigError as error:
                if error.who != str(model):
                    raise
                raise ConfigError(
                    error.problem, who=f"--source {source}", got=error.got, expected=error.expected
                ) from error
    return rows


def _row(
    recorded: RecordedSpace,
    profile: HardwareProfile,
    config: EngineConfig,
    n_samples: int,
    sampling: str,
    device: str | None = None,
) -> dict[str, Any]:
    """One workload as a record; what cannot be ranked has an ``error``."""
    from prune_engine.errors import ConfigError
    from prune_engine.recorded.ranking import rank as rank_space
    from prune_engine.store.open import open_store

    if recorded.remark:
        say(f"warning: {recorded.name}: {recorded.remark}")
    record = {
        "name": recorded.name,
        "device": device,
        "profile": profile.name,
        "n_candidates": recorded.n_candidates,
        "n_failed": recorded.n_failed,
        "n_unmatched": recorded.n_unmatched,
        "error": None,
    }
    try:
        ranking = rank_space(
            recorded,
            config,
            profile,
            store=open_store("sqlite://"),
            n_samples=n_samples,
            sampling="random" if sampling == "random" else "loop",
        )
    except ConfigError as error:
        if recorded.best_secs is not None:
            raise
        return {**record, "error": str(error)}
    if ranking.n_samples < n_samples:
        few = f"{ranking.n_samples} of {n_samples} candidates were measured"
        say(f"warning: {recorded.name}: {few}, there are no more that the rules allow")
    return {**record, **_figures(ranking)}


def _figures(ranking: Ranking) -> dict[str, Any]:
    return {
        "best_secs": ranking.best_secs,
        "median_secs": ranking.median_secs,
        "n_measured": ranking.n_samples,
        "found": {str(k): value for k, value in ranking.found.items()},
        "picked": {str(k): value for k, value in ranking.picked.items()},
        "found_by_samples": ranking.found_by_samples,
        "correlation": ranking.correlation,
        "ranked_by": ranking.ranked_by,
        "learn_secs": ranking.learn_secs,
        "score_secs": ranking.score_secs,
        "failed_plugins": {plugin.name: plugin.summary for plugin in ranking.failed_plugins},
    }
