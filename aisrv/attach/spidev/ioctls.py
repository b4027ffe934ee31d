"""The ioctls of Linux's spidev as values: request codes, the transfer structure, mode bits, limits.

Sources: the Linux kernel's headers `linux/spi/spidev.h` and `linux/spi/spi.h` for codes, structure and bits,
its document "SPI userspace API" for what they mean.
"""

import enum
import errno
import struct
from typing import ClassVar, Final, NamedTuple

from aisrv.values.packet import U8, U16, U32, U64, Packet, Pad1

BUFFER_SIZE: Final = 4096
"""Bytes that a read, a write, or either direction of a message may have: `bufsiz` of the kernel's module."""

MAX_SPEED_HZ: Final = 50_000_000
"""Clock rate of the virtual controller if a program sets none."""

BITS_PER_WORD: Final = 8
"""The one word size of the virtual controller."""

BYTE: Final = struct.Struct("=B")
WORD: Final = struct.Struct("=I")

_READ, _WRITE = 2, 1
_SIZE_BITS: Final = 14


def _code(direction: int, number: int, size: int) -> int:
    """Return a request code, as the macros of `asm-generic/ioctl.h` make it for type 'k'."""
    return direction << 30 | size << 16 | ord("k") << 8 | number


class Ioctl(enum.IntEnum):
    """Request codes; reading ones write to the program's memory."""

    RD_MODE = _code(_READ, 1, BYTE.size)
    WR_MODE = _code(_WRITE, 1, BYTE.size)
    RD_LSB_FIRST = _code(_READ, 2, BYTE.size)
    WR_LSB_FIRST = _code(_WRITE, 2, BYTE.size)
    RD_BITS_PER_WORD = _code(_READ, 3, BYTE.size)
    WR_BITS_PER_WORD = _code(_WRITE, 3, BYTE.size)
    RD_MAX_SPEED_HZ = _code(_READ, 4, WORD.size)
    WR_MAX_SPEED_HZ = _code(_WRITE, 4, WORD.size)
    RD_MODE32 = _code(_READ, 5, WORD.size)
    WR_MODE32 = _code(_WRITE, 5, WORD.size)


class Mode(enum.IntFlag):
    """Bits of the mode."""

    CPHA = 1 << 0
    CPOL = 1 << 1
    CS_HIGH = 1 << 2
    LSB_FIRST = 1 << 3
    THREE_WIRE = 1 << 4
    LOOP = 1 << 5
    NO_CS = 1 << 6
    READY = 1 << 7
    TX_DUAL = 1 << 8
    TX_QUAD = 1 << 9
    RX_DUAL = 1 << 10
    RX_QUAD = 1 << 11
    TX_OCTAL = 1 << 13
    RX_OCTAL = 1 << 14


SUPPORTED_MODES: Final = Mode.CPHA | Mode.CPOL
"""Modes of the virtual controller; other bits are refused."""

DROPPED_MODES: Final = (
    Mode.TX_DUAL | Mode.TX_QUAD | Mode.TX_OCTAL | Mode.RX_DUAL | Mode.RX_QUAD | Mode.RX_OCTAL
)
"""Modes that the kernel drops without an error if the controller lacks them."""


class SpidevError(Exception):
    """A call that fails with an errno."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.errno: Final = number


class Region(NamedTuple):
    """A piece of the program's memory."""

    address: int
    size: int


class SpiIocTransfer(Packet, byte_order="=", name="a spidev transfer"):
    """`struct spi_ioc_transfer`: one transfer of a message."""

    tx_buf: U64 = 0
    """Address of the bytes to send; 0 sends zeros."""
    rx_buf: U64 = 0
    """Address for the bytes received; 0 drops them."""
    length: U32 = 0
    speed_hz: U32 = 0
    """Clock rate; 0 for the maximum of the device."""
    delay_usecs: U16 = 0
    """Microseconds from the last clock edge to the change of chip select."""
    bits_per_word: U8 = 0
    """Word size; 0 for that of the device."""
    cs_change: U8 = 0
    """Chip select goes high after the transfer, but stays low after the last one of a message, unless 0."""
    tx_nbits: U8 = 0
    """Data lines; 0 and 1 are both one line."""
    rx_nbits: U8 = 0
    word_delay_usecs: U8 = 0
    padding: ClassVar[Pad1]

    @property
    def tx(self) -> Region:
        """Bytes to send; an empty region sends zeros."""
        return Region(self.tx_buf, self.length if self.tx_buf else 0)

    @property
    def rx(self) -> Region:
        """Room for the bytes received; an empty region drops them."""
        return Region(self.rx_buf, self.length if self.rx_buf else 0)


def message_size(code: int) -> int:
    """Return the size of the transfers in a message's request code, in bytes.

    SpidevError: ENOTTY for a code that is not a message's, EINVAL for a size that is not whole transfers.
    """
    size = code >> 16 & (1 << _SIZE_BITS) - 1
    if code != _code(_WRITE, 0, size):
        raise SpidevError(errno.ENOTTY)
    if size % SpiIocTransfer.SIZE:
        raise SpidevError(errno.EINVAL)
    return size


def transfers_of(data: bytes) -> list[SpiIocTransfer]:
    return [SpiIocTransfer.unpack_from(data, start) for start in range(0, len(data), SpiIocTransfer.SIZE)]
