"""Who may use a resource and how: destinations, tiles, timers, sizes, memory after it was freed."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from aisrv.xcore.array import receive_array, receive_array_piece
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.channel import chan_in_buf_byte, chan_in_buf_word, chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import select
from aisrv.xcore.traps import SizeError, Trap, TrapKind
from tests.support.simulation import bench, settle, simulated

JUNK = [
    0,
    1,
    2,
    0x80000001,
    0x80000005,
    0x80002002,
    0x80020002,
    0x180000002,
    0x00000002,
    -1,
    None,
    "end",
    1.5,
]


@pytest.mark.parametrize(("junk", "shown"), [(None, "nothing"), ("end", "'end'"), (6, "0x00000006")])
@simulated
async def test_setd_says_what_it_refuses(junk: Any, shown: str) -> None:
    async with bench() as test:
        reason = f"setd on {test.a.name} to {shown}, which is not a channel end of this node"
        with pytest.raises(Trap, match=re.escape(reason)):
            test.a.setd(junk)


@pytest.mark.parametrize("junk", JUNK)
@simulated
async def test_setd_to_what_can_be_no_channel_end_traps_and_changes_nothing(junk: Any) -> None:
    async with bench() as test:
        with pytest.raises(Trap) as trap:
            test.a.setd(junk)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert "which is not a channel end of this node" in trap.value.reason
        assert test.a.statistics().destination == test.b.resource_id


@simulated
async def test_setd_to_a_timer_a_lock_or_an_end_of_another_node_traps() -> None:
    async with bench() as test, open_node(number=1) as other:
        tile = test.node.tiles[0]
        for junk in (tile.allocate_timer(), tile.allocate_lock(), other.tiles[0].allocate_chanend()):
            with pytest.raises(Trap, match="not a channel end of this node"):
                test.a.setd(junk)  # type: ignore[arg-type]  # what is to trap


@simulated
async def test_setd_takes_ends_that_are_not_allocated_yet() -> None:
    async with bench() as test:
        for end in (0x80000002, 0x80001F02, 0x80010002, 0x80011F02):
            test.a.setd(end)
            assert test.a.statistics().destination == end


async def _foreign(use: Callable[[Node], Awaitable[object]]) -> Trap:
    """What stops a core of tile 1 that uses something of tile 0."""
    traps: list[Trap] = []
    async with open_node() as node:

        async def core() -> None:
            try:
                await use(node)
            except Trap as trap:
                traps.append(trap)

        node.tiles[1].start(core, name="foreign")
    (trap,) = traps
    assert trap.kind is TrapKind.ILLEGAL_RESOURCE
    assert "which belongs to tile 0, by tile 1 core 0 (foreign)" in trap.reason
    return trap


def _chanend(verb: Callable[[ChanEnd], Awaitable[object]]) -> Callable[[Node], Awaitable[object]]:
    async def use(node: Node) -> None:
        a, b = node.channel(node.tiles[0], node.tiles[1])
        await b.outuint(1)
        await verb(a)

    return use


async def _set_destination(c: ChanEnd) -> None:
    c.setd(c)


async def _free(c: ChanEnd) -> None:
    c.free()


VERBS: dict[str, Callable[[ChanEnd], Awaitable[object]]] = {
    "outuint": lambda c: c.outuint(1),
    "outct": lambda c: c.outct(1),
    "outbytes": lambda c: c.outbytes(b"1"),
    "inuint": ChanEnd.inuint,
    "testct": ChanEnd.testct,
    "chan_out_word": lambda c: chan_out_word(c, 1),
    "chan_in_word": chan_in_word,
    "setd": _set_destination,
    "freer": _free,
}


@pytest.mark.parametrize("verb", VERBS)
@simulated
async def test_channel_end_of_another_tile_traps(verb: str) -> None:
    trap = await _foreign(_chanend(VERBS[verb]))
    assert trap.place == f"{verb} on chanend 0x80000002"


@simulated
async def test_select_on_an_end_of_another_tile_traps() -> None:
    async def use(node: Node) -> None:
        await select(node.tiles[0].allocate_chanend())

    await _foreign(use)


@simulated
async def test_timer_of_another_tile_traps() -> None:
    async def read(node: Node) -> None:
        node.tiles[0].allocate_timer().now()

    async def wait(node: Node) -> None:
        await node.tiles[0].allocate_timer().wait_after(1)

    for use in (read, wait):
        await _foreign(use)


@simulated
async def test_lock_of_another_tile_traps() -> None:
    async def use(node: Node) -> None:
        await node.tiles[0].allocate_lock().acquire()

    await _foreign(use)


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c.inbytes(-1),
        lambda c: c.inwords(-1),
        lambda c: c.in_until_control(0),
        lambda c: c.in_until_control(-1),
        lambda c: chan_in_buf_byte(c, -1),
        lambda c: chan_in_buf_word(c, -1),
        lambda c: receive_array(c, -1),
        lambda c: receive_array_piece(c, -4),
    ],
)
@simulated
async def test_negative_counts_are_refused_and_the_end_is_in_order(
    use: Callable[[ChanEnd], Awaitable[object]],
) -> None:
    async with bench() as test:
        with pytest.raises(SizeError):
            await use(test.b)
        await test.a.outuint(7)
        assert await test.b.inuint() == 7


@simulated
async def test_negative_size_of_memory_is_refused() -> None:
    async with open_node() as node:
        memory = node.tiles[0].memory
        with pytest.raises(SizeError, match="bytes of 'arena': -1 is less than 0"):
            memory.allocate("arena", -1)
        assert memory.available == memory.capacity


@simulated
async def test_memory_after_free_cannot_be_accessed() -> None:
    async with open_node() as node:
        block = node.tiles[0].memory.allocate("arena", 16)
        block.free()
        for use in (block.access, block.free):
            with pytest.raises(Trap) as trap:
                use()
            assert (trap.value.kind, "'arena', which was freed" in trap.value.reason) == (
                TrapKind.LOAD_STORE,
                True,
            )


@simulated
async def test_timer_under_a_select_can_neither_be_freed_nor_used_by_a_second_core() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        chosen = test.start(select, timer.after(1000))
        await settle()
        for use in (timer.free, timer.now, lambda: timer.after(1)):
            with pytest.raises(Trap) as trap:
                use()
            assert trap.value.kind is TrapKind.RESOURCE_DEP
            assert "on timer 0x80000001 while task select waits for it" in trap.value.reason
        await trio.sleep(1)
        assert chosen.done
        timer.free()


@simulated
async def test_timer_that_a_core_waits_for_is_free_again_after_a_cancellation() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        with trio.move_on_after(0.001):
            await timer.wait_after(1_000_000)
        assert timer.now() == 100_000
        timer.free()
