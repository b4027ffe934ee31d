"""The data task in device time, which tells an account what each command took."""

from collections.abc import Sequence
from typing import Protocol

from aisrv.protocol.commands import CommandPacket
from aisrv.xcore.channels.chanend import ChanEnd
from phy.usb.aisrv_data import UsbData
from phy.usb.data_task import IgnoredPackets
from phy.usb.xud import InEndpoint, OutEndpoint


class CommandAccount(Protocol):
    """Is told of commands by the task that serves them, one at a time."""

    def begin(self) -> None:
        """Note that the task waits for a command."""

    def arrived(self) -> None:
        """Note that it has come."""

    def end(self, command: int) -> None:
        """Note that a command was served."""


class TimedUsbData(UsbData):
    """`UsbData` with an account."""

    def __init__(
        self,
        account: CommandAccount,
        out_endpoint: OutEndpoint,
        in_endpoint: InEndpoint,
        engines: Sequence[ChanEnd],
        name: str,
        ignored: IgnoredPackets | None = None,
    ) -> None:
        super().__init__(out_endpoint, in_endpoint, engines, name, ignored)
        self._account = account

    async def _serve_command(self) -> None:
        self._account.begin()
        await super()._serve_command()

    async def _serve_set(self, packet: CommandPacket, c: ChanEnd) -> None:
        self._account.arrived()
        await super()._serve_set(packet, c)
        self._account.end(packet.command)

    async def _serve_get(self, packet: CommandPacket, c: ChanEnd) -> None:
        self._account.arrived()
        await super()._serve_get(packet, c)
        self._account.end(packet.command)
