"""The SPI buffer in device time: a master sees that it is not BUSY any more when the core has come so far."""

from typing import Protocol

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.timed.timeline import Timeline
from phy.spi.destination import Destination
from phy.spi.shared_memory import SharedMemory
from phy.spi.spi_buffer import SpiBuffer


class BusyAccount(Protocol):
    """Is told while the device is BUSY with what a master has sent."""

    def begin_busy(self) -> None:
        """Note that a block or a command is carried out."""

    def end_busy(self, command: int) -> None:
        """Note that it is done."""


class TimedSpiBuffer(SpiBuffer):
    """`SpiBuffer` in device time, with an account."""

    def __init__(
        self,
        timeline: Timeline,
        account: BusyAccount,
        memory: SharedMemory,
        slave: ChanEnd,
        engine: ChanEnd,
        changes: ChanEnd | None = None,
        server: Destination | None = None,
    ) -> None:
        super().__init__(memory, slave, engine, changes, server)
        self._timeline = timeline
        self._account = account

    async def _carry_out(self, command: int) -> None:
        self._account.begin_busy()
        await super()._carry_out(command)
        await self._timeline.settle()
        self._account.end_busy(command)
