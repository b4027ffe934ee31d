"""The SPI buffer in device time: a master sees that it is not BUSY any more when the core has come so far."""

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.timeline import Timeline
from phy.spi.destination import Destination
from phy.spi.shared_memory import SharedMemory
from phy.spi.spi_buffer import SpiBuffer


class TimedSpiBuffer(SpiBuffer):
    """`SpiBuffer` in device time."""

    def __init__(
        self,
        timeline: Timeline,
        memory: SharedMemory,
        slave: ChanEnd,
        engine: ChanEnd,
        changes: ChanEnd | None = None,
        server: Destination | None = None,
    ) -> None:
        super().__init__(memory, slave, engine, changes, server)
        self._timeline = timeline

    async def _carry_out(self, command: int) -> None:
        await super()._carry_out(command)
        await self._timeline.settle()
