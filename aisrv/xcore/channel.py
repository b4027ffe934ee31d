"""The three protocols over a pair of channel ends, under the names of `lib_xcore`.

Normal (`chan_…`, XC's `c <: x`): every value is framed by a handshake of END tokens. Streaming (`s_chan_…`):
bare outputs over a route that stays open. Transaction (`t_chan_…`): one handshake around many values in
both directions. Source: lib_xcore's channel.h, channel_streaming.h and channel_transaction.h.

Functions ending in `_steps` are the same verbs in steps, for use inside larger ones (see `ChanEnd.perform`).
"""

from typing import NamedTuple

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.tokens import WORD_BYTES, Control, words_to_wire
from aisrv.xcore.verb import Steps


class Channel(NamedTuple):
    """Two ends, each the other's destination."""

    a: ChanEnd
    b: ChanEnd


def _word(word: int) -> bytes:
    return (word & 0xFFFFFFFF).to_bytes(WORD_BYTES, "big")


def chan_out_steps(c: ChanEnd, data: bytes) -> Steps[None]:
    """Normal output: END, await END, the data, END, await END."""
    if c.hand_over(data):
        return
    if not c.output_packet_at_once(b""):
        yield from c.output(Control.END)
    if (yield from c.offer(data)):
        return
    while not c.take_control(Control.END):
        yield
    if not c.output_packet_at_once(data):
        yield from c.output(data)
        yield from c.output(Control.END)
    while not c.take_control(Control.END):
        yield


def chan_in_steps(c: ChanEnd, count: int) -> Steps[bytes]:
    """Normal input of `count` bytes: await END, END, the data, await END, END."""
    if not c.ready:
        data = yield from c.take_handed(count)
        if data:
            return data
    while not c.take_control(Control.END):
        yield
    if data := c.take_offer(count):
        return data
    if not c.output_packet_at_once(b""):
        yield from c.output(Control.END)
    if not c.ready:
        yield
    data = c.take_run(count) or (yield from c.input_data(count))
    while not c.take_control(Control.END):
        yield
    if not c.output_packet_at_once(b""):
        yield from c.output(Control.END)
    return data


async def chan_out_word(c: ChanEnd, word: int) -> None:
    """Output one word: `c <: word`."""
    await c.perform("chan_out_word", chan_out_steps(c, _word(word)))


async def chan_in_word(c: ChanEnd) -> int:
    """Input one word: `c :> word`."""
    return int.from_bytes(await c.perform("chan_in_word", chan_in_steps(c, WORD_BYTES)), "big")


async def chan_out_byte(c: ChanEnd, byte: int) -> None:
    """Output one byte."""
    await c.perform("chan_out_byte", chan_out_steps(c, bytes((byte & 0xFF,))))


async def chan_in_byte(c: ChanEnd) -> int:
    """Input one byte."""
    return (await c.perform("chan_in_byte", chan_in_steps(c, 1)))[0]


async def chan_out_buf_word(c: ChanEnd, block: bytes) -> None:
    """Output a block of little-endian words under one handshake; both sides know its length."""
    await c.perform("chan_out_buf_word", chan_out_steps(c, words_to_wire(block)))


async def chan_in_buf_word(c: ChanEnd, count: int) -> bytes:
    """Input a block of `count` words as little-endian memory."""
    return words_to_wire(await c.perform("chan_in_buf_word", chan_in_steps(c, count * WORD_BYTES)))


async def chan_out_buf_byte(c: ChanEnd, data: bytes) -> None:
    """Output a block of bytes under one handshake; both sides know its length."""
    await c.perform("chan_out_buf_byte", chan_out_steps(c, bytes(data)))


async def chan_in_buf_byte(c: ChanEnd, count: int) -> bytes:
    """Input a block of `count` bytes."""
    return await c.perform("chan_in_buf_byte", chan_in_steps(c, count))


async def s_chan_out_word(c: ChanEnd, word: int) -> None:
    """Output one word on a streaming channel."""
    await c.outuint(word)


async def s_chan_in_word(c: ChanEnd) -> int:
    """Input one word from a streaming channel."""
    return await c.inuint()


async def s_chan_out_byte(c: ChanEnd, byte: int) -> None:
    """Output one byte on a streaming channel."""
    await c.outuchar(byte)


async def s_chan_in_byte(c: ChanEnd) -> int:
    """Input one byte from a streaming channel."""
    return await c.inuchar()


async def s_chan_out_ct_end(c: ChanEnd) -> None:
    """Close the route of a streaming channel in this direction."""
    await c.outct(Control.END)


async def s_chan_check_ct_end(c: ChanEnd) -> None:
    """Await the END with which the other side closed its route."""
    await c.chkct(Control.END)


class Transaction:
    """A transaction on a channel end, opened by `chan_init_transaction_master` or `…_slave`.

    The end must not be used otherwise until `chan_complete_transaction`. At each change of direction the
    side that was sending closes its route with END and the side that begins to send awaits that END.
    """

    __slots__ = ("c", "last_out")

    def __init__(self, c: ChanEnd, last_out: bool) -> None:
        self.c = c
        self.last_out = last_out

    def out_steps(self, data: bytes) -> Steps[None]:
        """Output data, after awaiting the other side's END where the direction changes."""
        if not self.last_out:
            yield from self.c.check_control(Control.END)
            self.last_out = True
        yield from self.c.output(data)

    def in_steps(self, count: int) -> Steps[bytes]:
        """Input `count` bytes, after sending END where the direction changes."""
        if self.last_out:
            yield from self.c.output(Control.END)
            self.last_out = False
        return (yield from self.c.input_data(count))

    def complete_steps(self) -> Steps[None]:
        """Exchange END both ways, the side that sent last going first."""
        if self.last_out:
            yield from self.c.output(Control.END)
            yield from self.c.check_control(Control.END)
        else:
            yield from self.c.check_control(Control.END)
            yield from self.c.output(Control.END)


async def chan_init_transaction_master(c: ChanEnd) -> Transaction:
    """Open a transaction; the other side answers with `chan_init_transaction_slave`."""
    await c.outct(Control.END)
    return Transaction(c, last_out=False)


async def chan_init_transaction_slave(c: ChanEnd) -> Transaction:
    """Join a transaction that the master opens."""
    await c.chkct(Control.END)
    return Transaction(c, last_out=True)


async def t_chan_out_word(tc: Transaction, word: int) -> None:
    """Output one word within a transaction."""
    await tc.c.perform("t_chan_out_word", tc.out_steps(_word(word)))


async def t_chan_in_word(tc: Transaction) -> int:
    """Input one word within a transaction."""
    return int.from_bytes(await tc.c.perform("t_chan_in_word", tc.in_steps(WORD_BYTES)), "big")


async def t_chan_out_byte(tc: Transaction, byte: int) -> None:
    """Output one byte within a transaction."""
    await tc.c.perform("t_chan_out_byte", tc.out_steps(bytes((byte & 0xFF,))))


async def t_chan_in_byte(tc: Transaction) -> int:
    """Input one byte within a transaction."""
    return (await tc.c.perform("t_chan_in_byte", tc.in_steps(1)))[0]


async def t_chan_out_buf_word(tc: Transaction, block: bytes) -> None:
    """Output a block of little-endian words within a transaction."""
    await tc.c.perform("t_chan_out_buf_word", tc.out_steps(words_to_wire(block)))


async def t_chan_in_buf_word(tc: Transaction, count: int) -> bytes:
    """Input a block of `count` words, as little-endian memory, within a transaction."""
    return words_to_wire(await tc.c.perform("t_chan_in_buf_word", tc.in_steps(count * WORD_BYTES)))


async def t_chan_out_buf_byte(tc: Transaction, data: bytes) -> None:
    """Output a block of bytes within a transaction."""
    await tc.c.perform("t_chan_out_buf_byte", tc.out_steps(bytes(data)))


async def t_chan_in_buf_byte(tc: Transaction, count: int) -> bytes:
    """Input a block of `count` bytes within a transaction."""
    return await tc.c.perform("t_chan_in_buf_byte", tc.in_steps(count))


async def chan_complete_transaction(tc: Transaction) -> None:
    """Close the transaction: END travels both ways and the end is free for other protocols."""
    await tc.c.perform("chan_complete_transaction", tc.complete_steps())
