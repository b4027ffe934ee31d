"""Changes of a write on a chip, sector by sector, without needless erases and programs."""

from collections.abc import Iterator
from typing import NamedTuple, Self


class SectorBytes(NamedTuple):
    """Bytes that lie in one sector."""

    start: int
    offset: int
    """Offset of the bytes in the sector."""
    data: bytes


def by_sector(address: int, data: bytes, sector_size: int) -> Iterator[SectorBytes]:
    """Cut bytes that begin at an address where sectors end."""
    done = 0
    while done < len(data):
        start, offset = divmod(address + done, sector_size)
        piece = data[done : done + sector_size - offset]
        yield SectorBytes(start * sector_size, offset, piece)
        done += len(piece)


class SectorChange(NamedTuple):
    """Changes of a sector, the erase first."""

    erases: bool
    """Whether a bit must become 1 again."""
    programs: list[tuple[int, bytes]]
    """Offsets in the sector, and the bytes to program there."""

    @classmethod
    def of(cls, old: bytes, piece: SectorBytes, step: int) -> Self:
        """Compare the old and the new bytes of a sector; programs take `step` bytes each."""
        new = old[: piece.offset] + piece.data + old[piece.offset + len(piece.data) :]
        if new == old:
            return cls(False, [])
        erases = bool(int.from_bytes(new) & ~int.from_bytes(old))  # a program only clears bits
        there = b"\xff" * len(old) if erases else old
        starts = (at for at in range(0, len(new), step) if new[at : at + step] != there[at : at + step])
        return cls(erases, [(at, new[at : at + step]) for at in starts])
