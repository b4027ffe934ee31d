"""Ports: what tool_axe's tests of them say, in our words, and what is particular to our substrate."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from aisrv.xcore.interrupts.api import (
    enable_trigger,
    interrupt_permitted,
    interrupt_unmask_all,
    setup_interrupt_callback,
)
from aisrv.xcore.lib_xcore import par
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.ports.pin import Pull
from aisrv.xcore.ports.port import Port
from aisrv.xcore.select import select
from aisrv.xcore.traps import Deadlock, Trap, TrapKind
from tests.support.benches.port_boards import block, enabled, wired
from tests.support.benches.simulation import simulated


@simulated
async def test_a_buffered_input_collects_what_an_unbuffered_output_drives() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock), enabled(tile, "8B", clock, buffered=32)
        wired(p, q)
        clock.start()

        async def send() -> None:
            await p.out_at_time(10, 0x28)
            for value in (0x2C, 0x54, 0x99):
                await p.out(value)

        tile.start(send)
        assert await q.in_at_time(13) == 0x99542C28
        assert (q.get_trigger_time(), node.clock.ticks()) == (13, 135)


@simulated
async def test_an_unbuffered_input_has_the_bytes_of_a_buffered_output_one_by_one() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock)
        wired(p, q)
        clock.start()
        await p.out_at_time(10, 0x99542C28)
        value = await q.in_shift_right_at_time(10, 0)
        for _ in range(3):
            value = await q.in_shift_right(value)
        assert value == 0x99542C28


@simulated
async def test_a_buffered_condition_aligns_the_word_with_the_value() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock), enabled(tile, "8B", clock, buffered=32)
        wired(p, q)
        await p.out(0x28)

        async def send() -> None:
            clock.start()
            for value in (0x2C, 0x54, 0x99, 0x12, 0x34, 0x56, 0x78, 0x9A):
                await p.out(value)

        tile.start(send)
        word = await q.in_when_pinseq(0x34)
        assert word == 0x34129954
        assert q.get_trigger_time() == 6


@simulated
async def test_a_condition_that_is_not_met_at_its_time_is_waited_for_from_then_on() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock), enabled(tile, "1B", clock)
        p.set_buffered()
        q.set_buffered()
        wired(p, q)

        async def send() -> None:
            clock.start()
            await p.out_at_time(100, 1)
            await p.out_at_time(200, 0)
            await p.out_at_time(300, 1)

        tile.start(send)
        await trio.lowlevel.checkpoint()
        await q.set_trigger_time(150)
        assert await q.in_when_pinseq(0) == 0
        assert q.get_trigger_time() == 200


@simulated
async def test_a_select_of_ports_follows_two_lines() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        pairs = [(enabled(tile, a), enabled(tile, b)) for a, b in (("1A", "1C"), ("1B", "1D"))]
        for out, read in pairs:
            wired(out, read)
            await out.out(0)

        async def send(value: int) -> None:
            timer = tile.allocate_timer()
            time, levels = timer.now(), [0, 0]
            for at in range(8):
                time += 100
                await timer.wait_after(time)
                line = value >> at & 1
                levels[line] ^= 1
                await pairs[line][0].out(levels[line])

        received: list[int] = []

        async def receive() -> None:
            first, second = pairs[0][1], pairs[1][1]
            for port in (first, second):
                port.set_trigger_in_not_equal(0)
            for _ in range(8):
                chosen = await select(first, second)
                port = second if chosen is second else first
                level = await port.in_()
                port.set_trigger_in_not_equal(level)
                received.append(int(port is second))

        tile.start(send, 0x57)
        tile.start(receive)
        await trio.sleep(0.001)
        assert sum(bit << at for at, bit in enumerate(received)) == 0x57


@simulated
async def test_the_word_of_an_event_is_held_until_it_is_input() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock), enabled(tile, "1B")
        wired(q, p)
        await q.out(0)
        clock.start()
        assert await select(p) is p
        await q.out(1)
        await p.pins[0].until(node.clock.ticks() + 101)
        assert await p.in_() == 0
        assert p.get_trigger_time() == 0
        assert await p.in_() == 1


@simulated
async def test_outputs_that_nobody_sees_take_a_period_each() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A")
        for _ in range(1000):
            await p.out(0)
            await p.out(1)
        assert node.clock.ticks() == 1999


@pytest.mark.parametrize("rate", [115_200, 3_000_000])
@pytest.mark.parametrize("tiles", [(0, 1), (0, 0)])
@simulated
async def test_a_uart_of_timers(rate: int, tiles: tuple[int, int]) -> None:
    async with open_node() as node:
        tx, rx = enabled(node.tiles[tiles[0]], "1A"), enabled(node.tiles[tiles[1]], "1B")
        wired(tx, rx)
        bit = 100_000_000 // rate
        await tx.out(1)
        await tx.sync()

        async def send(byte: int) -> None:
            timer = node.tiles[tiles[0]].allocate_timer()
            await timer.wait_after(500)
            time = timer.now()
            await tx.out(0)
            for at in range(9):
                time += bit
                await timer.wait_after(time)
                await tx.out(byte >> at & 1 if at < 8 else 1)

        received: list[int] = []

        async def receive() -> None:
            timer = node.tiles[tiles[1]].allocate_timer()
            assert await rx.in_when_pinseq(0) == 0
            time, byte = timer.now() + bit // 2, 0
            for _ in range(8):
                time += bit
                await timer.wait_after(time)
                byte = await rx.in_shift_right(byte)
            received.append(byte >> 24)

        node.tiles[tiles[0]].start(send, 0xA3)
        node.tiles[tiles[1]].start(receive)
    assert received == [0xA3]


@simulated
async def test_a_uart_of_port_times() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        tx, rx = enabled(tile, "1A"), enabled(tile, "1B")
        wired(tx, rx)
        bit = 868
        await tx.out(1)
        await tx.sync()

        async def send(byte: int) -> None:
            await tx.out(0)
            await tx.sync()
            time = tx.get_trigger_time()
            for at in range(8):
                time += bit
                await tx.out_at_time(time, byte >> at & 1)
            await tx.out_at_time(time + bit, 1)
            await tx.out_at_time(time + 2 * bit, 1)

        received: list[int] = []

        async def receive() -> None:
            await rx.in_when_pinseq(0)
            time, byte = rx.get_trigger_time() + bit // 2, 0
            for _ in range(8):
                time += bit
                byte = await rx.in_shift_right_at_time(time, byte)
            await rx.in_at_time(time + bit)
            received.append(byte >> 24)

        tile.start(receive)
        tile.start(send, 0xA3)
    assert received == [0xA3]


@simulated
async def test_a_clock_port_drives_its_block() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock), enabled(tile, "1B")
        wired(p, q)
        p.set_out_clock()
        clock.start()
        assert await q.in_when_pinseq(0) == 0
        assert await q.in_when_pinseq(1) == 1
        assert node.clock.ticks() == 6  # the clock rises at 5, which is sampled at 6
        assert await q.in_when_pinseq(0) == 0
        assert node.clock.ticks() == 11
        clock.stop()
        assert p.pins[0].value() == 0


@simulated
async def test_parts_of_words_are_input() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock, buffered=32)
        wired(p, q)
        clock.start()
        await p.out_at_time(10, 0x99542C28)
        parts = [await q.in_at_time(10) >> 24]
        parts += [await q.in_part_word(8) >> 24 for _ in range(3)]
        assert parts == [0x28, 0x2C, 0x54, 0x99]


@simulated
async def test_a_shift_count_is_for_the_next_word_that_is_input() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock, buffered=32)
        wired(p, q)
        clock.start()
        await p.out_at_time(10, 0x99542C28)
        parts = [await q.in_at_time(10) >> 24]
        for _ in range(3):
            await q.set_shift_count(8)
            parts.append(await q.in_() >> 24)
        assert parts == [0x28, 0x2C, 0x54, 0x99]


@simulated
async def test_a_shift_count_does_not_shift_what_a_time_aligns() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock, buffered=32)
        wired(p, q)
        clock.start()
        await p.out_at_time(10, 0x99542C28)
        await q.set_shift_count(24)
        assert await q.in_at_time(10) >> 24 == 0x28
        await q.set_shift_count(8)
        assert await q.in_at_time(12) >> 24 == 0x54


@simulated
async def test_a_shift_count_of_an_input_is_that_of_the_word_that_is_output_instead() -> None:
    """As XMOS's SPI master has it, whose clock is at rest after one bit of a word of 32."""
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=32)
        await p.set_shift_count(1)
        await p.out(0b01)
        p.clock.start()
        await p.sync()  # from edge 1 to edge 2
        assert (node.clock.ticks(), p.pins[0].value(node.clock.ticks())) == (20, 1)


@simulated
async def test_a_shift_count_that_an_input_has_used_is_not_that_of_an_output() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        await p.set_shift_count(3)
        p.clock.start()
        await p.in_()  # with the rising edge before falling edge 3
        await p.out(0xFF)
        await p.sync()  # from edge 3 to edge 11
        assert node.clock.ticks() == 110


@simulated
async def test_a_shift_count_of_an_output_is_that_of_the_word_that_is_input_instead() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out_part_word(0, 1)
        await p.sync()  # to edge 2
        await p.set_shift_count(3)
        await p.in_()  # turns round at edge 3, before three rising ones
        assert node.clock.ticks() == 55


@pytest.mark.parametrize(("buffered", "value"), [(32, 0x99542C28), (0, 0x99)])
@simulated
async def test_a_port_that_samples_falling_edges_compares_times_with_the_counter_before_them(
    buffered: int, value: int
) -> None:
    """Half a clock later than at rising edges, as the sample delays of XMOS's SPI master have it."""
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock, buffered=buffered)
        wired(p, q)
        q.set_sample_falling_edge()
        clock.start()
        await p.out_at_time(10, 0x99542C28)
        assert await q.in_at_time(13) == value
        assert (node.clock.ticks(), q.get_trigger_time()) == (140, 14)


@simulated
async def test_parts_of_words_are_output_without_a_gap() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock, buffered=32)
        wired(p, q)
        clock.start()

        async def send() -> None:
            await p.set_trigger_time(10)
            for value in (0x28, 0x2C, 0x54, 0x99):
                await p.out_part_word(value, 8)

        tile.start(send)
        assert await q.in_at_time(13) == 0x99542C28


@simulated
async def test_a_shift_count_of_an_output_is_for_its_next_word() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock, buffered=8), enabled(tile, "1B", clock, buffered=8)
        wired(p, q)
        clock.start()
        await p.out_at_time(10, 0)  # so that what comes after is without a gap
        await p.set_shift_count(3)
        await p.out(0x2E)
        await p.set_shift_count(5)
        await p.out(0x2E >> 3)
        assert await q.in_at_time(25) == 0x2E


@simulated
async def test_a_peek_is_of_the_pins() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p, q = enabled(tile, "8A"), enabled(tile, "8B")
        wired(p, q)
        await p.out(0xAB)
        await p.sync()
        assert (p.peek(), q.peek()) == (0xAB, 0xAB)


@simulated
async def test_an_inverted_port_drives_samples_and_peeks_the_opposite() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p, q = enabled(tile, "1A"), enabled(tile, "1B")
        wired(p, q)
        p.set_invert()
        for value in (0, 1):
            await p.out(value)
            await p.sync()
            await q.in_()
            assert await q.in_() == 1 - value
        await p.in_()
        other = enabled(tile, "1C")
        wired(other, p)
        for value in (0, 1):
            await other.out(value)
            await other.sync()
            await p.in_()
            assert await p.in_() == 1 - value
        assert p.peek() == 0
        p.set_no_invert()
        await p.in_()
        assert await p.in_() == 1


@simulated
async def test_timed_outputs_and_inputs_are_at_their_counters() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock), enabled(tile, "1B", clock)
        wired(q, p)
        await q.out(0)
        clock.start()
        await q.out_at_time(10, 1)
        assert [await p.in_at_time(9), await p.in_at_time(10)] == [0, 1]


@simulated
async def test_a_word_ends_at_its_time_though_nobody_waits() -> None:
    """As XMOS's I2S drivers need it: their core waits for an output as the time of the input comes."""
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "1A", clock, buffered=32), enabled(tile, "1B", clock, buffered=8)
        wired(p, q)
        clock.start()
        await p.out(0b11010010_10111010_10110011)  # its first bit after edge 1, so q's second sample
        await q.set_trigger_time(11)
        await q.pins[0].until(130)  # words of 8 end at 7 and 15 else
        words = [(await q.in_(), q.get_trigger_time()) for _ in range(2)]
        bits = [0, *(0b11010010_10111010_10110011 >> at & 1 for at in range(24))]
        expected = [sum(bits[first + at] << at for at in range(8)) for first in (4, 12)]
        assert words == [(expected[0], 11), (expected[1], 19)]


@simulated
async def test_two_timed_outputs_and_an_input_between_them() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        tx, rx = enabled(tile, "1A"), enabled(tile, "1B")
        wired(tx, rx)
        await tx.out(0)
        await tx.sync()
        start = tx.get_trigger_time()
        await tx.out_at_time(start + 100, 1)
        seen: list[int] = []

        async def receive() -> None:
            seen.append(await rx.in_at_time(start + 150))

        await par(tile, partial(tx.out_at_time, start + 200, 1), receive)
        assert seen == [1]


@simulated
async def test_an_output_turns_round_at_the_time_of_an_input() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, q = enabled(tile, "16A", clock), enabled(tile, "16B", clock)
        wired(p, q)
        clock.start()
        await p.out(0x1234)
        await p.sync()
        clock.start()  # counters are 0 again
        seen: list[int] = []

        async def read() -> None:
            seen.append(await q.in_at_time(99))
            seen.append(await q.in_())

        await par(tile, partial(p.in_at_time, 100), read)
        assert seen == [0x1234, 0]


@simulated
async def test_timestamps_count_periods_from_0() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 10)
        p = enabled(tile, "1A", clock)
        clock.start()
        times = []
        for _ in range(10):
            await p.in_()
            times.append(p.get_trigger_time())
        assert times == list(range(10))


@pytest.mark.parametrize("verb", ["in", "out"])
@simulated
async def test_each_input_and_output_takes_a_period(verb: str) -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 4)  # 12.5 MHz
        p = enabled(tile, "1A", clock)
        clock.start()
        for _ in range(2):
            await (p.in_() if verb == "in" else p.out(0))
        begun = node.clock.ticks()
        for _ in range(100):
            await (p.in_() if verb == "in" else p.out(0))
        assert node.clock.ticks() - begun == 800


async def _ended(node: Node, p: Port, expected: list[tuple[int, int]]) -> None:
    left = p.endin()
    assert left == sum(bits for bits, _ in expected)
    for _, word in expected:
        assert await p.in_() == word


@simulated
@pytest.mark.parametrize("setting", ["enable", "set_out_clock"])
async def test_a_port_that_is_enabled_anew_has_no_words(setting: str) -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        await p.out(1)
        getattr(p, setting)()
        p.start_buffered(8)
        p.set_clock(clock := block(node.tiles[0], 5))
        with trio.move_on_after(1e-6):
            await p.out(0xA5)  # with a word in the register it would wait for the clock, which stands still
        clock.start()
        await p.sync()
        assert (p.clock.edges.falling_until(node.clock.ticks()), p.get_trigger_time()) == (9, 1)


@simulated
async def test_what_is_left_is_input_at_the_end() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = tile.allocate_clock_block()
        source = enabled(tile, "1C")
        clock.set_source_port(source)
        p, q = enabled(tile, "8A", clock, buffered=32), enabled(tile, "8B", clock, buffered=32)
        wired(q, p)
        clock.start()

        async def clocks(count: int) -> None:
            for _ in range(count):
                await source.out(1)
                await source.out(0)
            await source.sync()

        await clocks(1)
        p.clear_buffer()
        await q.out(0x2CC94916)
        await clocks(1)  # the first falling edge loads
        p.clear_buffer()
        tile.start(clocks, 4)
        await q.out(0xDE298055)
        await source.pins[0].until(node.clock.ticks() + 50)
        await _ended(node, p, [(32, 0x2CC94916)])
        tile.start(clocks, 5)
        await source.pins[0].until(node.clock.ticks() + 50)
        await _ended(node, p, [(32, 0xDE298055), (8, 0xDEDE2980)])
        assert p.endin() == 0


# Of our substrate.


@simulated
async def test_a_time_cuts_off_what_is_still_shifted() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b01010101)  # driven from counter 1 on
        await p.out_at_time(4, 0b11000001)
        levels = [p.pins[0].level(10 * counter) for counter in range(1, 14)]
        assert levels == [1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]


@simulated
async def test_a_time_that_is_cleared_lets_the_word_go() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out_at_time(100, 0b11111111)
        p.clear_trigger_time()
        assert (p.pins[0].level(9), p.pins[0].level(10)) == (2, 1)
        await p.sync()
        assert node.clock.ticks() == 90


@simulated
async def test_an_output_without_a_word_at_its_time_becomes_an_input() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5))
        p.clock.start()
        await p.out(1)
        await p.set_trigger_time(5)
        p.clear_buffer()
        assert (p.pins[0].level(49), p.pins[0].level(50)) == (1, 2)


@simulated
async def test_a_later_time_is_in_place_of_the_one_before() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5))
        p.clock.start()
        await p.out(1)
        await p.set_trigger_time(5)
        await p.set_trigger_time(8)
        assert [p.pins[0].level(tick) for tick in (50, 79, 80)] == [1, 1, 2]


@simulated
async def test_a_time_is_that_of_the_clock_which_begins_anew() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5))
        p.clock.start()
        await p.out(1)
        await p.set_trigger_time(5)
        await p.pins[0].until(32)
        p.clock.start()
        assert [p.pins[0].level(tick) for tick in (50, 81, 82)] == [1, 1, 2]


@simulated
async def test_a_word_that_waits_is_cleared() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b11111111)
        await p.out(0b00000000)
        p.clear_buffer()
        assert [p.pins[0].level(tick) for tick in (10, 90, 200)] == [1, 1, 1]


@simulated
async def test_a_port_whose_word_for_a_time_is_cleared_becomes_an_input_then() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5))
        p.clock.start()
        await p.out(1)
        await p.out_at_time(5, 0)
        p.clear_buffer()
        assert [p.pins[0].level(tick) for tick in (49, 50)] == [1, 2]


@simulated
async def test_a_word_that_waits_for_a_time_does_so_as_the_clock_begins_anew() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5))
        p.clock.start()
        await p.out(1)
        await p.out_at_time(5, 0)
        await p.pins[0].until(32)
        p.clock.start()
        assert [p.pins[0].level(tick) for tick in (50, 81, 82)] == [1, 1, 0]


@simulated
async def test_words_go_on_as_a_port_uses_a_ready_signal_and_none_again() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b01010101)
        await p.out(0b11001100)
        await p.pins[0].until(35)
        p.set_ready_strobed()
        await p.pins[0].until(55)
        p.set_no_ready()
        await p.pins[0].until(180)
        levels = [p.pins[0].level(10 * edge) for edge in range(6, 17)]
        assert levels == [0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1]


@simulated
async def test_a_time_stays_as_a_port_uses_a_ready_signal_and_none_again() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b11111111)
        await p.set_trigger_time(20)
        p.set_ready_strobed()
        p.set_no_ready()
        assert [p.pins[0].level(tick) for tick in (199, 200)] == [1, 2]


@simulated
async def test_a_port_whose_first_word_is_cleared_drives_nothing() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5))
        p.clock.start()
        await p.out_at_time(5, 1)
        p.clear_buffer()
        assert [p.pins[0].level(tick) for tick in (49, 50)] == [2, 2]


@simulated
async def test_the_last_value_stays_as_nothing_is_cleared() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b11111111)
        await p.pins[0].until(150)
        p.clear_buffer()
        p.set_invert()
        assert p.pins[0].level(150) == 0


@simulated
async def test_a_word_is_shifted_on_and_the_port_turns_as_the_clock_begins_anew() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b00110101)
        node.tiles[0].start(p.in_)
        await p.pins[0].until(35)
        p.clock.start()
        assert [p.pins[0].level(tick) for tick in (35, 45, 55, 65, 75, 85, 94, 95)] == [
            1,
            0,
            1,
            1,
            0,
            0,
            0,
            2,
        ]
        await p.pins[0].until(200)


@simulated
async def test_an_output_turns_round_at_its_time_for_a_core_that_waits() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b11111111)
        await p.set_trigger_time(4)
        node.tiles[0].start(p.in_)
        await p.pins[0].until(1)
        assert [p.pins[0].level(tick) for tick in (39, 40)] == [1, 2]
        await p.pins[0].until(200)


@simulated
async def test_an_output_after_a_cancelled_input_drives_on() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.out(0b11111111)
        with trio.move_on_after(2e-7):
            await p.in_()
        await p.out(0b00000001)
        assert [p.pins[0].level(10 * counter) for counter in (8, 9, 10, 30)] == [1, 1, 0, 0]


@simulated
async def test_after_a_part_of_a_word_the_next_one_is_whole() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        times = []
        for word in (p.in_, partial(p.in_part_word, 3), p.in_, p.in_):
            await word()
            times.append(p.get_trigger_time())
        assert times == [7, 10, 18, 26]


@simulated
async def test_a_buffer_that_is_cleared_begins_anew() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", block(node.tiles[0], 5), buffered=8)
        p.clock.start()
        await p.pins[0].until(128)
        p.clear_buffer()  # after the 13th sample
        await p.in_()
        assert p.get_trigger_time() == 20


@simulated
async def test_a_wide_port_leaves_its_pins_to_narrower_ones() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        wide, narrow = enabled(tile, "8A"), enabled(tile, "4A")
        await wide.out(0xFF)
        await narrow.out(0b0010)
        await wide.sync()
        # 4A is bits 0, 1, 6 and 7 of 8A
        assert (wide.peek(), narrow.peek()) == (0b00111110, 0b0010)
        narrow.disable()
        assert wide.peek() == 0xFF


@simulated
async def test_the_pull_of_the_board_stays_whatever_the_port_is_set_to() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A")
        p.pins[0].pull = Pull.UP
        levels = []
        for setting in (p.set_drive_pull_down, p.set_drive, p.reset, p.disable):
            setting()
            levels.append(p.pins[0].level())
        assert levels == [1, 1, 1, 1]


@simulated
@pytest.mark.parametrize("end", ["set_drive", "reset", "disable"])
async def test_the_pull_of_a_port_ends_with_its_mode(end: str) -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "4A")
        p.set_drive_pull_up()
        assert [pin.level() for pin in p.pins] == [1, 1, 1, 1]
        getattr(p, end)()
        assert [pin.level() for pin in p.pins] == [2, 2, 2, 2]


@simulated
async def test_a_port_with_a_pull_up_drives_0_alone() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A")
        q = enabled(node.tiles[0], "1B")
        p.set_drive_pull_up()
        await p.out(1)
        await p.sync()
        assert p.peek() == 1
        p.pins[0].drive(0, q)
        assert p.peek() == 0
        p.pins[0].release(q)
        assert p.peek() == 1


@simulated
async def test_clearing_withdraws_what_is_not_driven_yet() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A", buffered=32)
        await p.out(0x55555555)
        await p.out(0xFFFFFFFF)
        await p.pins[0].until(node.clock.ticks() + 4)
        level = p.peek()
        p.clear_buffer()
        assert p.pins[0].next_change(node.clock.ticks()) is None
        await p.pins[0].until(200)
        assert p.peek() == level


@simulated
async def test_disabling_releases_the_pins() -> None:
    async with open_node() as node:
        p = enabled(node.tiles[0], "4A", buffered=32)
        await p.out(0xFFFFFFFF)
        await p.pins[0].until(3)
        p.disable()
        assert [pin.level(100) for pin in p.pins] == [2] * 4


@simulated
async def test_a_forced_input_has_what_is_there() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p = enabled(tile, "1A", buffered=32)
        p.pins[0].drive(1, enabled(tile, "1B"))
        await p.pins[0].until(5)
        assert await p.force_input() == (5, 0b11111 << 27)


def _traps(kind: TrapKind, text: str) -> "pytest.RaisesExc[Trap]":
    return pytest.raises(Trap, match=rf"{kind.name} .*{text}")


@simulated
async def test_what_a_port_cannot_do_traps() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p, wide, off = enabled(tile, "1A"), enabled(tile, "4A"), tile.port("1B")
        for act, text in (
            (off.peek, "not enabled"),
            (wide.set_invert, "4 bits"),
            (partial(p.set_transfer_width, 8), "not buffered"),
            (partial(wide.start_buffered, 1), "no transfer width of 1"),
            (partial(wide.start_buffered, 16), "no transfer width of 16"),
            (p.endin, "not buffered"),
        ):
            with _traps(TrapKind.ILLEGAL_RESOURCE, text):
                act()
        p.start_buffered(8)
        with _traps(TrapKind.ILLEGAL_RESOURCE, "transfer width of 8"):
            p.set_unbuffered()
        for bits in (0, 9, 40):
            with _traps(TrapKind.ILLEGAL_RESOURCE, f"cannot shift {bits} bits of 8"):
                await p.out_part_word(1, bits)
        with _traps(TrapKind.ILLEGAL_RESOURCE, "not enabled"):
            await off.out(1)
        await p.out(1)
        with _traps(TrapKind.ILLEGAL_RESOURCE, "is an output"):
            p.endin()


@simulated
async def test_a_port_is_for_the_cores_of_its_tile() -> None:
    async with open_node(on_trap="halt") as node:
        p = enabled(node.tiles[0], "1A")
        core = node.tiles[1].start(p.out, 1)
        await trio.sleep(1e-6)
        assert core.trap is not None
        assert core.trap.reason.startswith("out on port 1A, which belongs to tile 0")


@simulated
async def test_two_cores_at_once_trap() -> None:
    async with open_node(on_trap="halt") as node:
        tile = node.tiles[0]
        p = enabled(tile, "1A", block(tile, 1))  # which does not run
        tile.start(p.in_, name="first")
        await trio.sleep(1e-6)
        core = tile.start(p.out, 1)
        await trio.sleep(1e-6)
        assert core.trap is not None
        assert core.trap.kind is TrapKind.RESOURCE_DEP
        assert core.trap.reason == "out on port 1A while tile 0 core 0 (first) is in in on it"
        node.stop()


async def _select(port: Port) -> None:
    await select(port)


@pytest.mark.parametrize("waits", [Port.in_, _select])
def test_cores_that_wait_for_each_others_ports_are_a_deadlock(
    waits: Callable[[Port], Awaitable[object]],
) -> None:
    async def run() -> None:
        async with open_node() as node:
            tile = node.tiles[0]
            first, second = enabled(tile, "1A"), enabled(tile, "1C")
            of_first, of_second = enabled(tile, "1B"), enabled(tile, "1D")
            wired(second, of_first)
            wired(first, of_second)
            for port in (first, second):
                await port.out(0)
                await port.sync()

            async def wait(mine: Port, other: Port) -> None:
                await mine.out(0)
                other.set_trigger_in_equal(1)
                await waits(other)

            tile.start(wait, first, of_first, name="one")
            tile.start(wait, second, of_second, name="two")

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(run)
    deadlock = caught.value.exceptions[0]
    assert isinstance(deadlock, Deadlock)
    assert "on port 1B (driven by port 1C of tile 0 core 1 (two))" in str(deadlock)
    assert "on port 1D (driven by port 1A of tile 0 core 0 (one))" in str(deadlock)


@simulated
async def test_a_port_that_a_peripheral_drives_is_waited_for() -> None:
    class Button:
        name = "button"

    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        async with open_node() as node:
            p, button = enabled(node.tiles[0], "1A"), Button()
            p.pins[0].drive(0, button)

            async def press() -> None:
                await p.pins[0].until(5000)
                p.pins[0].drive(1, button)

            async def wait() -> None:
                await p.in_when_pinseq(1)
                seen.append(node.clock.ticks())

            nursery.start_soon(press)
            node.tiles[0].start(wait)
        assert seen == [5001]


@simulated
async def test_a_port_and_a_timer_in_a_select() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 100)
        p, timer = enabled(tile, "1A", clock), tile.allocate_timer()
        clock.start()
        late = timer.after(50)
        assert await select(p, late) is late
        assert node.clock.ticks() == 51
        assert await select(p, timer.after(1000)) is p
        assert node.clock.ticks() == 100


@simulated
async def test_a_cancelled_input_leaves_the_port_in_order() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p = enabled(tile, "1A", block(tile, 50), buffered=8)
        p.clock.start()
        with trio.move_on_after(2.1e-6):
            await p.in_()
        assert node.clock.ticks() == 210
        await p.in_()
        assert (node.clock.ticks(), p.get_trigger_time()) == (750, 7)


@simulated
async def test_a_condition_that_is_not_met_at_its_time_is_looked_for_a_round_of_the_counter_later() -> None:
    """Nobody waits as the time comes; the counter of 16 bits has it again 65,536 samples later."""
    async with open_node() as node:
        p = enabled(node.tiles[0], "1A")
        p.pins[0].drive(1, Peripheral(), 1000)  # 0 before
        p.set_trigger_in_equal(1)
        await p.set_trigger_time(100)
        await p.pins[0].until(2000)
        assert await p.in_() == 1
        assert (node.clock.ticks(), p.get_trigger_time()) == (65_637, 100)


@simulated
async def test_a_condition_that_is_changed_while_a_select_waits_counts() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p = enabled(tile, "1A")
        p.set_trigger_in_equal(1)
        ended: list[int] = []

        async def wait() -> None:
            await select(p)
            await p.in_()
            ended.extend((node.clock.ticks(), p.get_trigger_time()))

        tile.start(wait, name="waiting")
        await p.pins[0].until(50)
        with _traps(TrapKind.RESOURCE_DEP, r"while tile 0 core 0 \(waiting\) is in a select on it"):
            await p.in_()
        p.set_trigger_in_equal(0)
        await p.pins[0].until(60)
        assert ended == [50, 49]


class Peripheral:
    """Drives pins from outside."""

    name = "peripheral"


@simulated
async def test_a_callback_may_use_the_port_that_its_core_waits_for_below() -> None:
    async with open_node(on_trap="halt") as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        data, wake = enabled(tile, "1A", clock, buffered=8), enabled(tile, "1B")
        data.pins[0].drive_run([1, 0, 1, 1, 0, 1, 1, 1], 0, 10, Peripheral())
        wake.pins[0].drive_run([0, 1], 0, 42, Peripheral())
        got: list[object] = []

        async def isr() -> None:
            wake.set_trigger_in_equal(0)
            got.append(await data.force_input())
            data.clear_buffer()

        async def main() -> None:
            wake.set_trigger_in_equal(1)
            setup_interrupt_callback(wake, isr)
            enable_trigger(wake)
            await interrupt_unmask_all()
            clock.start()
            got.append((await data.in_(), node.clock.ticks()))

        tile.start(interrupt_permitted(main))
        await trio.sleep(0.00001)
    # Samples at 5, 15, 25 and 35 until the callback, then eight of them from 45 on.
    assert got == [(4, 0b1101 << 4), (0b11111110, 115)]


@simulated
async def test_a_callback_cannot_wait_for_the_port_that_its_core_waits_for() -> None:
    async with open_node(on_trap="halt") as node:
        tile = node.tiles[0]
        data, wake = enabled(tile, "1A"), enabled(tile, "1B")
        wake.pins[0].drive_run([0, 1], 0, 42, Peripheral())

        async def isr() -> None:
            await data.in_when_pinseq(1)

        async def main() -> None:
            wake.set_trigger_in_equal(1)
            setup_interrupt_callback(wake, isr)
            enable_trigger(wake)
            await interrupt_unmask_all()
            await data.in_when_pinseq(1)

        tile.start(interrupt_permitted(main))
        await trio.sleep(0.00001)
        (core,) = tile.cores
        assert core.trap is not None
        assert core.trap.kind is TrapKind.RESOURCE_DEP
        assert core.trap.reason == "in on port 1A while tile 0 core 0 (main) is in in on it"
