"""The Serial Flasher Protocol, serprog: commands, their parameters and answers as values.

Source: flashrom, "Serial Flasher Protocol Specification - version 1". A command is one byte and its
parameters; the answer is ACK and its data, or NAK. All integers are little-endian, lengths have 24 bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Self

VERSION: Final = 1
LARGEST_LENGTH: Final = (1 << 24) - 1
NAME_SIZE: Final = 16
COMMAND_MAP_SIZE: Final = 32
ENDLESS_BUFFER: Final = 0xFFFF
"""Size of the serial buffer that a programmer with flow control states."""


class SerprogReply(IntEnum):
    """The first byte of an answer."""

    ACK = 0x06
    NAK = 0x15


class SerprogCommand(IntEnum):
    """The commands of an SPI programmer; those of parallel buses, and the operation buffer, are left out."""

    NOP = 0x00
    Q_IFACE = 0x01
    """u16: the version of the protocol."""
    Q_CMDMAP = 0x02
    """32 bytes: a bit for each known command."""
    Q_PGMNAME = 0x03
    """16 bytes: a name, NUL padded."""
    Q_SERBUF = 0x04
    """u16: bytes that may be sent ahead."""
    Q_BUSTYPE = 0x05
    """u8: `BusType` bits."""
    Q_WRNMAXLEN = 0x08
    """u24: bytes that one O_SPIOP may send."""
    SYNCNOP = 0x10
    """Answered by NAK and ACK."""
    Q_RDNMAXLEN = 0x11
    """u24: bytes that one O_SPIOP may read."""
    S_BUSTYPE = 0x12
    """Parameter u8: `BusType` bits."""
    O_SPIOP = 0x13
    """Parameters `SpiOperation` and the bytes to send; the bytes that were read."""
    S_SPI_FREQ = 0x14
    """Parameter u32: Hz wanted; u32: Hz set."""


PARAMETER_SIZES: Final[Mapping[SerprogCommand, int]] = {
    SerprogCommand.S_BUSTYPE: 1,
    SerprogCommand.O_SPIOP: 6,
    SerprogCommand.S_SPI_FREQ: 4,
}
"""Bytes of parameters that follow a command; all other commands have none."""


class BusType(IntFlag):
    """Kinds of buses."""

    PARALLEL = 0x01
    LPC = 0x02
    FWH = 0x04
    SPI = 0x08


@dataclass(frozen=True, slots=True)
class SpiOperation:
    """Numbers of bytes that O_SPIOP sends and reads within one chip select."""

    send: int
    read: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode two lengths, six bytes. Raises ValueError for another size."""
        if len(data) != PARAMETER_SIZES[SerprogCommand.O_SPIOP]:
            raise ValueError(f"{len(data)} bytes are not the two lengths of an SPI operation")
        return cls(int.from_bytes(data[:3], "little"), int.from_bytes(data[3:], "little"))

    def __bytes__(self) -> bytes:
        """Encode. Raises OverflowError for a length past `LARGEST_LENGTH`."""
        return self.send.to_bytes(3, "little") + self.read.to_bytes(3, "little")


def pack_spi_operation(out: bytes, read: int) -> bytes:
    """Build the whole command that sends `out` and then reads `read` bytes."""
    return bytes((SerprogCommand.O_SPIOP,)) + bytes(SpiOperation(len(out), read)) + out


def pack_command_map() -> bytes:
    """Build the answer to Q_CMDMAP: command n is bit n modulo 8 of byte n / 8."""
    return sum(1 << command for command in SerprogCommand).to_bytes(COMMAND_MAP_SIZE, "little")


def unpack_command_map(data: bytes) -> set[int]:
    """Read the numbers of the commands that a programmer knows."""
    bits = int.from_bytes(data, "little")
    return {number for number in range(8 * len(data)) if bits >> number & 1}
