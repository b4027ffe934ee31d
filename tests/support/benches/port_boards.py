"""Ports with wires between them, as tests of ports use them."""

from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.port import Port
from aisrv.xcore.ports.wire import Wire
from aisrv.xcore.tile import Tile


def wired(source: Port, target: Port) -> None:
    """Join the pins of two ports, one way."""
    for a, b in zip(source.pins, target.pins, strict=True):
        Wire(a, b)


def block(tile: Tile, divide: int) -> ClockBlock:
    """Allocate a block on the reference clock, divided."""
    clock = tile.allocate_clock_block()
    clock.set_divide(divide)
    return clock


def enabled(tile: Tile, name: str, clock: ClockBlock | None = None, *, buffered: int = 0) -> Port:
    """Enable a port, with a transfer width where it is to be buffered."""
    port = tile.port(name)
    if buffered:
        port.start_buffered(buffered)
    else:
        port.enable()
    if clock is not None:
        port.set_clock(clock)
    return port
