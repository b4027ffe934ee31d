"""Ready signals of ports: what tool_axe's tests of them say, in our words, and what is particular to ours."""

import pytest
import trio
import trio.testing

from aisrv.xcore.lib_xcore import par
from aisrv.xcore.node import open_node
from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.port import Port
from aisrv.xcore.ports.protocol import (
    port_protocol_in_handshake,
    port_protocol_in_strobed_master,
    port_protocol_in_strobed_slave,
    port_protocol_out_handshake,
    port_protocol_out_strobed_master,
)
from aisrv.xcore.select import select
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import Deadlock, Trap
from tests.support.benches.port_boards import block, enabled, wired
from tests.support.benches.simulation import simulated


class Handshake:
    """An input `p` and an output `q` with wires between them; q is clocked by what p's clock drives."""

    def __init__(self, tile: Tile) -> None:
        self.p, self.q = enabled(tile, "8A", buffered=32), enabled(tile, "8B", buffered=32)
        names = ("1A", "1B", "1C", "1D", "1E", "1F")
        self.p_in, self.p_out, self.p_clock, self.q_in, self.q_out, self.q_clock = (
            enabled(tile, name) for name in names
        )
        wired(self.q, self.p)
        wired(self.q_out, self.p_in)
        wired(self.p_out, self.q_in)
        wired(self.p_clock, self.q_clock)
        self.p_block, self.q_block = block(tile, 12), tile.allocate_clock_block()

    async def start(self) -> None:
        await port_protocol_in_handshake(self.p, self.p_in, self.p_out, self.p_block)
        self.p_clock.set_clock(self.p_block)
        self.p_clock.set_out_clock()
        self.q_block.set_source_port(self.q_clock)
        await port_protocol_out_handshake(self.q, self.q_in, self.q_out, self.q_block, 0)
        self.q_block.start()
        self.p_block.start()


@simulated
async def test_handshaken_words_arrive_and_a_time_holds_for_both_ends() -> None:
    async with open_node() as node:
        pair = Handshake(node.tiles[0])
        await pair.start()
        words = (0x2CC94916, 0xDE298055, 0xF6525045)
        for word in words:
            await pair.q.out(word)
        assert [await pair.p.in_() for _ in words] == list(words)
        await pair.q.out_at_time(32, 0xCC2B4EF9)
        assert await pair.p.in_() == 0xCC2B4EF9
        assert pair.p.get_trigger_time() == 35


@simulated
async def test_what_is_left_of_handshaken_words_is_counted_and_input() -> None:
    async with open_node() as node:
        pair = Handshake(node.tiles[0])
        await pair.start()
        p, q = pair.p, pair.q
        await q.out(0x2CC94916)
        await q.out(0xDE298055)
        await q.sync()
        assert [p.endin(), await p.in_(), await p.in_()] == [64, 0x2CC94916, 0xDE298055]
        await q.out(0x2CC94916)
        await q.out_part_word(0x55, 8)
        await q.sync()
        assert [p.endin(), await p.in_(), await p.in_()] == [40, 0x2CC94916, 0x552CC949]
        await q.out(0x2CC94916)
        await q.sync()
        assert [p.endin(), await p.in_()] == [32, 0x2CC94916]
        await q.out_part_word(0x16, 8)
        await q.sync()
        assert [p.endin(), await p.in_(), p.endin()] == [8, 0x162CC949, 0]


@simulated
async def test_a_strobed_slave_samples_while_its_ready_signal_is_high() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 3)
        p, gate, loopback = enabled(tile, "1C", buffered=32), enabled(tile, "1A"), enabled(tile, "1B", clock)
        wired(loopback, gate)
        await port_protocol_in_strobed_slave(p, gate, clock)
        clock.start()
        timer = tile.allocate_timer()
        deadline = timer.after(timer.now() + 200)
        assert await select(deadline, p) is deadline
        await loopback.out(1)
        assert await p.in_() == 0
        # High from edge 34 on: 32 samples, of which the first is at the rising edge after it.
        assert (p.get_trigger_time(), node.clock.ticks()) == (65, 393)


@simulated
async def test_a_strobed_master_says_when_its_data_are_valid() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 3)
        p, ready = enabled(tile, "1C", buffered=32), enabled(tile, "1A")
        loopback = enabled(tile, "1B", clock, buffered=32)
        wired(ready, loopback)
        await port_protocol_out_strobed_master(p, ready, clock, 0)
        await p.out_at_time(5, 0)
        clock.start()
        assert [await loopback.in_(), await loopback.in_()] == [0xFFFFFFE0, 0x1F]


@simulated
async def test_a_strobed_master_asks_for_two_words_ahead() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 3)
        p, ready = enabled(tile, "1C", buffered=32), enabled(tile, "1A")
        loopback = enabled(tile, "1B", clock, buffered=32)
        wired(ready, loopback)
        await port_protocol_in_strobed_master(p, ready, clock)
        clock.start()
        assert [await loopback.in_() for _ in range(3)] == [0xFFFFFFFE, 0xFFFFFFFF, 1]


@simulated
async def test_a_strobed_master_asks_from_its_time_on() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 3)
        p, ready = enabled(tile, "1C", buffered=32), enabled(tile, "1A")
        loopback = enabled(tile, "1B", clock, buffered=32)
        wired(ready, loopback)
        await port_protocol_in_strobed_master(p, ready, clock)
        read: list[int] = []

        async def look() -> None:
            await tile.allocate_timer().wait_after(200)
            clock.start()
            read.extend([await loopback.in_() for _ in range(5)])

        await par(tile, lambda: p.in_at_time(5 + 32), look)
        assert read == [0, 0xFFFFFFE0, 0xFFFFFFFF, 0xFFFFFFFF, 0x1F]


@simulated
async def test_a_part_word_of_an_output_completes_the_word_of_a_handshaken_input() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        names = ("1A", "1B", "1C", "1E", "1F", "1G")
        p_in, p_out, p_clock, q_in, q_out, q_clock = (enabled(tile, name) for name in names)
        p, q = enabled(tile, "1D", buffered=8), enabled(tile, "1H", buffered=8)
        for source, target in ((q_out, p_in), (p_out, q_in), (p_clock, q_clock), (q, p)):
            wired(source, target)
        made = block(tile, 10)
        p_clock.set_clock(made)
        p_clock.set_out_clock()
        p_block, q_block = tile.allocate_clock_block(), tile.allocate_clock_block()
        p_block.set_source_port(p_clock)
        await port_protocol_in_handshake(p, p_in, p_out, p_block)
        q_block.set_source_port(q_clock)
        await port_protocol_out_handshake(q, q_in, q_out, q_block, 0)
        for each in (p_block, q_block, made):
            each.start()
        await q.out_part_word(0x2E, 3)
        await q.out_part_word(0x2E >> 3, 5)
        assert await p.in_() == 0x2E


async def _see(valid: Port, data: Port) -> tuple[int, int]:
    return await valid.in_(), await data.in_()


@simulated
async def test_an_output_that_samples_at_falling_edges_reads_its_ready_signal_there() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        slow = block(tile, 8)
        gate, valid = enabled(tile, "1A", slow), enabled(tile, "1B", slow)
        p = enabled(tile, "8A", buffered=8)
        q = enabled(tile, "8B", buffered=32)
        q_in, q_out, source = enabled(tile, "1E"), enabled(tile, "1D"), enabled(tile, "1F", slow)
        wired(gate, q_in)
        wired(q_out, valid)
        wired(q, p)
        q_block = tile.allocate_clock_block()
        q_block.set_source_port(source)
        q.set_sample_falling_edge()
        await port_protocol_out_handshake(q, q_in, q_out, q_block, 0)
        await source.out(1)
        await gate.out(0)
        await q.out(0x52A8C1F5)
        slow.start()
        q_block.start()
        await gate.out(0)
        await source.out(0)
        seen: list[tuple[int, int]] = []
        for ready in (1, 1, 0, 1, 1):
            await gate.out(ready)
            await source.out(1)
            await gate.out(ready)
            await source.out(0)
            await source.sync()
            seen.append(await _see(valid, p))
        # What was read at one falling edge counts for the next one, and 1 before the first.
        assert seen == [(0, 0xF5), (1, 0xC1), (1, 0xA8), (0, 0xA8), (1, 0x52)]


def _refusals(tile: Tile, clock: ClockBlock, other: Port) -> list[tuple[str, object]]:
    plain, wide = enabled(tile, "1A"), enabled(tile, "4A")
    strobed, slave = enabled(tile, "1B", buffered=8), enabled(tile, "1C", buffered=8)
    strobed.set_ready_strobed()
    slave.set_ready_strobed()
    slave.set_slave()
    return [
        ("setc on port 1A, which is not buffered", plain.set_ready_strobed),
        ("setc on port 1A, which is not buffered", plain.set_ready_handshake),
        ("setc on port 1A, which is not strobed", plain.set_slave),
        ("setc on port 1C, which is a slave", slave.set_no_ready),
        ("setc on port 1C, which is a slave", slave.set_ready_handshake),
        ("setc on port 1B, which has a transfer width of 8", strobed.set_unbuffered),
        ("setrdy on port 4A, which has 4 bits", lambda: wide.set_out_ready(plain)),
        ("setrdy on port 1A, which is not on the tile of port 1A", lambda: plain.set_out_ready(other)),
        (
            f"setrdy of {clock.name} on port 4A, which has several bits",
            lambda: clock.set_ready_src(wide),
        ),
        (
            f"setrdy of {clock.name} on port 1D, which is not enabled",
            lambda: clock.set_ready_src(tile.port("1D")),
        ),
    ]


@simulated
async def test_what_a_port_cannot_do_traps() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        for message, act in _refusals(tile, tile.allocate_clock_block(), node.tiles[1].port("1A")):
            with pytest.raises(Trap) as caught:
                act()  # type: ignore[operator]
            assert str(caught.value) == f"ILLEGAL_RESOURCE (4): {message}"


class _Outside:
    name = "outside"


def _strobed(tile: Tile, clock: ClockBlock, *, transfer_width: int = 8) -> tuple[Port, Port]:
    """Return a slave that inputs, and the port of its ready signal."""
    p, gate = enabled(tile, "1A", clock, buffered=transfer_width), enabled(tile, "1B")
    clock.set_ready_src(gate)
    p.set_ready_strobed()
    p.set_slave()
    return p, gate


@simulated
async def test_a_slave_that_nobody_asks_for_long_has_its_newest_word() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p, gate = _strobed(tile, clock := tile.allocate_clock_block())
        gate.pins[0].drive(1, _Outside(), 0)
        p.pins[0].drive_run([1, 0, 1, 1, 0, 0, 1, 0], 49_999_995, 1, _Outside())
        clock.start()
        await trio.sleep(0.5)  # 50 million edges
        await p.pins[0].until(50_000_004)
        # Sample k is at tick k and reads the tick before; words are complete at multiples of 8.
        assert await p.in_() == 0b01101000
        assert p.get_trigger_time() == 49_999_999 & 0xFFFF


@simulated
async def test_the_word_of_a_handshaken_input_wakes_a_select() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        pair = Handshake(tile)
        await pair.start()
        tile.start(pair.q.out, 0x12345678)
        timer = tile.allocate_timer()
        assert await select(timer.after(timer.now() + 1000), pair.p) is pair.p
        assert await pair.p.in_() == 0x12345678


@simulated
async def test_another_source_and_its_inversion_count_from_then_on() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        p, first = _strobed(tile, clock := block(tile, 5))
        other = enabled(tile, "1C")
        p.pins[0].drive(1, _Outside(), 0)
        clock.start()
        first.pins[0].drive(1, _Outside(), 0)
        await p.pins[0].until(22)  # samples at 5 and 15
        clock.set_ready_src(other)
        await p.pins[0].until(52)  # none at 25, 35, 45
        other.set_invert()
        await p.pins[0].until(82)  # those at 55, 65, 75
        assert p.endin() == 5


@simulated
async def test_a_port_that_is_reset_reads_and_drives_no_ready_signal() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        p, ready = enabled(tile, "1A", clock, buffered=8), enabled(tile, "1B")
        await port_protocol_in_strobed_master(p, ready, clock)
        clock.start()
        pin = ready.pins[0]
        await pin.until(10)
        assert pin.value() == 1
        p.reset()
        assert pin.value() == 0
        p.set_clock(clock)
        await pin.until(100)
        assert [level for _, level in pin.changes(10)] == []
        ready.reset()
        assert pin.level() == 2


@simulated
async def test_a_ready_port_follows_another_source_inverted() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        clock = block(tile, 5)
        first, second = enabled(tile, "1A", clock, buffered=8), enabled(tile, "1C", clock, buffered=8)
        ready = enabled(tile, "1B")
        first.set_ready_strobed()
        ready.set_out_ready(second)
        clock.start()
        pin = ready.pins[0]
        await pin.until(20)
        assert pin.value() == 0
        ready.set_out_ready(first)
        assert pin.value() == 1
        ready.set_invert()
        assert pin.value() == 0
        pin.keep("test", 20)
        await pin.until(400)
        assert list(pin.changes(20)) == [(170, 1)]  # after 16 samples, at 15 to 165


def test_a_wait_for_a_ready_signal_of_a_core_that_waits_is_a_deadlock() -> None:
    async def run() -> None:
        async with open_node() as node:
            tile = node.tiles[0]
            pair = Handshake(tile)
            await pair.start()
            end = tile.allocate_chanend()
            end.setd(end)

            async def receive() -> None:
                assert await pair.p.in_() == 1
                await pair.p.in_()

            async def send() -> None:
                await pair.q.out(1)
                await end.inuint()

            tile.start(receive, name="receiver")
            tile.start(send, name="sender")

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    deadlock = caught.value.exceptions[0]
    assert isinstance(deadlock, Deadlock)
    assert "on port 8A (driven by port 8B of tile 0 core 1 (sender))" in str(deadlock)
