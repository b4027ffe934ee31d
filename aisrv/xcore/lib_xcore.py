"""Functions of lib_xcore that are methods here, under lib_xcore's names, with its results.

Where a tile has no resource of a kind left, allocation returns None in place of lib_xcore's 0; the methods
of `Tile` trap. Sources: lib_xcore's chanend.h, channel.h, channel_streaming.h, hwtimer.h, lock.h, parallel.h.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import Channel, s_chan_check_ct_end, s_chan_out_ct_end
from aisrv.xcore.core import Core, current_core
from aisrv.xcore.lock import Lock
from aisrv.xcore.tile import Tile
from aisrv.xcore.timer import Timer

if TYPE_CHECKING:
    from aisrv.xcore.runtime import Parking

# Allocation.


def chanend_alloc(tile: Tile) -> ChanEnd | None:
    """Allocate a channel end; None where the tile has none left."""
    return tile.allocate_chanend() if tile.chanends_free else None


chanend_free: Final = ChanEnd.free


chanend_set_dest: Final = ChanEnd.setd


def chanend_get_dest(c: ChanEnd) -> int:
    """Return the resource id of the end that outputs go to; 0 where none is set."""
    return c.destination or 0


def chan_alloc(tile: Tile) -> Channel | None:
    """Allocate two ends of a tile, each the other's destination; None where there are not two left."""
    if tile.chanends_free < 2:
        return None
    channel = Channel(tile.allocate_chanend(), tile.allocate_chanend())
    channel.a.join(channel.b)
    return channel


def chan_free(channel: Channel) -> None:
    """Free both ends of a channel."""
    channel.a.free()
    channel.b.free()


s_chan_alloc = chan_alloc


async def s_chan_free(channel: Channel) -> None:
    """Close the routes of a streaming channel in both directions, and free both ends."""
    for end in channel:
        await s_chan_out_ct_end(end)
    for end in channel:
        await s_chan_check_ct_end(end)
    chan_free(channel)


def hwtimer_alloc(tile: Tile) -> Timer | None:
    """Allocate a timer; None where the tile has none left."""
    return tile.allocate_timer() if tile.timers_free else None


def lock_alloc(tile: Tile) -> Lock | None:
    """Allocate a lock; None where the tile has none left."""
    return tile.allocate_lock() if tile.locks_free else None


# Time.


def get_reference_time(tile: Tile) -> int:
    """Read the reference clock: 32 bits of 10 ns ticks; takes no timer."""
    return tile.runtime.tick_of(current_core()) & 0xFFFFFFFF


hwtimer_get_time: Final = Timer.now


hwtimer_wait_until: Final = Timer.wait_after


async def hwtimer_delay(timer: Timer, period: int) -> int:
    """Wait for `period` ticks from now, and read the timer."""
    return await timer.wait_after(timer.now() + period & 0xFFFFFFFF)


# Cores.


class Join:
    """Starts the cores of a `par` and waits for them; in a deadlock it waits for each of them."""

    name = "par"

    def __init__(self, tile: Tile) -> None:
        self._tile = tile
        self._parking: Parking[None] = tile.runtime.parking(tile.runtime)
        self._scope_and_end: list[tuple[trio.CancelScope, trio.Event]] = []
        self.running: list[Core] = []
        """Cores whose job has not returned; those that a trap halted stay."""

    def start(self, job: Callable[[], Awaitable[object]]) -> None:
        """Run a job on a core of its own."""
        scope, ended = trio.CancelScope(), trio.Event()

        async def run() -> None:
            try:
                with scope:
                    await job()
            finally:
                ended.set()
            self.running.remove(core)
            if not self.running:
                self._parking.wake(None)

        core = self._tile.start(run, name=str(getattr(job, "__name__", "job")))
        self.running.append(core)
        self._scope_and_end.append((scope, ended))

    async def wait(self) -> None:
        """Wait until all jobs have returned."""
        if self.running:
            await self._parking.park("par", self)

    async def cancel(self) -> None:
        """Cancel the jobs, and wait until none runs."""
        with trio.CancelScope(shield=True):
            for scope, _ in self._scope_and_end:
                scope.cancel()
            for _, ended in self._scope_and_end:
                await ended.wait()

    def wakers(self) -> list[Core | None]:
        """Return the first core that has not ended: all of them must."""
        return list(self.running[:1])

    def explain_wait(self) -> str:
        """Name the cores that have not ended."""
        return f"waits for {', '.join(map(str, self.running))}"


async def par(tile: Tile, *jobs: Callable[[], Awaitable[object]]) -> None:
    """Run jobs side by side, the first on the calling core and each other on a core of its own, and join.

    All cores are taken before any job begins; too few trap with ILLEGAL_RESOURCE. A core that a trap halts is
    waited for without end, as on silicon. Where the calling core is cancelled, or its own job raises, the
    other jobs are cancelled first.
    """
    join = Join(tile)
    tile.check_cores(len(jobs) - 1)
    for job in jobs[1:]:
        join.start(job)
    try:
        for job in jobs[:1]:
            await job()
        await join.wait()
    except BaseException:
        await join.cancel()
        raise
