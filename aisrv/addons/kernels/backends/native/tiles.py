"""The tiles of a convolution: how many pixels and blocks of channels each computes at once, in registers."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from aisrv.addons.kernels.backends.native.library import Variant

MOST_PIXELS: Final = {
    Variant.AVX512_VNNI: {1: 12, 2: 12, 3: 8, 4: 6, 8: 2},
    Variant.AVX_VNNI: {1: 6, 4: 1},
    Variant.AVX2: {1: 6, 4: 1},
    Variant.NEON_DOT: {1: 6, 4: 1},
    Variant.NEON: {1: 4, 4: 1},
}
"""The largest tiles that the library has: pixels, by blocks of 16 channels."""
INT16_PIXELS: Final = {
    Variant.AVX512_VNNI: {1: 6, 4: 6},
    Variant.AVX_VNNI: {1: 6, 4: 1},
    Variant.AVX2: {1: 6, 4: 1},
    Variant.NEON_DOT: {1: 6, 4: 1},
    Variant.NEON: {1: 6, 4: 1},
}
"""The same for int16."""
FLOAT32_PIXELS: Final = {
    Variant.AVX512_VNNI: {1: 6, 4: 6},
    Variant.AVX_VNNI: {1: 6, 4: 1},
    Variant.AVX2: {1: 6, 4: 1},
    Variant.NEON_DOT: {1: 6, 4: 1},
    Variant.NEON: {1: 6, 4: 1},
    Variant.PLAIN: {1: 2},
}
"""The same for float32; SSE has half the registers of NEON."""

_WIDE: Final = 4
"""Blocks of tiles that are for any number of pixels."""

_FINAL_BLOCKS: Final = 24
"""Blocks at the end whose groups may be of any size."""
_CHUNK_BYTES: Final = 16 << 10
"""Inputs of a chunk: half of a core's first cache, so that they stay there from group to group."""
_LARGEST_COMMON_CHUNK: Final = 256


class Group(NamedTuple):
    """Blocks that are computed together, and the pixels of their tiles."""

    pixels: int
    blocks: int
    first_block: int


def choose_groups(largest: Mapping[int, int], pixels: int, blocks: int) -> tuple[Group, ...]:
    """Cut blocks into groups so that the tiles, of sizes as in MOST_PIXELS, take the least time."""
    # The widest tiles load much for each pixel: they are for one row of a batch or two.
    tiles = {
        size: min(_cost(pixels, each, size) for each in range(1, min(most, pixels) + 1))
        for size, most in largest.items()
        if size <= _WIDE or pixels <= most
    }
    # Most of many blocks go into groups of the size that is the best by itself.
    usual = min(tiles, key=lambda size: tiles[size][0] / size)
    sizes = [usual] * (max(0, blocks - _FINAL_BLOCKS) // usual)
    left = blocks - sum(sizes)
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for count in range(1, left + 1):
        choices = [
            (cost + best[count - size][0], (size, *best[count - size][1]))
            for size, (cost, _) in tiles.items()
            if size <= count
        ]
        best.append(min(choices))
    groups, first = [], 0
    for size in (*sizes, *best[left][1]):
        groups.append(Group(tiles[size][1], size, first))
        first += size
    return tuple(groups)


def _cost(pixels: int, tile: int, blocks: int) -> tuple[float, int]:
    """Cost of all tiles for one step of depth, in multiplications, and the tile's pixels.

    Fewer than eight sums wait for each other; each pixel and block is loaded, which takes as long.
    """
    return -(-pixels // tile) * (max(tile * blocks, tile + blocks, 8) + 0.35 * tile + 1), tile


def chunk_pixels(groups: tuple[Group, ...], pixel_bytes: int) -> int:
    """Return the pixels of a chunk: whole tiles of every group where that is possible."""
    common = math.lcm(*(group.pixels for group in groups))
    if common > _LARGEST_COMMON_CHUNK:
        common = max(group.pixels for group in groups)
    return common * max(1, _CHUNK_BYTES // max(1, pixel_bytes * common))


def shared_chunk(groups: tuple[Group, ...], chunk: int, pixels: int, items: int) -> int:
    """Halve a chunk of pixels until threads share so many items; one tile is the least."""
    tile = max(group.pixels for group in groups)
    chunk = min(chunk, pixels)
    while chunk > tile and -(-pixels // chunk) * len(groups) < items:
        chunk = max(1, chunk // 2 // tile) * tile
    return chunk
