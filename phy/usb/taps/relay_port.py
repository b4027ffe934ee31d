"""A port that passes a host's URBs on to a device; extensions observe or change them.

The host's URB stays with the port, and the device gets another one in its place. OUT data moves on as it
arrives, and the end of the device's URB becomes the end of the host's.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from aisrv.protocol.usb_descriptors import Descriptors
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.urb import InUrb, OutUrb, TransferStatus

Urb = OutUrb | InUrb | ControlUrb

Result = int | bytes
"""End of a URB: the bytes taken of an OUT URB, the data of the others."""


class Relay:
    """A URB of the host, and the URB that the device has in its place."""

    __slots__ = ("address", "sent", "urb")

    def __init__(self, address: int, urb: Urb) -> None:
        self.address = address
        """Endpoint address; 0 for a control transfer."""
        self.urb = urb
        self.sent: Urb | None = None
        """URB of the device; None before it has it and after it has answered."""


R = TypeVar("R", bound=Relay)


class RelayPort(HostPort, Generic[R]):
    """Passes the URBs of a host on to the device behind `inner`; neither notices anything.

    An extension creates the relays and overrides the `_observe` methods, which do nothing here.
    """

    def __init__(self, inner: HostPort) -> None:
        self._inner = inner
        self._relays: dict[Urb, R] = {}

    @property
    def descriptors(self) -> Descriptors:
        return self._inner.descriptors

    def submit_out(self, address: int, urb: OutUrb) -> bool:
        return self._submit(address, urb)

    def submit_in(self, address: int, urb: InUrb) -> bool:
        return self._submit(address, urb)

    def submit_control(self, urb: ControlUrb) -> None:
        self._submit(0, urb)

    def data_arrived(self, urb: OutUrb) -> None:
        relay = self._relays.get(urb)
        if relay is not None and isinstance(relay.sent, OutUrb):
            self._pass_data(relay, relay.sent)
            self._inner.data_arrived(relay.sent)

    def unlink(self, urb: Urb) -> bool:
        relay = self._relays.get(urb)
        if relay is None or (relay.sent is not None and not self._inner.unlink(relay.sent)):
            return False
        self._forget(relay)
        if isinstance(urb, OutUrb):
            urb.taken = relay.sent.taken if isinstance(relay.sent, OutUrb) else 0  # by the device
        self._observe_unlink(relay)
        return True

    def reset(self) -> None:
        self._inner.reset()

    @property
    def is_unplugged(self) -> bool:
        return self._inner.is_unplugged

    async def wait_unplugged(self) -> None:
        await self._inner.wait_unplugged()

    async def wait_plugged(self) -> bool:
        return await self._inner.wait_plugged()

    @property
    def is_busy(self) -> bool:
        """Return whether transfers that came by this port have not ended."""
        return bool(self._relays)

    # For extensions.

    @abstractmethod
    def _relay(self, address: int, urb: Urb) -> R: ...

    def _observe_start(self, relay: R) -> None:
        """See an IN URB or a control transfer before the device gets it."""

    def _observe_data(self, relay: R, parts: list[bytes]) -> None:
        """See data of an OUT URB before it is passed on; at its start there may be none."""

    def _observe_end(self, relay: R, status: TransferStatus, result: Result) -> None:
        """See the end of a transfer, before the host does."""

    def _observe_unlink(self, relay: R) -> None:
        """See that the host has taken a URB back; `taken` of an OUT URB is what the device took before."""

    def _observe_refusal(self, relay: R) -> None:
        """See that the device has no such endpoint."""

    def _submit(self, address: int, urb: Urb) -> bool:
        return self._start(self._relay(address, urb))

    def _start(self, relay: R) -> bool:
        """Submit a URB to the device in place of the host's; False if there is no such endpoint."""
        self._relays[relay.urb] = relay
        relay.sent = sent = self._substitute(relay, partial(self._end, relay))
        if isinstance(sent, OutUrb):
            self._pass_data(relay, sent)
            known = self._inner.submit_out(relay.address, sent)
        else:
            self._observe_start(relay)
            if isinstance(sent, InUrb):
                known = self._inner.submit_in(relay.address, sent)
            else:
                self._inner.submit_control(sent)
                return True
        if known:
            return True
        self._forget(relay)
        self._observe_refusal(relay)
        return False

    def _substitute(self, relay: R, complete: Callable[[TransferStatus, Any], None]) -> Urb:
        """Create the device's URB: like the host's, but it ends with `complete`, and without data."""
        urb = relay.urb
        if isinstance(urb, OutUrb):
            return OutUrb(urb.length, complete, zero_packet=urb.zero_packet)
        if isinstance(urb, InUrb):
            return InUrb(urb.length, complete)
        return ControlUrb(urb.setup, urb.data, complete)

    def _pass_data(self, relay: R, sent: OutUrb) -> None:
        """Feed the OUT data that has arrived to the device's URB."""
        parts = take_arrived(relay.urb)
        self._observe_data(relay, parts)
        for part in parts:
            sent.feed(part)

    def _end(self, relay: R, status: TransferStatus, result: Result) -> None:
        """End the host's URB as the device has ended its own."""
        self._forget(relay)
        relay.sent = None  # or the relay and its URB would hold each other
        self._observe_end(relay, status, result)
        end(relay.urb, status, result)

    def _forget(self, relay: R) -> None:
        del self._relays[relay.urb]


def take_arrived(urb: Urb) -> list[bytes]:
    """Take the new OUT data of a URB: whole packets, and the last one when it is complete."""
    parts: list[bytes] = []
    if isinstance(urb, OutUrb):
        urb.take(urb.length, parts)
    return parts


def end(urb: Urb, status: TransferStatus, result: Result) -> None:
    if isinstance(urb, OutUrb):
        assert isinstance(result, int)  # noqa: S101 - for the type checker
        urb.taken = result
        urb.finish(status)
        return
    assert isinstance(result, bytes)  # noqa: S101 - for the type checker
    if isinstance(urb, InUrb):
        urb.put(result)
        urb.finish(status)
    else:
        urb.finish(status, result)


def end_without_data(urb: Urb, status: TransferStatus) -> None:
    end(urb, status, 0 if isinstance(urb, OutUrb) else b"")
