"""Who may use a resource and how: destinations, tiles, timers, sizes, memory after it was freed."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import trio

from aisrv.xcore.channels.array import receive_array, receive_array_piece
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_buf_byte, chan_in_buf_word, chan_in_word, chan_out_word
from aisrv.xcore.lock import Lock
from aisrv.xcore.memory import MemoryBlock, TileMemory
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import Case, Selection, select, select_or_default
from aisrv.xcore.tile import Tile
from aisrv.xcore.timer import Timer, TimerAfter
from aisrv.xcore.traps import SizeError, Trap, TrapKind
from tests.support.benches.simulation import bench, settle, simulated

T = TypeVar("T")

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


async def _foreign(make: Callable[[Node], T], use: Callable[[T], Awaitable[object]]) -> Trap:
    """What stops a core of tile 1 that uses what `make` made of tile 0, outside of any core."""
    traps: list[Trap] = []
    async with open_node() as node:
        made = make(node)

        async def core() -> None:
            try:
                await use(made)
            except Trap as trap:
                traps.append(trap)

        node.tiles[1].start(core, name="foreign")
    (trap,) = traps
    return trap


def _resource(trap: Trap) -> str:
    """The resource of tile 0 that a trap names, and that a core of tile 1 wanted."""
    assert trap.kind is TrapKind.ILLEGAL_RESOURCE
    resource, _, who = trap.reason.partition(", ")
    assert who == "which belongs to tile 0, by tile 1 core 0 (foreign)"
    assert trap.place == resource
    return resource


def _chanend(node: Node) -> ChanEnd:
    return node.channel(node.tiles[0], node.tiles[1]).a


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
    assert _resource(await _foreign(_chanend, VERBS[verb])) == f"{verb} on chanend 0x80000002"


@pytest.mark.parametrize("wait", [select, select_or_default])
@pytest.mark.parametrize("ready", [True, False])
@simulated
async def test_select_on_an_end_of_another_tile_traps(
    wait: Callable[..., Awaitable[object]], ready: bool
) -> None:
    async with open_node() as node:
        a, b = node.channel(node.tiles[1], node.tiles[0])
        if ready:
            await a.outuchar(1)
        traps: list[Trap] = []

        async def core() -> None:
            own = node.tiles[1].allocate_chanend()
            try:
                await wait(own, Case(b, lambda: ready))
            except Trap as trap:
                traps.append(trap)

        node.tiles[1].start(core, name="foreign")
        await settle()
        assert [_resource(trap) for trap in traps] == ["select on chanend 0x80000002"]


@simulated
async def test_select_traps_for_each_core_that_enters_it() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        await b.outuchar(1)
        selection = Selection(a)
        entered: list[object] = []

        async def own() -> None:
            entered.append(await selection.wait())

        async def foreign() -> None:
            with pytest.raises(Trap):
                await selection.wait()

        for tile, core in ((0, own), (1, foreign), (1, foreign), (0, own)):
            node.tiles[tile].start(core)
            await settle()
        assert entered == [a, a]


@simulated
async def test_timer_event_of_another_tile_traps_in_a_select() -> None:
    def make(node: Node) -> TimerAfter:
        return node.tiles[0].allocate_timer().after(0xFFFFFFF0)  # which is in the past

    assert _resource(await _foreign(make, select)) == "select on timer 0x80000001"


@pytest.mark.parametrize("verb", ["in", "setd"])
@simulated
async def test_timer_of_another_tile_traps(verb: str) -> None:
    async def use(timer: Timer) -> None:
        if verb == "in":
            timer.now()
        else:
            await timer.wait_after(1)

    trap = await _foreign(lambda node: node.tiles[0].allocate_timer(), use)
    assert _resource(trap) == f"{verb} on timer 0x80000001"


@simulated
async def test_lock_of_another_tile_traps() -> None:
    trap = await _foreign(lambda node: node.tiles[0].allocate_lock(), Lock.acquire)
    assert _resource(trap) == "lock_acquire on lock 0x80000005"


ALLOCATION: dict[str, Callable[[Tile], object]] = {
    "getr of a channel end": Tile.allocate_chanend,
    "getr of a timer": Tile.allocate_timer,
    "getr of a lock": Tile.allocate_lock,
    "getr of a synchronizer": lambda tile: tile.allocate_synchronizer(1),
    "getr of a logical core": lambda tile: tile.start(trio.sleep, 0),
}


@pytest.mark.parametrize("what", ALLOCATION)
@simulated
async def test_allocation_on_another_tile_traps_and_takes_nothing(what: str) -> None:
    left: list[tuple[int, ...]] = []

    async def use(tile: Tile) -> None:
        try:
            ALLOCATION[what](tile)
        finally:
            left.append((tile.chanends_free, tile.timers_free, tile.locks_free, tile.cores_in_use))

    assert _resource(await _foreign(lambda node: node.tiles[0], use)) == what
    assert left == [(32, 10, 4, 0)]


@simulated
async def test_memory_of_another_tile_is_neither_allocated_nor_freed() -> None:
    async def allocate(memory: TileMemory) -> None:
        memory.allocate("tensor", 4)

    async def free(block: MemoryBlock) -> None:
        block.free()

    for trap in (
        await _foreign(lambda node: node.tiles[0].memory, allocate),
        await _foreign(lambda node: node.tiles[0].memory.allocate("tensor", 4), free),
    ):
        assert trap.kind is TrapKind.LOAD_STORE
        assert trap.reason == "tile 1 core 0 (foreign) has no access to 'tensor' in the memory of tile 0"


@simulated
async def test_whatever_is_freed_after_its_node_has_ended_is_freed_in_silence() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        a, b = node.channel(*node.tiles)
        await a.outuint(1)  # tokens wait, and the route is open
        lock = tile.allocate_lock()
        await lock.acquire()
        left = (
            a,
            b,
            lock,
            tile.allocate_timer(),
            tile.allocate_synchronizer(2),
            tile.memory.allocate("m", 4),
        )
    for resource in left:
        resource.free()
        resource.free()


@pytest.mark.parametrize("tiles", [-1, 0, 3])
@simulated
async def test_node_has_one_or_two_tiles(tiles: int) -> None:
    with pytest.raises(SizeError, match=f"^tiles of a node: {tiles} is not 1 or 2$"):
        async with open_node(tiles=tiles):
            pass


@pytest.mark.parametrize("number", [-1, 1 << 14])
@simulated
async def test_number_of_a_node_fits_its_resource_ids(number: int) -> None:
    with pytest.raises(SizeError, match=f"^number of a node: {number} is not 0 to 16383$"):
        async with open_node(number=number):
            pass


@simulated
async def test_last_node_has_resource_ids_of_its_own() -> None:
    async with open_node(number=(1 << 14) - 1) as node:
        assert node.tiles[1].allocate_chanend().resource_id == 0xFFFF0002


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
