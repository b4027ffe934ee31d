"""The tiles of a convolution: how many pixels and blocks of channels each computes at once, in registers."""

import functools
import math
from typing import Final, NamedTuple

from aisrv.kernels.backends.native.library import Variant

MOST_PIXELS: Final = {
    Variant.AVX512_VNNI: {1: 12, 2: 12, 3: 8, 4: 6, 8: 2},
    Variant.AVX2: {1: 6, 2: 3, 4: 1},
}
"""The largest tiles that the library has: pixels, by blocks of 16 channels."""

_WIDE: Final = 4
"""Blocks of tiles that are for any number of pixels."""

_CHUNK_BYTES: Final = 16 << 10
"""Inputs of a chunk: half of a core's first cache, so that they stay there from group to group."""
_LARGEST_COMMON_CHUNK: Final = 256


class Group(NamedTuple):
    """Blocks that are computed together, and the pixels of their tiles."""

    pixels: int
    blocks: int
    first_block: int


def choose_groups(variant: Variant, pixels: int, blocks: int) -> tuple[Group, ...]:
    """Cut blocks into groups so that the tiles take the least time."""

    @functools.cache
    def best(left: int) -> tuple[float, tuple[tuple[int, int], ...]]:
        if left == 0:
            return 0.0, ()
        choices = []
        for size, most in MOST_PIXELS[variant].items():
            # The widest tiles load much for each pixel: they are for one row of a batch or two.
            if size <= left and (size <= _WIDE or pixels <= most):
                cost, tile = min(_cost(pixels, each, size) for each in range(1, min(most, pixels) + 1))
                more, rest = best(left - size)
                choices.append((cost + more, ((tile, size), *rest)))
        return min(choices)

    groups, first = [], 0
    # Step by step, so that the recursion of `best` stays shallow.
    for count in range(blocks):
        best(count)
    for tile, size in best(blocks)[1]:
        groups.append(Group(tile, size, first))
        first += size
    return tuple(groups)


def _cost(pixels: int, tile: int, blocks: int) -> tuple[float, int]:
    """What all tiles take for one step of depth, in multiplications, and the tile's pixels.

    Fewer than eight sums wait for each other; each pixel and block is loaded, which takes as long.
    """
    return -(-pixels // tile) * (max(tile * blocks, tile + blocks, 8) + 0.35 * tile + 1), tile


def chunk_pixels(groups: tuple[Group, ...], pixel_bytes: int) -> int:
    """Return the pixels of a chunk: whole tiles of every group where that is possible."""
    common = math.lcm(*(group.pixels for group in groups))
    if common > _LARGEST_COMMON_CHUNK:
        common = max(group.pixels for group in groups)
    return common * max(1, _CHUNK_BYTES // max(1, pixel_bytes * common))
