"""Tiles: eight logical cores, 32 channel ends, ten timers, four locks and private memory."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVarTuple

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.core import Core
from aisrv.xcore.lock import Lock
from aisrv.xcore.memory import Memory
from aisrv.xcore.timer import Timer
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.node import Node

CORES: Final = 8
CHANENDS: Final = 32
TIMERS: Final = 10
LOCKS: Final = 4
ISSUE_SLOTS: Final = 5
"""A core issues at most once in five clocks, however few run."""

Ts = TypeVarTuple("Ts")


class _Pool:
    """Numbers of one kind of resource, lowest first."""

    __slots__ = ("_count", "_kind", "_tile", "_used")

    def __init__(self, tile: "Tile", kind: str, count: int) -> None:
        self._tile = tile
        self._kind = kind
        self._count = count
        self._used: set[int] = set()

    def take(self) -> int:
        for number in range(self._count):
            if number not in self._used:
                self._used.add(number)
                return number
        raise Trap(
            TrapKind.ILLEGAL_RESOURCE,
            f"tile {self._tile.number} has {self._count} {self._kind}, all are in use",
        )

    def give_back(self, number: int) -> None:
        self._used.discard(number)

    def __len__(self) -> int:
        return len(self._used)


class Tile:
    """One tile of a node."""

    def __init__(self, node: "Node", number: int) -> None:
        self.node: Final = node
        self.number: Final = number
        self.memory: Final = Memory(self)
        self._cores = _Pool(self, "logical cores", CORES)
        self._taken: dict[int, Core] = {}
        self._chanends = _Pool(self, "channel ends", CHANENDS)
        self._timers = _Pool(self, "timers", TIMERS)
        self._locks = _Pool(self, "locks", LOCKS)

    @property
    def cores_in_use(self) -> int:
        """Cores that run a task or are set aside."""
        return len(self._cores)

    @property
    def cores(self) -> tuple[Core, ...]:
        """Those cores, by number; one that a trap halted is still among them."""
        return tuple(self._taken[number] for number in sorted(self._taken))

    @property
    def chanends_in_use(self) -> int:
        """Channel ends allocated."""
        return len(self._chanends)

    def resource_id(self, resource_type: int, number: int) -> int:
        """Compose a resource id: type in bits 0 to 7, number in 8 to 15, node and tile above."""
        return (0x8000 | self.node.number << 1 | self.number) << 16 | number << 8 | resource_type

    def core_rate(self, running: int) -> float:
        """Instructions per second of one core while `running` cores run on this tile."""
        return self.node.core_clock_mhz * 1e6 / max(running, ISSUE_SLOTS)

    def start(
        self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: str | None = None
    ) -> Core:
        """Run a task on the lowest free core; the ninth traps with ILLEGAL_RESOURCE."""
        core = self.reserve_core(name or str(getattr(function, "__name__", function)))
        self.node.run_core(core, function, *args)
        return core

    def reserve_core(self, name: str) -> Core:
        """Set a core aside for hardware support that needs no task here, such as XUD."""
        core = Core(self, self._cores.take(), name)
        self._taken[core.number] = core
        return core

    def release_core(self, core: Core) -> None:
        """Take a core back whose task has ended."""
        self._cores.give_back(core.number)
        self._taken.pop(core.number, None)

    def allocate_chanend(self) -> ChanEnd:
        """Allocate the lowest free channel end (`getr`); the 33rd traps with ILLEGAL_RESOURCE."""
        end = ChanEnd(self, self._chanends.take())
        self.node.switch.register(end)
        return end

    def release_chanend(self, end: ChanEnd) -> None:
        """Take a channel end back; called by `ChanEnd.free`."""
        self._chanends.give_back(end.number)

    def allocate_timer(self) -> Timer:
        """Allocate a timer; the eleventh traps with ILLEGAL_RESOURCE."""
        return Timer(self, self._timers.take())

    def release_timer(self, timer: Timer) -> None:
        """Take a timer back; called by `Timer.free`."""
        self._timers.give_back(timer.number)

    def allocate_lock(self) -> Lock:
        """Allocate a lock; the fifth traps with ILLEGAL_RESOURCE."""
        return Lock(self, self._locks.take())

    def release_lock(self, lock: Lock) -> None:
        """Take a lock back; called by `Lock.free`."""
        self._locks.give_back(lock.number)
