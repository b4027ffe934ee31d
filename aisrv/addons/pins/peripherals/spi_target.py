"""An SPI target on four pins: chip select (active low), clock, MOSI and MISO; any mode, 8 bits, MSB first.

Times are checked against the rules of the SPI port, `phy.spi.signals.timing`; MOSI is to be stable for a tick
before the edge that samples it.
"""

from typing import Final, NamedTuple, Protocol

import trio

from aisrv.addons.pins.peripherals.attention import Attention
from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.resistor import resistor
from aisrv.addons.pins.peripherals.spi_mode import MODES, SpiMode
from aisrv.addons.pins.peripherals.violations import Violations
from aisrv.xcore.ports.pin import HIGH, Pin, Z
from phy.spi.signals.timing import RULES, Rule, TimingRules

_BITS: Final = 8


class SpiAnswerer(Protocol):
    """Source of a target's answers. The clock goes on while it is asked: it answers at once."""

    def select(self) -> None:
        """Begin a transaction: chip select has gone low."""

    def next_out(self) -> int:
        """Return the byte that goes out while the next one comes in."""

    async def take(self, byte: int) -> None:
        """Take a byte that has come in."""

    async def deselect(self) -> None:
        """End the transaction: chip select has gone high."""


class SpiMemory(SpiAnswerer):
    """Answers each transaction with the same bytes and then zeros, and keeps what comes in."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.received: list[bytes] = []
        """The bytes of each transaction that has ended."""
        self._taken = bytearray()

    def select(self) -> None:
        self._taken.clear()

    def next_out(self) -> int:
        at = len(self._taken)
        return self.answer[at] if at < len(self.answer) else 0

    async def take(self, byte: int) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        self._taken.append(byte)

    async def deselect(self) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        self.received.append(bytes(self._taken))


class SpiPins(NamedTuple):
    """The pins of a bus."""

    cs: Pin
    clk: Pin
    mosi: Pin
    miso: Pin


class SpiTarget:
    """The target; `violations` has what controllers did wrong."""

    def __init__(
        self,
        name: str,
        pins: SpiPins,
        answerer: SpiAnswerer,
        *,
        mode: SpiMode = MODES[0],
        rules: TimingRules = RULES,
    ) -> None:
        self.name: Final = name
        self.violations: Final = Violations(name)
        self._pins = pins
        self._answerer = answerer
        self._mode = mode
        self._rules = rules
        self._driver = PinDriver(name)
        self._clock = pins.clk.runtime.clock
        self._seen = self._clock.ticks()
        """Tick up to which the pins have been looked at."""
        self._levels = [pins.cs.value(self._seen), pins.clk.value(self._seen)]
        self._laid = self._seen
        """Tick up to which MISO was laid down ahead."""
        self._is_selected = False
        self._bits = 0
        self._in = self._out = 0
        self._selected_at: int | None = None
        self._deselected_at: int | None = None
        self._sampled: int | None = None
        self._edge: int | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer on the pins until cancelled: a byte at a time, where the clock's future is known so far."""
        cs, clk, mosi, miso = self._pins
        with resistor(self.name, HIGH, cs), Attention(cs, clk, kept=(mosi,)) as attention:
            self._seen = self._clock.ticks()
            self._levels = [cs.value(self._seen), clk.value(self._seen)]
            if self._levels[0] != HIGH:
                self._select(self._seen)
            task_status.started()
            try:
                while True:
                    now = self._clock.ticks()
                    clk.runtime.hold()  # while the answerer thinks
                    await self._catch_up(now)
                    attention.keep(now - 1)
                    await attention.sleep(self._look_ahead(now))
            finally:
                miso.withdraw(self._driver)
                miso.release(self._driver)

    async def _catch_up(self, now: int) -> None:
        """Take the changes up to a tick, those of chip select before the clock's at the same tick."""
        since, self._seen = self._seen, now
        changes = []
        for wire, pin in enumerate((self._pins.cs, self._pins.clk)):
            if (level := pin.value(since)) != self._levels[wire]:  # once more, at the last tick
                changes.append((since, wire, level))
            changes += [(tick, wire, level) for tick, level in pin.changes(since, now)]
            self._levels[wire] = pin.value(now)
        for tick, wire, level in sorted(changes):
            if wire:
                if self._is_selected:
                    await self._clocked(tick, level)
            elif level == HIGH:
                await self._deselect(tick)
            else:
                self._select(tick)

    def _look_ahead(self, now: int) -> int | None:
        """Lay down MISO for the edges of this byte that are known; return the tick to look at again."""
        cs, clk, _, miso = self._pins
        if now < self._laid:
            miso.withdraw(self._driver, now)
        self._laid = now
        end = cs.next_change(now)
        if not self._is_selected:
            return end
        bits, sampled = self._bits, self._sampled
        ticks, levels = [], []
        last = now
        while (tick := clk.next_change(last)) is not None and (end is None or tick < end):
            last = tick
            if self._mode.samples(clk.value(tick)):
                bits, sampled = bits + 1, tick
                if bits == _BITS:
                    break
            elif self._shifts(sampled):
                ticks.append(tick)
                levels.append(self._bit(bits))
        miso.drive_at(ticks, levels, self._driver)
        self._laid = ticks[-1] if ticks else now
        return last if last > now else end

    def _select(self, tick: int) -> None:
        self._check(tick, Rule.CS_IDLE, self._deselected_at, self._rules.cs_idle)
        clk = self._pins.clk.value(tick)
        if clk != self._mode.polarity:
            self.violations.add(tick, "idle clock", f"chip select went low while the clock was {clk}")
        self._is_selected, self._selected_at, self._bits = True, tick, 0
        self._sampled = self._edge = None
        self._answerer.select()
        self._out = self._answerer.next_out()
        if not self._mode.phase:
            self._drive(tick)

    async def _deselect(self, tick: int) -> None:
        self._pins.miso.withdraw(self._driver, tick)
        self._pins.miso.drive(Z, self._driver, tick)
        self._is_selected, self._deselected_at = False, tick
        self._check(tick, Rule.CS_HOLD, self._edge, self._rules.cs_hold)
        if self._bits:
            self.violations.add(tick, "early end", f"chip select went high after {self._bits} bits of a byte")
        await self._answerer.deselect()

    async def _clocked(self, tick: int, level: int) -> None:
        if self._edge is None:
            self._check(tick, Rule.CS_SETUP, self._selected_at, self._rules.cs_setup)
        self._edge = tick
        if not self._mode.samples(level):
            if tick > self._laid and self._shifts(self._sampled):
                self._drive(tick)
            return
        self._check(tick, Rule.CLOCK_PERIOD, self._sampled, self._rules.clock_period)
        mosi = self._pins.mosi.value(tick)
        if self._pins.mosi.value(tick - 1) != mosi:
            self.violations.add(tick, "data setup", "MOSI changed with the edge that samples it")
        self._sampled = tick
        self._in = self._in << 1 & 0xFF | (mosi == HIGH)
        self._bits += 1
        if self._bits == _BITS:
            self._bits = 0
            await self._answerer.take(self._in)
            self._out = self._answerer.next_out()

    def _shifts(self, sampled: int | None) -> bool:
        """Whether an edge that does not sample shifts: the first one of a transaction may end nothing."""
        return bool(self._mode.phase) or sampled is not None

    def _bit(self, bits: int) -> int:
        return self._out >> (_BITS - 1 - bits) & 1

    def _drive(self, tick: int) -> None:
        self._pins.miso.drive(self._bit(self._bits), self._driver, tick)

    def _check(self, tick: int, rule: Rule, since: int | None, least: int) -> None:
        if since is not None:
            self.violations.check(tick, rule.value, "it was", tick - since, least)
