"""Messages of the channel to the flash server: commands, failures, and requests as values. No I/O.

A request is one transaction (lib_xcore's channel_transaction.h) on the client's channel: the command word and
its argument words, most significant byte first, then data bytes if the command has any. The server answers in
the same transaction: `flash_server.transaction`. Sources: the design document, section Flash; "XCORE AI
server: numbers and wire behavior", section Flash. Commands from 0x10 on, failures and the abandoning of a
request are ours.
"""

import enum
import struct
from typing import Final

from msgspec import Struct

from flash_server.errors import FlashError

PIECE_BYTES: Final = 4096
"""Bytes of the flash that the server reads at a time, and the most that one write command takes."""


class FlashCommand(enum.IntEnum):
    """Command words."""

    READ_PARAMETERS = 0
    """Offset, size; answered with the bytes."""
    READ_MODEL = 1
    """Answered with the length word, then the bytes."""
    READ_OPERATORS = 2
    """Offset, size; answered with the bytes."""
    READ_XIP = 3
    """Offset, size; answered with the bytes."""
    READ_SIZES = 0x10
    """Answered with four words: bytes to be had of model, parameters, operators and XIP; 0 = absent."""
    READ_BOOT = 0x11
    """Answered with a `BootReport`: what was booted at the last reset."""
    WRITE_SERVER = 0x20
    """Offset, then bytes: the next piece of a server image; offset 0 begins an upgrade."""
    FINISH_SERVER = 0x21
    """Ends an upgrade: verifies it and makes it count."""
    READ_DATA = 0x22
    """Offset in the data partition, size; answered with the bytes as the chip stores them."""
    WRITE_DATA = 0x23
    """Offset in the data partition, then bytes to store; sectors that begin among them are erased first."""
    RELOAD = 0x24
    """Reads the headers of the data partition again."""
    CHECK_WRITE = 0x25
    """Offset in the data partition, size; fails as WRITE_DATA would there, and writes nothing."""


class FlashFailure(enum.IntEnum):
    """Word after NACK."""

    NO_IMAGE = 1
    """The data partition begins with FF or zeros, or is being written."""
    CORRUPT = 2
    """There is no known version, a broken header, or a length that is wrong."""
    ABSENT = 3
    """The engine has no such segment."""
    OUT_OF_RANGE = 4
    """Offset and size reach past the segment's end."""
    UNKNOWN_COMMAND = 5
    """This kind of client has no such command."""
    BAD_REQUEST = 6
    """The command takes another number of words or bytes."""
    CHIP_FAILED = 7
    """The chip is protected, does not keep what was programmed, or its file failed."""
    BAD_SERVER_IMAGE = 8
    """The boot image is not ours, damaged, cut short or too long."""
    OUT_OF_ORDER = 9
    """A piece does not follow the previous one."""
    REFUSED = 10
    """Of the client's side only: the model is longer than its limit."""
    IN_USE = 11
    """WRITE_DATA or CHECK_WRITE where an engine runs relocatable code in place; nothing was erased."""


FAILURE_TEXTS: Final = {
    FlashFailure.NO_IMAGE: "the data partition holds no image for this client",
    FlashFailure.CORRUPT: "the image in the data partition is corrupt",
    FlashFailure.ABSENT: "the image has no such segment for this client",
    FlashFailure.OUT_OF_RANGE: "offset and size reach past the end",
    FlashFailure.UNKNOWN_COMMAND: "the flash server does not know this command on this channel",
    FlashFailure.BAD_REQUEST: "the command takes another number of words or bytes",
    FlashFailure.CHIP_FAILED: "the flash chip failed",
    FlashFailure.BAD_SERVER_IMAGE: "the server image is not valid and was not stored",
    FlashFailure.OUT_OF_ORDER: "the piece does not follow the previous one; begin again at offset 0",
    FlashFailure.REFUSED: "the client refused what it was offered",
    FlashFailure.IN_USE: "an engine runs code in place from there",
}


def failure_text(code: int) -> str:
    """Return the meaning of a failure's code."""
    known = code in FAILURE_TEXTS
    return (
        FAILURE_TEXTS[FlashFailure(code)]
        if known
        else f"the server failed with code {code}, which is not known"
    )


class FlashReadError(FlashError):
    """A command failed; `code` says why. The channel is ready for the next command."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = FlashFailure(code) if code in FAILURE_TEXTS else code


_NAMES: Final = {int(command): command.name for command in FlashCommand}


class FlashRequest(Struct, frozen=True):
    """A command word, its argument words, and its data."""

    command: int
    arguments: tuple[int, ...] = ()
    data: bytes = b""

    def __bytes__(self) -> bytes:
        """The data tokens of the request."""
        return struct.pack(f">{1 + len(self.arguments)}I", self.command, *self.arguments) + self.data

    def __str__(self) -> str:
        name = _NAMES.get(self.command) or f"command 0x{self.command:x}"
        words = "".join(f" {argument}" for argument in self.arguments)
        return f"{name}{words}" + (f" and {len(self.data)} bytes" if self.data else "")
