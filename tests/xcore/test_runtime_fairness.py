"""A core whose verbs never wait: the others, and time-outs, have their turn all the same."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints

from aisrv.xcore.node import Node, open_node
from aisrv.xcore.runtime import MOST_AT_ONCE
from aisrv.xcore.select import Selection, select, select_or_default
from tests.support.simulation import bench, simulated


async def _take_a_lock(node: Node) -> None:
    lock = node.tiles[0].allocate_lock()
    while True:
        await lock.acquire()
        lock.release()


async def _output_to_nobody(node: Node) -> None:
    c = node.tiles[0].allocate_chanend()
    c.setd(0x80011F02)
    while True:
        await c.outuint(1)


async def _output_packets_to_nobody(node: Node) -> None:
    c = node.tiles[0].allocate_chanend()
    c.setd(0x80011F02)
    while True:
        await c.outct(1)


async def _talk_to_itself(node: Node) -> None:
    a, b = node.channel(node.tiles[0], node.tiles[0])
    while True:
        await a.outuchar(1)
        await b.inuchar()


async def _look_at_a_token(node: Node) -> None:
    a, b = node.channel(node.tiles[0], node.tiles[0])
    await a.outuchar(1)
    while True:
        await b.testct()


async def _select_without_input(node: Node) -> None:
    a, b = node.channel(node.tiles[0], node.tiles[0])
    await a.outuchar(1)
    while True:
        await select(b)


async def _poll_without_input(node: Node) -> None:
    a, b = node.channel(node.tiles[0], node.tiles[0])
    await a.outuchar(1)
    while True:
        await select_or_default(b)


@pytest.mark.parametrize(
    "greedy",
    [
        _take_a_lock,
        _output_to_nobody,
        _output_packets_to_nobody,
        _talk_to_itself,
        _look_at_a_token,
        _select_without_input,
        _poll_without_input,
    ],
)
async def test_others_run_and_time_outs_fire(greedy: Callable[[Node], Awaitable[None]]) -> None:
    turns = []
    async with open_node() as node:

        async def other() -> None:
            for turn in range(3):
                turns.append(turn)
                await trio.lowlevel.checkpoint()

        async def bounded() -> None:
            with trio.move_on_after(0.001) as scope:
                await greedy(node)
            assert scope.cancelled_caught

        node.tiles[0].start(bounded)
        node.tiles[1].start(other)
    assert turns == [0, 1, 2]


@simulated
async def test_polling_lets_virtual_time_pass() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        end = node.tiles[0].allocate_chanend()

        async def poll() -> int:
            polls = 0
            while timer.now() < 100_000_000:  # one second
                assert await selection.wait_or_default() is None
                polls += 1
            return polls

        selection = Selection(end)
        polls = await poll()
        assert polls < 10_000
        assert 100_000_000 <= timer.now() <= 100_000_000 * 65 // 64


@simulated
async def test_event_that_comes_while_polling_is_taken_at_its_own_time() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        timer = node.tiles[1].allocate_timer()

        async def source() -> None:
            await trio.sleep(0.5)
            await a.outct(1)

        node.tiles[0].start(source)
        selection = Selection(b)
        while await selection.wait_or_default() is None:
            pass
        assert timer.now() == 50_000_000
        await b.chkct(1)


@simulated
async def test_just_the_257th_verb_in_a_row_passes_a_checkpoint() -> None:
    async with bench() as test:
        end = test.end()
        end.setd(end.resource_id + 0x100)  # which nobody has
        with assert_no_checkpoints():
            for _ in range(MOST_AT_ONCE):
                await end.outuint(0)
        with assert_checkpoints():
            await end.outuint(0)
