"""Where a task sleeps that stands for something at the pins: to a tick, or until it is woken."""

import trio

from aisrv.xcore.clock import Clock
from aisrv.xcore.waiter import Waiter


class TickWaiter:
    """A place for one task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiter: Waiter[None] = Waiter()

    def wake(self) -> None:
        """Let the task run on, if one sleeps."""
        self._waiter.wake(None)

    async def sleep(self, tick: int | None) -> None:
        """Sleep until `wake`, or until a tick."""
        if tick is None:
            await self._waiter.wait()
            return
        with trio.move_on_at(self._clock.deadline(tick)):
            await self._waiter.wait()
