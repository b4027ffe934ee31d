"""Ways to a device, named `scheme:spec`: what a transport is, and the table of schemes.

| address | reaches |
|---|---|
| `usb[:SERIAL]`, `usb:BUS-DEVICE` | hardware through pyusb and libusb |
| `usbip:HOST[:PORT][/BUSID]` | a device that a USB/IP server exports |
| `spi[:B.D[@HOST:PORT]]` | an SPI slave through spidev, or through an SPI link server |
| `virtual[:BOARD]` | a virtual device that is started for this use and ended with it |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from host_tools.errors import BadAddressError, Stalled

if TYPE_CHECKING:
    from host_tools.transports.spi import SpiTransport

Buffer: TypeAlias = bytes | bytearray | memoryview


class Transport(Protocol):
    """The two bulk endpoints of one device. Times are in seconds; None waits for ever.

    Every method may raise `DeviceGone`, `TransferTimeout` or `TransferError`; a halted endpoint is `Stalled`.
    """

    def write(self, data: Buffer, timeout: float | None) -> None:
        """Send bytes as they are: packets of 512, the last of which may be shorter.

        Nothing is added: only a write whose length is not a multiple of 512 ends a transfer, and an empty
        write is one packet of no bytes.
        """

    def read(self, length: int, timeout: float | None) -> bytes:
        """Receive until a packet is shorter than 512 bytes, or until `length` bytes are there.

        `length` is a multiple of 512. Where the answer has exactly `length` bytes its short packet is still
        to come; where it has fewer, the transfer is over.
        """

    def exchange(self, writes: Sequence[Buffer], length: int, timeout: float | None) -> bytes:
        """Do several writes, then a read unless `length` is 0, and return what was read.

        The same as one call after another, and `one_after_another` is that; a transport that can have all of
        them in flight at once saves a round trip for each. `Stalled` tells how many writes were done.
        """

    def clear_halts(self) -> None:
        """Clear the halt of both endpoints, which is what the device waits for after a failure."""

    def reset(self) -> None:
        """Set the configuration anew: the device abandons the command in flight; its model stays."""

    def close(self) -> None:
        """Give the device back. Closing again does nothing."""


def one_after_another(
    transport: Transport, writes: Sequence[Buffer], length: int, timeout: float | None
) -> bytes:
    """`Transport.exchange` in terms of `write` and `read`."""
    done = 0
    try:
        for data in writes:
            transport.write(data, timeout)
            done += 1
        return transport.read(length, timeout) if length else b""
    except Stalled as stall:
        stall.writes_done = done
        raise


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device that was found; `address` opens it."""

    address: str
    product: str = ""
    manufacturer: str = ""
    serial: str = ""
    note: str = ""
    """Why the device could not be asked for its names, if so."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to devices: two functions of the part of an address that follows `scheme:`."""

    open: "Callable[[str], Transport | SpiTransport]"
    list: Callable[[str], list[DeviceInfo]]


def _usb() -> Scheme:
    from host_tools.transports import usb as usb_transport

    return Scheme(usb_transport.open_usb, usb_transport.list_usb)


def _usbip() -> Scheme:
    from host_tools.transports import usbip as usbip_transport

    return Scheme(usbip_transport.open_usbip, usbip_transport.list_usbip)


def _spi() -> Scheme:
    from host_tools.transports import spi as spi_transport

    return Scheme(spi_transport.open_spi, spi_transport.list_spi)


def _virtual() -> Scheme:
    from host_tools.transports import virtual

    return Scheme(virtual.open_virtual, virtual.list_virtual)


SCHEMES: Final[dict[str, Callable[[], Scheme]]] = {
    "usb": _usb,
    "usbip": _usbip,
    "spi": _spi,
    "virtual": _virtual,
}
"""Each scheme's loader, called at its first use: a program pays only for the way it takes."""


def open_transport(device: str) -> "Transport | SpiTransport":
    """Open the device at an address such as `usb`, `usbip:localhost:3240`, `spi:0.0` or `virtual`.

    Raises `BadAddressError`, `DeviceNotFound`, `DeviceAccessDenied` or `DeviceBusy`.
    """
    scheme, spec = _split(device)
    return scheme.open(spec)


def list_devices(device: str) -> list[DeviceInfo]:
    """The devices that an address reaches: all of USB for `usb`, all of a server for `usbip:HOST:PORT`."""
    scheme, spec = _split(device)
    return scheme.list(spec)


def _split(device: str) -> tuple[Scheme, str]:
    name, _, spec = device.partition(":")
    load = SCHEMES.get(name)
    if load is None:
        raise BadAddressError(
            f"{device!r} is no device address; use usb[:SERIAL], usbip:HOST:PORT[/BUSID] or virtual[:BOARD], "
            "or spi:B.D[@HOST:PORT]"
        )
    return load(), spec
