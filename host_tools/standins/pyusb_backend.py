"""A pyusb backend for devices behind USB/IP that behaves as pyusb's libusb 1.0 backend does on Linux.

    import usb.core
    from host_tools.standins.pyusb_backend import get_backend

    device = usb.core.find(product="xAISRV", backend=get_backend("localhost:3240"))

Descriptors come from the device. Errors carry libusb's codes and the errno that goes with each, so that a
program which tests for `usb.backend.libusb1.LIBUSB_ERROR_PIPE` or USBTimeoutError works unchanged. What
libusb and the kernel do besides is done here too: a device that is opened is configured, an interface
belongs to one handle, and no configuration is set while an interface is claimed.

A device is imported while a handle to it is open, and for the moment in which its descriptors are read; all
handles of one process share the connection. A server that does not answer is a bus with nothing plugged in.
"""

from __future__ import annotations

import functools
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import usb.backend
from usb.backend import libusb1
from usb.core import USBError

from aisrv.protocol.usb_descriptors import (
    ConfigurationDescriptor,
    DescriptorType,
    DeviceDescriptor,
    InterfaceDescriptor,
    SetupPacket,
)
from host_tools.errors import DeviceBusy, HostError, TransferStall, TransferTimeout
from host_tools.standins.libusb_errors import libusb_code, libusb_errors, usb_error
from host_tools.standins.pyusb_descriptors import (
    pyusb_configuration,
    pyusb_device,
    pyusb_endpoint,
    pyusb_interface,
)
from host_tools.transports.server_address import check_address
from host_tools.transports.usbip.connection import Connection
from host_tools.transports.usbip.discovery import list_devices
from host_tools.transports.usbip.standard_requests import (
    clear_halt,
    get_configuration,
    get_descriptor,
    read_configuration,
    read_device,
    set_configuration,
    set_interface,
)

if TYPE_CHECKING:
    from array import array
    from types import SimpleNamespace

    from aisrv.protocol.usbip import DeviceRecord

_logger = logging.getLogger(__name__)

_MAX_INTERFACES: Final = 32
_MAX_CONTROL: Final = 0xFFFF
_DEVICE_TO_HOST: Final = 0x80

_LIBUSB_SPEED: Final = {1: 1, 2: 2, 3: 3, 5: 4, 6: 5}
"""libusb's number of each speed in a device record: low, full, high, super and super plus."""


class Device:
    """A device as pyusb passes it around: which one it is, and its descriptors once they have been read."""

    def __init__(self, record: DeviceRecord) -> None:
        self.record = record
        self.descriptor: DeviceDescriptor | None = None
        self.configurations: list[ConfigurationDescriptor] = []

    @property
    def busid(self) -> str:
        """The server's name for the device, such as `1-1`."""
        return self.record.busid


class _Link:
    """One imported device, shared by all handles of the process; `owners` says who claimed an interface."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.users = 0
        self.owners: dict[int, Handle] = {}


class Handle:
    """An open device."""

    def __init__(self, device: Device, link: _Link) -> None:
        self.device = device
        self.link = link
        self.connection = link.connection
        self.is_open = True


class UsbipBackend(usb.backend.IBackend):  # type: ignore[misc]  # pyusb has no types
    """The devices of one USB/IP server, for pyusb; time-outs are in milliseconds, 0 waits without limit."""

    def __init__(self, address: str) -> None:
        """Take a server's address; ValueError where it is malformed. Nothing is connected yet."""
        super().__init__()
        check_address(address)
        self.address = address
        self._links: dict[str, _Link] = {}
        self._lock = threading.RLock()

    # Devices and descriptors

    def enumerate_devices(self) -> list[Device]:
        """Return what the server exports now; nothing where no server answers."""
        try:
            return [Device(exported.record) for exported in list_devices(self.address)]
        except HostError as error:
            _logger.debug("no devices: %s", error)
            return []

    def get_parent(self, dev: Device) -> None:
        """Return None: a device behind USB/IP has no hub that could be asked."""

    def get_device_descriptor(self, dev: Device) -> SimpleNamespace:
        """See IBackend. Of a device that cannot be asked, what the server's list says: no strings.

        Another client may have it. To raise here would hide the server's other devices from a search.
        """
        try:
            self._read_descriptors(dev)
        except USBError as error:
            level = logging.DEBUG if isinstance(error.__cause__, DeviceBusy) else logging.WARNING
            _logger.log(level, "the descriptors of device %s cannot be read: %s", dev.busid, error.__cause__)
        descriptor = dev.descriptor or _descriptor_of_record(dev.record)
        ports = _ports(dev.busid)
        return pyusb_device(
            descriptor,
            bus=dev.record.bus_number & 0xFF,
            address=dev.record.device_number & 0xFF,
            speed=_LIBUSB_SPEED.get(dev.record.speed, 0),
            port_number=ports[-1] if ports else 0,
            port_numbers=ports or None,
        )

    def get_configuration_descriptor(self, dev: Device, config: int) -> SimpleNamespace:
        """See IBackend."""
        self._read_descriptors(dev)
        return pyusb_configuration(_configuration(dev, config))

    def get_interface_descriptor(self, dev: Device, intf: int, alt: int, config: int) -> SimpleNamespace:
        """See IBackend."""
        self._read_descriptors(dev)
        return pyusb_interface(_setting(dev, intf, alt, config))

    def get_endpoint_descriptor(
        self, dev: Device, ep: int, intf: int, alt: int, config: int
    ) -> SimpleNamespace:
        """See IBackend."""
        self._read_descriptors(dev)
        endpoints = _setting(dev, intf, alt, config).endpoints
        if ep >= len(endpoints):
            raise IndexError(f"Invalid endpoint index {ep}")
        return pyusb_endpoint(endpoints[ep])

    def _read_descriptors(self, dev: Device) -> None:
        if dev.descriptor is not None:
            return
        with self._lock, libusb_errors():
            link = self._acquire(dev.busid)
            try:
                descriptor = read_device(link.connection)
                configurations = [
                    read_configuration(link.connection, index)
                    for index in range(descriptor.configuration_count)
                ]
            finally:
                self._release(dev.busid, link)
            dev.configurations = configurations
            dev.descriptor = descriptor

    # Handles

    def open_device(self, dev: Device) -> Handle:
        """See IBackend. A device that is not configured gets its first configuration, as on plug-in."""
        with self._lock, libusb_errors():
            link = self._acquire(dev.busid)
            try:
                self._read_descriptors(dev)
                if dev.configurations and not get_configuration(link.connection):
                    set_configuration(link.connection, dev.configurations[0].value)
            except BaseException:
                self._release(dev.busid, link)
                raise
            return Handle(dev, link)

    def close_device(self, dev_handle: Handle) -> None:
        """See IBackend. What the handle had claimed is free again."""
        with self._lock:
            if not dev_handle.is_open:
                return
            dev_handle.is_open = False
            link = dev_handle.link
            link.owners = {i: owner for i, owner in link.owners.items() if owner is not dev_handle}
            self._release(dev_handle.device.busid, link)

    def _acquire(self, busid: str) -> _Link:
        link = self._links.get(busid)
        if link is None or not link.connection.is_open:
            link = self._links[busid] = _Link(Connection.open(self.address, busid))
        link.users += 1
        return link

    def _release(self, busid: str, link: _Link) -> None:
        link.users -= 1
        if not link.users:
            # Another link may have taken the place of one whose server went away.
            if self._links.get(busid) is link:
                del self._links[busid]
            link.connection.close()

    # State of the device

    def set_configuration(self, dev_handle: Handle, config_value: int) -> None:
        """See IBackend. The kernel refuses while any interface is claimed, by this program too."""
        if dev_handle.link.owners:
            raise usb_error(libusb1.LIBUSB_ERROR_BUSY)
        with libusb_errors():
            set_configuration(dev_handle.connection, max(0, config_value))

    def get_configuration(self, dev_handle: Handle) -> int:
        """See IBackend. The device is asked each time."""
        with libusb_errors():
            return get_configuration(dev_handle.connection)

    def set_interface_altsetting(self, dev_handle: Handle, intf: int, altsetting: int) -> None:
        """See IBackend."""
        link = dev_handle.link
        if link.owners.get(intf) is not dev_handle:
            raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)
        settings = _settings(dev_handle.device, intf)
        setting = next((one for one in settings if one.alternate == altsetting), None)
        if setting is None:
            raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)
        with libusb_errors():
            try:
                set_interface(link.connection, intf, altsetting)
            except TransferStall:
                # A device with a single setting may refuse; the kernel then clears the halts in its stead.
                if len(settings) > 1:
                    raise
                for endpoint in setting.endpoints:
                    clear_halt(link.connection, endpoint.address)

    def claim_interface(self, dev_handle: Handle, intf: int) -> None:
        """See IBackend. Claiming again is fine; what another handle has claimed is busy."""
        if not 0 <= intf < _MAX_INTERFACES:
            raise usb_error(libusb1.LIBUSB_ERROR_INVALID_PARAM)
        if not _settings(dev_handle.device, intf):
            raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)
        if not dev_handle.connection.is_open:
            raise usb_error(libusb1.LIBUSB_ERROR_NO_DEVICE)
        with self._lock:
            if dev_handle.link.owners.setdefault(intf, dev_handle) is not dev_handle:
                raise usb_error(libusb1.LIBUSB_ERROR_BUSY)

    def release_interface(self, dev_handle: Handle, intf: int) -> None:
        """See IBackend."""
        with self._lock:
            if dev_handle.link.owners.get(intf) is not dev_handle:
                raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)
            del dev_handle.link.owners[intf]

    def clear_halt(self, dev_handle: Handle, ep: int) -> None:
        """See IBackend."""
        with libusb_errors():
            clear_halt(dev_handle.connection, ep)

    def reset_device(self, dev_handle: Handle) -> None:
        """See IBackend. USB/IP has no reset; a device takes the kernel's first question after one for it."""
        connection = dev_handle.connection
        with libusb_errors():
            configuration = get_configuration(connection)
            get_descriptor(connection, DescriptorType.DEVICE, 0, 64)
            set_configuration(connection, configuration)

    def is_kernel_driver_active(self, dev_handle: Handle, intf: int) -> bool:  # noqa: ARG002
        """No kernel takes part, so no driver of it is active."""
        return False

    def detach_kernel_driver(self, dev_handle: Handle, intf: int) -> None:  # noqa: ARG002
        """There is none: the error that libusb gives then."""
        raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)

    def attach_kernel_driver(self, dev_handle: Handle, intf: int) -> None:  # noqa: ARG002
        """There is none that would take the interface: the error that libusb gives then."""
        raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)

    # Transfers

    def bulk_write(self, dev_handle: Handle, ep: int, intf: int, data: array[Any], timeout: int) -> int:  # noqa: ARG002
        """See IBackend. As with libusb, a time-out after some data is not an error."""
        try:
            return dev_handle.connection.bulk_out(ep & 0x7F, memoryview(data), timeout / 1000 or None)
        except HostError as error:
            return _moved_or_raise(error)

    def bulk_read(self, dev_handle: Handle, ep: int, intf: int, buff: array[Any], timeout: int) -> int:  # noqa: ARG002
        """See IBackend. As with libusb, a time-out after some data is not an error."""
        try:
            return dev_handle.connection.bulk_in_into(ep | 0x80, memoryview(buff), timeout / 1000 or None)
        except HostError as error:
            return _moved_or_raise(error)

    # USB/IP carries an interrupt transfer as it does a bulk transfer.
    intr_write = bulk_write
    intr_read = bulk_read

    def ctrl_transfer(
        self,
        dev_handle: Handle,
        bmRequestType: int,  # noqa: N803 - pyusb passes these by the names of the USB specification
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: array[Any],
        timeout: int,
    ) -> int:
        """See IBackend."""
        view = memoryview(data)
        if view.nbytes > _MAX_CONTROL:
            raise usb_error(libusb1.LIBUSB_ERROR_INVALID_PARAM)
        setup = bytes(
            SetupPacket(bmRequestType & 0xFF, bRequest & 0xFF, wValue & 0xFFFF, wIndex & 0xFFFF, view.nbytes)
        )
        connection = dev_handle.connection
        with libusb_errors():
            if bmRequestType & _DEVICE_TO_HOST:
                return connection.control_in_into(setup, view, timeout / 1000 or None)
            return connection.control_out(setup, view, timeout / 1000 or None)


@functools.cache
def get_backend(address: str) -> UsbipBackend:
    """Return the backend for the server at HOST:PORT; one per process, because a device is imported once."""
    return UsbipBackend(address)


def _moved_or_raise(error: HostError) -> int:
    if isinstance(error, TransferTimeout) and error.transferred:
        return error.transferred
    raise usb_error(libusb_code(error)) from error


def _configuration(device: Device, config: int) -> ConfigurationDescriptor:
    if config >= len(device.configurations):
        raise usb_error(libusb1.LIBUSB_ERROR_NOT_FOUND)
    return device.configurations[config]


def _setting(device: Device, interface: int, alternate: int, config: int) -> InterfaceDescriptor:
    """Return an alternate setting, by the indices that pyusb counts up until one is an IndexError."""
    interfaces = _configuration(device, config).settings
    if interface >= len(interfaces):
        raise IndexError(f"Invalid interface index {interface}")
    if alternate >= len(interfaces[interface]):
        raise IndexError(f"Invalid alternate setting index {alternate}")
    return interfaces[interface][alternate]


def _settings(device: Device, interface: int) -> list[InterfaceDescriptor]:
    """Return the alternate settings of an interface, by its number; none where there is no such interface."""
    for configuration in device.configurations:
        for settings in configuration.settings:
            if settings[0].number == interface:
                return settings
    return []


def _ports(busid: str) -> tuple[int, ...]:
    """Return the port numbers in a bus id such as `1-2.3`, from the root; empty in any other text."""
    parts = busid.partition("-")[2].split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else ()


def _descriptor_of_record(record: DeviceRecord) -> DeviceDescriptor:
    return DeviceDescriptor(
        device_class=record.device_class,
        device_subclass=record.device_subclass,
        device_protocol=record.device_protocol,
        vendor=record.vendor,
        product=record.product,
        bcd_device=record.bcd_device,
        manufacturer_string=0,
        product_string=0,
        serial_string=0,
        configuration_count=record.configuration_count,
    )
