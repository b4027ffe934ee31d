"""Faults on demand: a port that wraps a device and injects faults into the transfers that a plan names.

A transfer with a fault has its endpoint for itself: those before it have ended when it begins, those behind
it wait for its end. Times are of Trio's clock.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from aisrv.protocol.usb_descriptors import ENDPOINT_HALT, Recipient, SetupPacket, StandardRequest
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.fault_plan import Fault, FaultKind, FaultPlan
from phy.usb.taps.relay_port import Relay, RelayPort, Result, Urb, end, end_without_data, take_arrived
from phy.usb.urb import OutUrb, TransferStatus

logger = logging.getLogger(__name__)


class _Queue:
    """The transfers of one endpoint that wait behind a fault."""

    def __init__(self) -> None:
        self.count = 0
        self.waiting: deque[_Transfer] = deque()
        self.faulty = False
        self.advancing = False


class _Transfer(Relay):
    """A transfer with its place in the queue of its endpoint, and its fault."""

    __slots__ = ("fault", "number", "queue", "timer")

    def __init__(self, address: int, urb: Urb, queue: _Queue, fault: Fault | None) -> None:
        super().__init__(address, urb)
        self.queue: Final = queue
        self.number: Final = queue.count
        self.fault: Final = fault
        self.timer: trio.CancelScope | None = None

    @property
    def dropped(self) -> bool:
        """Return whether its data is to be lost."""
        return self.fault is not None and self.fault.kind is FaultKind.DROP

    @property
    def kept(self) -> int | None:
        """Bytes that a truncated transfer keeps; None for all of them."""
        return None if self.fault is None else self.fault.length


class FaultyPort(RelayPort[_Transfer]):
    """Passes on the transfers of a host, but for those that have a fault; `nursery` runs the delays."""

    def __init__(self, inner: HostPort, plan: FaultPlan, nursery: trio.Nursery, name: str = "device") -> None:
        super().__init__(inner)
        self._plan = plan
        self._nursery = nursery
        self._name = name
        self._queues: dict[int, _Queue] = {endpoint: _Queue() for endpoint in (0, *sorted(plan.endpoints))}
        self._unplugged = trio.Event()

    # The host's side.

    def data_arrived(self, urb: OutUrb) -> None:
        """Pass on the new data, unless the transfer waits or its data is to be lost."""
        transfer = self._relays.get(urb)
        if transfer is not None and transfer.dropped:
            self._discard(transfer)
        else:
            super().data_arrived(urb)

    def unlink(self, urb: Urb) -> bool:
        transfer = self._relays.get(urb)
        if transfer is None:
            return self._take_waiting(urb)
        if not super().unlink(urb):
            return False
        self._advance(transfer.queue)
        return True

    def reset(self) -> None:
        """Reset the bus and reconnect a disconnected device. Transfers go on counting."""
        self._abandon()
        if self._unplugged.is_set():
            self._unplugged = trio.Event()

    async def wait_unplugged(self) -> None:
        """Wait for a disconnect, or for the device to fail."""
        async with trio.open_nursery() as nursery:

            async def until(unplugged: Callable[[], Awaitable[None]]) -> None:
                await unplugged()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until, self._inner.wait_unplugged)
            nursery.start_soon(until, self._unplugged.wait)

    @property
    def is_busy(self) -> bool:
        """Return whether transfers have not ended, those that wait behind a fault included."""
        return super().is_busy or any(queue.waiting for queue in self._queues.values())

    # Transfers.

    def _relay(self, address: int, urb: Urb) -> _Transfer:
        queue = self._queues.setdefault(address, _Queue())
        queue.count += 1
        return _Transfer(address, urb, queue, self._plan.next(address))

    def _submit(self, address: int, urb: Urb) -> bool:
        if self._unplugged.is_set():
            end_without_data(urb, TransferStatus.SHUTDOWN)
            return True
        transfer = self._relay(address, urb)
        queue = transfer.queue
        if transfer.fault is None and not queue.waiting and not queue.faulty:
            return self._start(transfer)
        queue.waiting.append(transfer)
        self._advance(queue)
        return True

    def _advance(self, queue: _Queue) -> None:
        """Begin the transfers that need not wait."""
        if queue.advancing:
            return  # many that end at once would otherwise nest as deep
        queue.advancing = True
        while queue.waiting and not queue.faulty:
            transfer = queue.waiting[0]
            if transfer.fault is not None and self._is_busy(queue):
                break
            queue.waiting.popleft()
            if transfer.fault is not None:
                self._inject(transfer, transfer.fault)
            elif not self._start(transfer):
                end_without_data(transfer.urb, TransferStatus.SHUTDOWN)
        queue.advancing = False

    def _is_busy(self, queue: _Queue) -> bool:
        return any(transfer.queue is queue for transfer in self._relays.values())

    def _start_late(self, transfer: _Transfer) -> None:
        if not self._start(transfer):
            end_without_data(transfer.urb, TransferStatus.SHUTDOWN)
            self._advance(transfer.queue)

    def _substitute(self, relay: _Transfer, complete: Callable[[TransferStatus, Any], None]) -> Urb:
        """Create a shorter URB for a transfer whose data to the device is truncated."""
        urb, kept = relay.urb, relay.kept
        if kept is not None:
            if isinstance(urb, OutUrb) and kept < urb.length:
                return OutUrb(kept, complete)
            if isinstance(urb, ControlUrb):
                return ControlUrb(urb.setup, urb.data[:kept], complete)
        return super()._substitute(relay, complete)

    def _pass_data(self, relay: _Transfer, sent: OutUrb) -> None:
        """Pass on the data that has arrived; what a shorter URB has no room for is lost."""
        if relay.kept is None or not isinstance(relay.urb, OutUrb):
            super()._pass_data(relay, sent)
            return
        before = relay.urb.taken
        for part in take_arrived(relay.urb):
            kept = part[: max(0, sent.length - before)]
            if kept:
                sent.feed(kept)
            before += len(part)

    def _end(self, relay: _Transfer, status: TransferStatus, result: Result) -> None:
        if self._relays.get(relay.urb) is not relay:
            return  # it went on as the device disconnected
        relay.sent = None
        fault = relay.fault
        if fault is not None and fault.kind is FaultKind.DELAY:
            self._after(fault, relay, partial(self._finish, relay, status, result))
            return
        if fault is not None and status is TransferStatus.OKAY and isinstance(result, bytes):
            result = b"" if relay.dropped else result[: relay.kept]
        self._finish(relay, status, result)

    def _finish(self, transfer: _Transfer, status: TransferStatus, result: Result) -> None:
        self._forget(transfer)
        end(transfer.urb, status, result)
        self._advance(transfer.queue)

    def _forget(self, relay: _Transfer) -> None:
        super()._forget(relay)
        if relay.fault is not None:
            relay.queue.faulty = False
        if relay.timer is not None:
            relay.timer.cancel()

    def _take_waiting(self, urb: Urb) -> bool:
        for queue in self._queues.values():
            for transfer in queue.waiting:
                if transfer.urb is urb:
                    queue.waiting.remove(transfer)
                    return True
        return False

    # Faults.

    def _inject(self, transfer: _Transfer, fault: Fault) -> None:
        logger.warning(
            "%s: transfer %d of endpoint %#04x: %s", self._name, transfer.number, transfer.address, fault
        )
        transfer.queue.faulty = True
        self._relays[transfer.urb] = transfer
        _INJECT[fault.kind](self, transfer, fault)

    def _stall(self, transfer: _Transfer, _fault: Fault) -> None:
        if not transfer.address:  # endpoint 0 has no halt: the next SETUP packet ends its stall
            self._finish(transfer, TransferStatus.STALL, b"")
            return

        def halted(_status: TransferStatus, _data: bytes) -> None:
            # The device itself answers STALL from now on, to this transfer and to those behind it.
            if self._relays.get(transfer.urb) is transfer:
                self._start_late(transfer)

        setup = SetupPacket(
            Recipient.ENDPOINT, StandardRequest.SET_FEATURE, ENDPOINT_HALT, transfer.address, 0
        )
        self._inner.submit_control(ControlUrb(setup, b"", halted))

    def _nak(self, transfer: _Transfer, fault: Fault) -> None:
        self._after(fault, transfer, partial(self._start_late, transfer))

    def _drop(self, transfer: _Transfer, _fault: Fault) -> None:
        urb = transfer.urb
        if isinstance(urb, OutUrb):
            self._discard(transfer)
        elif isinstance(urb, ControlUrb) and not urb.setup.to_host:
            self._finish(transfer, TransferStatus.OKAY, b"")
        else:
            self._start_late(transfer)

    def _discard(self, transfer: _Transfer) -> None:
        """Take the OUT data that has arrived; the transfer ends with the last of it."""
        urb = transfer.urb
        assert isinstance(urb, OutUrb)  # noqa: S101 - for the type checker
        take_arrived(urb)
        if urb.taken == urb.length:
            self._finish(transfer, TransferStatus.OKAY, urb.length)

    def _pass_on(self, transfer: _Transfer, _fault: Fault) -> None:
        self._start_late(transfer)

    def _disconnect(self, _transfer: _Transfer, _fault: Fault) -> None:
        self._unplugged.set()
        self._abandon()

    def _abandon(self) -> None:
        """End all transfers, and reset the device as if its host were gone."""
        ended = [*self._relays.values(), *(each for queue in self._queues.values() for each in queue.waiting)]
        for transfer in list(self._relays.values()):
            self._forget(transfer)
        for queue in self._queues.values():
            queue.waiting.clear()
        self._inner.reset()
        for transfer in ended:
            end_without_data(transfer.urb, TransferStatus.SHUTDOWN)

    def _after(self, fault: Fault, transfer: _Transfer, then: Callable[[], None]) -> None:
        """Continue a transfer after the time of its fault."""
        transfer.timer = timer = trio.CancelScope()

        async def wait() -> None:
            with timer:
                await trio.sleep(fault.seconds or 0)
            if not timer.cancelled_caught:
                transfer.timer = None
                then()

        self._nursery.start_soon(wait, name=f"fault {fault}")


_INJECT: Final[dict[FaultKind, Callable[[FaultyPort, _Transfer, Fault], None]]] = {
    FaultKind.STALL: FaultyPort._stall,
    FaultKind.NAK: FaultyPort._nak,
    FaultKind.DROP: FaultyPort._drop,
    FaultKind.DELAY: FaultyPort._pass_on,
    FaultKind.TRUNCATE: FaultyPort._pass_on,
    FaultKind.DISCONNECT: FaultyPort._disconnect,
}
