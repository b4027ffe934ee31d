"""Wire values of the "ioserver" firmware: its commands, and the packet that opens one.

Values only, no I/O. Codes and layout follow XMOS's lib_tflite_micro, `api/ioserver.h` and `src/ioserver.c`;
docs/reference/ioserver.md tells what each command does. The codes overlap with those of `protocol.commands`:
a device speaks one protocol or the other. USB identity, endpoints and packet size are the same.
"""

import enum

from aisrv.protocol.commands import AisrvPacket
from aisrv.values.packet import U8
from aisrv.xcore.tokens import WORD_BYTES


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


class IoserverPacket(AisrvPacket, name="an ioserver command packet"):
    """The OUT packet that opens a command: command, model and tensor numbers.

    The command stays a plain integer: a host may send a code that nobody knows.
    """

    command: U8
    model: U8 = 0
    tensor: U8 = 0


def padded_length(length: int) -> int:
    """Return the bytes that a tensor of `length` bytes takes on the bus: it crosses as whole words."""
    return -(-length // WORD_BYTES) * WORD_BYTES
