"""The client's side of the channel to an AI engine: a command, its data, its status.

Source: "XCORE AI server: numbers and wire behavior", section Channel to an AI engine. Physical layers,
chained engines and local tasks are such clients.
"""

from typing import Final

from aisrv.protocol.commands import Status
from aisrv.xcore.array import abandon_array, receive_array, receive_array_piece, send_array
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.channel import chan_in_word, chan_out_word
from aisrv.xcore.tokens import Control
from aisrv.xcore.verb import Steps, Verb, verb

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


@verb
def set_command(c: ChanEnd, command: int, tensor: int = 0, data: bytes = b"") -> Steps[Status]:
    """Carry out a SET command with all of its data."""
    yield from _command(c, command, tensor)
    return (yield from end_set(c, data))


@verb
def get_command(c: ChanEnd, command: int, tensor: int = 0) -> Steps[tuple[Status, bytes]]:
    """Carry out a GET command; the data are empty where the status is not OKAY."""
    status = yield from _begin_get(c, command, tensor)
    if status:
        return status, b""
    return status, bytes((yield from receive_array(c, MAX_ARRAY)).data)


@verb
def begin_get(c: ChanEnd, command: int, tensor: int, size: int) -> Steps[tuple[Status, bytes, bool]]:
    """Begin a GET: its status, the first `size` bytes of the answer, and whether they were its last.

    Fetch the rest with `receive_piece`. Where the status is not OKAY there is no answer.
    """
    status = yield from _begin_get(c, command, tensor)
    if status:
        return status, b"", True
    data, last = yield from receive_array_piece(c, size)
    return status, data, last


def receive_piece(c: ChanEnd, size: int) -> "Verb[tuple[bytes, bool]]":
    """Fetch the next `size` bytes of a GET's answer, and whether they were its last.

    Only the last piece is shorter. `size` must be a multiple of 4.
    """
    return receive_array_piece(c, size)


@verb
def begin_set(c: ChanEnd, command: int, tensor: int) -> Steps[None]:
    """Begin a SET whose data come in pieces: `ChanEnd.outwords`, then `end_set` or `abandon_set`."""
    return _command(c, command, tensor)


@verb
def end_set(c: ChanEnd, rest: bytes) -> Steps[Status]:
    """Send the last piece of a SET's data, of any length, and await the status."""
    yield from send_array(c, rest)
    status = yield from c.inuint()
    yield from c.chkct(Control.END)
    return Status(status)


def abandon_set(c: ChanEnd) -> "Verb[None]":
    """Give up a SET in the middle of its data: the engine forgets it, no status comes."""
    return abandon_array(c)


def _begin_get(c: ChanEnd, command: int, tensor: int) -> Steps[Status]:
    yield from _command(c, command, tensor)
    return Status((yield from chan_in_word(c)))


def _command(c: ChanEnd, command: int, tensor: int) -> Steps[None]:
    yield from chan_out_word(c, command)
    yield from chan_out_word(c, tensor)
