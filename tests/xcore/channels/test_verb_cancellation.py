"""Cancellation: every verb, cancelled wherever it can park, leaves its end in order.

The peer of a verb is played token by token, so that the verb parks at each point in turn. After the
cancellation, what crossed must be a prefix of the protocol, and the rest of it is carried out by hand.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from aisrv.xcore.channels import channel
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import Transaction
from aisrv.xcore.channels.routes import BUFFER_TOKENS
from aisrv.xcore.select import select
from aisrv.xcore.tokens import Control, Run
from tests.support.benches.simulation import (
    Bench,
    Started,
    Token,
    bench,
    drain,
    receive_singly,
    send_singly,
    settle,
    simulated,
    tokens,
)

END = 1
FILLER = b"\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7"


@dataclass(frozen=True)
class Step:
    """One token of a protocol, as the verb's side sees it."""

    output: bool
    token: Token


def _protocol(*moves: tuple[str, Run]) -> list[Step]:
    return [Step(direction == "out", token) for direction, run in moves for token in tokens(run)]


def _transaction(
    verb: Callable[..., Awaitable[Any]], *args: Any, last_out: bool
) -> Callable[[ChanEnd], Awaitable[Any]]:
    return lambda c: verb(Transaction(c, last_out), *args)


async def _init_and_complete(c: ChanEnd) -> None:
    tc = await channel.chan_init_transaction_master(c)
    await channel.t_chan_out_byte(tc, 7)
    assert await channel.t_chan_in_byte(tc) == 8
    await channel.chan_complete_transaction(tc)


BLOCK = bytes(range(1, 21))

OUT_OPEN, OUT_CLOSE = [("out", END), ("in", END)], [("out", END), ("in", END)]
IN_OPEN, IN_CLOSE = [("in", END), ("out", END)], [("in", END), ("out", END)]

VERBS: dict[str, tuple[Callable[[ChanEnd], Awaitable[Any]], list[Step]]] = {
    "outuint": (lambda c: c.outuint(0x01020304), _protocol(("out", b"\1\2\3\4"))),
    "outuchar": (lambda c: c.outuchar(9), _protocol(("out", b"\x09"))),
    "outct": (lambda c: c.outct(5), _protocol(("out", 5))),
    "outct END": (lambda c: c.outct(Control.END), _protocol(("out", END))),
    "outbytes": (lambda c: c.outbytes(BLOCK), _protocol(("out", BLOCK))),
    "outwords": (lambda c: c.outwords(b"abcdefgh"), _protocol(("out", b"dcbahgfe"))),
    "inuint": (lambda c: c.inuint(), _protocol(("in", b"\1\2\3\4"))),
    "inuchar": (lambda c: c.inuchar(), _protocol(("in", b"\1"))),
    "inct": (lambda c: c.inct(), _protocol(("in", 5))),
    "chkct": (lambda c: c.chkct(END), _protocol(("in", END))),
    "inbytes": (lambda c: c.inbytes(20), _protocol(("in", BLOCK))),
    "inbytes of 3": (lambda c: c.inbytes(3), _protocol(("in", b"abc"))),
    "inwords": (lambda c: c.inwords(3), _protocol(("in", b"dcbahgfelkji"))),
    "testct": (lambda c: c.testct(), _protocol(("in", 5))),
    "testwct": (lambda c: c.testwct(), _protocol(("in", b"abcd"))),
    "chan_out_word": (
        lambda c: channel.chan_out_word(c, 0x01020304),
        _protocol(*OUT_OPEN, ("out", b"\1\2\3\4"), *OUT_CLOSE),
    ),
    "chan_in_word": (channel.chan_in_word, _protocol(*IN_OPEN, ("in", b"\1\2\3\4"), *IN_CLOSE)),
    "chan_out_byte": (
        lambda c: channel.chan_out_byte(c, 9),
        _protocol(*OUT_OPEN, ("out", b"\x09"), *OUT_CLOSE),
    ),
    "chan_in_byte": (channel.chan_in_byte, _protocol(*IN_OPEN, ("in", b"\x09"), *IN_CLOSE)),
    "chan_out_buf_byte": (
        lambda c: channel.chan_out_buf_byte(c, BLOCK),
        _protocol(*OUT_OPEN, ("out", BLOCK), *OUT_CLOSE),
    ),
    "chan_in_buf_byte": (
        lambda c: channel.chan_in_buf_byte(c, 20),
        _protocol(*IN_OPEN, ("in", BLOCK), *IN_CLOSE),
    ),
    "chan_out_buf_word": (
        lambda c: channel.chan_out_buf_word(c, b"abcdefgh"),
        _protocol(*OUT_OPEN, ("out", b"dcbahgfe"), *OUT_CLOSE),
    ),
    "chan_in_buf_word": (
        lambda c: channel.chan_in_buf_word(c, 2),
        _protocol(*IN_OPEN, ("in", b"dcbahgfe"), *IN_CLOSE),
    ),
    "chan_init_transaction_master": (channel.chan_init_transaction_master, _protocol(("out", END))),
    "chan_init_transaction_slave": (channel.chan_init_transaction_slave, _protocol(("in", END))),
    "t_chan_out_word": (
        _transaction(channel.t_chan_out_word, 0x01020304, last_out=False),
        _protocol(("in", END), ("out", b"\1\2\3\4")),
    ),
    "t_chan_in_word": (
        _transaction(channel.t_chan_in_word, last_out=True),
        _protocol(("out", END), ("in", b"\1\2\3\4")),
    ),
    "t_chan_out_byte": (
        _transaction(channel.t_chan_out_byte, 9, last_out=False),
        _protocol(("in", END), ("out", b"\x09")),
    ),
    "t_chan_in_byte": (
        _transaction(channel.t_chan_in_byte, last_out=True),
        _protocol(("out", END), ("in", b"\x09")),
    ),
    "t_chan_out_buf_byte": (
        _transaction(channel.t_chan_out_buf_byte, BLOCK, last_out=True),
        _protocol(("out", BLOCK)),
    ),
    "t_chan_in_buf_byte": (
        _transaction(channel.t_chan_in_buf_byte, 20, last_out=True),
        _protocol(("out", END), ("in", BLOCK)),
    ),
    "t_chan_out_buf_word": (
        _transaction(channel.t_chan_out_buf_word, b"abcdefgh", last_out=False),
        _protocol(("in", END), ("out", b"dcbahgfe")),
    ),
    "t_chan_in_buf_word": (
        _transaction(channel.t_chan_in_buf_word, 2, last_out=True),
        _protocol(("out", END), ("in", b"dcbahgfe")),
    ),
    "chan_complete_transaction of who sent last": (
        _transaction(channel.chan_complete_transaction, last_out=True),
        _protocol(("out", END), ("in", END)),
    ),
    "chan_complete_transaction of who received last": (
        _transaction(channel.chan_complete_transaction, last_out=False),
        _protocol(("in", END), ("out", END)),
    ),
    "a whole transaction": (
        _init_and_complete,
        _protocol(
            ("out", END), ("in", END), ("out", b"\7"), ("out", END),
            ("in", b"\x08"), ("in", END), ("out", END),
        ),
    ),
}  # fmt: skip


async def _play(end: ChanEnd, step: Step) -> None:
    """Do the peer's part of one step."""
    if step.output:
        assert await receive_singly(end, 1) == [step.token]
    else:
        await send_singly(end, [step.token])


async def _by_hand(end: ChanEnd, steps: list[Step]) -> None:
    for step in steps:
        await _play(end, Step(not step.output, step.token))


def _returns(steps: list[Step], played: int) -> bool:
    """Whether single tokens would let the verb return: all input there, eight tokens undelivered at most."""
    rest = steps[played:]
    return all(step.output for step in rest) and len(rest) <= BUFFER_TOKENS


async def _cancel_after(test: Bench, name: str, filler: bytes, played: int) -> None:
    """Cancel the verb once the peer has done its part of `played` steps, and see what is left."""
    verb, protocol = VERBS[name]
    a, b = test.node.channel(*test.node.tiles)
    await a.outbytes(filler)  # leaves the verb less room
    steps = [*_protocol(("out", filler)), *protocol]
    running = test.start(verb, a)
    for step in steps[:played]:
        await _play(b, step)
    await running.cancel()

    there = [step.token for step in steps[:played] if step.output]
    in_buffer = await drain(b)
    assert len(in_buffer) <= BUFFER_TOKENS
    there += in_buffer
    assert there == [step.token for step in steps if step.output][: len(there)]
    back = [step.token for step in steps[:played] if not step.output]
    left = await drain(a)
    assert left == back[len(back) - len(left) :]
    reached = len(there) + len(back)
    assert [step.output for step in steps[:reached]].count(True) == len(there)

    rest = [*steps[reached:], *_protocol(("out", END), ("in", END))]  # and both routes closed
    mine, other = test.start(_by_hand, a, rest), test.start(_play_all, b, rest)
    await settle()
    mine.value()
    other.value()
    a.free()
    b.free()


async def _play_all(end: ChanEnd, steps: list[Step]) -> None:
    for step in steps:
        await _play(end, step)


@pytest.mark.parametrize("filler", [b"", FILLER[:6], FILLER], ids=["empty", "two places", "full"])
@pytest.mark.parametrize("name", VERBS)
@simulated
async def test_a_verb_cancelled_anywhere_leaves_its_end_in_order(name: str, filler: bytes) -> None:
    async with bench() as test:
        steps = [*_protocol(("out", filler)), *VERBS[name][1]]
        for played in range(len(steps)):
            if not _returns(steps, played):
                await _cancel_after(test, name, filler, played)


@pytest.mark.parametrize("name", VERBS)
@simulated
async def test_a_verb_parks_exactly_as_long_as_its_tokens_say(name: str) -> None:
    async with bench() as test:
        steps = VERBS[name][1]
        running = test.start(VERBS[name][0], test.a)
        for played, step in enumerate(steps):
            await settle()
            assert running.done == _returns(steps, played)
            await _play(test.b, step)
        await settle()
        running.value()


# Outputs.


@pytest.mark.parametrize(("queued", "fits"), [(0, 8), (1, 7), (6, 2), (7, 1), (8, 0)])
@simulated
async def test_a_cancelled_output_leaves_what_fitted_the_buffer(queued: int, fits: int) -> None:
    async with bench() as test:
        await test.a.outbytes(FILLER[:queued])
        block = test.start(test.a.outbytes, BLOCK)
        await settle()
        await block.cancel()
        assert await drain(test.b) == tokens(FILLER[:queued], BLOCK[:fits])


@simulated
async def test_a_large_block_cancelled_halfway_ends_eight_tokens_past_what_was_taken() -> None:
    async with bench() as test:
        data = bytes(n * 31 & 0xFF for n in range(65_536))
        block = test.start(test.a.outbytes, data)
        await settle()
        taken = await test.b.inbytes(10_000)
        await block.cancel()
        assert taken + bytes(token.value for token in await drain(test.b)) == data[:10_008]
        await test.a.outuint(0xAABBCCDD)  # the route is still open, and goes on from there
        assert await test.b.inuint() == 0xAABBCCDD


@simulated
async def test_a_cancelled_block_leaves_the_receiver_no_view_of_the_buffer() -> None:
    async with bench() as test:
        buffer = bytearray(b"before" * 1000)
        block = test.start(test.a.outbytes, memoryview(buffer))
        await settle()
        await block.cancel()
        del block
        buffer[:] = b"after!" * 1000
        assert await drain(test.b) == tokens(b"beforebe")


@simulated
async def test_the_sender_may_change_its_buffer_once_the_verb_has_returned() -> None:
    async with bench() as test:
        buffer = bytearray(b"12345678")
        await test.a.outbytes(buffer)
        buffer[:] = b"abcdefgh"
        buffer += b"and more"  # nothing holds its memory
        assert await drain(test.b) == tokens(b"12345678")


@simulated
async def test_a_source_cancelled_while_it_waits_for_its_route_gives_up_its_claim() -> None:
    async with bench() as test:
        second, third = test.end(test.b), test.end(test.b)
        await test.a.outuchar(1)
        claim = test.start(second.outuint, 2)
        await settle()
        last = test.start(third.outuchar, 3)
        await settle()
        await claim.cancel()
        await test.a.outct(END)
        await settle()
        assert last.done
        assert await drain(test.b) == tokens(b"\x01", END, b"\x03")
        second.free()  # it has no route
        await third.outct(END)
        await test.b.chkct(END)
        test.b.free()  # nor waits anyone for this one


@simulated
async def test_a_source_that_gave_up_its_claim_may_claim_again() -> None:
    async with bench() as test:
        second = test.end(test.b)
        await test.a.outuchar(1)
        await (await _parked(test, second.outuint, 2)).cancel()
        again = await _parked(test, second.outuint, 0x01020304)
        await test.a.outct(END)
        await settle()
        again.value()
        assert await drain(test.b) == tokens(b"\x01", END, b"\x01\x02\x03\x04")


async def _parked(test: Bench, verb: Callable[..., Awaitable[Any]], *args: Any) -> Started:
    started = test.start(verb, *args)
    await settle()
    assert not started.done
    return started


@simulated
async def test_a_cancelled_end_token_leaves_the_route_open() -> None:
    async with bench() as test:
        await test.a.outbytes(FILLER)
        await (await _parked(test, test.a.outct, END)).cancel()
        assert await test.b.inbytes(8) == FILLER
        other = await _parked(test, test.end(test.b).outct, 5)
        await test.a.outct(END)
        await settle()
        other.value()
        assert await drain(test.b) == tokens(END, 5)


@simulated
async def test_a_verb_called_by_a_task_that_is_cancelled_already() -> None:
    async with bench() as test:
        with trio.CancelScope() as scope:
            scope.cancel()
            await test.a.outbytes(BLOCK)
        assert scope.cancelled_caught
        assert await drain(test.b) == tokens(BLOCK[:8])


@simulated
async def test_a_verb_that_need_not_wait_is_done_though_its_task_is_cancelled() -> None:
    async with bench() as test:
        with trio.CancelScope() as scope:
            scope.cancel()
            await test.a.outuint(5)
            assert await test.b.inuint() == 5
        assert not scope.cancelled_caught


# Inputs.


@pytest.mark.parametrize("there", [0, 1, 2, 3])
@pytest.mark.parametrize("verb", ["inuint", "testwct"])
@simulated
async def test_a_cancelled_word_input_has_taken_nothing(verb: str, there: int) -> None:
    async with bench() as test:
        word = test.start(getattr(test.b, verb))
        await settle()
        await send_singly(test.a, tokens(b"abcd"[:there]))
        await word.cancel()
        await send_singly(test.a, tokens(b"abcd"[there:]))
        assert await test.b.inuint() == int.from_bytes(b"abcd", "big")


@simulated
async def test_a_cancelled_long_input_has_taken_what_there_was() -> None:
    async with bench() as test:
        block = test.start(test.b.inbytes, 20)
        await settle()
        await test.a.outbytes(b"abcdefghij")
        await settle()
        await block.cancel()
        await test.a.outbytes(b"kl")
        assert await drain(test.b) == tokens(b"kl")


# Select, locks and timers.


@simulated
async def test_a_cancelled_select_leaves_nobody_listening() -> None:
    async with bench() as test:
        other = test.end()
        await (await _parked(test, select, test.b, other)).cancel()
        other.free()
        word = await _parked(test, test.b.inuint)  # no other core uses the end
        await test.a.outuint(5)
        await settle()
        assert word.value() == 5


@simulated
async def test_a_cancelled_select_with_a_timer_leaves_nothing_behind() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        await (await _parked(test, select, test.b, timer.after(1000))).cancel()
        word = await _parked(test, test.b.inuint)
        await timer.wait_after(5000)
        assert not word.done
        await test.a.outuint(5)
        await settle()
        assert word.value() == 5
        timer.free()


@simulated
async def test_a_select_cancelled_after_its_event_leaves_the_token() -> None:
    async with bench() as test:
        chosen = await _parked(test, select, test.b)
        await test.a.outuchar(7)  # wakes it
        chosen.scope.cancel()  # too late
        await settle()
        assert chosen.value() is test.b
        assert await test.b.inuchar() == 7


@pytest.mark.parametrize("cancelled", [0, 1, 2])
@simulated
async def test_a_cancelled_acquire_leaves_the_queue_of_the_lock(cancelled: int) -> None:
    async with bench() as test:
        lock = test.node.tiles[0].allocate_lock()
        await lock.acquire()
        waiting = [await _parked(test, lock.acquire) for _ in range(3)]
        await waiting[cancelled].cancel()
        order = [number for number in range(3) if number != cancelled]
        for position in range(3):
            assert [number for number in order if waiting[number].done] == order[:position]
            lock.release()
            await settle()
        lock.free()


@simulated
async def test_a_lock_granted_in_the_pass_of_the_cancellation_is_held() -> None:
    async with bench() as test:
        lock = test.node.tiles[0].allocate_lock()
        await lock.acquire()
        waiting = await _parked(test, lock.acquire)
        lock.release()
        waiting.scope.cancel()
        await settle()
        waiting.value()
        lock.release()
        lock.free()


@simulated
async def test_a_cancelled_timer_wait_leaves_the_timer_as_it_was() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        waiting = await _parked(test, timer.wait_after, 1000)
        await waiting.cancel()
        assert timer.now() == 0
        assert await timer.wait_after(100) == 101
        timer.free()
