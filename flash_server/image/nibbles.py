"""The order of the nibbles in a byte of flash.

A QSPI flash sends the high nibble of each byte first, an xcore port takes the low one first: a byte read by
the port has its nibbles swapped. An image written for that is stored swapped ("XCORE AI server: numbers and
wire behavior", section Flash; "XCORE-AI server general design", section Flash).
"""

from collections.abc import Iterator
from typing import Final

SWAP: Final = bytes((byte & 0x0F) << 4 | byte >> 4 for byte in range(256))
"""Table for `bytes.translate`: every byte with its nibbles swapped."""

ORDERS: Final = {"swapped": True, "normal": False}
"""Names of the orders in which bytes are stored; True if their nibbles are swapped."""

OLDER_ORDERS: Final = {"straight": "normal"}
"""Names that are still read."""

CHUNK: Final = 1 << 16
"""Bytes moved at once: more would not stay in the cache, nor in memory that is used again."""


def order_name(*, swapped: bool) -> str:
    return "swapped" if swapped else "normal"


def swap(data: bytes | memoryview) -> bytes:
    """Swap the nibbles of each byte; swapping twice changes nothing."""
    return bytes(data).translate(SWAP)


def swap_all(data: bytes | memoryview) -> memoryview:
    swapped = bytearray(len(data))
    start = 0
    for piece in chunks(data, swapped=True):
        swapped[start : start + len(piece)] = piece
        start += len(piece)
    return memoryview(swapped).toreadonly()


def chunks(data: bytes | memoryview, *, swapped: bool = False) -> Iterator[bytes]:
    """Yield the data in pieces of at most `CHUNK` bytes, with their nibbles swapped if asked."""
    view = memoryview(data)
    for start in range(0, len(view), CHUNK):
        piece = bytes(view[start : start + CHUNK])
        yield piece.translate(SWAP) if swapped else piece
