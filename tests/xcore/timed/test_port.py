"""Ports in device time: verbs take slots, and edges stay where they are."""

import trio

from aisrv.xcore.node import open_node
from aisrv.xcore.select import select
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.timed.port import TimedPort
from tests.support.benches.pin_bench import Line
from tests.support.benches.port_boards import block, enabled, wired
from tests.support.benches.simulation import simulated


@simulated
async def test_a_word_crosses_a_wire_at_the_ticks_of_its_edges() -> None:
    async with open_node(classes=TIMED) as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock, buffered=32), enabled(tile, "1B", clock, buffered=32)
        wired(p, q)
        clock.start()
        seen: list[tuple[int, int, int]] = []

        async def send() -> None:
            await p.out_at_time(10, 0x99542C28)

        async def receive() -> None:
            word = await q.in_at_time(41)
            seen.append((word, q.get_trigger_time(), node.clock.ticks()))

        tile.start(send)
        tile.start(receive)
        await trio.sleep(0.001)
        assert seen == [(0x99542C28, 41, 415)]


@simulated
async def test_verbs_and_settings_take_a_slot_of_the_core() -> None:
    async with open_node(classes=TIMED) as node:
        tile, timeline = node.tiles[0], timeline_of(node.runtime)
        assert timeline is not None
        p, taken = tile.port("1A"), list[int]()

        async def work() -> None:
            for act in (p.enable, p.set_buffered, p.peek, p.clear_buffer):
                begun = timeline.now()
                act()
                taken.append(timeline.now() - begun)
            clock = tile.clock_block(0x106)
            begun = timeline.now()
            clock.enable()
            clock.start()
            taken.append(timeline.now() - begun)
            begun = timeline.now()
            await p.out(1)
            taken.append(timeline.now() - begun)

        tile.start(work)
        await trio.sleep(0.001)
        assert taken == [5, 5, 5, 5, 10, 5]


@simulated
async def test_a_select_of_a_port_and_a_timer_wakes_at_the_tick_of_the_event() -> None:
    async with open_node(classes=TIMED) as node:
        tile = node.tiles[0]
        clock = block(tile, 100)
        p = enabled(tile, "1A", clock)
        clock.start()
        seen: list[tuple[bool, int]] = []

        async def wait() -> None:
            timer = tile.allocate_timer()
            for time in (50, 5000):
                late = timer.after(time)
                chosen = await select(p, late)
                seen.append((chosen is p, node.clock.ticks()))
                if chosen is p:
                    await p.in_()

        tile.start(wait)
        await trio.sleep(0.001)
        assert seen == [(False, 51), (True, 100)]


@simulated
async def test_a_button_wakes_a_core() -> None:
    class Button:
        name = "button"

    async with open_node(classes=TIMED) as node:
        p, button, seen = enabled(node.tiles[0], "1A"), Button(), list[int]()
        p.pins[0].drive(0, button)

        async def wait() -> None:
            await p.in_when_pinseq(1)
            seen.append(node.clock.ticks())

        node.tiles[0].start(wait)
        await p.pins[0].until(5000)
        p.pins[0].drive(1, button)
        await p.pins[0].until(6000)
        assert seen == [5001]


@simulated
async def test_a_core_that_would_be_before_the_edge_that_woke_it_is_an_error() -> None:
    seen: list[str] = []
    async with open_node(classes=TIMED) as node:
        tile, pin, line = node.tiles[0], node.tiles[0].pin("1A"), Line()
        port = tile.port("1A")
        assert isinstance(port, TimedPort)

        async def wait() -> None:
            port.enable()
            try:
                await port.in_when_pinseq(1)
            except AssertionError as error:
                seen.append(str(error))

        tile.start(wait)
        pin.drive(1, line, 1000)
        await pin.until(500)
        port._edge = 2000  # as if an edge of the future had woken it
    assert seen == ["port 1A: a core at tick 1001 was woken by an edge at tick 2000"]
