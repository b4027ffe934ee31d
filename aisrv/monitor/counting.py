"""Ports that wrap those of a device, over USB and SPI, and count bytes and commands."""

from collections.abc import Sequence
from typing import Final

from aisrv.monitor.command_stream import LONGEST_COMMAND, CommandStream, Framing
from aisrv.monitor.values import Traffic
from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usb_descriptors import StandardRequest
from phy.spi.bus import SpiPort, SpiRelayPort, SpiTransfer
from phy.spi.transaction import NO_EFFECT
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.relay_port import Relay, RelayPort, Result, Urb
from phy.usb.urb import InUrb, OutUrb, TransferStatus

_TO_DEVICE: Final = 0x00


class _CountedRelay(Relay):
    """A relay that keeps the last bytes of an OUT URB's data if they may be a command."""

    __slots__ = ("tail",)

    def __init__(self, address: int, urb: Urb) -> None:
        super().__init__(address, urb)
        self.tail = b""


class CountedUsbPort(RelayPort[_CountedRelay]):
    """Counts the bytes over bulk endpoints as their URB ends, and commands by `framing`."""

    def __init__(self, inner: HostPort, framing: Framing) -> None:
        super().__init__(inner)
        self._stream = CommandStream(framing)
        self._to_device = 0
        self._from_device = 0

    @property
    def traffic(self) -> Traffic:
        """Traffic so far."""
        return Traffic(self._to_device, self._from_device, self._stream.commands)

    def _relay(self, address: int, urb: Urb) -> _CountedRelay:
        return _CountedRelay(address, urb)

    def _observe_data(self, relay: _CountedRelay, parts: list[bytes]) -> None:
        assert isinstance(relay.urb, OutUrb)  # noqa: S101 - for the type checker
        last = relay.urb.length % PACKET_SIZE
        if 0 < last <= LONGEST_COMMAND:
            for part in parts:
                relay.tail = (relay.tail + part)[-last:]

    def _observe_end(self, relay: _CountedRelay, status: TransferStatus, result: Result) -> None:
        urb, okay = relay.urb, status is TransferStatus.OKAY
        if isinstance(urb, OutUrb):
            assert isinstance(result, int)  # noqa: S101 - for the type checker
            self._count_out(result, relay.tail if okay and urb.ends_transfer else None)
        elif isinstance(urb, InUrb):
            assert isinstance(result, bytes)  # noqa: S101 - for the type checker
            self._from_device += len(result)
        elif okay and _sets_configuration(urb):
            self._stream.restart()

    def _observe_unlink(self, relay: _CountedRelay) -> None:
        if isinstance(relay.urb, OutUrb):
            self._count_out(relay.urb.taken, None)

    def _count_out(self, taken: int, short_packet: bytes | None) -> None:
        self._to_device += taken
        self._stream.transfer(taken, short_packet)


def _sets_configuration(urb: ControlUrb) -> bool:
    setup = urb.setup
    return (setup.request_type, setup.request) == (_TO_DEVICE, StandardRequest.SET_CONFIGURATION)


class CountedSpiPort(SpiRelayPort):
    """Counts messages as they are answered.

    SPI is full duplex: as many bytes come as go. A command is a transaction, chip select low to high, whose
    first byte is not one of those that have no effect. Each block of a model is one, and each poll of the
    status.
    """

    def __init__(self, inner: SpiPort) -> None:
        super().__init__(inner)
        self._begun = False
        self._clocked = 0
        self._commands = 0

    @property
    def traffic(self) -> Traffic:
        """Traffic so far."""
        return Traffic(self._clocked, self._clocked, self._commands)

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        answers = await super()._relay_message(transfers)
        for transfer in transfers:
            self._count(transfer)
        return answers

    async def _relay_release(self) -> None:
        await super()._relay_release()
        self._begun = False

    def _count(self, transfer: SpiTransfer) -> None:
        mosi = transfer.mosi
        self._clocked += len(mosi)
        if mosi and not self._begun:
            self._begun = True
            self._commands += mosi[0] not in NO_EFFECT
        if transfer.deselect:
            self._begun = False
