"""A server that is only looked at: nothing that the page asks by itself changes the device."""

from typing import Final

from aisrv.protocol.commands import Command, Dialect
from host_tools.client import AiServer
from host_tools.errors import UnsupportedCommand
from host_tools.exchange.usb_without_status import ExchangeWithoutStatus
from host_tools.transports.spi.transport import SpiTransport
from host_tools.transports.transport import OtherTransport, Transport, Wire

NEEDS_USB: Final = (
    "the page needs USB: each command over SPI reads the status, which clears the error bits, and a Jacdac "
    "bus carries no GPIO settings"
)


class WatchedServer(AiServer):
    """One engine over USB, of which GET_STATUS is never asked: it clears the error bits."""

    @staticmethod
    def _wire(
        transport: Transport | SpiTransport | OtherTransport,
        engine: int,
        dialect: Dialect,
        timeout: float | None,
    ) -> Wire:
        if isinstance(transport, SpiTransport | OtherTransport):
            raise UnsupportedCommand(NEEDS_USB)
        return ExchangeWithoutStatus(transport, engine, dialect, timeout)

    def raw_timings(self) -> bytes:
        """Return the answer of GET_TIMINGS as it is."""
        return self.command(Command.GET_TIMINGS)

    def forget_model(self) -> None:
        """Take it that the engine has another model, of which nothing is known yet."""
        self._forget_model()
