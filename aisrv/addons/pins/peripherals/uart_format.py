"""The frame of a UART: a start bit, data bits from the least significant one on, parity, stop bits."""

import enum
from typing import Final

from msgspec import Struct

from aisrv.xcore.clock import TICKS_PER_SECOND


class Parity(enum.Enum):
    """Number of ones that the parity bit makes, or that there is none."""

    NONE = "none"
    EVEN = "even"
    ODD = "odd"

    def bit(self, byte: int) -> int:
        """Return the parity bit of a byte."""
        return byte.bit_count() & 1 ^ (self is Parity.ODD)


class UartFormat(Struct, frozen=True):
    """Rate and frame."""

    baud: int = 115_200
    """Bits a second."""
    bits: int = 8
    """Data bits, 5 to 9."""
    parity: Parity = Parity.NONE
    stop: int = 1
    """Stop bits, 1 or 2."""

    @property
    def before_stop(self) -> int:
        """Bits of a frame before its stop bits."""
        return 1 + self.bits + (self.parity is not Parity.NONE)

    @property
    def length(self) -> int:
        """Bits of a frame."""
        return self.before_stop + self.stop

    def frame(self, byte: int) -> list[int]:
        """Return the levels of a frame, a bit each."""
        data = [byte >> bit & 1 for bit in range(self.bits)]
        parity = [] if self.parity is Parity.NONE else [self.parity.bit(byte)]
        return [0, *data, *parity, *[1] * self.stop]

    def tick(self, start: int, bits: float) -> int:
        """Return the tick so many bits after a frame's start, of the whole count, so that nothing adds up."""
        return start + round(bits * TICKS_PER_SECOND / self.baud)


DEFAULT_FORMAT: Final = UartFormat()
