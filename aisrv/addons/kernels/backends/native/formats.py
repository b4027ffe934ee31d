"""What the kernels of convolutions are on each variant: the elements that they multiply, and their tiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.tiles import INT16_PIXELS, MOST_PIXELS
from aisrv.addons.kernels.params import INT8, INT16, ElementType

_SIGN: Final = 128
"""Offset of each input byte, so that it has no sign."""


@dataclass(frozen=True, slots=True)
class Format:
    """Elements that one instruction of a variant multiplies."""

    element: npt.DTypeLike
    depth: int
    """Elements of a window that are multiplied by one instruction."""
    sign: int = 0
    """Offset that the kernel adds to each input."""
    multiple: int = 0
    """Elements that are loaded at once, where that is more than `depth`."""
    apart: int = 0
    """Weights of four channels are so many of each, then as many others of each; 0 where all are together."""

    @property
    def unit(self) -> int:
        """Elements that are loaded at once."""
        return self.multiple or self.depth

    def padded(self, length: int) -> int:
        """Elements of a segment with those that are loaded behind it."""
        return -(-length // self.unit) * self.unit


@dataclass(frozen=True, slots=True)
class Target:
    """The kernels of convolutions with activations of one type, on one variant."""

    elements: ElementType
    format: Format
    depthwise: Format
    """Of windows of one channel each; its `depth` counts taps."""
    tiles: Mapping[int, int]
    """The largest tiles: pixels, by blocks of 16 channels; none where there are depthwise ones alone."""
    is_interleaved: bool = False
    """Whether depthwise kernels interleave two rows."""
    has_3x3: bool = False
    """Whether there is a kernel for depthwise windows of 3x3."""
    threads: int = 1
    """Threads that share a step."""

    def reads(self, length: int) -> bool:
        """Tell whether segments of a length can be read from an input itself."""
        same_size = np.dtype(self.format.element) == np.dtype(self.elements.format)
        return same_size and self.format.padded(length) == length


_BYTES: Final = Format(np.int8, 4, _SIGN)
_PAIRS: Final = Format(np.int16, 2)
_BYTE_TAPS: Final = Format(np.int8, 1, multiple=2)

INT8_TARGETS: Final = {
    Variant.AVX512_VNNI: Target(INT8, _BYTES, _BYTES, MOST_PIXELS[Variant.AVX512_VNNI], has_3x3=True),
    Variant.AVX_VNNI: Target(INT8, _BYTES, _PAIRS, MOST_PIXELS[Variant.AVX_VNNI], is_interleaved=True),
    Variant.AVX2: Target(INT8, _PAIRS, _PAIRS, MOST_PIXELS[Variant.AVX2], is_interleaved=True),
    Variant.NEON_DOT: Target(
        INT8, Format(np.int8, 4, multiple=16), _BYTE_TAPS, MOST_PIXELS[Variant.NEON_DOT]
    ),
    Variant.NEON: Target(INT8, Format(np.int8, 4, apart=2), _BYTE_TAPS, MOST_PIXELS[Variant.NEON]),
}
"""Of int8. Plain C has none: NumPy multiplies faster."""

HALF_TAPS: Final = Format(np.int16, 1)
"""Of int16, a tap at a time: what plain C multiplies."""
_HALVES: Final = Format(np.int16, 2, multiple=8, apart=1)

INT16_TARGETS: Final = {
    Variant.AVX512_VNNI: Target(
        INT16, _PAIRS, _PAIRS, INT16_PIXELS[Variant.AVX512_VNNI], is_interleaved=True
    ),
    Variant.AVX_VNNI: Target(INT16, _PAIRS, _PAIRS, INT16_PIXELS[Variant.AVX_VNNI], is_interleaved=True),
    Variant.AVX2: Target(INT16, _PAIRS, _PAIRS, INT16_PIXELS[Variant.AVX2], is_interleaved=True),
    Variant.NEON_DOT: Target(INT16, _HALVES, HALF_TAPS, INT16_PIXELS[Variant.NEON_DOT]),
    Variant.NEON: Target(INT16, _HALVES, HALF_TAPS, INT16_PIXELS[Variant.NEON]),
    Variant.PLAIN: Target(INT16, HALF_TAPS, HALF_TAPS, {}),
}
"""Of int16. Plain C has depthwise ones alone, in 64 bits: NumPy multiplies the others faster."""
