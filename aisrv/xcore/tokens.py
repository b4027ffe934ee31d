"""Tokens: what travels between channel ends, one at a time or in runs.

A token is a data byte or a control token. A *run* is either several data tokens in wire order
(`bytes`) or one control token (an `int`), so that a stream of tokens is a sequence of runs.
"""

import array
import enum
from typing import Final

WORD_BYTES: Final = 4

PIECE_BYTES: Final = 1 << 16
"""Bytes of an array that are turned into words in one go; other tasks run between such pieces."""

Run = bytes | int
"""Data tokens in wire order, or one control token."""


class Control(enum.IntEnum):
    """Control tokens that the architecture names; applications may use 0 and 3 to 191 as they like."""

    END = 1
    """Closes the route; delivered."""
    PAUSE = 2
    """Closes the route; not delivered."""
    ACK = 3
    NACK = 4


LAST_CONTROL: Final = 191
"""Highest control token that software may send; those above belong to the hardware."""


def word_to_wire(word: int) -> bytes:
    """Return the low 32 bits of a number as they cross, most significant byte first."""
    return (word & 0xFFFFFFFF).to_bytes(WORD_BYTES)


def words_to_wire(block: bytes | bytearray | memoryview) -> bytes:
    """Reverse the bytes of each word: memory is little-endian, the wire most significant byte first.

    The length must be a multiple of 4 bytes. The function is its own inverse.
    """
    words = array.array("I")
    words.frombytes(block)
    words.byteswap()
    return words.tobytes()
