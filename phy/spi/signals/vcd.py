"""Recordings of an SPI bus: a port that wraps a slave and draws what is clocked, as VCD.

It has the levels of CS, CLK, MOSI and MISO. A message begins at the time of Trio's clock, or where the
previous one ends if that is later. From there the clock rate in force says how time goes on;
docs/guides/observing.md says how exactly.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from phy.spi.bus import SpiPort, SpiRelayPort, SpiTransfer, Timing
from phy.spi.signals.timing import RULES, SECOND
from phy.vcd_recording import VcdRecording

DEFAULT_HZ: Final = 10_000_000
"""Clock rate that is drawn if the master states none."""
HIGHEST_HZ: Final = SECOND // 2
"""Limit of a drawn clock: a level lasts a nanosecond at least."""
PIECE: Final = 1024
"""Bytes that are drawn before other tasks get a turn."""

SIGNALS: Final = {"CS": 1, "CLK": 0, "MOSI": 0, "MISO": 0}
"""The lines and their levels while the bus is idle; chip select is low while it is active."""


class VcdFile(VcdRecording):
    """A recording of one SPI bus.

    `default_hz` is the clock of transfers that name none; ValueError for one that cannot be drawn. `mosi` and
    `miso` are the bytes on the two lines.
    """

    def __init__(self, path: Path, *, default_hz: int = DEFAULT_HZ) -> None:
        if not 0 < default_hz <= HIGHEST_HZ:
            raise ValueError(f"a clock of {default_hz} Hz cannot be drawn, 1 to {HIGHEST_HZ} can")
        super().__init__(path)
        self._default_hz = default_hz
        self._cs, self._clk, self._mosi, self._miso = (
            self._writer.register_var("spi", name, "wire", 1, init=level) for name, level in SIGNALS.items()
        )
        self._now = 0  # where the drawing ends
        self._high = 0  # since when chip select is high, or was last
        self._low = 0  # the same for low
        self._first_edge: int | None = None  # where the first clock edge is due; None once it has been
        self.selected = False
        self.flush()

    def wait_until(self, nanoseconds: int) -> None:
        """Let the time go on to `nanoseconds`, unless it is later already."""
        self._now = max(self._now, nanoseconds)

    def select(self, timing: Timing) -> None:
        """Let chip select go low."""
        self._low = self._now = max(self._now, self._high + _stated(timing.cs_idle, RULES.cs_idle))
        self._draw(self._low, cs=0)
        self._first_edge = self._low + _stated(timing.cs_setup, RULES.cs_setup)
        self.selected = True

    def clock(self, mosi: bytes, miso: bytes, clock_hz: int | None) -> None:
        """Clock bytes in mode 0: lines change with the falling edge and are read with the rising one."""
        if not (mosi and self._recording):
            return
        hz = min(clock_hz or self._default_hz, HIGHEST_HZ)
        if self._first_edge is None:
            first = self._now + SECOND // (2 * hz)
        else:
            first = max(self._first_edge, self._now)
        self._first_edge = None
        change, clk = self._writer.change, self._clk
        changed = self._now
        half = 0  # counted from the first edge, so that rounding does not add up
        try:
            for out, into in zip(mosi, miso, strict=True):
                for bit in range(7, -1, -1):
                    change(self._mosi, changed, out >> bit & 1)
                    change(self._miso, changed, into >> bit & 1)
                    change(clk, first + half * SECOND // (2 * hz), 1)
                    changed = first + (half + 1) * SECOND // (2 * hz)
                    change(clk, changed, 0)
                    half += 2
        except OSError as error:
            self._fail(error)
        self._now = changed

    def deselect(self, timing: Timing) -> None:
        """Let chip select go high."""
        since = self._now if self._first_edge is None else max(self._now, self._first_edge)
        self._now = max(since + _stated(timing.cs_hold, RULES.cs_hold), self._low + 1)
        self._draw(self._now, cs=1)
        self._high = self._now
        self.selected = False

    def close(self) -> None:
        self._end(self._now + RULES.cs_idle)  # readers see the last level last for a while

    def _draw(self, when: int, *, cs: int) -> None:
        if self._recording:
            try:
                self._writer.change(self._cs, when, cs)
            except OSError as error:
                self._fail(error)


def _stated(nanoseconds: int | None, least: int) -> int:
    return least if nanoseconds is None else nanoseconds


class VcdPort(SpiRelayPort):
    """Records the messages of a master, who waits while they are drawn; the slave notices nothing."""

    def __init__(self, inner: SpiPort, file: VcdFile, begin: float | None = None) -> None:
        """Record in a file, from Trio's time `begin`, by default that of the first message."""
        super().__init__(inner)
        self._file = file
        self._start = begin

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        asked = self._clock_now()
        answers = await super()._relay_message(transfers)
        self._file.wait_until(asked)
        for transfer, miso in zip(transfers, answers, strict=True):
            await self._record(transfer, miso)
        self._file.flush()
        return answers

    async def _relay_release(self) -> None:
        await super()._relay_release()
        if self._file.selected:
            self._file.wait_until(self._clock_now())
            self._file.deselect(Timing())
            self._file.flush()

    async def _record(self, transfer: SpiTransfer, miso: bytes) -> None:
        if not self._file.selected:
            self._file.select(transfer.timing)
        for at in range(0, len(miso), PIECE):
            piece = slice(at, at + PIECE)
            self._file.clock(transfer.mosi[piece], miso[piece], transfer.clock_hz)
            if at:
                await trio.lowlevel.cancel_shielded_checkpoint()  # the message was clocked already
        if transfer.deselect:
            self._file.deselect(transfer.timing)

    def _clock_now(self) -> int:
        """Return the nanoseconds since the recording began."""
        now = trio.current_time()
        if self._start is None:
            self._start = now
        return int((now - self._start) * SECOND)
