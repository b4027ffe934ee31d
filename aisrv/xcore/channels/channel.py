"""The three protocols over a pair of channel ends, under the names of `lib_xcore`.

Normal (`chan_…`, XC's `c <: x`): every value is framed by a handshake of END tokens. Streaming
(`s_chan_…`): bare outputs over a route that stays open. Transaction (`t_chan_…`): one handshake around many
values in both directions. `c` is the channel end that a verb works on, `tc` an open transaction. Source:
lib_xcore's channel.h, channel_streaming.h and channel_transaction.h.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.handover import await_direct, deliver_directly, publish, take_published
from aisrv.xcore.channels.verb import Steps, Verb, verb
from aisrv.xcore.tokens import WORD_BYTES, Control, word_to_wire, words_to_wire
from aisrv.xcore.traps import check_size

T = TypeVar("T")

_END: Final = Control.END


class Channel(NamedTuple):
    """Two ends, each the other's destination."""

    a: ChanEnd
    b: ChanEnd


# Normal channels.


def _out(c: ChanEnd, data: bytes) -> Steps[None]:
    """Normal output: END, await END, the data, END, await END."""
    if deliver_directly(c, data):
        return
    yield from c.lone_packet(b"")
    if (yield from publish(c, data)):
        return
    while not c.take_control(_END):
        yield
    yield from c.lone_packet(data)
    while not c.take_control(_END):
        yield


def _in(c: ChanEnd, count: int, convert: Callable[[bytes], T]) -> Steps[T]:
    """Normal input of `count` bytes: await END, END, the data, await END, END."""
    if count < 0:
        check_size(count, "bytes to input")
    if delivered := (yield from await_direct(c, count)):
        return convert(delivered.data)
    while not c.take_control(_END):
        yield
    if data := take_published(c, count):
        return convert(data)
    yield from c.lone_packet(b"")
    data = yield from c.input(count)
    while not c.take_control(_END):
        yield
    yield from c.lone_packet(b"")
    return convert(data)


@verb
def chan_out_word(c: ChanEnd, word: int) -> Steps[None]:
    """Output one word: `c <: word`."""
    return _out(c, word_to_wire(word))


@verb
def chan_in_word(c: ChanEnd) -> Steps[int]:
    """Input one word: `c :> word`."""
    return _in(c, WORD_BYTES, int.from_bytes)


@verb
def chan_out_two_words(c: ChanEnd, first: int, second: int) -> Steps[None]:
    """Output `first` and `second`: `chan_out_word` twice."""
    yield from _out(c, word_to_wire(first))
    yield from _out(c, word_to_wire(second))


@verb
def chan_in_two_words(c: ChanEnd) -> Steps[tuple[int, int]]:
    """Input two words: `chan_in_word` twice."""
    first = yield from _in(c, WORD_BYTES, int.from_bytes)
    return first, (yield from _in(c, WORD_BYTES, int.from_bytes))


@verb
def chan_out_byte(c: ChanEnd, byte: int) -> Steps[None]:
    """Output one byte."""
    return _out(c, bytes((byte & 0xFF,)))


@verb
def chan_in_byte(c: ChanEnd) -> Steps[int]:
    """Input one byte."""
    return _in(c, 1, int.from_bytes)


@verb
def chan_out_buf_word(c: ChanEnd, block: bytes) -> Steps[None]:
    """Output a block of little-endian words under one handshake; both sides know its length."""
    return _out(c, words_to_wire(block))


@verb
def chan_in_buf_word(c: ChanEnd, count: int) -> Steps[bytes]:
    """Input a block of `count` words as little-endian memory."""
    return _in(c, count * WORD_BYTES, words_to_wire)


@verb
def chan_out_buf_byte(c: ChanEnd, data: bytes) -> Steps[None]:
    """Output `data` under one handshake; both sides know its length."""
    return _out(c, bytes(data))


@verb
def chan_in_buf_byte(c: ChanEnd, count: int) -> Steps[bytes]:
    """Input a block of `count` bytes."""
    return _in(c, count, bytes)


# Streaming channels: the instructions themselves.


s_chan_out_word: Final = ChanEnd.outuint
s_chan_in_word: Final = ChanEnd.inuint
s_chan_out_byte: Final = ChanEnd.outuchar
s_chan_in_byte: Final = ChanEnd.inuchar


def s_chan_out_ct_end(c: ChanEnd) -> "Verb[None]":
    """Close the route of a streaming channel in this direction."""
    return c.outct(_END)


def s_chan_check_ct_end(c: ChanEnd) -> "Verb[None]":
    """Await the END with which the other side closed its route."""
    return c.chkct(_END)


# Transactions.


class Transaction:
    """A transaction on a channel end, opened by `chan_init_transaction_master` or `…_slave`.

    The end must not be used otherwise until `chan_complete_transaction`. At each change of direction the side
    that was sending closes its route with END and the side that begins to send awaits that END. `last_out`
    says whether this side sent last.
    """

    __slots__ = ("c", "last_out", "run_verb")

    def __init__(self, c: ChanEnd, last_out: bool) -> None:
        self.c = c
        self.last_out = last_out
        self.run_verb = c.run_verb

    @property
    def is_stepping(self) -> bool:
        """Return whether a verb on the end is being stepped right now."""
        return self.c.is_stepping

    def out_steps(self, data: bytes) -> Steps[None]:
        """Output data, after awaiting the other side's END where the direction changes."""
        if not self.last_out:
            yield from self.c.chkct(_END)
            self.last_out = True
        yield from self.c.outbytes(data)

    def in_steps(self, count: int) -> Steps[bytes]:
        """Input `count` bytes, after sending END where the direction changes."""
        if self.last_out:
            yield from self.c.outct(_END)
            self.last_out = False
        return (yield from self.c.inbytes(count))


@verb
def chan_init_transaction_master(c: ChanEnd) -> Steps[Transaction]:
    """Open a transaction; the other side answers with `chan_init_transaction_slave`."""
    yield from c.outct(_END)
    return Transaction(c, last_out=False)


@verb
def chan_init_transaction_slave(c: ChanEnd) -> Steps[Transaction]:
    """Join a transaction that the master opens."""
    yield from c.chkct(_END)
    return Transaction(c, last_out=True)


@verb
def t_chan_out_word(tc: Transaction, word: int) -> Steps[None]:
    """Output one word within a transaction."""
    return tc.out_steps(word_to_wire(word))


@verb
def t_chan_in_word(tc: Transaction) -> Steps[int]:
    """Input one word within a transaction."""
    return int.from_bytes((yield from tc.in_steps(WORD_BYTES)))


@verb
def t_chan_out_byte(tc: Transaction, byte: int) -> Steps[None]:
    """Output one byte within a transaction."""
    return tc.out_steps(bytes((byte & 0xFF,)))


@verb
def t_chan_in_byte(tc: Transaction) -> Steps[int]:
    """Input one byte within a transaction."""
    return (yield from tc.in_steps(1))[0]


@verb
def t_chan_out_buf_word(tc: Transaction, block: bytes) -> Steps[None]:
    """Output a block of little-endian words within a transaction."""
    return tc.out_steps(words_to_wire(block))


@verb
def t_chan_in_buf_word(tc: Transaction, count: int) -> Steps[bytes]:
    """Input a block of `count` words, as little-endian memory, within a transaction."""
    return words_to_wire((yield from tc.in_steps(count * WORD_BYTES)))


@verb
def t_chan_out_buf_byte(tc: Transaction, data: bytes) -> Steps[None]:
    """Output `data` within a transaction."""
    return tc.out_steps(bytes(data))


@verb
def t_chan_in_buf_byte(tc: Transaction, count: int) -> Steps[bytes]:
    """Input a block of `count` bytes within a transaction."""
    return tc.in_steps(count)


@verb
def chan_complete_transaction(tc: Transaction) -> Steps[None]:
    """Close the transaction: END travels both ways, the side that sent last going first."""
    if tc.last_out:
        yield from tc.c.outct(_END)
        yield from tc.c.chkct(_END)
    else:
        yield from tc.c.chkct(_END)
        yield from tc.c.outct(_END)
