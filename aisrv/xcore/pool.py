"""The numbers of a tile's resources of one kind, of which there are few."""

from aisrv.xcore.traps import Trap, TrapKind


class Pool:
    """Numbers from 0, lowest first."""

    __slots__ = ("_count", "_kind", "_tile", "_used")

    def __init__(self, tile: int, kind: str, count: int) -> None:
        self._tile = tile
        self._kind = kind
        self._count = count
        self._used = 0  # bit by bit, as a thousand devices have thousands of these

    def take(self) -> int:
        """Take the lowest free number; traps with ILLEGAL_RESOURCE where all are in use."""
        number = (~self._used & self._used + 1).bit_length() - 1  # of the lowest bit that is 0
        if number >= self._count:
            raise Trap(
                TrapKind.ILLEGAL_RESOURCE, f"tile {self._tile} has {self._count} {self._kind}, all are in use"
            )
        self._used |= 1 << number
        return number

    def give_back(self, number: int) -> None:
        """Make a number free again."""
        self._used &= ~(1 << number)

    @property
    def free(self) -> int:
        """How many are free."""
        return self._count - len(self)

    def __len__(self) -> int:
        """Count those in use."""
        return self._used.bit_count()
