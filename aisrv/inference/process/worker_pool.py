"""A pool of processes that wait for a model: with the interpreter imported, one loads it in milliseconds.

    with open_worker_pool() as workers:
        async with open_device(board, runner=workers.isolated):
            ...

What a process takes is imported with the first model. There is one process of each kind that was asked for.
It is taken when a model is loaded, and the next one starts when that model is in place, so as not to compete
with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from aisrv.inference.interpreter import LogSink, check_runs_models
from aisrv.protocol.engine_kind import EngineKind

if TYPE_CHECKING:
    from aisrv.inference.process.isolation import IsolatedInterpreter, Limits
    from aisrv.inference.process.worker_process import WorkerKind, WorkerProcess


class WorkerPool:
    """Worker processes that wait for a model, one of a kind; `close` ends them."""

    def __init__(self, limits: "Limits | None" = None) -> None:
        """Create an empty pool; `limits` hold for all that is loaded."""
        self._limits: Final = limits
        self._waiting: dict[WorkerKind, WorkerProcess] = {}
        self._is_open = True

    @property
    def pids(self) -> list[int]:
        """Process ids of the waiting workers."""
        return [worker.pid for worker in self._waiting.values()]

    def isolated(self, log: LogSink, /, *, kind: EngineKind | None = None) -> "IsolatedInterpreter":
        """Create a runner whose process is taken from here; `log` gets what interpreters print."""
        from aisrv.inference.process.isolation import IsolatedInterpreter

        return IsolatedInterpreter(log, kind, self._limits, self.take)

    def prepare(self, kind: EngineKind) -> None:
        """Start a process of a kind ahead of the first model; EngineKindError as `isolated`."""
        from aisrv.inference.process.isolation import Limits
        from aisrv.inference.process.worker_process import WorkerKind

        check_runs_models(kind)
        self._refill(WorkerKind(kind, (self._limits or Limits()).memory_bytes))

    @contextmanager
    def take(self, kind: "WorkerKind") -> "Iterator[WorkerProcess]":
        """Yield the process of a kind, or a new one if none waits; another starts after the block."""
        from aisrv.inference.process.worker_process import WorkerProcess

        worker = self._waiting.pop(kind, None)
        if worker is not None and not worker.is_alive:
            worker.stop()
            worker = None
        try:
            yield worker or WorkerProcess(kind)
        finally:
            self._refill(kind)

    def close(self) -> None:
        """End the waiting processes; those that were taken belong to their takers."""
        self._is_open = False
        while self._waiting:
            _, worker = self._waiting.popitem()
            worker.stop()

    def _refill(self, kind: "WorkerKind") -> None:
        from aisrv.inference.process.worker_process import WorkerProcess

        if self._is_open and kind not in self._waiting:
            # Without one, as when descriptors are short, the next load starts its own or says why it cannot.
            with suppress(OSError):
                self._waiting[kind] = WorkerProcess(kind)


@contextmanager
def open_worker_pool(*kinds: EngineKind, limits: "Limits | None" = None) -> Iterator[WorkerPool]:
    """Keep worker processes ready for as long as the block lasts; those of `kinds` start at once."""
    workers = WorkerPool(limits)
    try:
        for kind in kinds:
            workers.prepare(kind)
        yield workers
    finally:
        workers.close()
