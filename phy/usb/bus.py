"""A device as its bus sees it: endpoints, control requests, configuration, reset. No I/O of its own.

Every attachment drives a device through this class: it submits requests, unlinks them, and says when the host
resets the bus or goes away. Control requests are answered by the task of endpoint 0.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT
from aisrv.protocol.usb_descriptors import Descriptors, SetupPacket
from aisrv.xcore.traced import traced_wait
from aisrv.xcore.waiter import Waiter
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import InEndpoint, OutEndpoint

Endpoint = InEndpoint | OutEndpoint


class ControlUrb:
    """A control transfer: its SETUP packet, the data of its OUT stage, and `complete(status, data)`."""

    __slots__ = ("_complete", "data", "setup", "submitted")

    submitted: int
    """Clock at which the host submitted it; only in device time."""

    def __init__(
        self, setup: SetupPacket, data: bytes, complete: Callable[[TransferStatus, bytes], None]
    ) -> None:
        self.setup: Final = setup
        self.data: Final = data
        self._complete = complete

    def finish(self, status: TransferStatus, data: bytes = b"") -> None:
        """End the transfer; data past the host's wLength is cut, as the host would not fetch it."""
        self._complete(status, data[: self.setup.length])

    def answer(self, data: bytes = b"") -> None:
        """End the transfer successfully, with the data of its IN stage."""
        self.finish(TransferStatus.OKAY, data)

    def stall(self) -> None:
        """Refuse the request."""
        self.finish(TransferStatus.STALL)

    def abort(self) -> None:
        """End the transfer because the bus was reset or the device unplugged."""
        self.finish(TransferStatus.SHUTDOWN)


class HostPort(Protocol):
    """The host's side of a device, which attachments drive: `UsbBus`, or a port that wraps one.

    `address` is that of an endpoint, with bit 7 set for IN.
    """

    @property
    def descriptors(self) -> Descriptors:
        """Descriptors of the device."""

    def submit_out(self, address: int, urb: OutUrb) -> bool:
        """Submit a URB to an OUT endpoint; False if there is none."""

    def data_arrived(self, urb: OutUrb) -> None:
        """Notify the device that a URB has more bytes, see `OutUrb.feed`."""

    def submit_in(self, address: int, urb: InUrb) -> bool:
        """Submit a URB to an IN endpoint; False if there is none."""

    def submit_control(self, urb: ControlUrb) -> None:
        """Submit a control transfer to endpoint 0."""

    def unlink(self, urb: OutUrb | InUrb | ControlUrb) -> bool:
        """Take a URB back; False if it is done, or is being answered."""

    def reset(self) -> None:
        """Reset the bus, as a host does on plugging in, and on unplugging."""

    @property
    def is_unplugged(self) -> bool:
        """Return whether the device is off the bus, as it failed or its cable is out."""

    async def wait_unplugged(self) -> None:
        """Wait until the device leaves the bus by itself. `reset` brings it back, unless it is unplugged."""

    async def wait_plugged(self) -> bool:
        """Wait until the device's cable is in; False for a device that failed, which stays off the bus."""


class UsbBus:
    """One device on its bus; an `address` has bit 7 set for IN."""

    def __init__(self, descriptors: Descriptors) -> None:
        self.descriptors = descriptors
        self.name: Final = "endpoint 0"
        """Name for reports of what endpoint 0 waits for."""
        self.out_endpoint: Final = self._new_out_endpoint()
        self.in_endpoint: Final = self._new_in_endpoint()
        self.endpoints: Final[dict[int, Endpoint]] = {
            ENDPOINT_OUT: self.out_endpoint,
            ENDPOINT_IN: self.in_endpoint,
        }
        self.address = 0
        self.configuration = 0
        self._control: deque[ControlUrb] = deque()
        self._ep0: Waiter[ControlUrb] = Waiter()
        self.is_unplugged = False
        """Whether the device is off the bus, as it failed or its cable is out."""
        self._unplugged = trio.Event()
        self._plugged = trio.Event()
        self._plugged.set()
        self._failed = trio.Event()

    # The host's side.

    def submit_out(self, address: int, urb: OutUrb) -> bool:
        """Submit a URB to an OUT endpoint; False if there is none, as before a configuration is set."""
        if self.is_unplugged:
            urb.finish(TransferStatus.SHUTDOWN)
            return True
        if address != ENDPOINT_OUT or not self.configuration:
            return False
        self.out_endpoint.submit(urb)
        return True

    def data_arrived(self, urb: OutUrb) -> None:
        """Notify the device that a URB has more bytes."""
        if not urb.done:
            self.out_endpoint.data_arrived()

    def submit_in(self, address: int, urb: InUrb) -> bool:
        """Submit a URB to an IN endpoint; False if there is none, as before the device is configured."""
        if self.is_unplugged:
            urb.finish(TransferStatus.SHUTDOWN)
            return True
        if address != ENDPOINT_IN or not self.configuration:
            return False
        self.in_endpoint.submit(urb)
        return True

    def submit_control(self, urb: ControlUrb) -> None:
        """Submit a control transfer to endpoint 0."""
        if self.is_unplugged:
            urb.abort()
        elif not self._ep0.wake(urb):
            self._control.append(urb)

    def unlink(self, urb: OutUrb | InUrb | ControlUrb) -> bool:
        """Take a URB back; False if it is done, or is being answered."""
        if isinstance(urb, OutUrb):
            return self.out_endpoint.unlink(urb)
        if isinstance(urb, InUrb):
            return self.in_endpoint.unlink(urb)
        if urb in self._control:
            self._control.remove(urb)
            return True
        return False

    def reset(self) -> None:
        """Reset the bus, as a host does on plugging in, and as the device sees an unplugging."""
        self.address = 0
        urbs, self._control = self._control, deque()
        for urb in urbs:
            urb.abort()
        self.configure(0)

    async def wait_unplugged(self) -> None:
        """Wait until the device fails, or its cable is pulled."""
        await self._unplugged.wait()

    async def wait_plugged(self) -> bool:
        """Wait until the cable is in; False for a device that failed."""
        await self._plugged.wait()
        return not self._failed.is_set()

    async def wait_connected(self) -> None:
        """Wait until hosts see the device, which is from its start here."""

    async def wait_failed(self) -> None:
        """Wait until the device fails."""
        await self._failed.wait()

    def fail(self) -> None:
        """Leave the bus for good: transfers in progress end, and so do later ones."""
        self._failed.set()
        self.unplug()
        self._plugged.set()  # nobody waits for it any longer

    def unplug(self) -> None:
        """Pull the cable: transfers in progress end, and so do later ones until `plug`."""
        self.is_unplugged = True
        self._unplugged.set()
        if self._plugged.is_set():
            self._plugged = trio.Event()
        self.reset()

    def plug(self) -> None:
        """Put the cable in again; nothing for a device that failed, or whose cable is in."""
        if self.is_unplugged and not self._failed.is_set():
            self.is_unplugged = False
            self._unplugged = trio.Event()
            self._plugged.set()

    # The firmware's side.

    async def get_setup(self) -> ControlUrb:
        """Wait for a control transfer."""
        if self._control:
            return self._control.popleft()
        return await traced_wait(self._ep0.wait(), "get_setup", self)

    def _new_out_endpoint(self, address: int = ENDPOINT_OUT) -> OutEndpoint:
        return OutEndpoint(address)

    def _new_in_endpoint(self, address: int = ENDPOINT_IN) -> InEndpoint:
        return InEndpoint(address)

    def configure(self, value: int) -> None:
        """Enter the configuration `value`, or leave it if 0. Transfers in progress are dropped."""
        self.configuration = value
        for endpoint in self.endpoints.values():
            endpoint.reset()
