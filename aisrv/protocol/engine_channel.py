"""The client's side of the channel to an AI engine: a command, its data, its status.

Source: "XCORE AI server: numbers and wire behavior", section Channel to an AI engine. Physical layers,
chained engines and local tasks are such clients.
"""

from typing import Final

from aisrv.protocol.commands import Status
from aisrv.xcore.array import abandon_array_steps, array_tail_steps, receive_array_steps, send_array_steps
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.channel import chan_in_steps, chan_out_steps
from aisrv.xcore.tokens import WORD_BYTES, Control, words_to_wire
from aisrv.xcore.verb import Steps

MAX_ARRAY = 64 * 1024 * 1024
"""Bytes that a client accepts of an answer; an engine's tensors are far smaller."""

RESET_VARIABLES: Final = 0x180
"""A SET without data that the AI server's commands lack: the model's variable tensors get their first values.

The ioserver data task uses it. Only the engines of an ioserver device know it, since the design framing of
the AI server could name any code.
"""

MODEL_CHANGED: Final = 5
"""Control token by which an engine tells a client that its model has changed; the client answers ACK.

The engine sends no second one before the ACK. What a client asks after it covers every change before.
"""

OUTPUT_CHANGED: Final = 6
"""Control token by which an engine tells a client that its stream has new outputs; else as MODEL_CHANGED."""


def _command_steps(c: ChanEnd, command: int, tensor: int) -> Steps[None]:
    yield from chan_out_steps(c, command.to_bytes(WORD_BYTES, "big"))
    yield from chan_out_steps(c, tensor.to_bytes(WORD_BYTES, "big"))


def _set_status_steps(c: ChanEnd) -> Steps[Status]:
    word = yield from c.input_data(WORD_BYTES)
    yield from c.check_control(Control.END)
    return Status(int.from_bytes(word, "big"))


def _set_steps(c: ChanEnd, command: int, tensor: int, data: bytes) -> Steps[Status]:
    yield from _command_steps(c, command, tensor)
    yield from send_array_steps(c, data)
    return (yield from _set_status_steps(c))


def _end_set_steps(c: ChanEnd, rest: bytes) -> Steps[Status]:
    yield from send_array_steps(c, rest)
    return (yield from _set_status_steps(c))


def _get_status_steps(c: ChanEnd, command: int, tensor: int) -> Steps[Status]:
    yield from _command_steps(c, command, tensor)
    return Status(int.from_bytes((yield from chan_in_steps(c, WORD_BYTES)), "big"))


def _get_steps(c: ChanEnd, command: int, tensor: int) -> Steps[tuple[Status, bytes]]:
    status = yield from _get_status_steps(c, command, tensor)
    if status:
        return status, b""
    return status, bytes((yield from receive_array_steps(c, MAX_ARRAY)).data)


def _piece_steps(c: ChanEnd, size: int) -> Steps[tuple[bytes, bool]]:
    wire = bytearray()
    while len(wire) < size:
        run = yield from c.input_until_control(size - len(wire))
        if isinstance(run, int):
            tail = yield from array_tail_steps(c, run, len(wire))
            return words_to_wire(wire) + tail, True
        wire += run
    return words_to_wire(wire), False


def _begin_get_steps(c: ChanEnd, command: int, tensor: int, size: int) -> Steps[tuple[Status, bytes, bool]]:
    status = yield from _get_status_steps(c, command, tensor)
    if status:
        return status, b"", True
    data, last = yield from _piece_steps(c, size)
    return status, data, last


async def set_command(c: ChanEnd, command: int, tensor: int = 0, data: bytes = b"") -> Status:
    """Carry out a SET command with all of its data."""
    return await c.perform(f"set command 0x{command:02x}", _set_steps(c, command, tensor, data))


async def get_command(c: ChanEnd, command: int, tensor: int = 0) -> tuple[Status, bytes]:
    """Carry out a GET command; the data are empty where the status is not OKAY."""
    return await c.perform(f"get command 0x{command:02x}", _get_steps(c, command, tensor))


async def begin_get(c: ChanEnd, command: int, tensor: int, size: int) -> tuple[Status, bytes, bool]:
    """Begin a GET: its status, the first `size` bytes of the answer, and whether they were its last.

    Fetch the rest with `receive_piece`. Where the status is not OKAY there is no answer.
    """
    return await c.perform(f"get command 0x{command:02x}", _begin_get_steps(c, command, tensor, size))


async def receive_piece(c: ChanEnd, size: int) -> tuple[bytes, bool]:
    """Fetch the next `size` bytes of a GET's answer, and whether they were its last.

    Only the last piece is shorter. `size` must be a multiple of 4.
    """
    return await c.perform("answer", _piece_steps(c, size))


async def begin_set(c: ChanEnd, command: int, tensor: int) -> None:
    """Begin a SET whose data come in pieces: `ChanEnd.outwords`, then `end_set` or `abandon_set`."""
    await c.perform(f"set command 0x{command:02x}", _command_steps(c, command, tensor))


async def end_set(c: ChanEnd, rest: bytes) -> Status:
    """Send the last piece of a SET's data, of any length, and await the status."""
    return await c.perform("end of set command", _end_set_steps(c, rest))


async def abandon_set(c: ChanEnd) -> None:
    """Give up a SET in the middle of its data: the engine forgets it, no status comes."""
    await c.perform("abandon set command", abandon_array_steps(c))
