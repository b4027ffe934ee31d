"""Between how many ticks each operator of a model is expected to take, and what a tick is: GET_TIMING_BANDS.

The layout is ours, no firmware has it: u32 Hz of the reference clock, then u32 low and u32 high of an
inference, and the same two of each operator. What is too large for a word is the largest.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from aisrv.protocol.commands import ProtocolError

_LARGEST: Final = 0xFFFF_FFFF
_HEAD_WORDS: Final = 3


class TickBand(NamedTuple):
    """Ticks of the reference clock, at the least and at the most."""

    low: int
    high: int


_NOTHING: Final = TickBand(0, 0)


@dataclass(frozen=True, slots=True)
class TimingBands:
    """The bands of a model's times; those of an inference and its operators are 0 and none without one."""

    reference_hz: int
    """Ticks in a second."""
    total: TickBand = _NOTHING
    """Of an inference."""
    operators: tuple[TickBand, ...] = ()
    """Of each operator, in execution order."""

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read the answer of GET_TIMING_BANDS; ProtocolError where it has no whole number of bands."""
        words = struct.unpack(f"<{len(data) // 4}I", data) if len(data) % 4 == 0 else ()
        if len(words) < _HEAD_WORDS or len(words) % 2 == 0:
            raise ProtocolError(f"timing bands have 12 bytes, and 8 for each operator, not {len(data)}")
        rate, *bands = words
        total, *operators = map(TickBand, bands[::2], bands[1::2])
        return cls(rate, total, tuple(operators))

    def __bytes__(self) -> bytes:
        words = [self.reference_hz, *self.total, *_flat(self.operators)]
        return struct.pack(f"<{len(words)}I", *(min(word, _LARGEST) for word in words))


def _flat(bands: Iterable[TickBand]) -> Iterable[int]:
    return (ticks for band in bands for ticks in band)
