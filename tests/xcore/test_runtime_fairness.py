"""A core whose verbs never wait: the others, and time-outs, have their turn all the same."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints

from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.runtime import MAX_VERBS_PER_TURN
from aisrv.xcore.select import Selection, select, select_or_default
from tests.support.benches.simulation import bench, settle, simulated


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


async def _output_words_of_two_nodes(node: Node) -> None:
    async with open_node() as other, trio.open_nursery() as nursery:
        for each in (node, other):
            nursery.start_soon(_output_to_nobody, each)


async def _go_back_and_forth(node: Node) -> None:
    a, b = node.channel(*node.tiles)

    async def echo() -> None:
        while True:
            await b.outuint(await b.inuint())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo)
        while True:
            await a.outuint(1)
            await a.inuint()


async def _send_words(node: Node) -> None:
    a, b = node.channel(*node.tiles)

    async def sink() -> None:
        while True:
            await chan_in_word(b)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sink)
        while True:
            await chan_out_word(a, 1)


async def _meet_at_a_barrier(node: Node) -> None:
    barrier = node.tiles[0].allocate_synchronizer(2)

    async def member() -> None:
        while True:
            await barrier.synchronize()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(member)
        nursery.start_soon(member)


async def _meet_oneself_at_a_barrier(node: Node) -> None:
    barrier = node.tiles[0].allocate_synchronizer(1)
    while True:
        await barrier.synchronize()


async def _wait_for_what_has_been(node: Node) -> None:
    timer = node.tiles[0].allocate_timer()
    while True:
        await timer.wait_after(0xFFFFFFFE)


async def _select_a_time_that_has_been(node: Node) -> None:
    timer = node.tiles[0].allocate_timer()
    while True:
        await select(timer.after(0xFFFFFFFE))


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


ALONE = [
    _take_a_lock,
    _output_to_nobody,
    _output_packets_to_nobody,
    _talk_to_itself,
    _look_at_a_token,
    _select_without_input,
    _poll_without_input,
    _meet_oneself_at_a_barrier,
    _wait_for_what_has_been,
    _select_a_time_that_has_been,
]
TOGETHER = [_output_words_of_two_nodes, _go_back_and_forth, _send_words, _meet_at_a_barrier]


@pytest.mark.parametrize("greedy", [*ALONE, *TOGETHER])
@simulated
async def test_time_outs_come_on_virtual_time(greedy: Callable[[Node], Awaitable[None]]) -> None:
    async with open_node() as node:
        start = trio.current_time()
        with trio.move_on_after(50e-8) as scope:
            await greedy(node)
        assert scope.cancelled_caught
        assert 49e-8 < trio.current_time() - start < 53e-8


@simulated
async def test_each_256_verbs_take_a_tick_of_virtual_time() -> None:
    async with open_node() as node:
        lock = node.tiles[0].allocate_lock()
        ticks = []
        for number in range(5 * 256 + 1):
            await lock.acquire()
            lock.release()
            if number % 256 in (0, 255):
                ticks.append(node.clock.ticks())
    assert ticks == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


@simulated
async def test_verbs_of_a_ping_pong_take_virtual_time() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)

        async def pong() -> None:
            for _ in range(1024):
                await b.outuint(await b.inuint())

        async def ping() -> None:
            for _ in range(1024):
                await a.outuint(1)
                await a.inuint()

        node.tiles[0].start(ping)
        node.tiles[1].start(pong)
        with node.outside_world():
            await settle()
        assert 8 <= node.clock.ticks() <= 16  # 4096 verbs; of the inputs, those that wait count


@simulated
async def test_verbs_of_different_ticks_take_no_time() -> None:
    async with open_node() as node:
        lock, timer = node.tiles[0].allocate_lock(), node.tiles[0].allocate_timer()
        for tick in range(600):
            await lock.acquire()
            lock.release()
            assert await timer.wait_after(tick) == tick + 1


@pytest.mark.parametrize("greedy", ALONE)
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
            for _ in range(MAX_VERBS_PER_TURN):
                await end.outuint(0)
        with assert_checkpoints():
            await end.outuint(0)
