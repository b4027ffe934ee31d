"""Tiles: eight logical cores, 32 channel ends, ten timers, four locks and private memory."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVarTuple

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.routes import CHANENDS
from aisrv.xcore.core import Core, check_tile
from aisrv.xcore.lock import Lock
from aisrv.xcore.memory import TileMemory
from aisrv.xcore.pool import Pool
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.synchronizer import Synchronizer
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Trap, TrapKind, check_size

if TYPE_CHECKING:
    from aisrv.xcore.ports.clockblock import ClockBlock
    from aisrv.xcore.ports.of_tile import Ports
    from aisrv.xcore.ports.pin import Pin
    from aisrv.xcore.ports.pins import Pins
    from aisrv.xcore.ports.port import Port

CORES: Final = 8
TIMERS: Final = 10
LOCKS: Final = 4
SYNCHRONIZERS: Final = 7
ISSUE_SLOTS: Final = 5
"""A core issues at most once in five clocks, however few run."""

Ts = TypeVarTuple("Ts")


class Tile:
    """One tile of a node. Only its own cores, and tasks outside of any core, allocate and start cores on it.

    `number` is its own in the node, `core_clock_mhz` the clock of its cores; `classes` are of what it makes.
    """

    def __init__(
        self, runtime: Runtime, number: int, core_clock_mhz: int, classes: ResourceClasses = PLAIN
    ) -> None:
        self.runtime: Final = runtime
        """The runtime, which all resources of the node share."""
        self.clock: Final = runtime.clock
        self._core_clock_mhz = core_clock_mhz
        self._classes = classes
        self.number: Final = number
        self.memory: Final = TileMemory(runtime, number)
        self._cores = Pool(number, "logical cores", CORES)
        self._taken: dict[int, Core] = {}
        self._chanends = Pool(number, "channel ends", CHANENDS)

    # The pools that many a program takes nothing from are made when one first does.

    @cached_property
    def _timers(self) -> Pool:
        return Pool(self.number, "timers", TIMERS)

    @cached_property
    def _locks(self) -> Pool:
        return Pool(self.number, "locks", LOCKS)

    @cached_property
    def _synchronizers(self) -> Pool:
        return Pool(self.number, "synchronizers", SYNCHRONIZERS)

    @cached_property
    def pins(self) -> "Pins":
        """The tile's 64 pins, by name."""
        from aisrv.xcore.ports.pins import Pins  # most programs have none

        return Pins(self.runtime, self.number)

    def pin(self, name: str) -> "Pin":
        """Return a pin: `X0D12` of tile 0, or by its port `1E`, `4A.2`; raises SizeError for other names."""
        return self.pins[name]

    @cached_property
    def ports(self) -> "Ports":
        """The tile's 29 ports and six clock blocks."""
        return self._classes.ports(self.runtime, self.number, self._core_clock_mhz, self.pins)

    def port(self, port: str | int) -> "Port":
        """Return a port by name, `1A` or `XS1_PORT_1A`, or resource id; raises SizeError for others."""
        return self.ports.port(port)

    def clock_block(self, resource_id: int) -> "ClockBlock":
        """Return a clock block by resource id, 0x106 for `XS1_CLKBLK_1`; raises SizeError for others."""
        return self.ports.clock_block(resource_id)

    def allocate_clock_block(self) -> "ClockBlock":
        """Enable the lowest clock block that is not enabled; the sixth traps with ILLEGAL_RESOURCE."""
        return self.ports.allocate_clock_block()

    @property
    def cores_in_use(self) -> int:
        """Cores that run a task or are set aside."""
        return len(self._cores)

    @property
    def cores_free(self) -> int:
        """Cores that can be taken."""
        return self._cores.free

    @property
    def cores(self) -> tuple[Core, ...]:
        """Cores in use, by number; one that a trap halted is still among them."""
        return tuple(self._taken[number] for number in sorted(self._taken))

    @property
    def chanends_in_use(self) -> int:
        """Channel ends allocated."""
        return len(self._chanends)

    @property
    def chanends_free(self) -> int:
        """Channel ends that can be allocated."""
        return self._chanends.free

    @property
    def timers_free(self) -> int:
        """Timers that can be allocated."""
        return self._timers.free

    @property
    def locks_free(self) -> int:
        """Locks that can be allocated."""
        return self._locks.free

    def check_cores(self, count: int) -> None:
        """Trap with ILLEGAL_RESOURCE where fewer than `count` cores are free."""
        if count > self._cores.free:
            reason = f"tile {self.number} has {self._cores.free} logical cores left, {count} are wanted"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, reason)

    def core_rate(self, running: int) -> float:
        """Instructions per second of one core while `running` cores run on this tile."""
        return self._core_clock_mhz * 1e6 / max(running, ISSUE_SLOTS)

    def start(
        self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: str | None = None
    ) -> Core:
        """Run a task on the lowest free core; the ninth traps with ILLEGAL_RESOURCE.

        `function` is called with `args`; `name` is what reports call the core.
        """
        core = self.reserve_core(name or str(getattr(function, "__name__", function)))
        for argument in args:
            if isinstance(argument, ChanEnd):
                argument.assign(core)
        self.runtime.run_core(core, self, function, *args)
        return core

    def reserve_core(self, name: str) -> Core:
        """Set a core aside for hardware support that needs no task here, such as XUD.

        `name` is what reports call it.
        """
        check_tile(self.number, "getr of a logical core")
        core = self._classes.core(self.number, self._cores.take(), name)
        self._taken[core.number] = core
        self.runtime.core_taken(core)
        return core

    def release_core(self, core: Core) -> None:
        """Take a core back whose task has ended."""
        self._cores.give_back(core.number)
        self._taken.pop(core.number, None)
        self.runtime.core_given_back(core)

    def allocate_chanend(self) -> ChanEnd:
        """Allocate the lowest free channel end (`getr`); the 33rd traps with ILLEGAL_RESOURCE."""
        check_tile(self.number, "getr of a channel end")
        return self._classes.chanend(self.runtime, self.number, self._chanends)

    def allocate_timer(self) -> Timer:
        """Allocate a timer; the eleventh traps with ILLEGAL_RESOURCE."""
        check_tile(self.number, "getr of a timer")
        return self._classes.timer(self.runtime, self.number, self._timers)

    def allocate_lock(self) -> Lock:
        """Allocate a lock; the fifth traps with ILLEGAL_RESOURCE."""
        check_tile(self.number, "getr of a lock")
        return self._classes.lock(self.runtime, self.number, self._locks)

    def allocate_synchronizer(self, members: int) -> Synchronizer:
        """Allocate a barrier for `members` cores; the eighth traps with ILLEGAL_RESOURCE."""
        check_tile(self.number, "getr of a synchronizer")
        check_size(members - 1, "members of a synchronizer, without the first")
        return self._classes.synchronizer(self.runtime, self.number, self._synchronizers, members)
