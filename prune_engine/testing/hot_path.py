"""Find strategies that loop over candidates in Python, by counting steps of the interpreter instead of seconds.

A call is traced twice, on few rows and on many. Work on whole columns takes the same steps either time; a loop over
rows takes more with each row. Counts depend on nothing but the code, so the answer is the same on every machine.

What a function of C does with each row, such as ``sorted`` or ``map(int, column)``, is not seen: no step of the
interpreter is taken. A Python function that it calls back, as ``numpy.vectorize`` does, is.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

import numpy as np

from prune_engine.candidates import CandidateBatch
from prune_engine.testing.builders import make_batch

#: Makes the call that is traced, on so many rows: batches are built outside of what is counted.
Prepare = Callable[[int], Callable[[], object]]

#: A loop over the few rows that pass some test is one, too; one over blocks of 64 rows is none.
REPEATED_STEPS_PER_ROW = 1 / 32
#: Where rows are all different, loops over the different values of a column are no loops over rows.
DISTINCT_STEPS_PER_ROW = 1 / 2
#: Different candidates in the smaller batch; the larger one repeats them.
_N_FEW, _N_MANY = 64, 1024
_N_DISTINCT = (1024, 4096)
_LIBRARIES = tuple(
    str(Path(folder).resolve()) + "/"
    for folder in (sysconfig.get_path("stdlib"), Path(np.__file__).parent, Path(__file__).parents[1])
)


class Named(Protocol):
    """A strategy or a symbol."""

    @property
    def name(self) -> str:
        """Its dotted name."""


@dataclass(frozen=True, slots=True)
class RowLoop:
    """Code that takes more steps the more rows there are.

    ``line`` of ``function`` in ``file`` is where the strategy itself is at the time, ``inside`` the function whose
    line is repeated, which may be one of a library that the strategy calls for each row.
    """

    file: str
    function: str
    line: int
    inside: str
    steps_per_row: float

    def __str__(self) -> str:
        where = f"{Path(self.file).name}:{self.line}, in {self.function}"
        through = "" if self.inside == self.function else f" (through {self.inside})"
        return f"{where}{through}: {self.steps_per_row:.3g} steps a row"


def find_row_loop(prepare: Prepare, sizes: tuple[int, int], min_steps_per_row: float) -> RowLoop | None:
    """The code of a call whose steps grow most with its rows, or None if none grows as fast as that.

    ``prepare(n)`` returns the call on n rows. It is called once before, so that what is imported or cached at the
    first call does not count.
    """
    prepare(sizes[0])()
    few, many = (_count_steps(prepare(n)) for n in sizes)
    n_more = sizes[1] - sizes[0]
    growth = {
        place: (count.n_steps - few[place].n_steps if place in few else count.n_steps)
        for place, count in many.items()
    }
    place = max(growth, key=lambda p: growth[p], default=None)
    if place is None or growth[place] < min_steps_per_row * n_more:
        return None
    code, line = place
    own = next((frame for frame in many[place].stack if not frame[0].startswith(_LIBRARIES)), None)
    file, function, own_line = own or (code.co_filename, _name(code), line)
    return RowLoop(file, function, own_line, _name(code), growth[place] / n_more)


def check_no_row_loop(strategy: Named, call: Callable[[CandidateBatch], object], batch: CandidateBatch) -> None:
    """Assert that a call on a batch takes no more Python steps for more candidates.

    Told apart twice: the candidates of ``batch`` against the same ones many times over, and, where its sketch has
    as many, different candidates.
    """
    few = batch.take(np.arange(min(len(batch), _N_FEW)))
    if not len(few):
        return
    loop = find_row_loop(
        lambda n: _on(call, few.take(np.arange(n) % len(few))), (_N_FEW, _N_MANY), REPEATED_STEPS_PER_ROW
    )
    if loop is None and batch.sketch.size >= 2 * _N_DISTINCT[1]:
        n_sketch = batch.sketch.index
        loop = find_row_loop(
            lambda n: _on(call, make_batch(n, space=batch.space, sketch=n_sketch)),
            _N_DISTINCT,
            DISTINCT_STEPS_PER_ROW,
        )
    assert loop is None, told(strategy, loop)


def told(strategy: Named, loop: RowLoop | None) -> str:
    """What is wrong with a loop over rows, and what to do about it."""
    return (
        f"{strategy.name} loops over candidates in Python: {loop}. "
        "Work on whole columns with numpy: a batch has 65,536 candidates."
    )


@dataclass(slots=True)
class _Count:
    """Steps of one line, and the stack at the first of them, innermost frame first: file, function, line."""

    n_steps: int
    stack: tuple[tuple[str, str, int], ...]


def _on(call: Callable[[CandidateBatch], object], batch: CandidateBatch) -> Callable[[], object]:
    return lambda: call(batch)


def _count_steps(call: Callable[[], object]) -> dict[tuple[CodeType, int], _Count]:
    """How often each line begins, a comprehension's turns included. The tracer of a debugger rests meanwhile."""
    counts: dict[tuple[CodeType, int], _Count] = {}
    outside = sys._getframe()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            place = (frame.f_code, frame.f_lineno)
            count = counts.get(place)
            if count is None:
                counts[place] = _Count(1, tuple(_stack(frame, outside)))
            else:
                count.n_steps += 1
        return trace

    before, before_in_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(trace)  # of those that the call starts
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        threading.settrace(before_in_threads)
    return counts


def _stack(frame: FrameType | None, outside: FrameType) -> Iterator[tuple[str, str, int]]:
    while frame is not None and frame is not outside:
        yield str(Path(frame.f_code.co_filename).resolve()), _name(frame.f_code), frame.f_lineno
        frame = frame.f_back


def _name(code: CodeType) -> str:
    """The function's qualified name, which Python knows since 3.11."""
    return str(getattr(code, "co_qualname", code.co_name))
