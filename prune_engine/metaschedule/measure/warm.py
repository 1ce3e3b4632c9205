"""A measurement server that is started before it is known what to measure, so that the compiler loads meanwhile."""

from __future__ import annotations

from types import TracebackType

from prune_engine.errors import MeasureServerError
from prune_engine.metaschedule.measure.client import ServerProcess, launch
from prune_engine.metaschedule.measure.tempdirs import PoolFolder, create_pool_folder


def pool_folder() -> PoolFolder:
    """Make the folder of a pool. Raises MeasureServerError."""
    try:
        return create_pool_folder()
    except OSError as error:
        raise MeasureServerError(
            f"no temporary folder can be made ({error})",
            who="measurement",
            remedy="Free space there or point TMPDIR elsewhere.",
        ) from error


class WarmServer:
    """Loads the compiler in a process of its own, for the first MeasurePool that takes it.

    A context manager: at its end the server is ended if nobody took it. Start-up is two seconds of loading in
    the engine's process and as much in the server's, which on two processors take the time of one this way.
    """

    def __init__(self, n_threads: int, *, pin_cpus: bool = True) -> None:
        """Start it and return at once. Raises MeasureServerError."""
        self.n_threads, self.pin_cpus = n_threads, pin_cpus
        folder = pool_folder()
        try:
            self._parts: tuple[PoolFolder, ServerProcess] | None = (
                folder,
                launch(folder.path, n_threads, pin_cpus=pin_cpus),
            )
        except BaseException:
            folder.remove()
            raise

    def __enter__(self) -> WarmServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def take(self) -> tuple[PoolFolder, ServerProcess] | None:
        """Hand over the folder and the process, once; None after that. Who has them ends them."""
        parts, self._parts = self._parts, None
        return parts

    def close(self) -> None:
        """End the server, if it was not taken, and remove its files. Idempotent."""
        parts = self.take()
        if parts is not None:
            folder, server = parts
            server.process.kill()  # it may be in the middle of loading, and has nothing to lose
            server.end(folder.path)
            folder.remove()
