"""Clock blocks: what ports are clocked by. Rules: "Ports", section Clock blocks.

Sources: lib_xcore's clock.h; tool_axe, lib/ClockBlock.cpp.
"""

from math import gcd
from typing import Final, Protocol

from aisrv.xcore.core import Core, check_tile, current_core
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.edges import DividedEdges, Edges, NoEdges, PinEdges
from aisrv.xcore.ports.map import CLOCK_BLOCK_TYPE
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.traps import Trap, TrapKind

REFERENCE_MHZ: Final = 100
MOST_DIVIDE: Final = 255
MOST_DELAY: Final = 511
NO_EDGES: Final = NoEdges()


class ClockedPort(Protocol):
    """A port, as its clock block knows it."""

    @property
    def pins(self) -> tuple[Pin, ...]:
        """Its pins."""

    @property
    def is_inverted(self) -> bool:
        """Return whether it reads the opposite."""

    def check_source(self, block: "ClockBlock", verb: str) -> None:
        """Trap where its pin cannot clock a block, or be its ready signal."""

    def read_pins(self, now: int) -> None:
        """Called before the ready signal of the block is that of another pin."""

    def clock_ends(self, now: int) -> None:
        """Called before the block's edges are others."""

    def clock_begins(self, now: int, *, counters: bool) -> None:
        """Called after that; with `counters` those of the ports begin at 0."""

    def edges_changed(self, tick: int) -> None:
        """Called as edges become known, or are others, from a tick on."""


class ClockBlock:
    """One of the six of a tile; block 0 is the reference clock and always runs.

    Times of the methods are those of the running core. A setting of a block that runs traps, but `start`,
    which starts it anew.
    """

    def __init__(self, runtime: Runtime, tile: int, number: int, core_clock_mhz: int) -> None:
        """Create the block of that number; 0 runs from tick 0 of the node."""
        self.runtime: Final = runtime
        self.tile: Final = tile
        """The tile's number."""
        self.number: Final = number
        self.resource_id: Final = number << 8 | CLOCK_BLOCK_TYPE
        """That of `XS1_CLKBLK_1` and so on."""
        self.name: Final = f"clock block 0x{self.resource_id:03x}"
        self.ports: Final[list[ClockedPort]] = []
        """The ports that it clocks."""
        self.user: Core | None = None
        """The core that used it last."""
        self._core_clock_mhz = core_clock_mhz
        self._enabled = number == 0
        self._set_defaults()
        self.edges: Edges = ClockEdges(0, 1) if number == 0 else NO_EDGES
        """Its edges, counted from its start."""

    def _set_defaults(self) -> None:
        self._source: ClockedPort | None = None
        self._source_mhz = REFERENCE_MHZ
        self._ready_source: ClockedPort | None = None
        self._divide = 0
        self._rise_delay = self._fall_delay = 0

    @property
    def is_enabled(self) -> bool:
        """Return whether it may be used."""
        return self._enabled

    @property
    def runs(self) -> bool:
        """Return whether it has been started."""
        return self.edges is not NO_EDGES

    @property
    def source_pin(self) -> Pin | None:
        """The pin that its edges come from; None where they are periodic."""
        return None if self._source is None or not self.runs else self._source.pins[0]

    @property
    def ready_source(self) -> ClockedPort | None:
        """The port of one bit whose pin is the ready signal that the block's ports read."""
        return self._ready_source

    def enable(self) -> None:
        """Make it ready for use, with the reference clock as its source, undivided, not running."""
        self._check("setc", enabled=False)
        self._halt()
        self._enabled = True
        self._set_defaults()

    def disable(self) -> None:
        """Stop it and give it back; its ports stand still."""
        self._check("setc")
        self._halt()
        self._enabled = False

    def start(self) -> None:
        """Start it, and its ports' counters at 0; one that runs begins anew."""
        self._check("setc")
        now = self._now()
        self._listen(None)
        edges: Edges
        if self._source is None:
            edges = self._periodic(now)
        else:
            pin, inverted = self._source.pins[0], self._source.is_inverted
            read = PinEdges(pin, now, inverted=inverted)
            edges = DividedEdges(read, self._divide) if self._divide else read
            self._listen(read)
        self._run_on(edges, now, counters=True)

    def stop(self) -> None:
        """Stop it: no edge comes any more."""
        self._check("setc")
        self._halt()

    def set_source_port(self, port: ClockedPort) -> None:
        """Take its edges from the pin of a port of one bit."""
        self._check_setting("setclk")
        port.check_source(self, "setclk")
        self._source = port

    def set_ready_src(self, port: ClockedPort) -> None:
        """Have the block's ports read their ready signal from the pin of a port of one bit."""
        self._check("setrdy")
        port.check_source(self, "setrdy")
        now = self._now()
        for each in self.ports:
            each.read_pins(now)
        self._ready_source = port
        for each in self.ports:
            each.edges_changed(now + 1)

    def set_source_clk_ref(self) -> None:
        """Take the reference clock of 100 MHz as its source."""
        self._check_setting("setclk")
        self._source, self._source_mhz = None, REFERENCE_MHZ

    def set_source_clk_xcore(self) -> None:
        """Take the clock of the cores as its source, which is to be divided."""
        self._check_setting("setclk")
        self._source, self._source_mhz = None, self._core_clock_mhz

    def set_divide(self, divide: int) -> None:
        """Divide the source by twice `divide`, from 0 to 255; 0 passes it on."""
        self._check_setting("setd")
        self._check_range(divide, MOST_DIVIDE, "a divide")
        self._divide = divide

    def set_rise_delay(self, clocks: int) -> None:
        """Delay rising edges by 0 to 511 clocks of the core, which ticks round up."""
        self._check_setting("setc")
        self._check_range(clocks, MOST_DELAY, "a delay")
        self._rise_delay = clocks

    def set_fall_delay(self, clocks: int) -> None:
        """Delay falling edges by 0 to 511 clocks of the core, which ticks round up."""
        self._check_setting("setc")
        self._check_range(clocks, MOST_DELAY, "a delay")
        self._fall_delay = clocks

    def check_usable(self, verb: str, tile: int) -> None:
        """Trap where a port of that tile may not be clocked by it."""
        place = f"{verb} on {self.name}"
        if tile != self.tile:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which belongs to tile {self.tile}", place)
        if not self._enabled:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which is not enabled", place)

    def pin_changed(self, pin: Pin, tick: int) -> None:  # noqa: ARG002 - as in PinListener
        """Read its pin anew from a tick on."""
        if self._read is not None:
            self._read.changed_from(tick)
            for port in self.ports:
                port.edges_changed(tick)

    def source_inverted(self, port: ClockedPort) -> None:
        """Follow a port that reads the opposite from now on, where that is its source."""
        if self._read is not None and self._source is port:
            now = self._now()
            self._read.invert(now)
            for each in self.ports:
                each.edges_changed(now)

    # Inside.

    _read: PinEdges | None = None

    def _periodic(self, now: int) -> ClockEdges:
        mhz, periods = self._source_mhz, 2 * self._divide or 1
        if self._rise_delay or self._fall_delay:
            core = self._core_clock_mhz  # a tick has so many parts, times 100
            return ClockEdges(
                now,
                REFERENCE_MHZ * periods * core,
                mhz * core,
                self._rise_delay * REFERENCE_MHZ * mhz,
                self._fall_delay * REFERENCE_MHZ * mhz,
            )
        common = gcd(REFERENCE_MHZ * periods, mhz)
        return ClockEdges(now, REFERENCE_MHZ * periods // common, mhz // common)

    def _run_on(self, edges: Edges, now: int, *, counters: bool) -> None:
        for port in self.ports:
            port.clock_ends(now)
        self.edges = edges
        for port in self.ports:
            port.clock_begins(now, counters=counters)

    def _halt(self) -> None:
        if self.runs:
            self._listen(None)
            self._run_on(NO_EDGES, self._now(), counters=False)

    def _listen(self, edges: PinEdges | None) -> None:
        if self._read is not None:
            self._read.pin.stop_listening(self)
        self._read = edges
        if edges is not None:
            edges.pin.listen(self)

    def _now(self) -> int:
        return self.runtime.tick_of(current_core())

    def _check(self, verb: str, *, enabled: bool = True) -> None:
        place = f"{verb} on {self.name}"
        check_tile(self.tile, place)
        if self.number == 0:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which is the reference clock", place)
        if enabled and not self._enabled:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which is not enabled", place)
        self.user = current_core()

    def _check_setting(self, verb: str) -> None:
        self._check(verb)
        if self.runs:
            place = f"{verb} on {self.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which runs", place)

    def _check_range(self, value: int, most: int, what: str) -> None:
        if not 0 <= value <= most:
            reason = f"{what} of {self.name}: {value} is not 0 to {most}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, reason, f"setd on {self.name}")
