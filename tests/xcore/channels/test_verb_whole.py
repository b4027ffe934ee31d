"""Verbs that come to their end without the task that began them, once that is cancelled."""

import logging

import pytest
import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.channels.verb import Steps, whole_verb
from aisrv.xcore.node import open_node
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import Bench, Started, bench, settle, simulated

found_left: list[bool] = []


@whole_verb
def ask(c: ChanEnd, word: int) -> Steps[int]:
    """Output a word and input one; note whether this went on without a task."""
    yield from chan_out_word(c, word)
    answer = yield from chan_in_word(c)
    found_left.append(c.is_left)
    return answer


async def cancelled(b: Bench, word: int = 7) -> Started:
    """Begin to ask, and be cancelled before the other side takes the word."""
    started = b.start(ask, b.a, word)
    await settle()
    await started.cancel()
    return started


@simulated
async def test_the_other_side_sees_the_whole_verb() -> None:
    async with bench() as b:
        found_left.clear()
        await cancelled(b)
        assert await chan_in_word(b.b) == 7
        assert found_left == []
        await chan_out_word(b.b, 8)
        assert found_left == [True]
        assert not b.a.is_left


@simulated
async def test_the_next_verb_waits_and_gets_its_own_result() -> None:
    async with bench() as b:
        await cancelled(b)
        following = b.start(ask, b.a, 9)
        await settle()
        assert await chan_in_word(b.b) == 7
        await chan_out_word(b.b, 8)
        assert await chan_in_word(b.b) == 9
        await chan_out_word(b.b, 10)
        await settle()
        assert following.value() == 10


@simulated
async def test_the_next_verb_may_be_cancelled_as_it_waits_and_was_not_begun() -> None:
    async with bench() as b:
        await cancelled(b)
        await cancelled(b, 9)
        assert await chan_in_word(b.b) == 7
        await chan_out_word(b.b, 8)
        await settle()
        assert not b.b.ready
        assert not b.a.is_left


@simulated
async def test_a_verb_that_is_not_cancelled_finds_its_task() -> None:
    async with bench() as b:
        found_left.clear()
        await cancelled(b)
        await chan_in_word(b.b)
        await chan_out_word(b.b, 8)
        following = b.start(ask, b.a, 9)
        await settle()
        await chan_in_word(b.b)
        await chan_out_word(b.b, 10)
        await settle()
        assert following.value() == 10
        assert found_left == [True, False]


@simulated
async def test_a_second_task_traps_while_the_first_waits_for_the_end_of_such_a_verb() -> None:
    async with bench() as b:
        await cancelled(b)
        b.start(ask, b.a, 9)
        await settle()
        with pytest.raises(Trap) as trap:
            await b.a.outuint(1)
        assert trap.value.kind is TrapKind.RESOURCE_DEP
        assert "in ask on it" in str(trap.value)


@simulated
async def test_what_it_raises_is_logged_and_the_next_verb_works(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as b:
        await cancelled(b)
        following = b.start(b.a.inuint)
        await settle()
        with caplog.at_level(logging.ERROR):
            await b.b.outuint(1)
        assert f"{b.a.name}: a verb failed whose task was cancelled" in caplog.text
        await settle()
        assert following.value() == 1


@simulated
async def test_a_verb_begun_without_a_task_goes_on_by_itself() -> None:
    async with bench() as b:
        b.a.leave(lambda c: chan_out_word(c, 7))
        assert b.a.is_left
        assert await chan_in_word(b.b) == 7
        assert not b.a.is_left


async def test_a_node_ends_with_its_cores_in_such_verbs() -> None:
    with trio.fail_after(60):
        async with open_node() as node:
            c, _ = node.channel(*node.tiles)
            node.tiles[0].start(ask, c, 7)
            await settle()
            node.stop()
    assert not c.is_left  # which would keep the node in memory
