"""A node and its tiles: how many of each resource there are, their ids, memory and rates."""

import pytest
import trio

from aisrv.xcore.memory import OutOfMemory
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import settle, simulated, sole_error


@simulated
async def test_eight_cores_run_and_the_ninth_traps() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        done = trio.Event()
        cores = [tile.start(done.wait) for _ in range(8)]
        assert [core.number for core in cores] == list(range(8))
        with pytest.raises(Trap) as ninth:
            tile.start(done.wait)
        assert ninth.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert ninth.value.reason == "tile 0 has 8 logical cores, all are in use"
        assert node.tiles[1].start(done.wait).number == 0
        done.set()


@simulated
async def test_a_core_whose_task_ends_is_free_again() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        first, rest = trio.Event(), trio.Event()
        tile.start(first.wait)
        for _ in range(7):
            tile.start(rest.wait)
        first.set()
        await settle()
        assert tile.cores_in_use == 7
        assert tile.start(rest.wait).number == 0
        rest.set()


@simulated
async def test_a_reserved_core_counts_as_one_of_the_eight() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        core = tile.reserve_core("XUD")
        assert (str(core), tile.cores_in_use) == ("tile 0 core 0 (XUD)", 1)
        tile.release_core(core)
        assert tile.cores_in_use == 0


@pytest.mark.parametrize(
    ("kind", "count", "reason"),
    [
        ("chanend", 32, "tile 1 has 32 channel ends, all are in use"),
        ("timer", 10, "tile 1 has 10 timers, all are in use"),
        ("lock", 4, "tile 1 has 4 locks, all are in use"),
    ],
)
@simulated
async def test_a_tile_has_so_many_and_one_more_traps(kind: str, count: int, reason: str) -> None:
    async with open_node() as node:
        allocate = getattr(node.tiles[1], f"allocate_{kind}")
        resources = [allocate() for _ in range(count)]
        with pytest.raises(Trap) as one_more:
            allocate()
        assert (one_more.value.kind, one_more.value.reason) == (TrapKind.ILLEGAL_RESOURCE, reason)
        resources[3].free()
        assert allocate().number == 3


@pytest.mark.parametrize("kind", ["chanend", "timer", "lock"])
@simulated
async def test_a_freed_resource_cannot_be_freed_again(kind: str) -> None:
    async with open_node() as node:
        allocate = getattr(node.tiles[0], f"allocate_{kind}")
        stale = allocate()
        stale.free()
        successor = allocate()
        with pytest.raises(Trap) as again:
            stale.free()
        assert again.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert allocate().number == successor.number + 1  # the successor's number was not given away


@pytest.mark.parametrize(
    ("number", "tile", "kind", "ids"),
    [
        (0, 0, "chanend", [0x80000002, 0x80000102]),
        (0, 1, "chanend", [0x80010002, 0x80010102]),
        (1, 0, "chanend", [0x80020002, 0x80020102]),
        (0, 0, "timer", [0x80000001, 0x80000101]),
        (0, 1, "lock", [0x80010005, 0x80010105]),
    ],
)
@simulated
async def test_resource_ids_hold_type_number_tile_and_node(
    number: int, tile: int, kind: str, ids: list[int]
) -> None:
    async with open_node(number=number) as node:
        allocate = getattr(node.tiles[tile], f"allocate_{kind}")
        assert [allocate().resource_id for _ in ids] == ids


@pytest.mark.parametrize(
    ("mhz", "running", "rate"),
    [
        (600, 1, 120e6),
        (600, 5, 120e6),
        (600, 6, 100e6),
        (600, 8, 75e6),
        (700, 5, 140e6),
        (700, 7, 100e6),
        (800, 5, 160e6),
        (800, 8, 100e6),
    ],
)
@simulated
async def test_five_issue_slots_share_the_core_clock(mhz: int, running: int, rate: float) -> None:
    async with open_node(core_clock_mhz=mhz) as node:
        assert node.tiles[0].core_rate(running) == rate


@simulated
async def test_memory_is_512_kib_and_not_a_byte_more() -> None:
    async with open_node() as node:
        memory = node.tiles[0].memory
        block = memory.allocate("all", 512 * 1024)
        assert memory.available == 0
        with pytest.raises(OutOfMemory, match="'more' needs 1 bytes on tile 0, 0 of 524288 are available"):
            memory.allocate("more", 1)
        block.free()
        assert memory.available == 524_288
        assert node.tiles[1].memory.available == 524_288


@simulated
async def test_cores_of_a_tile_share_its_memory() -> None:
    async with open_node() as node:
        block = node.tiles[0].memory.allocate("shared", 4)
        written = trio.Event()

        async def write() -> None:
            block.access()[1] = 7
            written.set()

        async def read() -> None:
            await written.wait()
            assert bytes(block.access()) == b"\0\x07\0\0"

        node.tiles[0].start(write)
        node.tiles[0].start(read)


def test_no_tile_reads_the_memory_of_another() -> None:
    @simulated
    async def program() -> None:
        async with open_node() as node:
            block = node.tiles[0].memory.allocate("tensor", 4)

            async def read(_node: Node, _tile: Tile) -> None:
                block.access()

            node.tiles[1].start(read, node, node.tiles[1], name="reader")

    with pytest.raises(ExceptionGroup) as error:
        program()
    trap = sole_error(error.value, Trap)
    assert trap.kind is TrapKind.LOAD_STORE
    assert trap.reason == "tile 1 core 0 (reader) has no access to 'tensor' in the memory of tile 0"
