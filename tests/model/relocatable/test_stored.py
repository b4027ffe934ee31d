"""Images as they are stored in a segment: length and CRC-32 before them."""

import struct
import zlib

import pytest

from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.stored import restored, stored
from tests.support.models.relocatable import digits_image

IMAGE = digits_image()


def test_length_and_checksum_lie_before_the_image() -> None:
    assert stored(IMAGE) == struct.pack("<2I", len(IMAGE), zlib.crc32(IMAGE)) + IMAGE


def test_what_follows_in_the_segment_does_not_matter() -> None:
    assert bytes(restored(stored(IMAGE) + b"\xff" * 100)) == IMAGE


def test_only_an_image_is_stored() -> None:
    with pytest.raises(ImageError):
        stored(IMAGE[:-1])


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 512, len(IMAGE) + 7])
def test_truncated(size: int) -> None:
    with pytest.raises(ImageError, match=r"8 bytes, not|bytes, .* are there"):
        restored(stored(IMAGE)[:size])


@pytest.mark.parametrize("at", [8, 12, 8 + 5000, 8 + len(IMAGE) - 1])
def test_one_wrong_bit(at: int) -> None:
    data = bytearray(stored(IMAGE))
    data[at] ^= 0x10
    with pytest.raises(ImageError, match="damaged: its CRC-32 is"):
        restored(bytes(data))


@pytest.mark.parametrize("at", [0, 4])
def test_a_wrong_header(at: int) -> None:
    data = bytearray(stored(IMAGE))
    data[at] ^= 1
    with pytest.raises(ImageError, match=r"damaged|are there"):
        restored(bytes(data))
