"""What `library` and `whitelist` print with --json."""

from __future__ import annotations

from typing_extensions import TypedDict

from prune_engine.schemas.studies import Subject


class LibraryEntry(TypedDict):
    """A schedule of a kernel; ``measured_at`` in seconds since 1970."""

    entry_id: str
    sketch_id: str
    rank: int
    latency_secs: float
    noise: float | None
    flop_per_sec: float | None
    efficiency: float | None
    default_secs: float | None
    n_trials: int | None
    origin: str
    tvm_version: str
    symbols_version: int
    measured_at: float


class LibraryKernel(TypedDict):
    """A tuned kernel with its schedules, the fastest first; ``strict`` and ``anchor`` are its classes."""

    label: str
    strict: str
    anchor: str
    axes: dict[str, int]
    model: str
    task_name: str
    device_name: str
    n_threads: int
    target: str
    flop_count: int
    entries: list[LibraryEntry]


class ImportedDevice(TypedDict):
    """Schedules of one device among those imported."""

    target: str
    device_name: str
    n_threads: int
    n_entries: int


class LibraryImport(TypedDict):
    """What an import found and how much of it is new."""

    source: str
    store: str
    n_records: int
    n_kernels: int
    n_entries: int
    n_new: int
    devices: list[ImportedDevice]
    remarks: list[str]


class LibraryExport(TypedDict):
    """What was written where."""

    file: str
    store: str
    n_entries: int


class LibraryPruned(TypedDict):
    """What was removed, or would be."""

    store: str
    n_removed: int
    is_dry_run: bool


class NumericCase(TypedDict):
    """Numbers on one kind of inputs; ``max_error`` in units of what rounding allows for."""

    name: str
    is_ok: bool
    max_error: float | None
    bound: float | None
    problem: str


class WhitelistCheck(TypedDict):
    """A check of an entry on a machine; ``checked_at`` in seconds since 1970."""

    is_passed: bool
    speedup: float | None
    problems: list[str]
    device_name: str
    n_threads: int
    tvm_version: str
    prune_engine_version: str
    symbols_version: int
    checked_at: float
    run_secs: list[float]
    default_secs: list[float]
    numeric: list[NumericCase]


class WhitelistClass(TypedDict):
    """Which kernels an entry is for."""

    strict: str
    anchor: str
    label: str
    axes: list[tuple[str, int]]


class WhitelistChoice(TypedDict):
    """A decision of the schedule: the factors of a tile, or one value. ``subject`` is what it tiles."""

    name: str
    kind: str
    values: list[int]
    subject: Subject | None


class WhitelistEntry(TypedDict):
    """A whitelisted schedule with the evidence for it; ``counts_here``: a check passed on this machine."""

    entry_id: str
    counts_here: bool
    kernel_class: WhitelistClass
    task_name: str
    target: str
    arg_shapes: list[list[int]]
    arg_dtypes: list[str]
    flop_count: int
    sketch_id: str
    choices: list[WhitelistChoice]
    added_by: str
    added_at: float
    note: str
    source: str
    checks: list[WhitelistCheck]
    trace_json: str


class WhitelistEntries(TypedDict):
    """The whitelist; ``broken`` says what cannot be read, by id."""

    store: str
    revision: int
    entries: list[WhitelistEntry]
    broken: dict[str, str]


class WhitelistRemoval(TypedDict):
    """An entry that was removed, and why."""

    entry_id: str
    task_name: str
    removed_at: float
    removed_by: str
    reason: str
    revision: int


class WhitelistRemovals(TypedDict):
    """What was removed from the whitelist."""

    store: str
    revision: int
    removed: list[WhitelistRemoval]
    broken: dict[str, str]


class WhitelistAdded(TypedDict):
    """An entry that was added."""

    store: str
    revision: int
    entry: WhitelistEntry


class WhitelistRemoved(TypedDict):
    """The id of an entry that was removed."""

    store: str
    revision: int
    removed: str


class WhitelistVerifiedEntry(WhitelistCheck):
    """An entry that was checked again."""

    entry_id: str
    task_name: str


class WhitelistVerified(TypedDict):
    """All entries that were checked again; the exit code is 1 unless ``n_failed`` is 0."""

    store: str
    n_failed: int
    broken: dict[str, str]
    entries: list[WhitelistVerifiedEntry]


class WhitelistImport(TypedDict):
    """What an import took in; ``n_unverified`` entries do not count here yet."""

    source: str
    store: str
    revision: int
    n_new: int
    n_known: int
    n_left_out: int
    n_unverified: int


class WhitelistExport(TypedDict):
    """What was written where."""

    file: str
    store: str
    revision: int
    n_entries: int
