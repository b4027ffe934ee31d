"""Clock blocks: what tool_axe's tests of them say, in our words, their settings, and what traps."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from aisrv.xcore.lib_xcore import par
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.ports.port import Port
from aisrv.xcore.select import select
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import SizeError, Trap
from tests.support.benches.port_boards import block, enabled, wired
from tests.support.benches.simulation import simulated


async def _toggle(node: Node, port: Port, count: int) -> None:
    """Output 0, 1, 0, ... each 50 ticks."""
    timer = node.tiles[0].allocate_timer()
    time = timer.now()
    for at in range(count):
        time += 50
        await timer.wait_after(time)
        await port.out(at % 2)


@pytest.mark.parametrize("through", ["the port itself", "a wire"])
@simulated
async def test_inputs_are_clocked_by_a_port(through: str) -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        out = enabled(tile, "1A")
        source = out
        if through == "a wire":
            source = enabled(tile, "1B")
            wired(out, source)
        clock = tile.allocate_clock_block()
        clock.set_source_port(source)
        p = enabled(tile, "1C", clock)
        await out.out(1)
        await out.sync()
        clock.start()
        begun = node.clock.ticks()
        ended: list[int] = []

        async def read() -> None:
            for _ in range(10):
                await p.in_()
            ended.append(node.clock.ticks() - begun)

        await par(tile, partial(_toggle, node, out, 20), read)
        assert ended == [1002]  # the timer wakes a tick late, and the port drives a tick later


@simulated
async def test_outputs_are_clocked_by_a_port() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        source = enabled(tile, "1A")
        await source.out(1)
        await source.sync()
        clock = tile.allocate_clock_block()
        clock.set_source_port(source)
        p = enabled(tile, "1B", clock)
        clock.start()
        begun = node.clock.ticks()
        ended: list[int] = []

        async def write() -> None:
            for _ in range(10):
                await p.out(0)
            ended.append(node.clock.ticks() - begun)

        await par(tile, partial(_toggle, node, source, 20), write)
        assert ended == [50 * 17 + 2]  # nine are loaded


async def _clocked_by_hand(tile: Tile, first: int) -> tuple[Callable[[int], Awaitable[None]], Port]:
    """Return what drives the source of a block, and port 1B on that block."""
    source = enabled(tile, "1A")

    async def drive(level: int) -> None:
        await source.out(level)
        await source.sync()

    await drive(first)
    clock = tile.allocate_clock_block()
    clock.set_source_port(source)
    port = enabled(tile, "1B", clock)
    clock.start()
    return drive, port


@simulated
async def test_the_time_of_an_input_is_the_falling_edges_before_its_sample() -> None:
    async with open_node() as node:
        drive, port = await _clocked_by_hand(node.tiles[0], 0)
        times = []
        for level in (1, 0, 1, 0):
            await drive(level)
            if level:
                await port.in_()
            times.append(port.get_trigger_time())
        assert times == [0, 0, 1, 1]


@simulated
async def test_the_time_of_an_input_at_falling_edges_has_that_edge() -> None:
    async with open_node() as node:
        drive, port = await _clocked_by_hand(node.tiles[0], 0)
        port.set_sample_falling_edge()
        times = []
        for level in (1, 0, 1, 0):
            await drive(level)
            if not level:
                await port.in_()
            times.append(port.get_trigger_time())
        assert times[1:] == [1, 1, 2]


@simulated
async def test_the_time_of_an_output_is_that_of_the_edge_that_loads_it() -> None:
    async with open_node() as node:
        drive, port = await _clocked_by_hand(node.tiles[0], 1)
        await port.out(0)
        times = []
        for level in (0, 1, 0, 1, 0):
            await drive(level)
            times.append(port.get_trigger_time())
            if not level:
                await port.out(0)
        assert times == [1, 1, 2, 2, 3]


@simulated
async def test_a_clock_that_a_block_drives_is_known_ahead() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        second = block(tile, 10)
        source = enabled(tile, "1A")
        clock = tile.allocate_clock_block()
        clock.set_source_port(source)
        p, timer = enabled(tile, "1B", clock), tile.allocate_timer()
        await source.out(1)
        await source.sync()
        source.set_clock(second)
        second.start()
        clock.start()
        await source.out(0)
        late = timer.after(timer.now() + 100)
        assert await select(p, late) is late
        begun = node.clock.ticks()
        await source.out(1)
        assert await select(p, timer.after(timer.now() + 100)) is p
        assert node.clock.ticks() - begun <= 20


@simulated
async def test_an_input_waits_for_its_clock_to_be_started() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = tile.allocate_clock_block()
        p, timer = enabled(tile, "1A", clock), tile.allocate_timer()

        async def start() -> None:
            await timer.wait_after(100)
            clock.start()

        await par(tile, p.in_, start)
        assert node.clock.ticks() == 102


@pytest.mark.parametrize(("divide", "period"), [(0, 1), (1, 2), (5, 10), (255, 510)])
@simulated
async def test_a_divide_of_the_reference(divide: int, period: int) -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, divide)
        p = enabled(tile, "1A", clock)
        clock.start()
        await p.out(0)
        await p.out(1)
        for k in (2, 3, 4):
            await p.out(0)
            assert node.clock.ticks() == k * period


@pytest.mark.parametrize(
    ("mhz", "divide", "ticks"), [(600, 3, [1, 2, 3]), (600, 4, [2, 3, 4]), (800, 5, [2, 3, 4])]
)
@simulated
async def test_a_divide_of_the_core_clock_rounds_up_to_ticks(mhz: int, divide: int, ticks: list[int]) -> None:
    async with open_node(core_clock_mhz=mhz) as node:
        tile = node.tiles[0]
        clock = tile.allocate_clock_block()
        clock.set_source_clk_xcore()
        clock.set_divide(divide)
        clock.start()
        assert [clock.edges.falling(k) for k in (1, 2, 3)] == ticks


@simulated
async def test_delays_are_of_the_core_clock() -> None:
    async with open_node() as node:
        clock = block(node.tiles[0], 5)
        clock.set_rise_delay(12)
        clock.set_fall_delay(13)
        clock.start()
        assert (clock.edges.rising(1), clock.edges.falling(1)) == (7, 13)


@pytest.mark.parametrize("divide", [0, 1, 3])
@simulated
async def test_a_port_clocks_a_block_divided(divide: int) -> None:
    class Source:
        name = "source"

    async with open_node() as node:
        tile = node.tiles[0]
        source, clock = enabled(tile, "1A"), tile.allocate_clock_block()
        clock.set_source_port(source)
        clock.set_divide(divide)
        source.pins[0].drive_run([0, 1] * 50, 0, 5, Source())
        clock.start()
        period = 10 * 2 * divide or 10
        first = 10 * (2 * divide) - 5 if divide else 10
        assert [clock.edges.falling(k) for k in (1, 2, 3)] == [first + k * period for k in range(3)]


@simulated
async def test_an_inverted_port_clocks_with_the_opposite() -> None:
    class Source:
        name = "source"

    async with open_node() as node:
        tile = node.tiles[0]
        source, clock = enabled(tile, "1A"), tile.allocate_clock_block()
        source.set_invert()
        source.pins[0].drive_run([0, 1] * 3, 0, 5, Source())
        clock.set_source_port(source)
        clock.start()
        assert clock.edges.lag == 1  # it is high
        assert [clock.edges.falling(k) for k in (1, 2, 3, 4)] == [5, 15, 25, None]


@simulated
async def test_a_tile_has_six_blocks_and_their_ids() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        blocks = [tile.allocate_clock_block() for _ in range(5)]
        assert [each.resource_id for each in blocks] == [0x106, 0x206, 0x306, 0x406, 0x506]
        with pytest.raises(Trap, match="6 clock blocks, all are in use"):
            tile.allocate_clock_block()
        blocks[2].disable()
        assert tile.allocate_clock_block() is blocks[2] is tile.clock_block(0x306)
        assert tile.clock_block(0x006).runs
        for other in (0x606, 0x100, 6 << 8):
            with pytest.raises(SizeError, match="clock block"):
                tile.clock_block(other)


@simulated
async def test_what_a_block_cannot_do_traps() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock, wide, off = tile.allocate_clock_block(), enabled(tile, "4A"), tile.port("1A")
        for act, text in (
            (partial(clock.set_divide, 256), "256 is not 0 to 255"),
            (partial(clock.set_rise_delay, 512), "512 is not 0 to 511"),
            (partial(clock.set_source_port, wide), "several bits"),
            (partial(clock.set_source_port, off), "not enabled"),
            (tile.clock_block(0x506).start, "not enabled"),
            (tile.clock_block(0x006).start, "reference clock"),
            (partial(clock.set_source_port, node.tiles[1].port("1A")), "tile 1"),
            (partial(wide.set_clock, tile.clock_block(0x506)), "not enabled"),
        ):
            with pytest.raises(Trap, match=text):
                act()
        clock.start()
        with pytest.raises(Trap, match="which runs"):
            clock.set_divide(2)
        clock.stop()
        clock.set_divide(2)


@simulated
async def test_a_core_that_waits_for_a_stopped_clock_names_who_used_it() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = tile.allocate_clock_block()
        p = enabled(tile, "1A", clock)
        tile.start(p.in_, name="reader")
        await trio.sleep(1e-6)
        assert "clock block 0x106 does not run" in p.explain_wait()
        node.stop()
