"""A port that wraps a USB device and counts the bytes over its bulk endpoints.

Bytes are counted as their URB ends, those of control transfers not at all.
"""

from typing import Final

from aisrv.monitor.command_stream import LONGEST_COMMAND, CommandStream, Framing
from aisrv.monitor.values import Traffic
from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usb_descriptors import StandardRequest
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
    """Counts bytes, and commands by `framing`."""

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
