"""Messages of umockdev's preload library as values: intercepted calls on their way to a device server.

Each message is three native unsigned longs: a command and two arguments. Memory that the client sends, and
that it is to take, follows as bare bytes. The protocol has no version and no document; it is the same from
umockdev 0.16 to 0.19. Source: "Ways for a host program to reach the virtual device", section Preload server.
"""

import enum
import struct
from typing import Annotated, Final

from aisrv.values.packet import Packet, Wire

LIBRARY: Final = "libumockdev-preload.so.0"
PACKAGE: Final = "umockdev"
"""Debian's package of the library."""

_WORD_MASK: Final = (1 << 8 * struct.calcsize("@L")) - 1


class WireError(ValueError):
    """Bytes that are not a message of the preload library."""


class Command(enum.IntEnum):
    """First word of a message."""

    IOCTL = 1
    """From the client: request code, argument."""
    RESULT = 2
    """From the client: result and errno of the call that RUN asked for."""
    DONE = 3
    """To the client: result, errno. Ends the call."""
    RUN = 4
    """To the client: make the call as if it had not been intercepted."""
    READ_MEMORY = 5
    """To the client: address, length. It answers with that many bytes."""
    WRITE_MEMORY = 6
    """To the client: address, length. That many bytes follow."""
    READ = 7
    """From the client: address, length of its buffer."""
    WRITE = 8
    """From the client: address, length of its data."""


def _unsigned(number: int) -> int:
    return number & _WORD_MASK


Word = Annotated[int, Wire("L", encode=_unsigned)]
"""An unsigned long; a negative result crosses as its two's complement."""


class Message(Packet, byte_order="@", error=WireError, name="a message of the preload library"):
    """One message."""

    command: Word
    first: Word = 0
    second: Word = 0
