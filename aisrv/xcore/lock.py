"""Hardware locks: four per tile, granted in the order of asking."""

from collections import deque
from typing import Final

from aisrv.xcore.core import Core, User, check_tile, current_core, current_user
from aisrv.xcore.pool import Pool
from aisrv.xcore.report import known_to_use, name_of
from aisrv.xcore.runtime import Parking, Runtime
from aisrv.xcore.traced import traced_verb
from aisrv.xcore.traps import Trap, TrapKind

RESOURCE_TYPE: Final = 5


class Lock:
    """One lock of a tile. Allocate with `Tile.allocate_lock`."""

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        """Create a lock with a number from its tile's pool, which gets it back when the lock is freed."""
        self.runtime: Final = runtime
        """The runtime of its node, shared with the other resources."""
        self._tile = tile
        self.number: Final = pool.take()
        self.resource_id: Final = runtime.resource_id(tile, RESOURCE_TYPE, self.number)
        self.name: Final = f"lock 0x{self.resource_id:08x}"
        """Name with resource id, as traps and reports give it."""
        self._pool = pool
        self._freed = False
        self._held = False
        self._owner: User | None = None
        self._waiting: deque[tuple[Parking[None], User]] = deque()

    @traced_verb("lock_acquire")
    async def acquire(self) -> None:
        """Take the lock, or wait for it (`in r, res[lock]`); a cancelled wait leaves the queue."""
        self._check_usable("lock_acquire")
        core = current_core()
        if core is not None and core.tile != self._tile:
            check_tile(self._tile, f"lock_acquire on {self.name}")
        await self.runtime.begin_verb()
        if not self._held:
            self._held, self._owner = True, core or current_user()
            return
        place = (self.runtime.parking(self.runtime), core or current_user())
        self._waiting.append(place)
        await place[0].park("lock_acquire", self, lambda: self._waiting.remove(place))

    def release(self) -> None:
        """Give the lock to the next in line (`out res[lock], r`); a lock nobody holds traps."""
        check_tile(self._tile, f"release of {self.name}")
        if not self._held:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"release of {self.name}, which nobody holds")
        if self._waiting:
            parking, self._owner = self._waiting.popleft()
            parking.wake(None)
        else:
            self._held, self._owner = False, None

    def wakers(self) -> list[Core | None]:
        """Return the core that holds the lock; None is somebody outside."""
        return [known_to_use(self._owner)]

    def explain_wait(self) -> str:
        """Name the core, or the task outside of any core, that holds the lock."""
        return f"held by {name_of(self._owner)}"

    def free(self) -> None:
        """Give the lock back to its tile; a lock that is held traps. After its node's end: nothing."""
        if self.runtime.has_ended:
            return
        check_tile(self._tile, f"freer on {self.name}")
        self._check_usable("freer")
        if self._held:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"freer on {self.name}, which {name_of(self._owner)} holds")
        self._freed = True
        self._pool.give_back(self.number)

    def _check_usable(self, verb: str) -> None:
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{verb} on {self.name}, which was freed")
