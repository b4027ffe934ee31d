"""The edges of a clock block on a pin, by number: as far as they are known, and as they change."""

from bisect import bisect_right

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from aisrv.xcore.node import open_node
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.edges import DividedEdges, NoEdges, PinEdges
from aisrv.xcore.ports.pin import Pin
from tests.support.amounts import in_ci
from tests.support.benches.simulation import simulated


class Source:
    """A driver."""

    name = "source"


@pytest.mark.parametrize("inverted", [False, True])
@simulated
async def test_edges_of_a_pin_are_known_as_far_as_its_changes(inverted: bool) -> None:
    async with open_node() as node:
        pin, source = node.tiles[0].pin("1A"), Source()
        pin.drive_run([0, 1, 0, 1, 0], 0, 10, source)
        edges = PinEdges(pin, 5, inverted=inverted)
        at_10, at_20 = (edges.falling, edges.rising) if inverted else (edges.rising, edges.falling)
        assert [at_10(k) for k in (1, 2, 3)] == [10, 30, None]
        assert [at_20(k) for k in (1, 2, 3)] == [20, 40, None]
        assert edges.lag == int(inverted)
        assert [edges.rising_until(tick) + edges.falling_until(tick) for tick in (9, 10, 39, 99)] == [
            0,
            1,
            3,
            4,
        ]
        assert list(edges.falling_ticks(1, 9)) == ([10, 30] if inverted else [20, 40])
        pin.withdraw(source, 25)
        edges.changed_from(26)
        assert at_10(2) is None
        pin.drive(1, source, 28)
        edges.changed_from(28)
        assert at_10(2) == 28


@simulated
async def test_long_pasts_are_dropped_and_still_counted() -> None:
    async with open_node() as node:
        pin, source = node.tiles[0].pin("1A"), Source()
        pin.keep("test", 0)
        pin.drive_run([0, 1] * 30_000, 0, 1, source)
        edges = PinEdges(pin, 0, inverted=False)
        for tick in range(1, 60_000, 5_000):
            edges.falling_until(tick)
            edges.rising_until(tick)
        assert (edges.rising_until(59_999), edges.falling_until(59_999)) == (30_000, 29_999)
        assert (edges.rising(30_000), edges.falling(29_999)) == (59_999, 59_998)
        assert sum(map(len, edges._ticks)) < 20_000


@simulated
async def test_a_divided_clock_has_an_edge_at_each_count_of_rising_ones() -> None:
    async with open_node() as node:
        pin, source = node.tiles[0].pin("1A"), Source()
        pin.drive_run([0, 1] * 12, 0, 1, source)  # rises at 1, 3, 5, ...
        edges = DividedEdges(PinEdges(pin, 0, inverted=False), 3)
        assert [edges.rising(k) for k in (1, 2, 3)] == [5, 17, None]
        assert [edges.falling(k) for k in (1, 2, 3)] == [11, 23, None]
        assert [(edges.rising_until(tick), edges.falling_until(tick)) for tick in (4, 5, 10, 11, 23)] == [
            (0, 0),
            (1, 0),
            (1, 0),
            (1, 1),
            (2, 2),
        ]
        assert edges.falling_ticks(1, 4) == [11, 23]


@given(st.data())
@settings(max_examples=in_ci(60, every_day=20))
def test_a_periodic_clock_has_the_edges_that_its_levels_have(data: st.DataObject) -> None:
    """By arithmetic, before it is driven, while it is, and after it is driven no more."""
    draw = data.draw
    denominator = draw(st.integers(1, 4))
    clock = ClockEdges(draw(st.integers(0, 30)), draw(st.integers(2 * denominator, 40)), denominator)
    since, end = draw(st.integers(0, 60)), draw(st.integers(100, 200))
    start, divide = draw(st.integers(0, 80)), draw(st.integers(0, 3))
    inverted, flipped = draw(st.booleans()), draw(st.booleans())
    looks = draw(st.lists(st.integers(0, 250), max_size=4))

    async def run() -> None:
        async with open_node() as node:
            pin, source = node.tiles[0].pin("1A"), Source()
            pin.keep("test", 0)
            pin.drive_clock(clock, source, inverted=inverted, since=since)
            read = PinEdges(pin, start, inverted=flipped)
            edges = DividedEdges(read, divide) if divide else read
            for tick in looks:
                edges.falling_until(tick)
            if draw(st.booleans()) and (found := edges.periodic()) is not None:
                rules, opposite, first = found
                levels = _levels(pin, start, end, flipped=flipped, divide=divide)
                assert levels[first:] == [rules.level(tick) ^ opposite for tick in range(first, end)]
            pin.drive_run(draw(st.lists(st.integers(0, 1), min_size=1, max_size=30)), end, 1, source)
            read.changed_from(end)
            levels = _levels(pin, start, 250, flipped=flipped, divide=divide)
            moves = [tick for tick in range(start + 1, 250) if levels[tick] != levels[tick - 1]]
            falls, rises = ([tick for tick in moves if levels[tick] == level] for level in (0, 1))
            for tick in range(start, 250, 7):
                assert edges.falling_until(tick) == sum(each <= tick for each in falls)
                assert edges.rising_until(tick) == sum(each <= tick for each in rises)
            assert [edges.falling(k + 1) for k in range(len(falls))] == falls
            assert [edges.rising(k + 1) for k in range(len(rises))] == rises
            assert list(edges.falling_ticks(1, len(falls) + 1)) == falls

    trio.run(run, clock=MockClock(autojump_threshold=0))


def _levels(pin: Pin, start: int, end: int, *, flipped: bool, divide: int) -> list[int]:
    """Return the levels of a clock at each tick from 0 on, from those of its pin."""
    levels = [(pin.value(tick) == 1) ^ flipped for tick in range(end)]
    if not divide:
        return [int(level) for level in levels]
    rises = [tick for tick in range(start + 1, end) if levels[tick] and not levels[tick - 1]]
    return [bisect_right(rises, tick) // divide % 2 for tick in range(end)]


@simulated
async def test_a_clock_port_follows_a_periodic_pin_divided() -> None:
    """By arithmetic: it has no end."""
    async with open_node() as node:
        tile, source = node.tiles[0], Source()
        tile.pin("1A").drive_clock(ClockEdges(0, 10), source)
        block, p, q = tile.allocate_clock_block(), tile.port("1A"), tile.port("1B")
        for port in (p, q):
            port.enable()
        block.set_source_port(p)
        block.set_divide(2)
        q.set_clock(block)
        q.set_out_clock()
        await q.pins[0].until(32)
        block.start()  # rises at 35, 45, 55, 65, ...
        assert [q.pins[0].level(tick) for tick in (44, 45, 64, 65, 84, 85, 104, 105)] == [
            0,
            1,
            1,
            0,
            0,
            1,
            1,
            0,
        ]
        assert q.pins[0].clock_driven(50) is not None


@simulated
async def test_a_port_that_is_inverted_while_it_clocks_a_block_has_an_edge_then() -> None:
    async with open_node() as node:
        tile, source = node.tiles[0], Source()
        tile.pin("1A").drive_clock(ClockEdges(0, 10), source)
        block, p = tile.allocate_clock_block(), tile.port("1A")
        p.enable()
        block.set_source_port(p)
        await p.pins[0].until(12)
        block.start()
        await p.pins[0].until(22)
        p.set_invert()
        edges = block.edges
        assert [edges.rising(k) for k in (1, 2, 3)] == [15, 22, 30]
        assert [edges.falling(k) for k in (1, 2, 3)] == [20, 25, 35]


def test_a_clock_that_stands_still_has_no_edges() -> None:
    edges = NoEdges()
    assert (edges.falling_until(9), edges.rising_until(9), list(edges.falling_ticks(1, 5))) == (0, 0, [])
