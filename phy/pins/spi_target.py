"""An SPI target on four pins: chip select (active low), clock, MOSI and MISO; any mode, 8 bits, MSB first.

Times are checked against the rules of the SPI port, `phy.spi.signals.timing`, and `data_setup`.
"""

from typing import Final, NamedTuple, Protocol

import trio

from aisrv.xcore.pin import Pin, Pull, Z
from phy.pins.driver import PinDriver
from phy.pins.spi_mode import MODES, SpiMode
from phy.pins.violations import Violations
from phy.pins.wires import Change, Wires
from phy.spi.signals.timing import RULES, Rule, TimingRules

_CS, _MOSI, _CLK = 0, 1, 2  # of changes at one tick, that of MOSI comes before the edge
_BITS: Final = 8
DATA_SETUP: Final = 10
"""Nanoseconds that MOSI is stable before the edge that samples it: a tick."""


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
        self._is_selected = False
        self._bits = 0
        self._in = self._out = 0
        self._selected_at: int | None = None
        self._deselected_at: int | None = None
        self._moved: int | None = None
        self._edges: tuple[int | None, int | None] = (None, None)  # the last edge that sampled, and any

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer on the pins until cancelled."""
        self._pins.cs.pull = Pull.UP
        with Wires(self._pins.cs, self._pins.mosi, self._pins.clk) as wires:
            task_status.started()
            try:
                if not wires.levels[_CS]:
                    self._select(wires.levels[_CLK], self._pins.cs.runtime.clock.ticks())
                while True:
                    change = await wires.change()
                    if change is not None:
                        await self._changed(change, wires)
            finally:
                self._pins.miso.withdraw(self._driver)
                self._pins.miso.release(self._driver)

    async def _changed(self, change: Change, wires: Wires) -> None:
        if change.wire == _CS:
            if change.level:
                await self._deselect(change.tick)
            else:
                self._select(wires.levels[_CLK], change.tick)
        elif change.wire == _MOSI:
            self._moved = change.tick
        elif self._is_selected:
            await self._clocked(change.tick, change.level, wires.levels[_MOSI])

    def _select(self, clk: int, tick: int) -> None:
        self._check(tick, Rule.CS_IDLE, self._deselected_at, self._rules.cs_idle)
        if clk != self._mode.polarity:
            self.violations.add(tick, "idle clock", f"chip select went low while the clock was {clk}")
        self._is_selected, self._selected_at, self._bits = True, tick, 0
        self._edges = (None, None)
        self._answerer.select()
        self._out = self._answerer.next_out()
        if not self._mode.phase:
            self._drive(tick)

    async def _deselect(self, tick: int) -> None:
        self._pins.miso.drive(Z, self._driver, max(tick, self._pins.miso.runtime.clock.ticks()))
        self._is_selected, self._deselected_at = False, tick
        self._check(tick, Rule.CS_HOLD, self._edges[1], self._rules.cs_hold)
        if self._bits:
            self.violations.add(tick, "early end", f"chip select went high after {self._bits} bits of a byte")
        await self._answerer.deselect()

    async def _clocked(self, tick: int, level: int, mosi: int) -> None:
        sampled, last = self._edges
        if last is None:
            self._check(tick, Rule.CS_SETUP, self._selected_at, self._rules.cs_setup)
        if not self._mode.samples(level):
            self._edges = (sampled, tick)
            if self._mode.phase or sampled is not None:
                self._drive(tick)
            return
        self._check(tick, Rule.CLOCK_PERIOD, sampled, self._rules.clock_period)
        if self._moved is not None:
            self.violations.check(
                tick, "data setup", "MOSI was stable before its edge for", tick - self._moved, DATA_SETUP
            )
        self._edges = (tick, tick)
        self._in = self._in << 1 & 0xFF | mosi
        self._bits += 1
        if self._bits == _BITS:
            self._bits = 0
            await self._answerer.take(self._in)
            self._out = self._answerer.next_out()

    def _drive(self, tick: int) -> None:
        miso = self._pins.miso
        bit = self._out >> (_BITS - 1 - self._bits) & 1
        miso.drive(bit, self._driver, max(tick, miso.runtime.clock.ticks()))

    def _check(self, tick: int, rule: Rule, since: int | None, least: int) -> None:
        if since is not None:
            self.violations.check(tick, rule.value, "it was", tick - since, least)
