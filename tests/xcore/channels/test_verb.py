"""Verbs: awaited, and as the steps of larger verbs."""

import pytest

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_buf_byte, chan_in_word, chan_out_buf_byte, chan_out_word
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.node import open_node
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import bench, drain, send_singly, settle, simulated, tokens

END = Control.END


class Refused(Exception):
    """What a compound verb of a program may raise."""


def _question(c: ChanEnd, data: bytes, size: int) -> Steps[bytes]:
    yield from c.outbytes(data)
    yield from c.outct(END)
    answer = yield from c.inbytes(size)
    yield from c.chkct(END)
    if answer == b"no":
        raise Refused
    return answer


@simulated
async def test_a_compound_verb_is_done_when_its_last_step_is() -> None:
    async with bench() as test:
        question = test.start(test.a.run_verb, "question", _question(test.a, b"how", 2))
        await settle()
        assert await drain(test.b) == tokens(b"how", END)
        for token in tokens(b"so", END):
            await settle()
            assert not question.done
            await send_singly(test.b, [token])
        await settle()
        assert question.value() == b"so"


@simulated
async def test_a_compound_verb_that_need_not_wait_is_done_at_once() -> None:
    async with bench() as test:
        await send_singly(test.b, tokens(b"so", END))
        assert await test.a.run_verb("question", _question(test.a, b"how", 2)) == b"so"
        assert await drain(test.b) == tokens(b"how", END)


@pytest.mark.parametrize("answered", ["before", "while it is parked"])
@simulated
async def test_what_a_compound_verb_raises_goes_to_its_caller(answered: str) -> None:
    async with bench() as test:
        if answered == "before":
            await send_singly(test.b, tokens(b"no", END))
        question = test.start(test.a.run_verb, "question", _question(test.a, b"how", 2))
        await settle()
        if not question.done:
            await send_singly(test.b, tokens(b"no", END))  # the sender of the token hears nothing of it
            await settle()
        with pytest.raises(Refused):
            question.value()
        assert await drain(test.b) == tokens(b"how", END)
        test.a.free()  # and the end is free for other verbs
        test.b.free()


@simulated
async def test_a_trap_in_a_compound_verb_leaves_the_steps_before_it_done() -> None:
    async with bench() as test:
        await test.b.outct(5)
        with pytest.raises(Trap) as trap:
            await test.a.run_verb("question", _question(test.a, b"how", 2))
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert await drain(test.b) == tokens(b"how", END)
        assert await test.a.inct() == 5


@simulated
async def test_input_until_control_takes_data_as_they_come_then_the_token() -> None:
    async with bench() as (_, a, b, _tasks):
        await a.outbytes(b"abcde")
        await a.outbytes(b"f")
        await a.outct(5)
        taken = [await b.in_until_control(3) for _ in range(4)]
        assert taken == [b"abc", b"de", b"f", 5]


@simulated
async def test_input_until_control_waits_for_a_token() -> None:
    async with bench() as test:
        data = test.start(test.b.in_until_control, 100)
        await settle()
        assert not data.done
        await test.a.outuchar(7)
        await settle()
        assert data.value() == b"\x07"


@simulated
async def test_two_ends_of_one_task_step_each_other() -> None:
    """Long blocks in both directions at once, each of which makes room for the other side's."""
    async with bench() as test:

        def exchange(c: ChanEnd) -> Steps[bytes]:
            received = b""
            for piece in range(50):
                yield from c.outbytes(bytes((piece,)) * 8)
                received += yield from c.inbytes(8)
            return received

        one = test.start(test.a.run_verb, "exchange", exchange(test.a))
        other = test.start(test.b.run_verb, "exchange", exchange(test.b))
        await settle()
        expected = b"".join(bytes((piece,)) * 8 for piece in range(50))
        assert (one.value(), other.value()) == (expected, expected)


@verb
def _ask(c: ChanEnd, data: bytes, size: int) -> Steps[bytes]:
    """Ask twice; the second question is a verb that is a step."""
    yield from chan_out_buf_byte(c, data)
    word = yield from chan_in_word(c)
    return word.to_bytes(4) + (yield from _answer_of(c, size))


@verb
def _answer_of(c: ChanEnd, size: int) -> Steps[bytes]:
    return (yield from chan_in_buf_byte(c, size))


@simulated
async def test_one_verb_is_awaited_and_is_a_step() -> None:
    async with bench() as test:
        asked = test.start(_ask, test.a, b"how", 2)
        assert await chan_in_buf_byte(test.b, 3) == b"how"
        await chan_out_word(test.b, 0x01020304)
        await chan_out_buf_byte(test.b, b"so")
        await settle()
        assert asked.value() == b"\1\2\3\4so"
        alone = test.start(_answer_of, test.a, 3)
        await chan_out_buf_byte(test.b, b"too")
        await settle()
        assert alone.value() == b"too"


@simulated
async def test_a_verb_has_the_name_of_its_function_in_reports_a_step_has_none() -> None:
    async with open_node() as node:
        a, _b = node.channel(*node.tiles)
        core = node.tiles[0].start(_ask, a, b"", 1)
        await settle()
        assert (core.name, core.verb) == ("_ask", "ask")
        node.stop()


@simulated
async def test_a_verb_of_another_task_traps_while_one_is_in_progress() -> None:
    async with bench() as test:
        test.start(_ask, test.a, b"", 1)
        await settle()
        for other in (_ask(test.a, b"", 1), test.a.outuint(1), test.a.inct()):
            with pytest.raises(Trap) as trap:
                await other
            assert trap.value.kind is TrapKind.RESOURCE_DEP
