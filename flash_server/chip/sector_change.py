"""Changes of a write on a chip, sector by sector, without needless erases and programs.

What begins a write is what readers look for: the headers of an image, or of a boot image. So it is erased
first and programmed last. Stopped at any moment, the chip has the old bytes, the new ones, or none that
count.
"""

from typing import NamedTuple, Self


class SectorStep(NamedTuple):
    """A whole sector that changes."""

    start: int
    old: bytes
    new: bytes


def sector_steps(address: int, data: bytes, old: bytes, sector_size: int) -> list[SectorStep]:
    """Return the changes of a write in their order; `old` is what the sectors hold that it touches."""
    base = address - address % sector_size
    new = old[: address - base] + data + old[address - base + len(data) :]
    steps = [
        SectorStep(base + at, old[at : at + sector_size], new[at : at + sector_size])
        for at in range(0, len(old), sector_size)
    ]
    first, others = steps[:1], [step for step in steps[1:] if step.new != step.old]
    for start, before, after in first:
        if others and address == base and before.strip(b"\xff"):
            erased = b"\xff" * len(before)
            return [SectorStep(start, before, erased), *others, SectorStep(start, erased, after)]
    return others + [step for step in first if step.new != step.old]


def touched(address: int, size: int, sector_size: int) -> range:
    """Return the addresses of the whole sectors that bytes lie in."""
    if not size:
        return range(0)
    return range(address // sector_size * sector_size, -(-(address + size) // sector_size) * sector_size)


class SectorChange(NamedTuple):
    """Changes of a sector, the erase first."""

    erases: bool
    """Whether a bit must become 1 again."""
    programs: list[tuple[int, bytes]]
    """Offsets in the sector, and the bytes to program there; from its end to its start."""

    @classmethod
    def of(cls, old: bytes, new: bytes, step: int) -> Self:
        """Compare the old and the new bytes of a sector; programs take `step` bytes each."""
        if new == old:
            return cls(False, [])
        erases = bool(int.from_bytes(new) & ~int.from_bytes(old))  # a program only clears bits
        there = b"\xff" * len(old) if erases else old
        starts = [at for at in range(0, len(new), step) if new[at : at + step] != there[at : at + step]]
        return cls(erases, [(at, new[at : at + step]) for at in reversed(starts)])
