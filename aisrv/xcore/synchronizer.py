"""Hardware synchronizers: seven per tile, at which cores wait for each other."""

from typing import Final

from aisrv.xcore.core import Core, User, check_tile, current_user
from aisrv.xcore.pool import Pool
from aisrv.xcore.report import known_to_use, name_of
from aisrv.xcore.runtime import Parking, Runtime
from aisrv.xcore.traced import traced_verb
from aisrv.xcore.traps import Trap, TrapKind

RESOURCE_TYPE: Final = 3


class Synchronizer:
    """A barrier of a fixed number of cores, and of the same ones always. See `Tile.allocate_synchronizer`."""

    def __init__(self, runtime: Runtime, tile: int, pool: Pool, members: int) -> None:
        """Create a barrier for `members` cores, with a number from its tile's pool."""
        self.runtime: Final = runtime
        """The runtime of its node, shared with the other resources."""
        self._tile = tile
        self._members = members
        self.number: Final = pool.take()
        self.resource_id: Final = runtime.resource_id(tile, RESOURCE_TYPE, self.number)
        self.name: Final = f"synchronizer 0x{self.resource_id:08x}"
        """Name with resource id, as traps and reports give it."""
        self._pool = pool
        self._freed = False
        self._waiting: list[tuple[Parking[None], User]] = []
        self._known: list[Core] = []

    @traced_verb("sync")
    async def synchronize(self) -> None:
        """Wait until all members are here (`msync`, `ssync`); a cancelled wait counts as not here.

        The cores that come first are its members: one more traps with ILLEGAL_RESOURCE, and one that is here
        already, by a child task, with RESOURCE_DEP.
        """
        self._check_usable("sync")
        await self.runtime.begin_verb()
        user = current_user()
        if isinstance(user, Core):
            self._check_member(user)
        if len(self._waiting) + 1 == self._members:
            waiting, self._waiting = self._waiting, []
            for parking, _ in waiting:
                parking.wake(None)
            return
        place = (self.runtime.parking(self.runtime), user)
        self._waiting.append(place)
        await place[0].park("sync", self, lambda: self._waiting.remove(place))

    def _check_member(self, core: Core) -> None:
        """Trap where a core is not one of the members, of which more are taken until all are known."""
        place = f"sync on {self.name}"
        if core not in self._known:
            if len(self._known) == self._members:
                members = ", ".join(map(name_of, self._known))
                raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place} by {core}; its members are {members}", place)
            self._known.append(core)
        if any(user is core for _, user in self._waiting):
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} by {core}, which waits there already", place)

    def wakers(self) -> list[Core | None]:
        """Return a core that is missing here; None where not all members are known from before."""
        here = [core for _, core in self._waiting]
        missing = [known_to_use(core) for core in self._known if core not in here]
        return missing[:1] if len(self._known) == self._members and missing else [None]

    def explain_wait(self) -> str:
        """Name those that are here."""
        here = ", ".join(name_of(user) for _, user in self._waiting)
        return f"{len(self._waiting)} of {self._members} are here: {here}"

    def free(self) -> None:
        """Give it back to its tile; one at which a core waits traps. After its node's end: nothing."""
        if self.runtime.has_ended:
            return
        self._check_usable("freer")
        if self._waiting:
            place = f"freer on {self.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, at which {len(self._waiting)} wait", place)
        self._freed = True
        self._pool.give_back(self.number)

    def _check_usable(self, verb: str) -> None:
        place = f"{verb} on {self.name}"
        check_tile(self._tile, place)
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which was freed", place)
