"""Hardware locks: four per tile, granted in the order of asking."""

from collections import deque
from typing import TYPE_CHECKING, Final

import outcome

from aisrv.xcore.core import Core, Parking, current_core
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

RESOURCE_TYPE: Final = 5


class Lock:
    """One lock of a tile. Allocate with `Tile.allocate_lock`."""

    def __init__(self, tile: "Tile", number: int) -> None:
        self._tile = tile
        self.number: Final = number
        self.resource_id: Final = tile.resource_id(RESOURCE_TYPE, number)
        self._freed = False
        self._held = False
        self._owner: Core | None = None
        self._waiting: deque[tuple[Parking, Core | None]] = deque()

    @property
    def name(self) -> str:
        """Name with resource id, as traps and reports give it."""
        return f"lock 0x{self.resource_id:08x}"

    async def acquire(self) -> None:
        """Take the lock, or wait for it (`in r, res[lock]`); a cancelled wait leaves the queue."""
        self._check_usable("lock_acquire")
        core = current_core()
        if not self._held:
            self._held, self._owner = True, core
            return
        place = (Parking(self._tile.node), core)
        self._waiting.append(place)
        await place[0].park("lock_acquire", self, lambda: self._waiting.remove(place))

    def release(self) -> None:
        """Give the lock to the next in line (`out res[lock], r`); a lock nobody holds traps."""
        if not self._held:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"release of {self.name}, which nobody holds")
        if self._waiting:
            parking, self._owner = self._waiting.popleft()
            parking.wake(outcome.Value(None))
        else:
            self._held, self._owner = False, None

    def free(self) -> None:
        """Give the lock back to its tile; a lock that is held traps."""
        self._check_usable("freer")
        if self._held:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"freer on {self.name}, which {self._owner} holds")
        self._freed = True
        self._tile.release_lock(self)

    def _check_usable(self, verb: str) -> None:
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{verb} on {self.name}, which was freed")
