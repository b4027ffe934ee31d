"""Wires: one pin has what another has, now and later."""

from aisrv.xcore.node import open_node
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.pin import Z
from aisrv.xcore.ports.wire import Wire
from tests.support.benches.simulation import simulated


class Source:
    """A driver."""

    name = "source"


@simulated
async def test_a_wire_follows_its_source_ahead_and_back() -> None:
    async with open_node() as node:
        a, b, source = node.tiles[0].pin("1A"), node.tiles[1].pin("1A"), Source()
        a.drive(1, source, 5)
        wire = Wire(a, b)
        a.drive_run([0, 1, 0], 10, 10, source)
        assert [b.level(tick) for tick in (4, 5, 10, 20, 30)] == [Z, 1, 0, 1, 0]
        a.withdraw(source, 15)
        assert [b.level(tick) for tick in (10, 30)] == [0, 0]
        a.release(source, 17)
        assert [b.level(tick) for tick in (16, 17)] == [0, Z]
        wire.close()
        a.drive(1, source, 18)
        assert b.level(18) == Z


@simulated
async def test_a_wire_carries_a_clock() -> None:
    async with open_node() as node:
        a, b, source = node.tiles[0].pin("1A"), node.tiles[1].pin("1A"), Source()
        Wire(a, b)
        a.drive_clock(ClockEdges(3, 8), source, inverted=True)
        assert b.clock_driven(3) == (ClockEdges(3, 8), True)
        assert list(b.changes(3, 20)) == [(7, 0), (11, 1), (15, 0), (19, 1)]
        a.drive(0, source, 40)
        assert b.clock_driven(50) is None
        assert b.level(50) == 0


@simulated
async def test_a_wire_knows_a_clock_that_begins_later() -> None:
    async with open_node() as node:
        a, b, source = node.tiles[0].pin("1A"), node.tiles[1].pin("1A"), Source()
        a.drive(1, source)
        a.drive_clock(ClockEdges(20, 10), source)
        Wire(a, b)
        assert list(b.changes(0, 42)) == [(20, 0), (25, 1), (30, 0), (35, 1), (40, 0)]
