"""Faults on demand: a port that stands before a device and spoils the transfers that a plan names.

A transfer with a fault has its endpoint for itself: those before it have ended when it begins, those behind
it wait for its end. Times are of Trio's clock.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from aisrv.protocol.usb_descriptors import ENDPOINT_HALT, Descriptors, Recipient, SetupPacket
from aisrv.protocol.usb_descriptors import Request as StandardRequest
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.fault_plan import Fault, FaultPlan, Kind
from phy.usb.taps.relay_port import Request, Result, arrived, end, nothing_of, submit, successor
from phy.usb.urb import InUrb, OutUrb, TransferStatus

logger = logging.getLogger(__name__)


class _Transfer:
    """A request of the host, and what the device has in its place."""

    __slots__ = ("endpoint", "fault", "number", "request", "sent", "timer")

    def __init__(self, endpoint: int, request: Request, fault: Fault | None, number: int) -> None:
        self.endpoint: Final = endpoint
        self.request: Final = request
        self.fault: Final = fault
        self.number: Final = number
        self.sent: Request | None = None
        self.timer: trio.CancelScope | None = None


class _Lane:
    """The transfers of one endpoint: those that run, and those that wait behind a fault."""

    def __init__(self) -> None:
        self.count = 0
        self.running: dict[Request, _Transfer] = {}
        self.waiting: deque[_Transfer] = deque()
        self.spoiled = False
        """Whether the one that runs has a fault."""
        self.advancing = False


class FaultyPort(HostPort):
    """Passes a host's requests to `inner`, but for those that have a fault; `nursery` keeps the times."""

    def __init__(self, inner: HostPort, plan: FaultPlan, nursery: trio.Nursery, name: str = "device") -> None:
        self._inner = inner
        self._plan = plan
        self._nursery = nursery
        self._name = name
        self._lanes: dict[int, _Lane] = {endpoint: _Lane() for endpoint in (0, *sorted(plan.endpoints))}
        self._unplugged = trio.Event()

    @property
    def descriptors(self) -> Descriptors:
        """What the device is."""
        return self._inner.descriptors

    # The host's side.

    def submit_out(self, address: int, request: OutUrb) -> bool:
        """Start a transfer; False where there is no such endpoint."""
        return self._submit(address, request)

    def submit_in(self, address: int, request: InUrb) -> bool:
        """Start a transfer; False where there is no such endpoint."""
        return self._submit(address, request)

    def submit_control(self, request: ControlUrb) -> None:
        """Start a control transfer."""
        self._submit(0, request)

    def data_arrived(self, request: OutUrb) -> None:
        """Pass on what has come, unless the transfer waits or its data are to be lost."""
        lane, transfer = self._find(request)
        if lane is not None and transfer is not None and request in lane.running:
            self._move(lane, transfer)

    def unlink(self, request: Request) -> bool:
        """Take a request back; False where it is done, or is being answered."""
        lane, transfer = self._find(request)
        if lane is None or transfer is None:
            return False
        if request not in lane.running:
            lane.waiting.remove(transfer)
            return True
        if transfer.sent is not None and not self._inner.unlink(transfer.sent):
            return False
        if isinstance(request, OutUrb):
            request.taken = transfer.sent.taken if isinstance(transfer.sent, OutUrb) else 0
        self._take_out(lane, transfer)
        self._advance(lane)
        return True

    def reset(self) -> None:
        """Reset the bus; a device that had disconnected is plugged in again. Transfers go on counting."""
        self._abandon()
        if self._unplugged.is_set():
            self._unplugged = trio.Event()

    async def wait_unplugged(self) -> None:
        """Wait for a disconnect."""
        await self._unplugged.wait()

    # Transfers.

    def _submit(self, address: int, request: Request) -> bool:
        if self._unplugged.is_set():
            end(request, TransferStatus.SHUTDOWN, nothing_of(request))
            return True
        lane = self._lanes.setdefault(address, _Lane())
        lane.count += 1
        transfer = _Transfer(address, request, self._plan.next(address), lane.count)
        if transfer.fault is None and not lane.waiting and not lane.spoiled:
            return self._start(lane, transfer)
        lane.waiting.append(transfer)
        self._advance(lane)
        return True

    def _advance(self, lane: _Lane) -> None:
        """Begin the transfers that need not wait."""
        if lane.advancing:
            return  # many that end at once would otherwise nest as deep
        lane.advancing = True
        while lane.waiting and not lane.spoiled:
            transfer = lane.waiting[0]
            if transfer.fault is not None and lane.running:
                break
            lane.waiting.popleft()
            if transfer.fault is not None:
                self._spoil(lane, transfer, transfer.fault)
            elif not self._start(lane, transfer):
                end(transfer.request, TransferStatus.SHUTDOWN, nothing_of(transfer.request))
        lane.advancing = False

    def _start(self, lane: _Lane, transfer: _Transfer) -> bool:
        """Give a transfer to the device; False where it has no such endpoint."""
        lane.running[transfer.request] = transfer
        length = _length_of(transfer)
        sent = _shortened(transfer.request, length, partial(self._sent_ended, lane, transfer))
        transfer.sent = sent
        if isinstance(sent, OutUrb):
            assert isinstance(transfer.request, OutUrb)  # noqa: S101 - for the type checker
            _feed(sent, transfer.request)
        if submit(self._inner, transfer.endpoint, sent):
            return True
        self._take_out(lane, transfer)
        return False

    def _start_late(self, lane: _Lane, transfer: _Transfer) -> None:
        if not self._start(lane, transfer):
            end(transfer.request, TransferStatus.SHUTDOWN, nothing_of(transfer.request))
            self._advance(lane)

    def _move(self, lane: _Lane, transfer: _Transfer) -> None:
        """Pass on the OUT data that have come."""
        request, sent = transfer.request, transfer.sent
        assert isinstance(request, OutUrb)  # noqa: S101 - for the type checker
        if isinstance(sent, OutUrb):
            if not sent.done:
                _feed(sent, request)
                self._inner.data_arrived(sent)
        elif transfer.fault is not None and transfer.fault.kind is Kind.DROP:
            arrived(request)
            if request.taken == request.length:
                self._finish(lane, transfer, TransferStatus.OKAY, request.length)

    def _sent_ended(self, lane: _Lane, transfer: _Transfer, status: TransferStatus, result: Result) -> None:
        """Take the device's answer."""
        if lane.running.get(transfer.request) is not transfer:
            return  # it went on as the device disconnected
        transfer.sent = None
        fault = transfer.fault
        if fault is not None and fault.kind is Kind.DELAY:
            late = partial(self._finish, lane, transfer, status, result)
            self._after(fault.seconds or 0, transfer, late)
            return
        if fault is not None and status is TransferStatus.OKAY and isinstance(result, bytes):
            if fault.kind is Kind.DROP:
                result = b""
            elif fault.kind is Kind.TRUNCATE:
                result = result[: fault.length]
        self._finish(lane, transfer, status, result)

    def _finish(self, lane: _Lane, transfer: _Transfer, status: TransferStatus, result: Result) -> None:
        self._take_out(lane, transfer)
        end(transfer.request, status, result)
        self._advance(lane)

    def _take_out(self, lane: _Lane, transfer: _Transfer) -> None:
        del lane.running[transfer.request]
        if transfer.fault is not None:
            lane.spoiled = False
        if transfer.timer is not None:
            transfer.timer.cancel()

    def _find(self, request: Request) -> tuple[_Lane | None, _Transfer | None]:
        for lane in self._lanes.values():
            transfer = lane.running.get(request)
            if transfer is not None:
                return lane, transfer
            for transfer in lane.waiting:
                if transfer.request is request:
                    return lane, transfer
        return None, None

    # Faults.

    def _spoil(self, lane: _Lane, transfer: _Transfer, fault: Fault) -> None:
        """Begin a transfer with a fault."""
        logger.warning(
            "%s: transfer %d of endpoint %#04x: %s", self._name, transfer.number, transfer.endpoint, fault
        )
        lane.spoiled = True
        lane.running[transfer.request] = transfer
        _SPOIL[fault.kind](self, lane, transfer, fault)

    def _stall(self, lane: _Lane, transfer: _Transfer, _fault: Fault) -> None:
        if not transfer.endpoint:  # endpoint 0 has no halt: the next SETUP packet ends its STALL
            self._finish(lane, transfer, TransferStatus.STALL, b"")
            return

        def halted(_status: TransferStatus, _data: bytes) -> None:
            # The device itself answers STALL from now on, to this transfer and to those behind it.
            if lane.running.get(transfer.request) is transfer:
                self._start_late(lane, transfer)

        setup = SetupPacket(
            Recipient.ENDPOINT, StandardRequest.SET_FEATURE, ENDPOINT_HALT, transfer.endpoint, 0
        )
        self._inner.submit_control(ControlUrb(setup, b"", halted))

    def _nak(self, lane: _Lane, transfer: _Transfer, fault: Fault) -> None:
        self._after(fault.seconds or 0, transfer, partial(self._start_late, lane, transfer))

    def _drop(self, lane: _Lane, transfer: _Transfer, _fault: Fault) -> None:
        request = transfer.request
        if isinstance(request, OutUrb):
            self._move(lane, transfer)
        elif isinstance(request, ControlUrb) and not request.setup.to_host:
            self._finish(lane, transfer, TransferStatus.OKAY, b"")
        else:
            self._start_late(lane, transfer)

    def _pass_on(self, lane: _Lane, transfer: _Transfer, _fault: Fault) -> None:
        self._start_late(lane, transfer)

    def _disconnect(self, _lane: _Lane, _transfer: _Transfer, _fault: Fault) -> None:
        self._unplugged.set()
        self._abandon()

    def _abandon(self) -> None:
        """End all transfers, and tell the device that its host is gone."""
        ended: list[Request] = []
        for lane in self._lanes.values():
            ended += lane.running
            ended += (each.request for each in lane.waiting)
            for transfer in lane.running.values():
                if transfer.timer is not None:
                    transfer.timer.cancel()
            lane.running = {}
            lane.waiting.clear()
            lane.spoiled = False
        self._inner.reset()
        for request in ended:
            end(request, TransferStatus.SHUTDOWN, nothing_of(request))

    def _after(self, seconds: float, transfer: _Transfer, then: Callable[[], None]) -> None:
        transfer.timer = timer = trio.CancelScope()

        async def wait() -> None:
            with timer:
                await trio.sleep(seconds)
            if not timer.cancelled_caught:
                transfer.timer = None
                then()

        self._nursery.start_soon(wait, name=f"fault {transfer.fault}")


_SPOIL: Final[dict[Kind, Callable[[FaultyPort, _Lane, _Transfer, Fault], None]]] = {
    Kind.STALL: FaultyPort._stall,
    Kind.NAK: FaultyPort._nak,
    Kind.DROP: FaultyPort._drop,
    Kind.DELAY: FaultyPort._pass_on,
    Kind.TRUNCATE: FaultyPort._pass_on,
    Kind.DISCONNECT: FaultyPort._disconnect,
}


def _length_of(transfer: _Transfer) -> int | None:
    """Bytes that a truncated transfer keeps; None for all of them."""
    return None if transfer.fault is None else transfer.fault.length


def _shortened(
    request: Request, length: int | None, complete: Callable[[TransferStatus, Result], None]
) -> Request:
    """Return a request in place of the host's, of at most `length` bytes where those go to the device."""
    if length is None:
        return successor(request, complete)
    if isinstance(request, OutUrb) and length < request.length:
        return OutUrb(length, complete)
    if isinstance(request, ControlUrb):
        return ControlUrb(request.setup, request.data[:length], complete)
    return successor(request, complete)


def _feed(to: OutUrb, request: OutUrb) -> None:
    """Pass on the data that have come; what the shorter request has no room for is lost."""
    before = request.taken
    for part in arrived(request):
        kept = part[: max(0, to.length - before)]
        if kept:
            to.feed(kept)
        before += len(part)
