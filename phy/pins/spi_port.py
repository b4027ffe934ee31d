"""The device's SPI port on pins: an SPI target passes on to the port's slave what it clocks, byte by byte.

Nobody else should drive the port meanwhile. On the pins the bits take the time; the bus of the port takes
none, so it is not one of device time.
"""

from typing import Final

from phy.pins.spi_target import SpiAnswerer
from phy.spi.bus import SpiBus, SpiTransfer


class SpiPortAnswerer(SpiAnswerer):
    """Answers as the slave of a bus does."""

    def __init__(self, bus: SpiBus) -> None:
        self._bus: Final = bus

    def select(self) -> None:
        pass  # the port's chip select goes low with the first byte

    def next_out(self) -> int:
        return self._bus.next_out()

    async def take(self, byte: int) -> None:
        await self._bus.message((SpiTransfer(bytes((byte,)), deselect=False),))

    async def deselect(self) -> None:
        await self._bus.release()
