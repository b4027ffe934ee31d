"""Ports and clock blocks in device time: each verb and each setting takes a slot."""

from typing import TYPE_CHECKING

from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.of_tile import Ports
from aisrv.xcore.ports.port import Port
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timed.device_costs import RESOURCE_SLOTS
from aisrv.xcore.timed.runtime import TimedRuntime

if TYPE_CHECKING:
    from aisrv.xcore.channels.listener import Listener
    from aisrv.xcore.ports.pins import Pins


class TimedPort(Port):
    """A port whose settings take a slot, as its verbs do.

    A core that its edges wake is never at a clock before them: it would see pins of its own future.
    """

    _edge = 0
    """The tick of the last edge that woke a core, or a later one up to which no core has come."""

    @property
    def ready(self) -> bool:
        """Return whether an input would not wait at the clock of the core that asks."""
        is_there = super().ready
        if is_there:
            self._check_order()
        return is_there

    def _fire(self, listener: "Listener", now: int) -> None:
        self._edge = now
        super()._fire(listener, now)

    def _look_again(self) -> None:
        self._edge = self.runtime.clock.ticks()
        super()._look_again()

    async def _park(self, verb: str, tick: int | None) -> None:
        await super()._park(verb, tick)
        self._check_order()

    def _check_order(self) -> None:
        now = self._now()
        if now < self._edge:
            raise AssertionError(
                f"{self.name}: a core at tick {now} was woken by an edge at tick {self._edge}"
            )

    def _operate(self, verb: str, *, enabled: bool = True) -> None:
        super()._operate(verb, enabled=enabled)
        _take_slot(self.runtime)


class TimedClockBlock(ClockBlock):
    """A clock block whose settings take a slot."""

    def _check(self, verb: str, *, enabled: bool = True) -> None:
        super()._check(verb, enabled=enabled)
        _take_slot(self.runtime)


def _take_slot(runtime: Runtime) -> None:
    assert isinstance(runtime, TimedRuntime)  # noqa: S101 - for the type checker
    runtime.timeline.charge_slots(RESOURCE_SLOTS)


def timed_ports(runtime: Runtime, tile: int, core_clock_mhz: int, pins: "Pins") -> Ports:
    """Make the ports of a tile in device time."""
    return Ports(runtime, tile, core_clock_mhz, pins, TimedPort, TimedClockBlock)
