"""The clocks of an I2S bus, for firmware that follows them: bit clock and word clock. They are arithmetic."""

from typing import Final

import trio

from aisrv.addons.pins.peripherals.driver import PinDriver
from aisrv.addons.pins.peripherals.i2s_format import CHANNELS
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.pin import Pin


class I2sClock:
    """Drives both clocks from a frame's start on."""

    def __init__(self, name: str, bclk: Pin, lrclk: Pin, *, rate: int = 48_000, slot: int = 32) -> None:
        """Clock `rate` frames a second of two slots of so many bits."""
        self.name: Final = name
        self._bclk = bclk
        self._lrclk = lrclk
        self._rate = rate
        self._slot = slot
        self._driver = PinDriver(name)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the clocks until cancelled."""
        origin = self._bclk.runtime.clock.ticks() + 1
        bits = CHANNELS * self._slot * self._rate
        self._bclk.drive_clock(ClockEdges(origin, TICKS_PER_SECOND, bits), self._driver)
        self._lrclk.drive_clock(ClockEdges(origin, TICKS_PER_SECOND, self._rate), self._driver)
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            for pin in (self._bclk, self._lrclk):
                pin.withdraw(self._driver)
                pin.release(self._driver)
