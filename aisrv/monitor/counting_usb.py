"""A port that stands before a USB device and counts what crosses its bulk endpoints.

Bytes are counted as their request ends, those of control transfers not at all.
"""

from functools import partial
from typing import Final

from aisrv.monitor.command_stream import LONGEST_COMMAND, CommandStream, Framing
from aisrv.monitor.values import Traffic
from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usb_descriptors import Descriptors
from aisrv.protocol.usb_descriptors import Request as StandardRequest
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.relay_port import Request, Result, arrived, end, submit, successor
from phy.usb.urb import InUrb, OutUrb, TransferStatus

_TO_DEVICE: Final = 0x00


class _Sent:
    """What the device has in place of a host's request, and the last bytes of an OUT request's data."""

    __slots__ = ("request", "tail")

    def __init__(self) -> None:
        self.request: Request
        self.tail = b""


class CountedUsbPort(HostPort):
    """Counts; the device behind `inner` and the host notice nothing."""

    def __init__(self, inner: HostPort, framing: Framing) -> None:
        self._inner = inner
        self._stream = CommandStream(framing)
        self._sent: dict[Request, _Sent] = {}
        self._to_device = 0
        self._from_device = 0

    @property
    def traffic(self) -> Traffic:
        """What has crossed so far."""
        return Traffic(self._to_device, self._from_device, self._stream.commands)

    @property
    def descriptors(self) -> Descriptors:
        """What the device is."""
        return self._inner.descriptors

    def submit_out(self, address: int, request: OutUrb) -> bool:
        """Pass on; False where there is no such endpoint."""
        return self._submit(address, request)

    def submit_in(self, address: int, request: InUrb) -> bool:
        """Pass on; False where there is no such endpoint."""
        return self._submit(address, request)

    def submit_control(self, request: ControlUrb) -> None:
        """Pass on."""
        self._submit(0, request)

    def data_arrived(self, request: OutUrb) -> None:
        """Pass on what has come."""
        sent = self._sent.get(request)
        if sent is not None and isinstance(sent.request, OutUrb):
            _move(request, sent, sent.request)
            self._inner.data_arrived(sent.request)

    def unlink(self, request: Request) -> bool:
        """Take a request back; False where it is done, or is being answered."""
        sent = self._sent.get(request)
        if sent is None or not self._inner.unlink(sent.request):
            return False
        del self._sent[request]
        if isinstance(request, OutUrb) and isinstance(sent.request, OutUrb):
            request.taken = sent.request.taken  # of the device, not of this port
            self._count_out(request.taken, None)
        return True

    def reset(self) -> None:
        """Reset the bus."""
        self._inner.reset()

    async def wait_unplugged(self) -> None:
        """Wait until the device has left the bus."""
        await self._inner.wait_unplugged()

    def _submit(self, address: int, request: Request) -> bool:
        sent = _Sent()
        sent.request = successor(request, partial(self._end, request))
        self._sent[request] = sent
        if isinstance(request, OutUrb) and isinstance(sent.request, OutUrb):
            _move(request, sent, sent.request)
        if submit(self._inner, address, sent.request):
            return True
        del self._sent[request]
        return False

    def _end(self, request: Request, status: TransferStatus, result: Result) -> None:
        sent = self._sent.pop(request, None)
        if sent is None:
            return
        okay = status is TransferStatus.OKAY
        if isinstance(request, OutUrb):
            assert isinstance(result, int)  # noqa: S101 - for the type checker
            self._count_out(result, sent.tail if okay and request.ends_transfer else None)
        elif isinstance(request, InUrb):
            assert isinstance(result, bytes)  # noqa: S101 - for the type checker
            self._from_device += len(result)
        elif okay and _sets_configuration(request):
            self._stream.restart()
        end(request, status, result)

    def _count_out(self, taken: int, short_packet: bytes | None) -> None:
        self._to_device += taken
        self._stream.transfer(taken, short_packet)


def _move(request: OutUrb, sent: _Sent, to: OutUrb) -> None:
    last = request.length % PACKET_SIZE
    for part in arrived(request):
        if 0 < last <= LONGEST_COMMAND:
            sent.tail = (sent.tail + part)[-last:]
        to.feed(part)


def _sets_configuration(request: ControlUrb) -> bool:
    setup = request.setup
    return (setup.request_type, setup.request) == (_TO_DEVICE, StandardRequest.SET_CONFIGURATION)
