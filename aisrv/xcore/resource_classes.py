"""The classes of which a node makes its resources.

Substrates that charge their verbs with time, or count what crosses an end, are other classes and not flags:
`open_node` takes them as one value, and no verb asks which there are.
"""

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.core import Core
from aisrv.xcore.lock import Lock
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.synchronizer import Synchronizer
from aisrv.xcore.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.xcore.interrupts.core import CoreInterrupts
    from aisrv.xcore.ports.of_tile import Ports
    from aisrv.xcore.ports.pins import Pins


def plain_ports(runtime: Runtime, tile: int, core_clock_mhz: int, pins: "Pins") -> "Ports":
    """Make the ports of a tile, which most programs have none of: so their modules wait until then."""
    from aisrv.xcore.ports.of_tile import Ports

    return Ports(runtime, tile, core_clock_mhz, pins)


def plain_interrupts(runtime: Runtime, core: Core) -> "CoreInterrupts":
    """Make the interrupts of a core, which few programs have."""
    from aisrv.xcore.interrupts.core import CoreInterrupts

    return CoreInterrupts(runtime, core)


class ResourceClasses(Struct, frozen=True):
    """A class for each kind of resource; each is one of `aisrv.xcore` or derived from it."""

    runtime: type[Runtime] = Runtime
    core: type[Core] = Core
    chanend: type[ChanEnd] = ChanEnd
    timer: type[Timer] = Timer
    lock: type[Lock] = Lock
    synchronizer: type[Synchronizer] = Synchronizer
    ports: "Callable[[Runtime, int, int, Pins], Ports]" = plain_ports
    """Makes the ports of a tile, given its number, the clock of its cores in MHz, and its pins."""
    interrupts: "Callable[[Any, Any], CoreInterrupts]" = plain_interrupts
    """Makes the interrupts of a core, given its runtime."""


PLAIN: Final = ResourceClasses()
"""Those of a node whose verbs take no time."""
