"""What a port is set to: its clock, width, buffer, edges and mode. Rules: PortOwner, section State.

Sources: lib_xcore's port.h; tool_axe, lib/Port.cpp.
"""

import enum
from typing import TYPE_CHECKING, Final, Protocol

from aisrv.xcore.core import Core, check_tile, current_core
from aisrv.xcore.ports.arithmetic import ArithmeticRegisters
from aisrv.xcore.ports.clock import PortClock
from aisrv.xcore.ports.clockblock import ClockBlock
from aisrv.xcore.ports.map import PORT_IDS
from aisrv.xcore.ports.pin import Pin, Pull
from aisrv.xcore.ports.port_pins import PortPins
from aisrv.xcore.ports.ready import ReadyUse
from aisrv.xcore.ports.registers import Registers
from aisrv.xcore.ports.stepped import SteppedRegisters
from aisrv.xcore.report import name_of
from aisrv.xcore.runtime import Parking, Runtime
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.channels.listener import Listener

MOST_PIN_DELAY: Final = 5
TRANSFER_WIDTHS: Final = (8, 32)
_INPUTS: Final = frozenset(("in", "inpw", "select"))
"""Verbs that trap while a select or an interrupt has the port: what they would take is for that."""


class PortMode(enum.Enum):
    """The use of a port."""

    DATA = "data"
    CLOCK = "clock"
    """It drives the signal of its clock block."""
    READY = "ready"
    """It drives the ready signal of another port."""


class ReadyMode(enum.Enum):
    """Which ready signals go with the data of a port."""

    NONE = "none"
    STROBED = "strobed"
    """One: a master drives it, a slave reads it."""
    HANDSHAKE = "handshake"
    """Both: it drives one and reads the other."""


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

    def source_inverted(self, port: "PortSettings") -> None:
        """Called as a port, which may clock a block, reads the opposite from now on."""


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
        self._registers: Registers = ArithmeticRegisters(self._clock, self._pins, self.width)
        self._mode = PortMode.DATA
        self._ready_mode = ReadyMode.NONE
        self._is_slave = False
        self._ready_lines: list[PortPins] = []
        self._ready_of: PortSettings | None = None
        self._enabled = False
        self._parking: Parking[None] = runtime.parking(runtime)
        self._verb: str | None = None
        self._listener: Listener | None = None

    # Life.

    @property
    def is_enabled(self) -> bool:
        """Return whether it may be used."""
        return self._enabled

    @property
    def is_inverted(self) -> bool:
        """Return whether it drives and reads the opposite."""
        return self._pins.inverted

    @property
    def is_output(self) -> bool:
        """Return whether it outputs now."""
        self._advance(self._now())
        return self._registers.is_output

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
        self._drive_ready_of(None)
        self._registers.close(now)
        self.clock.ports.remove(self)
        for pin in self.pins:
            pin.read_no_more(self)

    def _set_defaults(self, now: int) -> None:
        self._pull_by(Pull.NONE, open_drain=False)
        self._pins.inverted = False
        self._mode = PortMode.DATA
        self._clock.samples_falling = False
        self._attach(self._ports.reference, now)
        self._ready_mode, self._is_slave = ReadyMode.NONE, False
        self._registers = ArithmeticRegisters(self._clock, self._pins, self.width)
        self._registers.set_transfer_width(self.width, now)
        self._registers.waits = self._listener is not None

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
        self._registers.set_buffered(buffered=True)

    def set_unbuffered(self) -> None:
        """Take its buffer away; it must have the transfer width of its pins."""
        self._operate("setc")
        if (width := self._registers.transfer_width) != self.width:
            self._refuse("setc", f"has a transfer width of {width}")
        if self._ready_mode is not ReadyMode.NONE:
            self._refuse("setc", "uses ready signals")
        self._registers.set_buffered(buffered=False)

    def set_transfer_width(self, width: int) -> None:
        """Have words of so many bits: those of its pins, or 8 or 32 where it is buffered."""
        self._operate("settw")
        if width != self.width and (width not in TRANSFER_WIDTHS or width < self.width):
            self._refuse("settw", f"has no transfer width of {width}")
        if width != self.width and not self._registers.buffered:
            self._refuse("settw", "is not buffered")
        now = self._now()
        self._advance(now)
        self._registers.set_transfer_width(width, now)

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
        self.pins[0].settle(now)
        self._pins.inverted = inverted
        self._lay_anew(now)
        self._ports.source_inverted(self)
        self.pins[0].tell_anew()

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
        self._registers.set_sampling(now, falling=falling)

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
            self._drive_ready_of(None)
            self._mode = mode
            self._lay_anew(now)

    def set_out_ready(self, source: "PortSettings") -> None:
        """Have it, which must have one bit, drive the ready signal of another port: 0 while that has none."""
        self._operate("setrdy")
        if self.width != 1:
            self._refuse("setrdy", f"has {self.width} bits")
        if self.tile != source.tile:
            self._refuse("setrdy", f"is not on the tile of {source.name}")
        now = self._now()
        self._advance(now)
        self._stop_driving(now)
        self._drive_ready_of(source)
        self._mode = PortMode.READY
        self._lay_anew(now)

    def _drive_ready_of(self, source: "PortSettings | None") -> None:
        if self._ready_of is not None:
            self._ready_of._ready_lines.remove(self._pins)
        self._ready_of = source
        if source is not None:
            source._ready_lines.append(self._pins)

    @property
    def ready_of(self) -> "PortSettings | None":
        """The port whose ready signal it drives."""
        return self._ready_of

    def set_no_ready(self) -> None:
        """Use no ready signals; it must be a master."""
        self._operate("setc")
        if self._is_slave:
            self._refuse("setc", "is a slave")
        self._set_ready(ReadyMode.NONE)

    def set_ready_strobed(self) -> None:
        """Drive a ready signal as a master, or read one as a slave; it must be buffered."""
        self._operate("setc")
        self._set_ready(ReadyMode.STROBED)

    def set_ready_handshake(self) -> None:
        """Drive a ready signal and read another one; it must be buffered, and a master."""
        self._operate("setc")
        if self._is_slave:
            self._refuse("setc", "is a slave")
        self._set_ready(ReadyMode.HANDSHAKE)

    def set_master(self) -> None:
        """Be the one who drives the ready signal, as after `enable`."""
        self._operate("setc")
        self._is_slave = False
        self._use_registers(self._now())

    def set_slave(self) -> None:
        """Be the one who reads the ready signal: that of its clock block. It must be strobed."""
        self._operate("setc")
        if self._ready_mode is not ReadyMode.STROBED:
            self._refuse("setc", "is not strobed")
        self._is_slave = True
        self._use_registers(self._now())

    def _set_ready(self, mode: ReadyMode) -> None:
        if mode is not ReadyMode.NONE and not self._registers.buffered:
            self._refuse("setc", "is not buffered")
        self._ready_mode = mode
        self._use_registers(self._now())

    def _use_registers(self, now: int) -> None:
        """Have the registers that go with the ready signals that are used."""
        mode, old = self._ready_mode, self._registers
        if mode is ReadyMode.NONE:
            if isinstance(old, SteppedRegisters):
                self._hand_over(ArithmeticRegisters(self._clock, self._pins, self.width), now)
            return
        both = mode is ReadyMode.HANDSHAKE
        use = ReadyUse(ready_in=both or self._is_slave, ready_out=both or not self._is_slave)
        if isinstance(old, SteppedRegisters):
            old.use_signals(use, now)
        else:
            new = SteppedRegisters(self._clock, self._pins, self.width, self.runtime, use)
            new.ready_lines, new.changed = self._ready_lines, self._look_again
            self._hand_over(new, now)

    def _hand_over(self, new: Registers, now: int) -> None:
        """Go on with other registers, which hold what was in the old ones."""
        old = self._registers
        self._advance(now)
        contents = old.contents(now)
        old.close(now)
        new.buffered, new.transfer_width, new.waits = old.buffered, old.transfer_width, old.waits
        self._registers = new
        new.adopt(contents, now)

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

    def set_pin_delay(self, clocks: int) -> None:
        """Delay what it reads by 0 to 5 clocks of the core: less than a tick, so nothing changes here."""
        self._operate("setc")
        if not 0 <= clocks <= MOST_PIN_DELAY:
            self._refuse("setc", f"has no pin delay of {clocks}")

    def check_source(self, block: ClockBlock, verb: str) -> None:
        """Trap where the pin of the port cannot clock a block, or be its ready signal."""
        place = f"{verb} of {block.name} on {self.name}"
        if self.tile != block.tile:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which belongs to tile {self.tile}", place)
        if not self._enabled or self.width != 1:
            reason = "has several bits" if self._enabled else "is not enabled"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which {reason}", place)

    # What others tell it.

    def read_pins(self, now: int) -> None:
        """Read the pins up to now, as their past is dropped."""
        self._registers.read_pins(now)

    def clock_ends(self, now: int) -> None:
        """Take what the clock has done so far, as its edges are about to be others."""
        self._registers.read_pins(now)
        self._clock.note_ready(now)
        self._ended = (self._clock.fallen(now), self._clock.sampled(now))

    def clock_begins(self, now: int, *, counters: bool) -> None:
        """Go on with the edges of a clock that has begun, or that stands still now."""
        fallen = self._clock.fallen(now)
        self._clock.base = fallen if counters else self._clock.base + fallen - self._ended[0]
        self._registers.clock_begins(self._ended, now)
        self._lay_anew(now)
        self._look_again()

    _ended = (0, 0)

    def edges_changed(self, tick: int) -> None:
        """Follow the edges of the clock, which are others from a tick on."""
        if self._mode is PortMode.CLOCK:
            self._pins.drive_edges(self.clock.edges, tick - 1)
        else:
            self._registers.edges_changed(tick)
        self._look_again()

    def may_drive(self, pins: tuple[Pin, ...], now: int) -> None:
        """Drive those of its pins alone that no narrower port has."""
        if self._pins.may_drive(pins, now):
            self._lay_anew(now)

    # Inside.

    def _advance(self, now: int) -> None:
        """Let the port do what it has done by itself up to a tick."""
        if self._mode is PortMode.DATA:
            self._registers.advance(now)

    def _lay_anew(self, now: int) -> None:
        """Lay down what is driven now, and what is known of what comes."""
        if not self._enabled:
            return
        if self._mode is PortMode.CLOCK:
            self._pins.drive_edges(self.clock.edges, now)
            return
        if self._ready_of is not None:
            source = self._ready_of._registers
            self._pins.withdraw(now)
            self._pins.drive((now,), (int(source.ready_out),))
            source.lay_anew(now)
            return
        self._registers.lay_anew(now)

    def _stop_driving(self, now: int) -> None:
        self._pins.withdraw(now)
        self._pins.release(now)
        self._registers.stop(now)

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
        below = None if core is None else core.below
        if self._verb is not None and (below is None or below is not self._parking.user):
            self._refuse_use(place)
        if self._listener is not None and verb in _INPUTS:
            by, using = self._listener.user_name, self._listener.use
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {by} is in {using} on it", place)
        self.user = core
        if changed:
            for pin in self.pins:
                pin.user_changed(self)

    def _refuse_use(self, place: str) -> None:
        by = name_of(self._parking.user)
        raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {by} is in {self._verb} on it", place)

    def _refuse(self, verb: str, reason: str) -> None:
        place = f"{verb} on {self.name}"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which {reason}", place)
