"""An event that interrupts a core, with its callback."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from aisrv.xcore.core import Core
from aisrv.xcore.report import wakers_of
from aisrv.xcore.runtime import CalledOff
from aisrv.xcore.select import Event
from aisrv.xcore.timer import TimerAfter

Callback = Callable[[], Awaitable[object]]
"""A callback, which an interrupt runs."""


class Interrupted(Protocol):
    """The interrupts of a core, as its sources know them."""

    def fire(self, source: "InterruptSource") -> None:
        """Called as an event comes."""

    def at(self, event: TimerAfter, act: Callable[[], None]) -> CalledOff:
        """Have something done at the time of a timer's event."""


class InterruptSource:
    """An event with its callback; while it is armed, it is what listens to the event."""

    has_others = True
    takes_calls = False
    use = "an interrupt"

    def __init__(self, interrupts: Interrupted, event: Event, callback: Callback, core: Core) -> None:
        """Belong to the interrupts of a core; `core` is what the callback is to resources and reports."""
        self.event: Final = event
        self.callback: Final = callback
        self.core: Final = core
        self.is_enabled = False
        self._interrupts = interrupts
        self._alarm: CalledOff | None = None
        if isinstance(event, TimerAfter):
            event.on_change = self._time_changed

    @property
    def user_name(self) -> str:
        """Name of the core with the callback."""
        return str(self.core)

    @property
    def wakers(self) -> Sequence[Core | None]:
        """The cores that could bring the event; None is somebody outside."""
        wakers = None if isinstance(self.event, TimerAfter) else wakers_of(self.event)
        return (None,) if wakers is None else wakers

    def __str__(self) -> str:
        return f"{self.core.name} on {self.event.name}"

    def fire(self, resource: object = None) -> None:  # noqa: ARG002 - there is one
        """Have the callback run, as the event is there."""
        self._interrupts.fire(self)

    def answer(self, call: object) -> None:
        """Answer no client at once."""

    def arm(self) -> None:
        """Let the event fire once it comes."""
        if isinstance(self.event, TimerAfter):
            self._alarm = self._interrupts.at(self.event, self.fire)
        else:
            self.event.listen(self)

    def disarm(self) -> None:
        """Let the event not fire any more."""
        if not isinstance(self.event, TimerAfter):
            self.event.stop_listening(self)
        elif self._alarm is not None:
            self._alarm.call_off()
            self._alarm = None

    def _time_changed(self) -> None:
        if self._alarm is not None:
            self.disarm()
            self.arm()
