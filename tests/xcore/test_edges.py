"""The edges of a clock block on a pin, by number: as far as they are known, and as they change."""

import pytest

from aisrv.xcore.clock_edges import ClockEdges
from aisrv.xcore.edges import DividedEdges, LaterEdges, NoEdges, PinEdges
from aisrv.xcore.node import open_node
from tests.support.simulation import simulated


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


def test_later_edges_count_from_their_start() -> None:
    edges = LaterEdges(ClockEdges(0, 10), 7)  # high since 5
    assert edges.lag == 1
    assert [edges.falling(1), edges.rising(1), edges.falling(2)] == [10, 15, 20]
    assert [(edges.falling_until(tick), edges.rising_until(tick)) for tick in (3, 10, 15)] == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]
    assert list(edges.falling_ticks(1, 3)) == [10, 20]


def test_a_clock_that_stands_still_has_no_edges() -> None:
    edges = NoEdges()
    assert (edges.falling_until(9), edges.rising_until(9), list(edges.falling_ticks(1, 5))) == (0, 0, [])
