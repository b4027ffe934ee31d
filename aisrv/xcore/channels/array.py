"""Arrays over a channel end: whole words, END, the 0 to 3 bytes left over, END.

Source: "XCORE AI server: numbers and wire behavior", section Channel to an AI engine. A sender that has
to give an array up in the middle (a bus reset ends the host's transfer) sends NACK and END instead: the
receiver raises `ArrayAbandoned` and the channel is free for the next command.
"""

import mmap
from io import BytesIO
from typing import Final

from msgspec import Struct

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.channels.handover import await_direct, deliver_directly
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.tokens import PIECE_BYTES, WORD_BYTES, Control, words_to_wire
from aisrv.xcore.traps import Trap, TrapKind, check_size

LARGE_BYTES: Final = 4 << 20
"""Bytes above which data are never copied, moved or delivered as a whole, which would take milliseconds.

Below, memory that grows is quicker: what was given back is used again, and no new pages are needed.
"""


def own_pages(size: int) -> mmap.mmap:
    """Take memory of `size` bytes that is filled piece by piece: each page costs its time when it is written.

    Memory that grows as it is filled would be moved as a whole again and again.
    """
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class ArrayAbandoned(Exception):
    """The sender gave the array up; nothing of it counts."""


class Array(Struct):
    """A received array, truncated to `limit` bytes, with its full length."""

    data: bytes | memoryview
    """The bytes that were kept; a view of memory of its own where there are more than LARGE_BYTES."""
    length: int
    """Bytes that were sent."""

    @property
    def overflowed(self) -> bool:
        """Return whether bytes past the limit were dropped."""
        return self.length > len(self.data)


@verb
def send_array(c: ChanEnd, data: bytes | bytearray | memoryview) -> Steps[None]:
    """Send all of `data` as an array."""
    whole = len(data) & -WORD_BYTES
    done = 0
    while whole - done > PIECE_BYTES:
        yield from c.outwords(data[done : done + PIECE_BYTES])
        done += PIECE_BYTES
    yield from c.packet(words_to_wire(data[done:whole]))
    yield from c.packet(bytes(data[whole:]))


@verb
def abandon_array(c: ChanEnd) -> Steps[None]:
    """Give up an array of which only words were sent so far."""
    yield from c.outct(Control.NACK)
    yield from c.outct(Control.END)


@verb
def receive_array(c: ChanEnd, limit: int) -> Steps[Array]:
    """Receive an array to its end, keeping `limit` bytes of it at most.

    Raises ArrayAbandoned where the sender gave it up; a part that is not made of words, or a tail of
    more than 3 bytes, traps with ILLEGAL_RESOURCE.
    """
    check_size(limit, "limit of an array")
    data: BytesIO | mmap.mmap = BytesIO()  # whose value is the bytes themselves, not a copy
    rest = b""  # the beginning of a word
    kept = length = 0
    while True:
        while (run := c.take_until_control(PIECE_BYTES)) is None:
            yield
        if isinstance(run, int):
            break
        length += len(run)
        if kept < limit:
            wire = rest + run
            whole = len(wire) & -WORD_BYTES
            words = words_to_wire(wire[:whole])
            if kept <= LARGE_BYTES < kept + whole and isinstance(data, BytesIO):
                start, data = data.getvalue(), own_pages(limit)
                data.write(start)
            kept += data.write(words if whole <= limit - kept else words[: limit - kept])
            rest = wire[whole:]
    if run == Control.NACK:
        yield from c.chkct(Control.END)
        raise ArrayAbandoned
    tail = yield from _tail(c, run, length)
    if kept == length:
        kept += data.write(tail[: limit - kept])
    kept_data = data.getvalue() if isinstance(data, BytesIO) else memoryview(data).toreadonly()[:kept]
    return Array(kept_data, length + len(tail))


@verb
def receive_array_piece(c: ChanEnd, size: int) -> Steps[tuple[bytes, bool]]:
    """Receive the next `size` bytes of an array, a multiple of 4, and whether they were its last.

    Only the last piece is shorter, and it traps as `receive_array` does.
    """
    check_size(size, "bytes of an array")
    wire = bytearray()
    while len(wire) < size:
        while (run := c.take_until_control(size - len(wire))) is None:
            yield
        if isinstance(run, int):
            tail = yield from _tail(c, run, len(wire))
            return words_to_wire(wire) + tail, True
        wire += run
    return words_to_wire(wire), False


@verb
def drop_array(c: ChanEnd) -> Steps[None]:
    """Receive the rest of an array that nobody wants; it traps as `receive_array` does."""
    is_last = False
    while not is_last:
        _, is_last = yield from receive_array_piece(c, PIECE_BYTES)


@verb
def send_word_and_array(c: ChanEnd, word: int, data: bytes | bytearray | memoryview) -> Steps[None]:
    """Send a word as a normal output, then an array; in one go where the other side waits for that.

    The array is `data`. After a word other than 0, which refuses, the other side may not take it: it crosses.
    """
    if word or len(data) > LARGE_BYTES or not deliver_directly(c, bytes(WORD_BYTES), data):
        yield from chan_out_word(c, word)
        yield from send_array(c, data)


@verb
def receive_word(c: ChanEnd, room: int) -> Steps[tuple[int, bytes | None]]:
    """Receive a word as a normal input, and the array that follows it where that came along.

    Only an array shorter than `room` bytes comes along, and after a word of 0: others, None here, are
    received after the word.
    """
    if delivered := (yield from await_direct(c, WORD_BYTES, room)):
        return int.from_bytes(delivered.data), delivered.array
    return (yield from chan_in_word(c)), None


def _tail(c: ChanEnd, token: int, length: int) -> Steps[bytes]:
    """Receive what follows the `length` bytes of words that a control token ended: 0 to 3 bytes and END.

    Traps with ILLEGAL_RESOURCE where that token was not END, or what it ended was not words.
    """
    if token != Control.END or length % WORD_BYTES:
        raise Trap(
            TrapKind.ILLEGAL_RESOURCE, f"array on {c.name}: control token {token} after {length} bytes"
        )
    tail = bytearray()
    while True:
        while (run := c.take_until_control(WORD_BYTES - len(tail))) is None:
            yield
        if isinstance(run, int):
            break
        tail += run
        if len(tail) >= WORD_BYTES:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"array on {c.name}: more than 3 bytes after its words")
    if run != Control.END:
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"array on {c.name}: control token {run} in its tail")
    return bytes(tail)
