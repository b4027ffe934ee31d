"""Verbs in steps: compound verbs made with `yield from` and given to `perform`."""

import pytest

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap, TrapKind
from aisrv.xcore.verb import Steps
from tests.support.simulation import bench, drain, send_singly, settle, simulated, tokens

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
        question = test.start(test.a.perform, "question", _question(test.a, b"how", 2))
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
        assert await test.a.perform("question", _question(test.a, b"how", 2)) == b"so"
        assert await drain(test.b) == tokens(b"how", END)


@pytest.mark.parametrize("answered", ["before", "while it is parked"])
@simulated
async def test_what_a_compound_verb_raises_goes_to_its_caller(answered: str) -> None:
    async with bench() as test:
        if answered == "before":
            await send_singly(test.b, tokens(b"no", END))
        question = test.start(test.a.perform, "question", _question(test.a, b"how", 2))
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
            await test.a.perform("question", _question(test.a, b"how", 2))
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

        one = test.start(test.a.perform, "exchange", exchange(test.a))
        other = test.start(test.b.perform, "exchange", exchange(test.b))
        await settle()
        expected = b"".join(bytes((piece,)) * 8 for piece in range(50))
        assert (one.value(), other.value()) == (expected, expected)
