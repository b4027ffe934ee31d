"""Alarms: what is to be done at a tick, while cores wait for it."""

import heapq
from collections.abc import Callable
from typing import Final, Protocol

import trio

from aisrv.xcore.clock import Clock
from aisrv.xcore.waiter import Waiter


class Awaiting(Protocol):
    """A runtime, as its alarms know it."""

    @property
    def clock(self) -> Clock:
        """The reference clock."""

    def outside_awaited(self) -> None:
        """Called as the first alarm is set."""

    def outside_came(self) -> None:
        """Called as the last one has rung."""


class Alarm:
    """One of them, which can be called off."""

    __slots__ = ("act", "tick")

    def __init__(self, tick: int, act: Callable[[], object]) -> None:
        self.tick: Final = tick
        self.act: Callable[[], object] | None = act
        """The act; None once it is called off."""

    def __lt__(self, other: "Alarm") -> bool:
        return self.tick < other.tick

    def call_off(self) -> None:
        """Do nothing when its tick comes."""
        self.act = None


class Alarms:
    """Those of one node. A task of the node sleeps to the first of them, and ends where there is none."""

    def __init__(self, runtime: Awaiting, nursery: trio.Nursery) -> None:
        self._runtime = runtime
        self._nursery = nursery
        self._heap: list[Alarm] = []
        self._sleeper: Waiter[None] = Waiter()
        self._runs = False

    def at(self, tick: int, act: Callable[[], object]) -> Alarm:
        """Have something done at a tick, or at once where that has passed; it neither waits nor raises."""
        alarm = Alarm(tick, act)
        heapq.heappush(self._heap, alarm)
        if not self._runs:
            self._runs = True
            self._runtime.outside_awaited()
            self._nursery.start_soon(self._run)
        elif self._heap[0] is alarm:
            self._sleeper.wake(None)
        return alarm

    async def _run(self) -> None:
        clock, heap = self._runtime.clock, self._heap
        try:
            while self._pending():
                if heap[0].tick > clock.ticks():
                    with trio.move_on_at(clock.deadline(heap[0].tick)):
                        await self._sleeper.wait()
                    continue
                act = heapq.heappop(heap).act
                if act is not None:
                    act()
        finally:
            self._runs = False
            self._runtime.outside_came()

    def _pending(self) -> bool:
        while self._heap and self._heap[0].act is None:
            heapq.heappop(self._heap)
        return bool(self._heap)
