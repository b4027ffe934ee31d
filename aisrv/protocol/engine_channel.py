"""A command on the channel to an AI engine: both sides, in the order of the wire.

    client                                            engine
    SET   command, tensor
          data: words, END, 0 to 3 bytes, END
                                                      status, END: a bare word

    GET   command, tensor
                                                      status
                                                      where it is OKAY the data, in the same form

Command, tensor and the status of a GET are normal outputs (`xcore.channel`), data are arrays (`xcore.array`).
A client that gives a SET up sends NACK and END after whole words of the data, and no status comes.

Clients are physical layers, chained engines and local tasks. On a channel of its own a client is told what
has changed: one control token, which it answers with ACK. Source: "XCORE AI server: numbers and wire
behavior", section Channel to an AI engine.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from aisrv.protocol.commands import Command, Status, command_name
from aisrv.xcore.channels.array import (
    Array,
    abandon_array,
    drop_array,
    own_pages,
    receive_array,
    receive_array_piece,
    receive_word,
    send_array,
    send_word_and_array,
)
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_two_words, chan_out_two_words, chan_out_word
from aisrv.xcore.channels.listener import Answer, Call
from aisrv.xcore.channels.verb import Steps, Verb, verb, whole_verb
from aisrv.xcore.tokens import Control, word_to_wire
from aisrv.xcore.trace import TracedEnd, Tracer, report_array, report_normal_output, report_packet

AT_ONCE: Final = 1 << 18
"""Bytes that cross without letting other tasks run, where both sides are ready; a multiple of 4."""

MAX_ARRAY = 64 * 1024 * 1024
"""Bytes that a client accepts of an answer; an engine's tensors are far smaller."""

# Plain integers: operations of an enum show in the time of a command.
_OKAY: Final = int(Status.OKAY)
_START_INFER: Final = int(Command.START_INFER)

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

# Whole commands, as clients use them. One whose task is cancelled does not leave the engine in the middle:
# it goes on by itself, or is given up as a client may, and the next one on the channel waits for that.


async def set_command(c: ChanEnd, command: int, tensor: int = 0, data: bytes | memoryview = b"") -> Status:
    """Carry out a SET command with all of its data.

    `tensor` is the number of the tensor. A view of memory must stay as it is until the next command.
    """
    call = Call(command, tensor, data, 0)
    # An inference takes the engine's core in any case.
    if command != _START_INFER and len(data) <= AT_ONCE and (answer := await c.call(call, _report_set)):
        return _status(answer[0])
    return await _set_command(c, call)


@whole_verb
def _set_command(c: ChanEnd, call: Call) -> Steps[Status]:
    if len(call.array) > AT_ONCE or (handed := c.hand_over(call)) is None:
        yield from chan_out_two_words(c, call.first, call.second)
        return (yield from end_set(c, call.array))
    while handed.answer is None:
        yield
    return _status(handed.answer[0])


def _status(word: int) -> Status:
    """Return the status that a word stands for, which mostly is one: looking up a member takes time."""
    return word if isinstance(word, Status) else Status(word)


async def get_command(c: ChanEnd, command: int, tensor: int = 0) -> tuple[Status, bytes]:
    """Carry out a GET command; the data are empty where the status is not OKAY.

    `tensor` is the number of the tensor.
    """
    if answer := await c.call(Call(command, tensor, b"", MAX_ARRAY), _report_get):
        return _status(answer[0]), answer[1]
    return await _get_command(c, command, tensor)


@whole_verb
def _get_command(c: ChanEnd, command: int, tensor: int) -> Steps[tuple[Status, bytes]]:
    status, data = yield from _ask(c, command, tensor, MAX_ARRAY)
    if status:
        return status, b""
    return status, bytes((yield from receive_array(c, MAX_ARRAY)).data) if data is None else data


async def set_large(c: ChanEnd, command: int, tensor: int, data: bytes | memoryview) -> Status:
    """Run `set_command` and let other tasks run, which that does not if the engine takes the data at once."""
    if len(data) <= AT_ONCE:
        return await set_command(c, command, tensor, data)
    await begin_set(c, command, tensor)
    with _given_up_by(c, abandon_array):
        done = 0
        while len(data) - done > AT_ONCE:
            await c.outwords(data[done : done + AT_ONCE])
            done += AT_ONCE
            await c.runtime.let_others_run()
        return await end_set(c, data[done:])


async def get_large(c: ChanEnd, command: int, tensor: int = 0) -> tuple[Status, bytes | memoryview]:
    """Run `get_command` and let other tasks run, which that does not if the data are there.

    Data of more than AT_ONCE bytes are a view of memory of their own.
    """
    status, data, last = await begin_get(c, command, tensor, AT_ONCE)
    if last:
        return status, data
    pages = own_pages(MAX_ARRAY)
    kept = pages.write(data)
    with _given_up_by(c, drop_array):
        while not last:
            await c.runtime.let_others_run()
            data, last = await receive_piece(c, AT_ONCE)
            kept += pages.write(data[: MAX_ARRAY - kept])
    return status, memoryview(pages).toreadonly()[:kept]


@contextmanager
def _given_up_by(c: ChanEnd, rest: "Callable[[ChanEnd], Verb[None]]") -> Iterator[None]:
    """Where the task is cancelled in the middle of a command, carry out its `rest`, unless a verb does."""
    left = c.left
    try:
        yield
    except trio.Cancelled:
        if c.left is left:
            c.leave(rest)
        raise


# The command.


def receive_command(c: ChanEnd) -> "Verb[tuple[int, int]]":
    """Engine: receive a command and the number of a tensor."""
    return chan_in_two_words(c)


# SET: the data, then the status.


@whole_verb
def begin_set(c: ChanEnd, command: int, tensor: int) -> Steps[None]:
    """Client: begin a SET whose data come in pieces: `ChanEnd.outwords`, then `end_set` or `abandon_set`.

    `command` and `tensor` are the two words that open it. Where the task is cancelled it is given up.
    """
    yield from chan_out_two_words(c, command, tensor)
    if c.is_left:
        yield from abandon_array(c)


def receive_set(c: ChanEnd, limit: int) -> "Verb[Array]":
    """Engine: receive the data, keeping `limit` bytes at most; ArrayAbandoned where the client gave up."""
    return receive_array(c, limit)


@whole_verb
def end_set(c: ChanEnd, rest: bytes | memoryview) -> Steps[Status]:
    """Client: send `rest`, the last piece of the data, of any length, and await the status."""
    yield from send_array(c, rest)
    status = yield from c.inuint()
    while not c.take_control(Control.END):
        yield
    return Status(status)


@verb
def answer_set(c: ChanEnd, status: Status) -> Steps[None]:
    """Engine: send the status."""
    return c.packet(word_to_wire(status))


@whole_verb
def abandon_set(c: ChanEnd) -> Steps[None]:
    """Client: give up in the middle of the data: the engine forgets the command, no status comes."""
    yield from abandon_array(c)


# GET: the status, then the data.


def _ask(c: ChanEnd, command: int, tensor: int, room: int) -> Steps[tuple[Status, bytes | None]]:
    yield from chan_out_two_words(c, command, tensor)
    status, data = yield from receive_word(c, room)
    return Status(status), data


def answer_get(c: ChanEnd, data: bytes | memoryview) -> "Verb[None]":
    """Engine: send OKAY and the data."""
    return send_word_and_array(c, _OKAY, data)


def refuse_get(c: ChanEnd, status: Status) -> "Verb[None]":
    """Engine: send a status other than OKAY; no data follow."""
    return chan_out_word(c, status)


async def begin_get(c: ChanEnd, command: int, tensor: int, size: int) -> tuple[Status, bytes, bool]:
    """Client: begin a GET: its status, the first `size` bytes of the data, and whether they were the last.

    Fetch the rest with `receive_piece`. Where the status is not OKAY there are none. `command` and `tensor`
    are the two words that open it. Where the task is cancelled the data are dropped, here and there.
    """
    if answer := await c.call(Call(command, tensor, b"", size), _report_get):
        return _status(answer[0]), answer[1], True
    return await _begin_get(c, command, tensor, size)


@whole_verb
def _begin_get(c: ChanEnd, command: int, tensor: int, size: int) -> Steps[tuple[Status, bytes, bool]]:
    status, whole = yield from _ask(c, command, tensor, size)
    if status:
        return status, b"", True
    if whole is not None:
        return status, whole, True
    data, last = yield from receive_piece(c, size)
    return status, data, last


@whole_verb
def receive_piece(c: ChanEnd, size: int) -> Steps[tuple[bytes, bool]]:
    """Client: fetch the next `size` bytes of a GET's data, and whether they were the last.

    Only the last piece is shorter. `size` must be a multiple of 4.
    """
    data, last = yield from receive_array_piece(c, size)
    if c.is_left and not last:
        yield from drop_array(c)
    return data, last


# What a tracer is told where the engine's select answers at once.


def _report_set(tracer: Tracer, client: TracedEnd, engine: TracedEnd, call: Call, answer: Answer) -> None:
    _report_command(tracer, client, engine, call)
    report_array(tracer, client, engine, call.array)
    report_packet(tracer, engine, client, word_to_wire(answer[0]))
    tracer.command_ended(client.user, command_name(call.first), engine, client.tick)


def _report_get(tracer: Tracer, client: TracedEnd, engine: TracedEnd, call: Call, answer: Answer) -> None:
    _report_command(tracer, client, engine, call)
    status, data = answer
    report_normal_output(tracer, engine, client, word_to_wire(status))
    if status == _OKAY:
        report_array(tracer, engine, client, data)
    tracer.command_ended(client.user, command_name(call.first), engine, client.tick)


def _report_command(tracer: Tracer, client: TracedEnd, engine: TracedEnd, call: Call) -> None:
    tracer.command_began(client.user, command_name(call.first), engine, client.tick)
    for word in (call.first, call.second):
        report_normal_output(tracer, client, engine, word_to_wire(word))


# Notifications.


class Watcher:
    """Engine: a client that is notified of changes; `c` is a channel end just for that."""

    def __init__(self, c: ChanEnd) -> None:
        self._c = c
        self._unanswered: deque[int] = deque()

    async def notify(self, notification: int) -> None:
        """Send a token unless the same is on its way: never more than one of each, so it cannot block.

        `notification` is its control token.
        """
        while self._unanswered and self._c.ready:
            await self._c.chkct(Control.ACK)
            self._unanswered.popleft()
        if notification not in self._unanswered:
            self._unanswered.append(notification)
            await self._c.outct(notification)


@verb
def take_notification(c: ChanEnd) -> Steps[int]:
    """Client: take a token that says what has changed, and acknowledge it."""
    notification = yield from c.inct()
    yield from c.outct(Control.ACK)
    return notification
