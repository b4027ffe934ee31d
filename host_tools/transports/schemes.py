"""The table of device addresses, `scheme:spec`, with what opens and lists the devices of each scheme.

| address | reaches |
|---|---|
| `usb[:SERIAL]`, `usb:BUS-DEVICE` | hardware through pyusb and libusb |
| `usbip:HOST[:PORT][/BUSID]` | a device that a USB/IP server exports |
| `spi[:B.D[@HOST:PORT]]` | an SPI slave through spidev, or through an SPI link server |
| `jacdac:[HOST:PORT[/DEVICE]]` | a device on a Jacdac bus that is served over TCP |
| `virtual[:BOARD]` | a virtual device that is started for this use and ended with it |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from host_tools.errors import BadAddressError
from host_tools.transports.transport import DeviceInfo, Transport

if TYPE_CHECKING:
    from host_tools.transports.jacdac.transport import JacdacTransport
    from host_tools.transports.spi.transport import SpiTransport


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to devices: two functions of the part of an address that follows `scheme:`."""

    open: "Callable[[str], Transport | SpiTransport | JacdacTransport]"
    list: Callable[[str], list[DeviceInfo]]


def _usb() -> Scheme:
    from host_tools.transports.usb import list_usb, open_usb

    return Scheme(open_usb, list_usb)


def _usbip() -> Scheme:
    from host_tools.transports.usbip.transport import list_usbip, open_usbip

    return Scheme(open_usbip, list_usbip)


def _spi() -> Scheme:
    from host_tools.transports.spi.transport import list_spi, open_spi

    return Scheme(open_spi, list_spi)


def _jacdac() -> Scheme:
    from host_tools.transports.jacdac.transport import list_jacdac, open_jacdac

    return Scheme(open_jacdac, list_jacdac)


def _virtual() -> Scheme:
    from host_tools.transports.virtual import list_virtual, open_virtual

    return Scheme(open_virtual, list_virtual)


SCHEMES: Final[dict[str, Callable[[], Scheme]]] = {
    "usb": _usb,
    "usbip": _usbip,
    "spi": _spi,
    "jacdac": _jacdac,
    "virtual": _virtual,
}
"""Each scheme's loader, called at its first use: a program pays only for the way it takes."""


def open_transport(device: str) -> "Transport | SpiTransport | JacdacTransport":
    """Open the device at an address such as `usb`, `usbip:localhost:3240`, `spi:0.0` or `virtual`.

    Raises `BadAddressError`, `DeviceNotFound`, `DeviceAccessDenied` or `DeviceBusy`.
    """
    scheme, spec = _split(device)
    return scheme.open(spec)


def list_devices(device: str) -> list[DeviceInfo]:
    """List the devices at an address: all of USB for `usb`, all of a server for `usbip:HOST:PORT`."""
    scheme, spec = _split(device)
    return scheme.list(spec)


def check_scheme(device: str) -> None:
    """Raise `BadAddressError` for a `device` address of a scheme that there is not; nothing is opened."""
    name = device.partition(":")[0]
    if name not in SCHEMES:
        raise BadAddressError(
            f"{device!r} is not a device address; use usb[:SERIAL], usbip:HOST:PORT[/BUSID], "
            "virtual[:BOARD], "
            "spi:B.D[@HOST:PORT] or jacdac:HOST:PORT"
        )


def _split(device: str) -> tuple[Scheme, str]:
    check_scheme(device)
    name, _, spec = device.partition(":")
    return SCHEMES[name](), spec
