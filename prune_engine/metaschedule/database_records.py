"""What a MetaSchedule database of somebody's has of one kernel for one target."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prune_engine.metaschedule.embedded_device import Remarks
from prune_engine.metaschedule.materialise import SCHEDULE_ERRORS, last_line
from prune_engine.metaschedule.record_rows import run_secs_of


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A record's trace and the seconds of its repeats, none where it failed."""

    trace: Any
    run_secs: tuple[float, ...]
    _record: Any

    @property
    def mod(self) -> Any:
        """The program it is about, None where its trace does not fit the kernel."""
        try:
            return self._record.as_measure_candidate().sch.mod
        except SCHEDULE_ERRORS:
            return None


def records_of(database: Any, mod: Any, target: Any, remarks: Remarks) -> Iterator[RecordedRun]:
    """The records of a kernel for a target, in the database's order. One that cannot be read is told of."""
    try:
        workload = database.commit_workload(mod)
        records = list(database.get_all_tuning_records())
    except (*SCHEDULE_ERRORS, AttributeError) as error:  # somebody's own class may lack either
        remarks.say(f"the database cannot be read, so what is in it may be measured again: {last_line(str(error))}")
        return
    wanted = _configuration(target)
    for record in records:
        if not record.workload.same_as(workload):
            continue
        if record.target is not None and _configuration(record.target) != wanted:
            continue
        yield RecordedRun(record.trace, run_secs_of(record.run_secs), record)


def _configuration(target: Any) -> Any:
    return json.loads(str(target))
