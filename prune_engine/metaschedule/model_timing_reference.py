"""onnxruntime in a process of its own, as a contestant of model_timing.

In TVM's process it would share processor bindings and spinning worker threads with TVM's pool, which makes
short models look up to three times slower than they are.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from prune_engine.metaschedule.measure.linux import die_with_parent
from prune_engine.metaschedule.model_timing_sample import sample

#: Loading a large model under load takes a while; a run that hangs is ended by the worker's own time limit.
_START_TIMEOUT_SECS = 300.0

Arrays = dict[str, NDArray[Any]]


class NoReferenceError(Exception):
    """onnxruntime takes no part; the message says why."""


class Reference:
    """A running onnxruntime session. Every method raises NoReferenceError if it cannot answer."""

    def __init__(self, path: Path, n_threads: int) -> None:
        """Start the process and load the model."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, str(path), n_threads), daemon=True)
        self._process.start()
        theirs.close()
        self._answer()

    def run(self, names: Sequence[str], inputs: Arrays) -> list[NDArray[Any]]:
        """Compute the outputs ``names``; the inputs are kept for ``sample``."""
        outputs: list[NDArray[Any]] = self._ask(("run", list(names), inputs))
        return outputs

    def sample(self, n_calls: int) -> float:
        """Seconds per call over ``n_calls`` calls, after a warm-up."""
        return float(self._ask(("sample", n_calls)))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _ask(self, question: object) -> Any:
        try:
            self._connection.send(question)
        except OSError as error:
            raise NoReferenceError("onnxruntime crashed") from error
        return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._connection.poll(_START_TIMEOUT_SECS):
                raise NoReferenceError("onnxruntime does not answer")
            problem, value = self._connection.recv()
        except (EOFError, OSError) as error:
            raise NoReferenceError("onnxruntime crashed") from error
        if problem is not None:
            raise NoReferenceError(problem)
        return value


def _serve(connection: Connection, path: str, n_threads: int) -> None:
    """Answer until the other side is gone: (problem or None, value)."""
    die_with_parent()
    try:
        session = _open_session(path, n_threads)
    except ImportError:
        connection.send(("onnxruntime is not installed", None))
        return
    except Exception as error:  # noqa: BLE001  # recorded: the comparison then lacks this reference
        connection.send((f"onnxruntime cannot load it: {_first_line(error)}", None))
        return
    connection.send((None, None))
    call: Callable[[], Any] | None = None
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        try:
            if question[0] == "run":
                call = partial(session.run, *question[1:])
                connection.send((None, call()))
            elif call is not None:
                connection.send((None, sample(call, question[1])))
        except Exception as error:  # noqa: BLE001  # recorded, as above
            connection.send((f"onnxruntime cannot run it: {_first_line(error)}", None))


def _open_session(path: str, n_threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = n_threads, 1
    options.log_severity_level = 4
    # Its threads may spin within a run, for speed, but not after it: others run then.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
