"""Locks and synchronizers in device time. Who waits runs on at the clock of who lets it."""

from aisrv.xcore.lock import Lock
from aisrv.xcore.pool import Pool
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.synchronizer import Synchronizer
from aisrv.xcore.timed.device_costs import RESOURCE_SLOTS
from aisrv.xcore.timed.runtime import TimedRuntime


class TimedLock(Lock):
    """A lock whose verbs take a slot each. Cores take it in the order of their ticks: they settle first."""

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        assert isinstance(runtime, TimedRuntime)  # noqa: S101 - for the type checker
        super().__init__(runtime, tile, pool)
        self._timeline = runtime.timeline
        self._timeline.charge_slots(RESOURCE_SLOTS)

    def release(self) -> None:
        """Give the lock to the next in line, which takes a slot."""
        self._timeline.charge_slots(RESOURCE_SLOTS)
        super().release()


class TimedSynchronizer(Synchronizer):
    """A barrier at which waiting takes a slot."""

    def __init__(self, runtime: Runtime, tile: int, pool: Pool, members: int) -> None:
        assert isinstance(runtime, TimedRuntime)  # noqa: S101 - for the type checker
        super().__init__(runtime, tile, pool, members)
        runtime.timeline.charge_slots(RESOURCE_SLOTS)
