"""The resources that a program in C knows by their ids."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from aisrv.addons.firmware.records import Verb
from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.port import Port
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import SizeError, Trap, TrapKind

F = TypeVar("F")


class Resource(Protocol):
    """A resource that a program knows by its id: a channel end, a timer, a lock."""

    @property
    def resource_id(self) -> int:
        """Number by which the program names it."""

    @property
    def name(self) -> str:
        """Name for traps and reports."""


R = TypeVar("R", bound=Resource)


class ProgramResources:
    """Resources of a tile that its program was given, and the ports and clock blocks that it has anyway."""

    def __init__(self, tile: Tile) -> None:
        """Know none yet."""
        self._tile: Final = tile
        self._known: dict[int, Resource] = {}

    def adopt(self, resource: R) -> R:
        """Let the program know a resource of the tile by its id."""
        self._known[resource.resource_id] = resource
        return resource

    def forget(self, number: int) -> None:
        """Forget a resource that was freed."""
        self._known.pop(number, None)

    def find_any(self, number: int, verb: Verb) -> Resource:
        """Find a resource of the program, for a verb. Traps with ILLEGAL_RESOURCE."""
        if (found := self._known.get(number)) is not None:
            return found
        what = f"{verb.name.lower()} on 0x{number:08x}"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{what}, which is not a resource of this program", what)

    def find(self, number: int, kind: type[R], verb: Verb) -> R:
        """Find a resource of one kind. Traps with ILLEGAL_RESOURCE."""
        found = self._known.get(number)
        if isinstance(found, kind):
            return found
        found = self.find_any(number, verb)
        what = f"{verb.name.lower()} on {found.name}"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, what, what)

    def port(self, number: int, verb: Verb) -> Port:
        """Return a port by its id, for a verb. Traps with ILLEGAL_RESOURCE where there is none."""
        return _find(self._tile.port, number, verb)

    def clock_block(self, number: int, verb: Verb) -> ClockBlock:
        """Return a clock block by its id, for a verb. Traps with ILLEGAL_RESOURCE where there is none."""
        return _find(self._tile.clock_block, number, verb)


def _find(find: Callable[[int], F], number: int, verb: Verb) -> F:
    """Return what a tile has by its id. Traps with ILLEGAL_RESOURCE where it has not."""
    try:
        return find(number)
    except SizeError as error:
        place = f"{verb.name.lower()} on 0x{number:x}"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}: {error}", place) from None
