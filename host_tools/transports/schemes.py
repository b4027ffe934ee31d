"""The table of device addresses, `scheme:spec`, with the module that opens and lists the devices of each."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from host_tools.errors import BadAddressError

if TYPE_CHECKING:
    from aisrv.addons.jacdac.host.transport import JacdacTransport
    from host_tools.transports.spi.transport import SpiTransport
    from host_tools.transports.transport import DeviceInfo, Transport


class Scheme(NamedTuple):
    """A way to devices."""

    form: str
    """What its addresses look like."""
    module: str
    """Has two functions of the part of an address behind the colon, `open_NAME` and `list_NAME`."""


SCHEMES: Final = {
    "usb": Scheme("usb[:SERIAL]", "usb"),
    "usbip": Scheme("usbip:HOST:PORT[/BUSID]", "usbip.transport"),
    "virtual": Scheme("virtual[:BOARD]", "virtual"),
    "spi": Scheme("spi:B.D[@HOST:PORT]", "spi.transport"),
    "jacdac": Scheme("jacdac:HOST:PORT[/DEVICE]", "jacdac.transport"),
}
"""Each scheme by its name; modules are below `host_tools.transports`, and loaded when they are used."""


def open_transport(device: str) -> "Transport | SpiTransport | JacdacTransport":
    """Open the device at an address such as `usb`, `usbip:localhost:3240`, `spi:0.0` or `virtual`.

    Raises `BadAddressError`, `DeviceNotFound`, `DeviceAccessDenied` or `DeviceBusy`.
    """
    transport: Transport = _function("open", device)(device.partition(":")[2])
    return transport


def list_devices(device: str) -> "list[DeviceInfo]":
    """List the devices at an address: all of USB for `usb`, all of a server for `usbip:HOST:PORT`."""
    devices: list[DeviceInfo] = _function("list", device)(device.partition(":")[2])
    return devices


def check_scheme(device: str) -> None:
    """Raise `BadAddressError` for a `device` address of an unknown scheme; nothing is opened."""
    if device.partition(":")[0] not in SCHEMES:
        raise BadAddressError(f"{device!r} is not a device address; use {forms()}")


def forms() -> str:
    """List what addresses look like, for messages."""
    *others, last = (scheme.form for scheme in SCHEMES.values())
    return f"{', '.join(others)} or {last}"


def _function(verb: str, device: str) -> Callable[[str], Any]:
    check_scheme(device)
    name = device.partition(":")[0]
    function: Callable[[str], Any] = getattr(
        import_module(f"host_tools.transports.{SCHEMES[name].module}"), f"{verb}_{name}"
    )
    return function
