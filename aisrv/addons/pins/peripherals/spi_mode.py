"""The four modes of SPI: which edge of the clock samples, and which one shifts."""

from typing import Final

from msgspec import Struct


class SpiMode(Struct, frozen=True):
    """A mode; source: Motorola, SPI Block Guide V03.06, section 4.3, CPOL and CPHA."""

    polarity: int
    """CPOL: level of the clock while the bus is idle."""
    phase: int
    """CPHA: 0 samples at the first edge of a bit, 1 at the second."""

    def samples(self, level: int) -> bool:
        """Return whether an edge to a level is one at which both sides sample."""
        return level == self.polarity ^ self.phase ^ 1


MODES: Final = tuple(SpiMode(number >> 1, number & 1) for number in range(4))
"""The modes by number."""
