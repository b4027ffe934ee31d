"""A bus whose device side is the user's firmware: its endpoints, its descriptors, its answers at endpoint 0.

The device is on the bus while the firmware runs its XUD core. Before hosts see it, its descriptors are asked
of it, as a hub's host does of a device that is plugged in.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from aisrv.addons.firmware.usb_control_pipe import ControlPipe
from aisrv.addons.firmware.usb_endpoint import BusState, ControlDirection, DataIn, DataOut, XudEndpoint
from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usb_descriptors import (
    DIRECTION_IN,
    LANGID_ENGLISH_US,
    ConfigurationDescriptor,
    DescriptorError,
    Descriptors,
    DescriptorType,
    DeviceDescriptor,
    Recipient,
    SetupPacket,
    StandardRequest,
    string_text,
)
from aisrv.xcore.runtime import Parking, Runtime, current_runtime
from aisrv.xcore.signal import Signal
from aisrv.xcore.waiter import Waiter
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import InEndpoint, OutEndpoint, UsbReset

logger = logging.getLogger(__name__)

_CHANGES: Final = frozenset(
    (
        (Recipient.DEVICE, StandardRequest.SET_CONFIGURATION),
        (Recipient.INTERFACE, StandardRequest.SET_INTERFACE),
    )
)
"""Requests after which a host's system uses endpoints anew."""
_SIZE_MASK: Final = 0x7FF
"""Bits of wMaxPacketSize that are the size; those above are transactions a microframe."""


class _NoDescriptor(Exception):
    """The device has not answered as it must; the text says how."""


class FirmwareBus(UsbBus):
    """The host's side as in `UsbBus`; the other side is that of XUD."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - of another class of buses
        super().__init__(Descriptors(), *arguments)
        self.endpoints.clear()
        self.control: Final = ControlPipe(self.get_setup, lambda: bool(self._control), self._request_ended)
        self.bound: Mapping[int, XudEndpoint] = {}
        """What the firmware has bound, by address; empty while no XUD core runs."""
        self._is_there = False  # whether the firmware has answered with its descriptors
        self._nursery: trio.Nursery | None = None
        self._runtime: Runtime | None = None
        self._awaiting: list[Waiter[None]] = []
        self._killed: Signal | None = None
        self._connected = trio.Event()
        self.unplug()

    # The host's side.

    def submit_out(self, address: int, urb: OutUrb) -> bool:
        if self.is_unplugged:
            urb.finish(TransferStatus.SHUTDOWN)
            return True
        endpoint = self.endpoints.get(address)
        if not isinstance(endpoint, OutEndpoint) or not self.configuration:
            return False
        endpoint.submit(urb)
        return True

    def data_arrived(self, urb: OutUrb) -> None:
        if not urb.done:
            for endpoint in self.endpoints.values():
                if isinstance(endpoint, OutEndpoint):
                    endpoint.data_arrived()

    def submit_in(self, address: int, urb: InUrb) -> bool:
        if self.is_unplugged:
            urb.finish(TransferStatus.SHUTDOWN)
            return True
        endpoint = self.endpoints.get(address)
        if not isinstance(endpoint, InEndpoint) or not self.configuration:
            return False
        endpoint.submit(urb)
        return True

    def submit_control(self, urb: ControlUrb) -> None:
        super().submit_control(urb)
        self.control.check_setup()

    def unlink(self, urb: OutUrb | InUrb | ControlUrb) -> bool:
        if isinstance(urb, ControlUrb):
            return super().unlink(urb) or self.control.abandon(urb.setup)
        endpoints = self.endpoints.values()  # each of a direction is asked: a URB does not name its own
        if isinstance(urb, OutUrb):
            return any(each.unlink(urb) for each in endpoints if isinstance(each, OutEndpoint))
        return any(each.unlink(urb) for each in endpoints if isinstance(each, InEndpoint))

    def reset(self) -> None:
        for endpoint in self.bound.values():
            endpoint.note(BusState.RESET)
        super().reset()
        self._interrupt()

    def configure(self, value: int) -> None:
        """Note the configuration that a host has chosen: its transfers in progress are dropped."""
        self.configuration = value
        for endpoint in self.endpoints.values():
            endpoint.drop_urbs()

    def plug(self) -> None:
        """Put the cable in again; nothing either while the firmware is not on the bus."""
        if self._is_there:
            super().plug()

    # The firmware's side.

    async def run_xud(
        self, runtime: Runtime, outs: Sequence[bool | None], ins: Sequence[bool | None]
    ) -> None:
        """Be the XUD core: put the device on the bus, until the firmware kills it.

        `outs` and `ins` say for each endpoint by number whether it is told of resets; None for one that is
        not there. Endpoint 0 is the first of both. One core at a time may be in here.
        """
        self._runtime = runtime
        self._killed = Signal(runtime, "XUD_Kill")
        self.control.turned = runtime.parking(runtime)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                self._bind(runtime, outs, ins)
                self.reset()
                await self._enumerate()
                await self._killed.wait()
            finally:
                self._nursery = None
            nursery.cancel_scope.cancel()

    @property
    def is_running(self) -> bool:
        """Return whether an XUD core runs."""
        return self._nursery is not None

    @property
    def nursery(self) -> trio.Nursery:
        """The XUD core's: what it moves by itself."""
        assert self._nursery is not None, "no XUD core runs"  # noqa: S101
        return self._nursery

    async def wait_bound(self) -> None:
        """Wait until endpoints are bound."""
        if self.bound:
            return
        runtime = current_runtime()
        if runtime is None:
            waiter: Waiter[None] = Waiter()
            self._awaiting.append(waiter)
            await waiter.wait(lambda: self._awaiting.remove(waiter))
        else:
            parking = runtime.parking(runtime)
            self._awaiting.append(parking)
            await parking.park("wait_bound", self, lambda: self._awaiting.remove(parking), timed=True)

    async def wait_connected(self) -> None:
        """Wait until the device has been on the bus once, or was refused."""
        await self._connected.wait()

    def kill(self) -> None:
        """End the XUD core; all endpoints are told."""
        self._is_there = False
        self.unplug()
        for endpoint in self.bound.values():
            endpoint.note(BusState.KILL)
        self.bound = {}
        if self._killed is not None:
            self._killed.set()

    def _bind(self, runtime: Runtime, outs: Sequence[bool | None], ins: Sequence[bool | None]) -> None:
        bound: dict[int, XudEndpoint] = {}
        for direction, table in ((0, outs), (DIRECTION_IN, ins)):
            for number, notifies in enumerate(table):
                address = direction | number
                if not number:
                    bound[address] = ControlDirection(runtime, address, self.control, notifies=bool(notifies))
                elif notifies is not None:
                    bound[address] = self._data_endpoint(runtime, address, notifies=notifies)
        self.bound = bound
        awaiting, self._awaiting = self._awaiting, []
        for waiter in awaiting:
            waiter.wake(None)

    def _data_endpoint(self, runtime: Runtime, address: int, *, notifies: bool) -> XudEndpoint:
        if address & DIRECTION_IN:
            own = address == self.in_endpoint.address
            into = self.in_endpoint if own else self._new_in_endpoint(address)
            self.endpoints[address] = into
            return DataIn(runtime, into, notifies=notifies)
        own = address == self.out_endpoint.address
        out = self.out_endpoint if own else self._new_out_endpoint(address)
        self.endpoints[address] = out
        return DataOut(runtime, out, notifies=notifies)

    def _interrupt(self) -> None:
        """Wake the firmware's calls: each looks at what it has to take note of."""
        self._ep0.fail(UsbReset("endpoint 0 was reset"))
        self.control.reset()
        for endpoint in self.endpoints.values():
            endpoint.reset()

    def _request_ended(self, setup: SetupPacket) -> None:
        """Do what a host's system does after a request of its own."""
        if (setup.request_type, setup.request) in _CHANGES:
            is_configuration = setup.request == StandardRequest.SET_CONFIGURATION
            self.configure(setup.value if is_configuration else self.configuration)

    # What a host asks of a device that was plugged in.

    async def _enumerate(self) -> None:
        try:
            self.descriptors = await self._read_descriptors()
        except (_NoDescriptor, DescriptorError) as error:
            logger.warning("the USB device of the firmware is not on the bus: %s", error)
        else:
            self._is_there = True
            self.plug()
        self._connected.set()

    async def _read_descriptors(self) -> Descriptors:
        device = DeviceDescriptor.parse(await self._fetch(DescriptorType.DEVICE, 0, DeviceDescriptor.SIZE))
        head = ConfigurationDescriptor.parse(
            await self._fetch(DescriptorType.CONFIGURATION, 0, ConfigurationDescriptor.SIZE)
        )
        whole = await self._fetch(DescriptorType.CONFIGURATION, 0, head.total_length)
        configuration = ConfigurationDescriptor.parse(whole)
        self._size_packets(configuration)
        named = [device.manufacturer_string, device.product_string, device.serial_string]
        named += [configuration.string, *(each.string for each in configuration.interfaces)]
        strings = {index: await self._string(index) for index in sorted(set(named) - {0})}
        texts = tuple(strings.get(index, "") for index in range(1, max(strings, default=0) + 1))
        return Descriptors(device, configuration, texts)

    def _size_packets(self, configuration: ConfigurationDescriptor) -> None:
        """Give endpoints the packets that their descriptors say. Raises _NoDescriptor."""
        for descriptor in (each for setting in configuration.interfaces for each in setting.endpoints):
            size = descriptor.max_packet_size & _SIZE_MASK
            if not 0 < size <= PACKET_SIZE:
                name = f"endpoint 0x{descriptor.address:02x}"
                raise _NoDescriptor(f"{name} has packets of {size} bytes; 1 to {PACKET_SIZE} can be")
            endpoint = self.endpoints.get(descriptor.address)
            if endpoint is not None:
                endpoint.packet_size = size

    async def _string(self, index: int) -> str:
        try:
            return string_text(await self._fetch(DescriptorType.STRING, index, 255, LANGID_ENGLISH_US))
        except _NoDescriptor:
            return ""  # hosts do without

    async def _fetch(self, kind: DescriptorType, index: int, length: int, language: int = 0) -> bytes:
        """Get a descriptor of the firmware. Raises _NoDescriptor."""
        value = kind << 8 | index
        setup = SetupPacket(DIRECTION_IN, StandardRequest.GET_DESCRIPTOR, value, language, length)
        while True:
            status, data = await self._ask(setup)
            if status is TransferStatus.OKAY:
                return data
            if status is not TransferStatus.SHUTDOWN:  # after a reset by others it is asked again
                raise _NoDescriptor(f"GET_DESCRIPTOR({kind.name}): {status.value}")

    async def _ask(self, setup: SetupPacket) -> tuple[TransferStatus, bytes]:
        assert self._runtime is not None  # noqa: S101 - of the XUD core
        ended: Parking[tuple[TransferStatus, bytes]] = self._runtime.parking(self._runtime)

        def complete(status: TransferStatus, data: bytes) -> None:
            ended.wake((status, data))

        urb = ControlUrb(setup, b"", complete)
        urb.submitted = 0
        if not self._ep0.wake(urb):
            self._control.append(urb)
        self.control.check_setup()
        return await ended.park("enumerate", self, lambda: self.unlink(urb), timed=True)
