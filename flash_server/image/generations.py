"""The three generations of the data partition: the bytes before the headers.

Source: "XCORE AI server: numbers and wire behavior", section Flash, the table of generations; for the first,
"XCORE-AI server general design", section Flash.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from flash_server.image.nibbles import order_name, swap

VERSION: Final = bytes([1, 2, 0xFE, 0xFD])
"""The version word: major, minor, and both inverted."""

CALIBRATION: Final = bytes.fromhex("ff000f0f0f0f0f0fff00ff00ff00ff0031f7ce0831f7ce089c639c639c639c63")
"""The pattern by which a fast reader finds the moment to sample, normal order."""


class Generation(Enum):
    """Form of the data partition's start; the value is the name in commands."""

    DESIGN = "design"
    """Headers at once; the oldest."""
    VERSION_1_2 = "1.2"
    """A version word, then headers."""
    FAST = "fast"
    """Calibration bytes and a version word, then headers."""

    @property
    def preamble(self) -> bytes:
        """The bytes before the first header, normal order."""
        return _PREAMBLES[self]

    @property
    def usually_swapped(self) -> bool:
        """Whether its packer stores nibbles swapped; the older ones do so only for a flash in wire order."""
        return self is Generation.FAST


_PREAMBLES: Final = {
    Generation.DESIGN: b"",
    Generation.VERSION_1_2: VERSION,
    Generation.FAST: CALIBRATION + VERSION,
}


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """The generation of a stored image and the order of its nibbles."""

    generation: Generation
    swapped: bool
    """Whether the two nibbles of each byte are exchanged."""

    def normal(self, stored: bytes | memoryview) -> bytes:
        """Return stored bytes in normal order. Swapping is its own inverse: it stores, too."""
        return swap(stored) if self.swapped else bytes(stored)

    def __str__(self) -> str:
        return f"{self.generation.value}, nibbles {order_name(swapped=self.swapped)}"
