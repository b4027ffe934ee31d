"""Ports and clock blocks in device time: each verb and each setting takes a slot."""

from typing import TYPE_CHECKING

from aisrv.xcore.clockblock import ClockBlock
from aisrv.xcore.device_costs import RESOURCE_SLOTS
from aisrv.xcore.port import Port
from aisrv.xcore.ports import Ports
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timed_runtime import TimedRuntime

if TYPE_CHECKING:
    from aisrv.xcore.pins import Pins


class TimedPort(Port):
    """A port whose settings take a slot, as its verbs do."""

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
