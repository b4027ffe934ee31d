"""The table of device addresses, `scheme:spec`, with the module that opens and lists the devices of each."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from aisrv.values.addons import Scheme, load, offer, offered
from host_tools.errors import BadAddressError

if TYPE_CHECKING:
    from host_tools.transports.spi.transport import SpiTransport
    from host_tools.transports.transport import DeviceInfo, OtherTransport, Transport


_HERE: Final = __name__.rpartition(".")[0]

SCHEMES: Final = {
    "usb": Scheme("usb[:SERIAL]", f"{_HERE}.usb"),
    "usbip": Scheme("usbip:HOST:PORT[/BUSID]", f"{_HERE}.usbip.transport"),
    "virtual": Scheme("virtual[:BOARD]", f"{_HERE}.virtual"),
    "spi": Scheme("spi:B.D[@HOST:PORT]", f"{_HERE}.spi.transport"),
}
"""Each scheme of the core by its name; modules are loaded when they are used."""


def schemes() -> dict[str, Scheme]:
    """Return the schemes of the core and of the product's add-ons."""
    return SCHEMES | offered("schemes")


def open_transport(device: str) -> "Transport | SpiTransport | OtherTransport":
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
    if scheme_of(device) is None:
        raise BadAddressError(f"{device!r} is not a device address; use {forms()}")


def forms() -> str:
    """List what addresses look like, for messages."""
    *others, last = (scheme.form for scheme in schemes().values())
    return f"{', '.join(others)} or {last}"


def scheme_of(device: str) -> Scheme | None:
    """Return the scheme of an address; None for an unknown one."""
    name = device.partition(":")[0]
    return SCHEMES.get(name) or offer("schemes", name)


def describe(device: str, engine: int) -> dict[str, object] | None:
    """Return what a device that takes no questions of the AI server says of itself; None for the others."""
    scheme = scheme_of(device)
    if scheme is None or not scheme.describes_itself:
        return None
    described: dict[str, object] = _function("describe", device)(device.partition(":")[2], engine)
    return described


def _function(verb: str, device: str) -> Callable[..., Any]:
    scheme = scheme_of(device)
    if scheme is None:
        raise BadAddressError(f"{device!r} is not a device address; use {forms()}")
    function: Callable[..., Any] = load(f"{scheme.module}:{verb}_{device.partition(':')[0]}")
    return function
