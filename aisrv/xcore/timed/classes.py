"""The classes of a node in device time: give them to `open_node`."""

from typing import TYPE_CHECKING, Final

from aisrv.xcore.resource_classes import ResourceClasses
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timed.chanend import TimedEnd
from aisrv.xcore.timed.core import TimedCore
from aisrv.xcore.timed.lock import TimedLock, TimedSynchronizer
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.timed.timeline import Timeline
from aisrv.xcore.timed.timer import TimedTimer

if TYPE_CHECKING:
    from aisrv.xcore.interrupts.core import CoreInterrupts
    from aisrv.xcore.ports.of_tile import Ports
    from aisrv.xcore.ports.pins import Pins


def _ports(runtime: Runtime, tile: int, core_clock_mhz: int, pins: "Pins") -> "Ports":
    from aisrv.xcore.timed.port import timed_ports  # most programs have none

    return timed_ports(runtime, tile, core_clock_mhz, pins)


def _interrupts(runtime: TimedRuntime, core: TimedCore) -> "CoreInterrupts":
    from aisrv.xcore.timed.interrupts import TimedInterrupts  # most programs have none

    return TimedInterrupts(runtime, core)


TIMED: Final = ResourceClasses(
    TimedRuntime, TimedCore, TimedEnd, TimedTimer, TimedLock, TimedSynchronizer, _ports, _interrupts
)
"""Those of a node whose cores take the chip's time."""


def timeline_of(runtime: Runtime) -> Timeline | None:
    """Return the timeline of a node; None where it is not in device time."""
    return runtime.timeline if isinstance(runtime, TimedRuntime) else None
