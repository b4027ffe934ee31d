"""The interrupts of one core of a program in C: its callbacks, and the events that call them."""

from collections.abc import Awaitable, Callable
from typing import Final

from aisrv.xcore.interrupts.core import CoreInterrupts
from aisrv.xcore.select import Event
from aisrv.xcore.timer import TimerAfter
from aisrv.xcore.traps import Trap, TrapKind

Runs = Callable[[int, int, str], Awaitable[None]]
"""Runs a callback to its end, by its address and that of its argument; the name is for reports."""


class Callbacks:
    """Callbacks by the ids of the resources whose events call them."""

    def __init__(self, interrupts: CoreInterrupts, runs: Runs) -> None:
        """Belong to the interrupts of a core."""
        self.interrupts: Final = interrupts
        self._runs = runs
        self._events: dict[int, Event] = {}

    def set_up(self, resource: int, event: Event, callback: int, argument: int, name: str) -> None:
        """Have a resource call a function of the program, by its address, with an argument."""

        async def run() -> None:
            await self._runs(callback, argument, name)

        self._events[resource] = event
        self.interrupts.set_up(event, run, name)

    def enable(self, resource: int) -> None:
        """Let a resource interrupt, which has a callback."""
        self.interrupts.enable(self._event(resource))

    def disable(self, resource: int) -> None:
        """Let it interrupt no more."""
        self.interrupts.disable(self._event(resource))

    def change_time(self, timer: int, time: int) -> None:
        """Have a timer, which has a callback, interrupt after another time."""
        event = self._event(timer)
        if isinstance(event, TimerAfter):
            event.change(time)

    def _event(self, resource: int) -> Event:
        if (event := self._events.get(resource)) is not None:
            return event
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"an interrupt of 0x{resource:08x}, which has no callback")
