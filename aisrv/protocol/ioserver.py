"""Wire values of the "ioserver" firmware: its commands, and the packet that opens one.

Values only, no I/O. Codes and layout follow XMOS's lib_tflite_micro, `api/ioserver.h` and `src/ioserver.c`;
docs/reference/ioserver.md tells what each command does. The codes overlap with those of `protocol.commands`:
a device speaks one protocol or the other. USB identity, endpoints and packet size are the same.
"""

import enum
import struct
from dataclasses import dataclass
from typing import Final, Self

from aisrv.protocol.commands import ProtocolError

WORD_BYTES: Final = 4
"""Tensors cross the bus as whole words: an output is padded, an input may be."""


class IoserverCommand(enum.IntEnum):
    """Commands of the ioserver firmware, under its own names where it has them."""

    INVOKE = 1
    """Run the model; the packet that follows, which hosts send empty, is taken and dropped."""
    TENSOR_SEND_OUTPUT = 2
    """The host reads an output tensor."""
    TENSOR_RECV_INPUT = 3
    """The host writes an input tensor."""
    RESET = 7
    """Give the model's variable tensors their first values; an empty packet may follow."""
    EXIT = 8
    """The host is done with the device."""


_FRAMING: Final = struct.Struct("<3B")


@dataclass(frozen=True, slots=True)
class IoserverPacket:
    """The OUT packet that opens a command: command, model and tensor numbers, a byte each.

    The command stays a plain integer: a host may send a code that nobody knows.
    """

    command: int
    model: int = 0
    tensor: int = 0

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a packet of 3 bytes; any other length is a ProtocolError."""
        if len(data) != _FRAMING.size:
            raise ProtocolError(f"an ioserver command packet has {_FRAMING.size} bytes, not {len(data)}")
        return cls(*_FRAMING.unpack(data))

    def __bytes__(self) -> bytes:
        try:
            return _FRAMING.pack(self.command, self.model, self.tensor)
        except struct.error as error:
            raise ProtocolError(f"{self} does not fit into three bytes: {error}") from None


def padded_length(length: int) -> int:
    """Bytes that a tensor of `length` bytes takes on the bus: whole words."""
    return -(-length // WORD_BYTES) * WORD_BYTES
