"""Devices that a USB/IP server exports, opened and listed by `HOST[:PORT][/BUSID]`."""

from dataclasses import replace

from aisrv.protocol.commands import USB_MANUFACTURER, USB_PRODUCT, USB_PRODUCT_ID, USB_VENDOR_ID
from aisrv.protocol.usbip import PORT, DeviceRecord
from host_tools.errors import BadAddressError, DeviceNotFound
from host_tools.standins.pyusb_backend import Device, get_backend
from host_tools.transports.transport import DeviceInfo
from host_tools.transports.usb import Found, UsbTransport, describe
from host_tools.usbip import client as usbip_client


def open_usbip(spec: str) -> UsbTransport:
    """Open the only AI server of a USB/IP server, or the one with a bus id."""
    address, busid = _split(spec)
    exported = _exported(address)
    wanted = [record for record in exported if busid in ("", record.busid)]
    if not wanted:
        names = ", ".join(record.busid for record in exported)
        which = f" with bus id {busid}; it has: {names or 'none'}" if busid else ""
        raise DeviceNotFound(f"{address}: the server exports no AI server{which}")
    if len(wanted) > 1:
        names = ", ".join(f"usbip:{address}/{record.busid}" for record in wanted)
        raise DeviceNotFound(f"{address}: the server exports {len(wanted)} AI servers; name one of {names}")
    return UsbTransport(get_backend(address), Device(wanted[0]))


def list_usbip(spec: str) -> list[DeviceInfo]:
    """The AI servers that a USB/IP server exports; each that no host has is opened to ask for its names."""
    address, busid = _split(spec)
    return [_describe(address, record) for record in _exported(address) if busid in ("", record.busid)]


def _describe(address: str, record: DeviceRecord) -> DeviceInfo:
    backend, device = get_backend(address), Device(record)
    found = Found(device, backend.get_device_descriptor(device), record.busid)
    info = replace(describe(backend, found), address=f"usbip:{address}/{record.busid}")
    if info.product:
        return info
    # Vendor and product number say what it is; the list of a server carries no names.
    return replace(info, product=USB_PRODUCT, manufacturer=USB_MANUFACTURER)


def _exported(address: str) -> list[DeviceRecord]:
    try:
        devices = usbip_client.list_devices(address)
    except usbip_client.UsbipClientError as error:
        raise DeviceNotFound(str(error)) from error
    records = [device.record for device in devices]
    return [one for one in records if (one.vendor, one.product) == (USB_VENDOR_ID, USB_PRODUCT_ID)]


def _split(spec: str) -> tuple[str, str]:
    """HOST:PORT and bus id; without a port it is the one that USB/IP has by default."""
    address, _, busid = spec.partition("/")
    if address.endswith("]") or ":" not in address:
        address = f"{address}:{PORT}"
    try:
        usbip_client.parse_address(address)
    except ValueError as error:
        raise BadAddressError(f"usbip:{spec}: {error}") from error
    return address, busid
