"""Where a report's facts come from: a result folder, or a store; opened, and the run in it found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prune_engine.decisions.files import DECISIONS_FOLDER
from prune_engine.errors import ArtifactError, ConfigError, StoreError
from prune_engine.result_folder import RESULT_NAME, read_result
from prune_engine.store.base import RunRecord, Store
from prune_engine.store.open import default_path, open_store


@dataclass(frozen=True, slots=True)
class Source:
    """An open store, a run in it and what its result folder holds; ``result`` is None without such a folder."""

    store: Store
    run: RunRecord
    result: Mapping[str, Any] | None
    folder: Path | None

    @property
    def decisions(self) -> Path | None:
        """The folder of decision records, None if there is none."""
        place = self.folder / DECISIONS_FOLDER if self.folder else None
        return place if place is not None and place.is_dir() else None


@contextmanager
def opened(place: str | None, run_id: str | None, store_url: str | None = None) -> Iterator[Source]:
    """Open what ``place`` names: a result folder, a store's file or URL, or None for the default store.

    The run is the one asked for (the beginning of its id will do), else that of the folder's result, else the
    newest on the store. ``store_url`` is where the store is now, if it is not where the folder says.

    Raises ArtifactError for a folder without a readable result, ConfigError for an unknown run, StoreError.
    """
    folder = Path(place) if place is not None and Path(place).is_dir() else None
    result = _result(folder) if folder else None
    url = store_url or (str(result["store"]) if result else place)
    _check_exists(url, folder)
    store = open_store(url)
    try:
        wanted = run_id or (str(result["run_id"]) if result else None)
        run = _run(store, wanted)
        is_of_folder = result is not None and result["run_id"] == run.run_id
        yield Source(store, run, result if is_of_folder else None, folder if is_of_folder else None)
    finally:
        store.close()


def _check_exists(url: str | None, folder: Path | None) -> None:
    """Opening would make a store where there is none."""
    file = default_path() if url is None else Path(url)
    if (url is None or "://" not in url) and not file.is_file():
        raise StoreError(
            "there is no store",
            who=str(file),
            expected="the folder of a result, a store's file, or its URL",
            remedy="Say with --store where the store is now." if folder else "Tune something first.",
        )


def _result(folder: Path) -> dict[str, Any]:
    """The result in a folder, with at least a run and a store."""
    file = folder / RESULT_NAME
    record = read_result(folder)
    if isinstance(record, dict) and "db" in record and record.get("store") is None:
        raise ArtifactError(
            "is the result of a replay that kept no measurements",
            who=str(file),
            remedy="Repeat it with --report, or with --store to keep them.",
        )
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in ("run_id", "store")):
        raise ArtifactError(
            "is no result of a run", who=str(file), expected="run_id and store, as `tune` writes them"
        )
    return record


def _run(store: Store, wanted: str | None) -> RunRecord:
    runs = store.runs()
    if not runs:
        raise StoreError("no run is on the store", who=store.url, remedy="Tune something first.")
    if wanted is None:
        return runs[0]
    found = [run for run in runs if run.run_id.startswith(wanted)] if wanted else []
    if len(found) != 1:
        newest = ", ".join(run.run_id[:12] for run in runs[:5])
        raise ConfigError(
            "several runs begin so" if found else "no such run",
            who="--run",
            got=repr(wanted),
            expected=f"one of the {len(runs)} on {store.url}, the newest being {newest}",
        )
    return found[0]
