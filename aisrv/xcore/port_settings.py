"""What a port is set to: its clock, width, buffer, edges and mode. Rules: PortOwner, section State.

Sources: lib_xcore's port.h; tool_axe, lib/Port.cpp.
"""

import enum
from typing import TYPE_CHECKING, Final, Protocol

from aisrv.xcore.clock_edges import ClockEdges
from aisrv.xcore.clockblock import ClockBlock
from aisrv.xcore.core import Core, check_tile, current_core
from aisrv.xcore.pin import Pin, Pull
from aisrv.xcore.port_clock import PortClock
from aisrv.xcore.port_input import Pins as InputPins
from aisrv.xcore.port_input import PortInput
from aisrv.xcore.port_map import PORT_IDS
from aisrv.xcore.port_output import PortOutput
from aisrv.xcore.port_pins import PortPins
from aisrv.xcore.report import name_of
from aisrv.xcore.runtime import Parking, Runtime
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.listener import Listener

TRANSFER_WIDTHS: Final = (8, 32)
_INPUTS: Final = frozenset(("in", "inpw", "select"))
"""Verbs that trap while a select or an interrupt has the port: what they would take is for that."""


class PortMode(enum.Enum):
    """What a port is for."""

    DATA = "data"
    CLOCK = "clock"
    """It drives the signal of its clock block."""


class PortOwner(Protocol):
    """A tile's ports, as each of them knows them."""

    @property
    def tile(self) -> int:
        """The tile's number."""

    @property
    def reference(self) -> ClockBlock:
        """Clock block 0."""

    def enabled_changed(self, changed: "PortSettings", now: int) -> None:
        """Called as a port was enabled or disabled."""


class PortSettings:
    """A port without the verbs that input and output.

    Settings act at the tick of the running core. They trap with ILLEGAL_RESOURCE before `enable`, by a core
    of another tile, and where the port cannot do that; with RESOURCE_DEP while another core waits for it.
    """

    def __init__(self, runtime: Runtime, ports: PortOwner, name: str, pins: tuple[Pin, ...]) -> None:
        """Create the port of that name, such as `1A`, not enabled."""
        self.runtime: Final = runtime
        self.tile: Final = ports.tile
        """The tile's number."""
        self.resource_id: Final = PORT_IDS[name]
        """That of `XS1_PORT_1A` and so on."""
        self.name: Final = f"port {name}"
        self.pins: Final = pins
        self.width: Final = len(pins)
        self.open_drain = False
        """Whether it drives 0 alone, and its 1 is that of a pull-up."""
        self._pull = Pull.NONE
        self.user: Core | None = None
        """The core that used it last."""
        self._ports = ports
        self._clock = PortClock(ports.reference)
        self._pins = PortPins(pins, self)
        self._out = PortOutput(self._clock, self._pins.drive, self.width)
        read = InputPins(self._pins.value_at, self._pins.values_at, self._pins.next_change)
        self._in = PortInput(self._clock, read, self.width)
        self._mode = PortMode.DATA
        self._is_output = False
        self._enabled = False
        self._parking: Parking[None] = runtime.parking(runtime)
        self._verb: str | None = None
        self._listener: Listener | None = None
        self._timestamp = 0
        """The counter at the last word that was input, or loaded before it became an input."""
        self._since = 0
        """The sampling edge since which a core waits."""
        self._next_count: int | None = None
        """Samples of the next word that is output, where they are set."""

    # Life.

    @property
    def is_enabled(self) -> bool:
        """Whether it may be used."""
        return self._enabled

    @property
    def is_inverted(self) -> bool:
        """Whether it drives and reads the opposite."""
        return self._pins.inverted

    @property
    def is_output(self) -> bool:
        """Whether it outputs now."""
        self._advance(self._now())
        return self._is_output

    @property
    def clock(self) -> ClockBlock:
        """The block that clocks it."""
        return self._clock.block

    def enable(self) -> None:
        """Make it ready for use: an unbuffered input on the reference clock, as after `reset`."""
        self._operate("setc", enabled=False)
        now = self._now()
        if self._enabled:
            self._leave(now)
        self._enabled = True
        for pin in self.pins:
            pin.read_by(self)
        self._set_defaults(now)
        self._ports.enabled_changed(self, now)

    def reset(self) -> None:
        """Set everything back to what it is after `enable`; nothing is driven any more."""
        self.enable()

    def disable(self) -> None:
        """Give it back; nothing is driven any more."""
        self._operate("setc")
        now = self._now()
        self._leave(now)
        self._enabled = False
        self._ports.enabled_changed(self, now)

    def _leave(self, now: int) -> None:
        self._stop_driving(now)
        self._pull_by(Pull.NONE, open_drain=False)
        self.clock.ports.remove(self)
        for pin in self.pins:
            pin.read_no_more(self)

    def _set_defaults(self, now: int) -> None:
        self._pull_by(Pull.NONE, open_drain=False)
        self._pins.inverted = False
        self._mode = PortMode.DATA
        self._is_output = False
        self._in.buffered = False
        self._in.condition, self._in.time, self._timestamp = None, None, 0
        self._clock.samples_falling = False
        self._attach(self._ports.reference, now)
        self._in.begin(self._clock.sampled(now), self.width)

    def start_buffered(self, transfer_width: int) -> None:
        """Enable it with a buffer, for words of so many bits."""
        self.enable()
        self.set_buffered()
        self.set_transfer_width(transfer_width)

    # Settings.

    def set_clock(self, block: ClockBlock) -> None:
        """Have it clocked by a block; its counter begins at 0."""
        self._operate("setclk")
        block.check_usable(f"setclk of {self.name}", self.tile)
        now = self._now()
        self.clock_ends(now)
        self.clock.ports.remove(self)
        self._attach(block, now)
        self.clock_begins(now, counters=True)

    def _attach(self, block: ClockBlock, now: int) -> None:
        self._clock.block = block
        block.ports.append(self)
        self._clock.base = self._clock.fallen(now)

    def set_buffered(self) -> None:
        """Give it a buffer: words of several samples."""
        self._operate("setc")
        self._in.buffered = True

    def set_unbuffered(self) -> None:
        """Take its buffer away; it must have the transfer width of its pins."""
        self._operate("setc")
        if self._in.transfer_width != self.width:
            self._refuse("setc", f"has a transfer width of {self._in.transfer_width}")
        self._in.buffered = False

    def set_transfer_width(self, width: int) -> None:
        """Have words of so many bits: those of its pins, or 8 or 32 where it is buffered."""
        self._operate("settw")
        if width != self.width and (width not in TRANSFER_WIDTHS or width < self.width):
            self._refuse("settw", f"has no transfer width of {width}")
        if width != self.width and not self._in.buffered:
            self._refuse("settw", "is not buffered")
        now = self._now()
        self._advance(now)
        self._in.begin(self._clock.sampled(now), width)

    def set_invert(self) -> None:
        """Have it drive and read the opposite; it must have one bit."""
        self._set_inverted(inverted=True)

    def set_no_invert(self) -> None:
        """Have it drive and read its pins as they are."""
        self._set_inverted(inverted=False)

    def _set_inverted(self, *, inverted: bool) -> None:
        self._operate("setc")
        if inverted and self.width != 1:
            self._refuse("setc", f"has {self.width} bits and cannot be inverted")
        if inverted == self._pins.inverted:
            return
        now = self._now()
        self.clock_ends(now)
        self._pins.inverted = inverted
        self._lay_anew(now)

    def set_sample_falling_edge(self) -> None:
        """Sample at falling edges."""
        self._set_sampling(falling=True)

    def set_sample_rising_edge(self) -> None:
        """Sample at rising edges."""
        self._set_sampling(falling=False)

    def _set_sampling(self, *, falling: bool) -> None:
        self._operate("setc")
        now = self._now()
        self._advance(now)
        self._in.collapse(self._clock.sampled(now))
        before = self._clock.sampled(now)
        self._clock.samples_falling = falling
        after = self._clock.sampled(now)
        self._in.move(after - before, after)

    def set_inout_data(self) -> None:
        """Have it input and output data, not its clock."""
        self._set_mode(PortMode.DATA)

    def set_out_clock(self) -> None:
        """Have it drive the signal of its clock block."""
        self._set_mode(PortMode.CLOCK)

    def _set_mode(self, mode: PortMode) -> None:
        self._operate("setc")
        if mode is not self._mode:
            now = self._now()
            self._advance(now)
            self._stop_driving(now)
            self._mode = mode
            self._lay_anew(now)

    def set_drive(self) -> None:
        """Drive both levels, without a pull of its own; that of the board stays."""
        self._set_pull(Pull.NONE, open_drain=False)

    def set_drive_pull_up(self) -> None:
        """Drive 0 alone, and pull the pins up otherwise."""
        self._set_pull(Pull.UP, open_drain=True)

    def set_drive_pull_down(self) -> None:
        """Drive both levels, and pull the pins down where it inputs."""
        self._set_pull(Pull.DOWN, open_drain=False)

    def _set_pull(self, pull: Pull, *, open_drain: bool) -> None:
        self._operate("setc")
        self._pull_by(pull, open_drain=open_drain)

    def _pull_by(self, pull: Pull, *, open_drain: bool) -> None:
        self.open_drain = open_drain
        if pull is not self._pull:
            self._pull = pull
            for pin in self.pins:
                pin.set_port_pull(self, pull)

    def check_source(self, block: ClockBlock) -> None:
        """Trap where the pin of the port cannot clock a block."""
        place = f"setclk of {block.name} on {self.name}"
        if self.tile != block.tile:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which belongs to tile {self.tile}", place)
        if not self._enabled or self.width != 1:
            reason = "has several bits" if self._enabled else "is not enabled"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which {reason}", place)

    # What others tell it.

    def read_pins(self, now: int) -> None:
        """Read the pins up to now, as their past is dropped."""
        self._advance(now)
        if not self._is_output:
            self._keep_awaited(now)
            self._in.collapse(self._clock.sampled(now))

    def _keep_awaited(self, now: int) -> None:
        """Keep the word that a core waits for, where it is there but the core has not run since."""

    def clock_ends(self, now: int) -> None:
        """Take what the clock has done so far, as its edges are about to be others."""
        self._advance(now)
        if not self._is_output:
            self._keep_awaited(now)
            self._in.collapse(self._clock.sampled(now))
        self._ended = (self._clock.fallen(now), self._clock.sampled(now))

    def clock_begins(self, now: int, *, counters: bool) -> None:
        """Go on with the edges of a clock that has begun, or that stands still now."""
        fallen, sampled = self._clock.fallen(now), self._clock.sampled(now)
        before = self._ended
        self._clock.base = fallen if counters else self._clock.base + fallen - before[0]
        self._in.move(sampled - before[1], sampled)
        self._out.move(fallen - before[0], fallen)
        self._since += sampled - before[1]
        self._lay_anew(now)
        self._look_again()

    _ended = (0, 0)

    def edges_changed(self, tick: int) -> None:
        """Follow the edges of the clock, which are others from a tick on."""
        if self._mode is PortMode.CLOCK:
            self._lay_clock(tick - 1)
        elif self._is_output:
            self._pins.withdraw(tick - 1)
            self._out.forget_laid(self._clock.fallen(tick - 1))
            self._lay()
        self._look_again()

    def may_drive(self, pins: tuple[Pin, ...], now: int) -> None:
        """Drive those of its pins alone that no narrower port has."""
        if self._pins.may_drive(pins, now):
            self._lay_anew(now)

    # Inside.

    def _advance(self, now: int) -> None:
        """Let the port do what it has done by itself up to a tick."""
        if self._mode is not PortMode.DATA:
            return
        if self._is_output:
            turned = self._out.advance(self._clock.fallen(now))
            if turned is None:
                return
            self._is_output = False
            if self._out.shifting is not None:
                self._timestamp = self._out.timestamp
            self._since = self._clock.samples_before(turned)
            self._in.begin(self._since, self._in.transfer_width)
        self._in.advance(self._clock.sampled(now), waits=self._waits)

    @property
    def _waits(self) -> bool:
        """Whether a core waits for an input."""
        return self._listener is not None or self._verb is not None

    def _lay(self) -> None:
        """Lay down on the pins what is known of the output to come."""
        out, edges = self._out, self.clock.edges
        if out.withdrawn is not None:
            tick = edges.falling(out.withdrawn)
            if tick is not None:
                self._pins.withdraw(tick - 1)
            out.withdrawn = None
        turn = out.lay_down()
        if turn is not None and (tick := edges.falling(turn)) is not None:
            self._pins.release(tick)

    def _lay_anew(self, now: int) -> None:
        """Lay down what is driven now, and what is known of what comes."""
        if not self._enabled:
            return
        if self._mode is PortMode.CLOCK:
            self._lay_clock(now)
        elif self._is_output:
            self._pins.withdraw(now)
            fallen = self._clock.fallen(now)
            value = self._out.value_at(fallen)
            if value is not None:
                self._pins.drive((now,), (value,))
            self._out.forget_laid(fallen)
            self._lay()

    def _lay_clock(self, now: int) -> None:
        """Drive the signal of the clock block."""
        edges, pins = self.clock.edges, self._pins
        pins.withdraw(now)
        if isinstance(edges, ClockEdges):
            pins.drive_clock(edges)
            return
        fallen, risen = edges.falling_until(now), edges.rising_until(now)
        ticks, levels = [now], [edges.lag + risen - fallen]
        while True:
            level = 1 - levels[-1]
            tick = edges.rising(risen + 1) if level else edges.falling(fallen + 1)
            if tick is None:
                break
            risen, fallen = risen + level, fallen + 1 - level
            ticks.append(tick)
            levels.append(level)
        pins.drive(ticks, levels)

    def _stop_driving(self, now: int) -> None:
        self._pins.withdraw(now)
        self._pins.release(now)
        self._out.begin(self._clock.fallen(now))
        self._next_count = None
        self._is_output = False

    def _look_again(self) -> None:
        """Let the core that waits look again; the port's edges or pins are others than it knew."""
        self._parking.wake(None)

    def _now(self) -> int:
        return self.runtime.tick_of(current_core())

    def _operate(self, verb: str, *, enabled: bool = True) -> None:
        """Begin a setting; in device time it takes a slot."""
        self._check(verb, enabled=enabled)

    def _check(self, verb: str, *, enabled: bool = True) -> None:
        """Trap where the running core may not use the port."""
        place = f"{verb} on {self.name}"
        core = current_core()
        changed = core is not self.user
        if changed:
            check_tile(self.tile, place)
        if enabled and not self._enabled:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which is not enabled", place)
        if self._verb is not None:
            by = name_of(self._parking.user)
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {by} is in {self._verb} on it", place)
        if self._listener is not None and verb in _INPUTS:
            by, using = self._listener.user_name, self._listener.use
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {by} is in {using} on it", place)
        self.user = core
        if changed:
            for pin in self.pins:
                pin.user_changed(self)

    def _refuse(self, verb: str, reason: str) -> None:
        place = f"{verb} on {self.name}"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which {reason}", place)
