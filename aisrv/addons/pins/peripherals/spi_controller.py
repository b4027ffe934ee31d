"""An SPI controller on four pins: chip select (active low), clock, MOSI and MISO; any mode, MSB first."""

import logging
from typing import Final

import trio

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.spi_mode import MODES, SpiMode
from aisrv.addons.pins.peripherals.spi_target import SpiPins
from aisrv.addons.pins.peripherals.violations import NANOSECONDS
from aisrv.xcore.clock import TICKS_PER_SECOND
from phy.spi.signals.timing import RULES, TimingRules

logger = logging.getLogger(__name__)

_BITS: Final = 8


class SpiController:
    """The controller. It lays a whole transaction down at once, and samples MISO when that is over."""

    def __init__(
        self,
        name: str,
        pins: SpiPins,
        *,
        half_period: int = 5,
        mode: SpiMode = MODES[0],
        rules: TimingRules = RULES,
        send: bytes = b"",
        every: float | None = None,
    ) -> None:
        """Clock bits of twice `half_period` ticks; `rules` has the times of chip select.

        `send` is sent as soon as it runs, as a transaction: once, or again after `every` seconds.
        """
        self.name: Final = name
        self._pins = pins
        self._half = half_period
        self._mode = mode
        self._setup, self._hold, self._idle = (
            -(-each // NANOSECONDS) for each in (rules.cs_setup, rules.cs_hold, rules.cs_idle)
        )
        self._driver = PinDriver(name)
        self._send = send
        self._every = every
        self._free_from = 0
        self._turn = trio.Lock()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the bus idle, and send what there is, until cancelled."""
        self._pins.cs.drive(1, self._driver)
        self._pins.clk.drive(self._mode.polarity, self._driver)
        self._pins.mosi.drive(0, self._driver)
        task_status.started()
        try:
            while self._send:
                answer = await self.transfer(self._send)
                logger.info("%s: sent %s, got %s", self.name, self._send.hex(" "), answer.hex(" "))
                if self._every is None:
                    break
                cs = self._pins.cs
                await cs.until(cs.runtime.clock.ticks() + round(self._every * TICKS_PER_SECOND))
            await trio.sleep_forever()
        finally:
            for pin in (self._pins.cs, self._pins.clk, self._pins.mosi):
                pin.withdraw(self._driver)
                pin.release(self._driver)

    async def transfer(self, mosi: bytes) -> bytes:
        """Clock bytes in one transaction, chip select low to high; return as many from MISO."""
        async with self._turn:
            return await self._transfer(mosi)

    async def _transfer(self, mosi: bytes) -> bytes:
        cs, clk, data, miso = self._pins
        half, driver = self._half, self._driver
        start = max(cs.runtime.clock.ticks() + 1, self._free_from)
        first = start + max(self._setup, half)
        bits = [byte >> bit & 1 for byte in mosi for bit in range(_BITS - 1, -1, -1)]
        edges = [first + each * half for each in range(2 * len(bits))]
        sampled = edges[self._mode.phase :: 2]
        end = (edges[-1] if edges else first) + max(self._hold, half)
        self._free_from = end + self._idle
        miso.keep(self, start)
        try:
            cs.drive_at((start, end), (0, 1), driver)
            clk.drive_at(edges, [self._mode.polarity ^ 1, self._mode.polarity] * len(bits), driver)
            # Each bit is there half a period before the edge that samples it.
            data.drive_at([max(tick - half, start) for tick in sampled], bits, driver)
            await cs.until(end + 1)
            levels = [miso.value(tick - 1) & 1 for tick in sampled]
        except trio.Cancelled:
            for pin in (cs, clk, data):
                pin.withdraw(driver)
            cs.drive(1, driver)
            clk.drive(self._mode.polarity, driver)
            raise
        finally:
            miso.forget(self)
        return bytes(
            int("".join(map(str, levels[at : at + _BITS])), 2) for at in range(0, len(levels), _BITS)
        )
