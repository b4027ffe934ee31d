"""The device's SPI port on pins: an SPI target passes on to the port's slave what it clocks, byte by byte.

Nobody else should drive the port meanwhile. The bits take their time on the pins, and none on the port's bus,
in device time, too.
"""

from typing import Final

import trio

from aisrv.addons.pins.peripherals.spi_target import SpiAnswerer
from phy.spi.bus import SpiBus, SpiTransfer


class SpiPortAnswerer(SpiAnswerer):
    """Answers as the slave of a bus does."""

    def __init__(self, bus: SpiBus) -> None:
        self._bus: Final = bus
        self._is_selected = False

    def select(self) -> None:
        self._is_selected = False  # the port's chip select goes low with the first byte

    def next_out(self) -> int:
        return self._bus.next_out()

    async def take(self, byte: int) -> None:
        self._is_selected = True
        await self._bus.pass_on((SpiTransfer(bytes((byte,)), deselect=False),))

    async def deselect(self) -> None:
        if self._is_selected:
            await self._bus.pass_on((SpiTransfer(b""),))
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
