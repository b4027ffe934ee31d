"""Interrupts in device time: an event is taken at its tick, between two verbs of the core, or as it waits.

The core looks whether an event is there in a turn of its own: at the clock of the event, or at its own where
it has work up to that. The callback has a clock from there on. As it ends, the core runs or waits on at that
clock. A verb on a channel end that the core is in is not stepped before. Rules: docs/guides/device-time.md.
"""

from collections.abc import Callable
from typing import Any, Final

from trio.lowlevel import Abort, current_task

from aisrv.xcore.interrupts.core import CoreInterrupts
from aisrv.xcore.interrupts.source import InterruptSource
from aisrv.xcore.runtime import CalledOff
from aisrv.xcore.timed.chanend import TimedEnd
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.device_costs import INTERRUPT_ENTER_SLOTS, INTERRUPT_LEAVE_SLOTS, RESOURCE_SLOTS
from aisrv.xcore.timed.parking import TimedParking
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.timer import TimerAfter


class _TimedHold(TimedParking[None]):
    """Where a core waits for its callback; see `CoreInterrupts`."""

    __slots__ = ()

    def _abort(self, _: object) -> Abort:
        return Abort.FAILED


class TimedInterrupts(CoreInterrupts):
    """The interrupts of one core, which take time."""

    def __init__(self, runtime: TimedRuntime, core: TimedCore) -> None:
        super().__init__(runtime, core)
        self._timeline: Final = runtime.timeline
        self._timed: Final = core
        self._hold = _TimedHold(runtime, runtime.timeline)
        self._look: CalledOff | None = None
        self._look_clock = 0
        """The clock at which the core looks, or has looked last."""

    def _operate(self) -> None:
        self._timeline.charge_slots(RESOURCE_SLOTS)

    async def take_due(self) -> None:
        """Run the callbacks whose event is there at the core's clock."""
        self._is_open, before = True, self._is_open
        try:
            if self._table.armed:
                await self._timeline.settle()
            if self._table.armed and self._taken is None:
                self._begin()
            await self._until_taken()
        finally:
            self._is_open = before

    # Events.

    def _arm_anew(self) -> None:
        self._disarm()
        if self._allows:
            self._table.arm()
            self._runs().settles = bool(self._table.armed)
            self._look_ahead()

    def _disarm(self) -> None:
        super()._disarm()
        self._timed.settles = self._runs().settles = False
        if self._look is not None:
            self._look.call_off()
            self._look, self._look_clock = None, 0

    def fire(self, source: InterruptSource) -> None:
        """Look when the event is due: that of a channel end may be of a core that is ahead.

        That of a timer or port may be past, as a live clock is late: what the core waits for comes after it.
        """
        clock: int | None = getattr(source.event, "next_clock", None)
        self._look_at(self._timeline.now() if clock is None else clock)

    def at(self, event: TimerAfter, act: Callable[[], None]) -> CalledOff:
        """Have something done at the time of a timer's event, in the turn of the core."""
        return self._timeline.at(self._timeline.clock_at(event.due), act, self._timed, before=True)

    def _come_late(self) -> None:
        """Do nothing: turns go by their clocks, however late they come."""

    def _look_ahead(self) -> None:
        """Look at what is there already, or on its way."""
        for each in tuple(self._table.armed):
            event: Any = each.event
            clock = self._timeline.now() if event.ready else getattr(event, "next_clock", None)
            if clock is not None:
                self._look_at(clock)

    def _look_at(self, clock: int) -> None:
        """Look at a clock, or earlier where it would anyhow, but not before the core has come to it."""
        clock = max(clock, _free_at(self._runs()))
        if self._look is not None:
            if self._look_clock <= clock:
                return
            self._look.call_off()
        self._look_clock = clock
        self._look = self._timeline.at(clock, self._look_now, self._timed, before=True)

    def _look_now(self) -> None:
        self._look = None
        if _free_at(self._runs()) > self._look_clock:  # it has taken on more
            self._look_at(self._look_clock)
        elif self._table.next() is None:
            self._look_ahead()
        else:
            self._timeline.begins = True  # the callback's task begins
            self._come()

    # Callbacks.

    def _runs(self) -> TimedCore:
        """Return what runs of the core: itself, or its callback."""
        return self._timed if self._taken is None else _callback_of(self._taken)

    async def _take(self) -> None:
        """Run callbacks; a verb on a channel end that the core is in goes on after them."""
        end = self._timed.waits_on
        if not isinstance(end, TimedEnd):
            await super()._take()
            return
        end.hold(self._timed)
        try:
            await super()._take()
        finally:
            self._runtime.switch.step(end)

    async def _call(self, source: InterruptSource) -> None:
        timeline, callback = self._timeline, _callback_of(source)
        callback.clock = max(self._look_clock, _free_at(self._timed))
        timeline.callback_began(callback, self._timed)
        timeline.began(current_task())
        timeline.begins = False
        try:
            with self._runtime.in_callback(callback, source.event):
                timeline.charge_slots(INTERRUPT_ENTER_SLOTS)
                await self._run_callback(source)
                timeline.charge_slots(INTERRUPT_LEAVE_SLOTS)
                await timeline.settle()
        finally:
            timeline.callback_ended(callback, self._timed)
            timeline.waits(current_task())


def _callback_of(source: InterruptSource) -> TimedCore:
    """Return what a callback is to the timeline."""
    assert isinstance(source.core, TimedCore)  # noqa: S101 - for the type checker
    return source.core


def _free_at(core: TimedCore) -> int:
    """Return the clock up to which a core has work: that since when it waits, where it does."""
    return core.clock if core.waits_since is None else core.waits_since
