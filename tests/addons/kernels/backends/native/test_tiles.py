"""Tiles of convolutions: groups cover all blocks once, in sizes that the library has."""

import pytest

from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.tiles import MOST_PIXELS, Group, choose_groups, chunk_pixels


@pytest.mark.parametrize("variant", MOST_PIXELS)
@pytest.mark.parametrize("pixels", [1, 2, 3, 7, 49, 12_544])
def test_groups_cover_all_blocks_once(pixels: int, variant: Variant) -> None:
    most = MOST_PIXELS[variant]
    for blocks in (*range(1, 40), 63, 64, 65, 4096):
        groups = choose_groups(most, pixels, blocks)
        covered = [
            block for each in groups for block in range(each.first_block, each.first_block + each.blocks)
        ]
        assert covered == [*range(blocks)]
        assert all(1 <= each.pixels <= min(pixels, most[each.blocks]) for each in groups), blocks


def test_wide_tiles_are_for_few_pixels() -> None:
    assert choose_groups(MOST_PIXELS[Variant.AVX512_VNNI], 1, 8) == (Group(1, 8, 0),)
    assert choose_groups(MOST_PIXELS[Variant.AVX512_VNNI], 196, 8) == (Group(6, 4, 0), Group(6, 4, 4))


@pytest.mark.parametrize(
    ("tiles", "pixel_bytes", "expected"),
    [
        ([6, 6], 512, 30),  # five whole tiles of 6 are the last below 16 KiB
        ([6, 4], 64, 252),
        ([12, 11, 7], 1, 12 * 1365),  # no common multiple is small: whole tiles of the first alone
        ([6], 1 << 20, 6),
    ],
)
def test_chunks_are_whole_tiles_that_stay_in_a_cache(
    tiles: list[int], pixel_bytes: int, expected: int
) -> None:
    groups = tuple(Group(pixels, 1, number) for number, pixels in enumerate(tiles))
    assert chunk_pixels(groups, pixel_bytes) == expected
