"""The verbs of the substrate by name, of the single tokens of the model."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.support.oracles.substrate.draws import KEPT, SET, answer_to
from tests.support.oracles.substrate.model import (
    CONTROL,
    END,
    NACK,
    NOBODY,
    Abandoned,
    Core,
    End,
    Model,
    Steps,
    Trapped,
)

MOST: Final = 1 << 26
"""Bytes that a client takes of an answer."""


def reversed_words(data: bytes) -> bytes:
    """Words in memory as on the wire, and back."""
    return b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))


# Instructions.


def _outuint(m: Model, core: Core, end: int, word: int) -> Steps[None]:
    return m.put_data(core, end, word.to_bytes(4))


def _outct(m: Model, core: Core, end: int, token: int) -> Steps[None]:
    return m.put(core, end, CONTROL + token)


def _inuint(m: Model, core: Core, end: int) -> Steps[int]:
    return int.from_bytes((yield from m.take_data(core, end, 4)))


def _inuchar(m: Model, core: Core, end: int) -> Steps[int]:
    return int.from_bytes((yield from m.take_data(core, end, 1)))


def _inwords(m: Model, core: Core, end: int, count: int) -> Steps[bytes]:
    return reversed_words((yield from m.take_data(core, end, 4 * count)))


def _chkct(m: Model, core: Core, end: int, token: int) -> Steps[None]:
    yield from m.take_control(core, end, token)


def _testct(m: Model, core: Core, end: int) -> Steps[bool]:
    return (yield from m.see(core, end)) >= CONTROL


def _testwct(m: Model, core: Core, end: int) -> Steps[int]:
    buffer = m.end_of(core, end).buffer
    while max(buffer[:4], default=0) < CONTROL and len(buffer) < 4:
        yield None
    return next((place for place, token in enumerate(buffer[:4], 1) if token >= CONTROL), 0)


def _setd(m: Model, core: Core, end: int, destination: int, may_be: bool = True) -> Steps[None]:
    if m.end_of(core, end).route is not None or not may_be:
        raise Trapped
    m.ends[end].destination = destination
    return
    yield


def _set_id(m: Model, core: Core, end: int, _id: int, may_be: bool) -> Steps[None]:
    return _setd(m, core, end, NOBODY, may_be)


def _free(m: Model, core: Core, end: int) -> Steps[None]:
    freed = m.end_of(core, end)
    if freed.buffer or freed.source is not None or freed.route is not None:
        raise Trapped
    freed.allocated = False
    return
    yield


def _allocate(m: Model, _core: Core, end: int, destination: int) -> Steps[None]:
    if not m.ends[end].allocated:
        m.ends[end] = End(m.ends[end].tile, destination)
    return
    yield


# Select.


def _select(m: Model, core: Core, ends: tuple[int, ...]) -> Steps[int]:
    _check_tiles(m, core, ends)
    ready = m.ready(ends)
    parks = not ready
    while not ready:
        yield None
        ready = m.ready(ends)
    while m.freely:  # an end may get ready while the choice is open
        chosen: int | None = yield m.ready(ends)
        if chosen is not None:
            return chosen
    return min(ready, key=lambda end: m.ends[end].ready_since) if parks else ready[0]


def _select_or_default(m: Model, core: Core, ends: tuple[int, ...]) -> Steps[int | None]:
    _check_tiles(m, core, ends)
    return next(iter(m.ready(ends)), None)
    yield


def _check_tiles(m: Model, core: Core, ends: tuple[int, ...]) -> None:
    if any(core.tile not in (None, m.ends[end].tile) for end in ends):
        raise Trapped


# Normal channels and transactions.


def _chan_out(m: Model, core: Core, end: int, data: bytes) -> Steps[None]:
    yield from _outct(m, core, end, END)
    yield from _chkct(m, core, end, END)
    yield from m.put_data(core, end, data)
    yield from _outct(m, core, end, END)
    yield from _chkct(m, core, end, END)


def _chan_in(m: Model, core: Core, end: int, count: int) -> Steps[bytes]:
    yield from _chkct(m, core, end, END)
    yield from _outct(m, core, end, END)
    data = yield from m.take_data(core, end, count)
    yield from _chkct(m, core, end, END)
    yield from _outct(m, core, end, END)
    return data


def _out_word(m: Model, core: Core, end: int, word: int) -> Steps[None]:
    return _chan_out(m, core, end, word.to_bytes(4))


def _in_word(m: Model, core: Core, end: int) -> Steps[int]:
    return int.from_bytes((yield from _chan_in(m, core, end, 4)))


def _out_two_words(m: Model, core: Core, end: int, first: int, second: int) -> Steps[None]:
    yield from _out_word(m, core, end, first)
    yield from _out_word(m, core, end, second)


def _in_two_words(m: Model, core: Core, end: int) -> Steps[tuple[int, int]]:
    first = yield from _in_word(m, core, end)
    return first, (yield from _in_word(m, core, end))


def _transaction(
    m: Model, core: Core, end: int, script: Sequence[bytes | int], sent_last: bool
) -> Steps[bytes]:
    """What follows the opening END: at each change of direction one more END."""
    got = b""
    for part in script:
        if isinstance(part, bytes):
            if not sent_last:
                yield from _chkct(m, core, end, END)
            yield from m.put_data(core, end, part)
        else:
            if sent_last:
                yield from _outct(m, core, end, END)
            got += yield from m.take_data(core, end, part)
        sent_last = isinstance(part, bytes)
    closing = (_outct, _chkct) if sent_last else (_chkct, _outct)
    for step in closing:
        yield from step(m, core, end, END)
    return got


def _master(m: Model, core: Core, end: int, script: Sequence[bytes | int]) -> Steps[bytes]:
    yield from _outct(m, core, end, END)
    return (yield from _transaction(m, core, end, script, sent_last=False))


def _slave(m: Model, core: Core, end: int, script: Sequence[bytes | int]) -> Steps[bytes]:
    yield from _chkct(m, core, end, END)
    return (yield from _transaction(m, core, end, script, sent_last=True))


# Arrays.


def _send_array(m: Model, core: Core, end: int, data: bytes) -> Steps[None]:
    whole = len(data) // 4 * 4
    yield from m.put_data(core, end, reversed_words(data[:whole]))
    yield from _outct(m, core, end, END)
    yield from m.put_data(core, end, data[whole:])
    yield from _outct(m, core, end, END)


def _abandon(m: Model, core: Core, end: int) -> Steps[None]:
    yield from _outct(m, core, end, NACK)
    yield from _outct(m, core, end, END)


def _take_until_control(m: Model, core: Core, end: int, limit: int) -> Steps[tuple[bytes, int | None]]:
    data = b""
    while len(data) < limit:
        token = yield from m.see(core, end)
        m.take(core, end)
        if token >= CONTROL:
            return data, token - CONTROL
        data += bytes((token,))
    return data, None


def _tail(m: Model, core: Core, end: int) -> Steps[bytes]:
    data, token = yield from _take_until_control(m, core, end, 4)
    m.is_vague |= token is None
    if token != END:
        raise Trapped
    return data


def _receive_array(m: Model, core: Core, end: int, limit: int) -> Steps[tuple[bytes, int]]:
    data, token = yield from _take_until_control(m, core, end, MOST)
    if token == NACK:
        yield from _chkct(m, core, end, END)
        raise Abandoned
    if token != END or len(data) % 4:
        raise Trapped
    data = reversed_words(data) + (yield from _tail(m, core, end))
    return data[:limit], len(data)


def _receive_piece(m: Model, core: Core, end: int, size: int) -> Steps[tuple[bytes, bool]]:
    data, token = yield from _take_until_control(m, core, end, size)
    if token is None:
        return reversed_words(data), False
    if token != END or len(data) % 4:
        raise Trapped
    return reversed_words(data) + (yield from _tail(m, core, end)), True


def _send_word_and_array(m: Model, core: Core, end: int, word: int, data: bytes) -> Steps[None]:
    yield from _out_word(m, core, end, word)
    yield from _send_array(m, core, end, data)


def _receive_word_and_array(
    m: Model, core: Core, end: int, _room: int, limit: int
) -> Steps[tuple[int, bytes, int]]:
    word = yield from _in_word(m, core, end)
    return word, *(yield from _receive_array(m, core, end, limit))


# Commands to servers.


def _get(m: Model, core: Core, end: int, command: int, tensor: int) -> Steps[tuple[int, bytes]]:
    yield from _out_two_words(m, core, end, command, tensor)
    status = yield from _in_word(m, core, end)
    return status, b"" if status else (yield from _receive_array(m, core, end, MOST))[0]


def _begin_get(
    m: Model, core: Core, end: int, command: int, tensor: int, size: int
) -> Steps[tuple[int, bytes, bool]]:
    yield from _out_two_words(m, core, end, command, tensor)
    status = yield from _in_word(m, core, end)
    return status, *((b"", True) if status else (yield from _receive_piece(m, core, end, size)))


def _set(m: Model, core: Core, end: int, command: int, tensor: int, data: bytes) -> Steps[int]:
    yield from _out_two_words(m, core, end, command, tensor)
    yield from _send_array(m, core, end, data)
    status = yield from _inuint(m, core, end)
    yield from _chkct(m, core, end, END)
    return status


def _serve(m: Model, core: Core, ends: tuple[int, ...]) -> Steps[None]:
    while True:
        end = yield from _select(m, core, ends)
        command, tensor = yield from _in_two_words(m, core, end)
        if not command & SET:
            core.log.append((command, tensor, None))
            status, data = answer_to(command, tensor)
            yield from _out_word(m, core, end, status)
            if not status:
                yield from _send_array(m, core, end, data)
            continue
        try:
            data, _ = yield from _receive_array(m, core, end, KEPT)
        except Abandoned:
            core.log.append((command, tensor, "abandoned"))
            continue
        core.log.append((command, tensor, data))
        yield from _outuint(m, core, end, answer_to(command, tensor, data)[0])
        yield from _outct(m, core, end, END)


def _in_until_control(m: Model, core: Core, end: int, limit: int) -> Steps[bytes | int]:
    first = yield from m.see(core, end)
    if first >= CONTROL:
        return m.take(core, end)[0] - CONTROL
    assert limit == 1  # how many of more come along, runs decide
    return bytes(m.take(core, end))


VERBS: Final[dict[str, Callable[..., Steps[Any]]]] = {
    "outuint": _outuint,
    "outuchar": lambda m, core, end, byte: m.put(core, end, byte),
    "outct": _outct,
    "outbytes": lambda m, core, end, data: m.put_data(core, end, data),
    "outwords": lambda m, core, end, data: m.put_data(core, end, reversed_words(data)),
    "inuint": _inuint,
    "inuchar": _inuchar,
    "inbytes": lambda m, core, end, count: m.take_data(core, end, count),
    "inwords": _inwords,
    "in_until_control": _in_until_control,
    "inct": lambda m, core, end: m.take_control(core, end),
    "chkct": _chkct,
    "testct": _testct,
    "testwct": _testwct,
    "setd": _setd,
    "set_id": _set_id,
    "free": _free,
    "allocate": _allocate,
    "select": _select,
    "select_or_default": _select_or_default,
    "chan_out": _chan_out,
    "chan_in": _chan_in,
    "chan_out_two_words": _out_two_words,
    "chan_in_two_words": _in_two_words,
    "master": _master,
    "slave": _slave,
    "send_array": _send_array,
    "abandon_array": _abandon,
    "receive_array": _receive_array,
    "receive_array_piece": _receive_piece,
    "send_word_and_array": _send_word_and_array,
    "receive_word_and_array": _receive_word_and_array,
    "get": _get,
    "begin_get": _begin_get,
    "set": _set,
    "serve": _serve,
}
