"""Devices handed to this machine's own kernel: USB/IP over a socket pair, without TCP or the `usbip` tool.

The kernel's virtual host controller `vhci_hcd` takes one end of the pair through a file in sysfs and becomes
the host; from there on every program on the machine sees a USB device. Source: Linux,
Documentation/usb/usbip_protocol.rst and drivers/usb/usbip/vhci_sysfs.c.
"""

import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import trio

from aisrv.attach.usbip.connection import Connection
from aisrv.protocol.usbip import UsbipError
from phy.usb.bus import HostPort

logger = logging.getLogger(__name__)

SYSFS: Final = Path("/sys/devices/platform/vhci_hcd.0")
"""The first controller; its files serve the ports of all of them."""

HIGH_SPEED: Final = 3
"""`enum usb_device_speed` of Linux, include/uapi/linux/usb/ch9.h."""

FREE: Final = 4
"""`VDEV_ST_NULL` of `enum usbip_device_status`, drivers/usb/usbip/usbip_common.h."""

_HUBS: Final = ("hs", "ss")

DETACH_SECONDS: Final = 5.0
"""Time that the kernel has to close the socket of a device that it was asked to detach."""


class VhciError(Exception):
    """The kernel's virtual host controller is missing, may not be used, or refused a device."""


@dataclass(frozen=True)
class Port:
    """One line of the file `status`."""

    number: int
    hub: str
    """`hs` for USB 2, `ss` for USB 3."""
    state: int

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Read a line such as `hs  0000 004 000 00000000 000000 0-0`. Raises VhciError."""
        try:
            hub, number, state, *_ = line.split()
            if hub not in _HUBS:
                raise ValueError(hub)
            return cls(int(number), hub, int(state))
        except ValueError:
            raise VhciError(f"vhci_hcd's status has a line of an unknown format: {line!r}") from None

    @property
    def takes_device(self) -> bool:
        """Return whether a high-speed device can be plugged in here."""
        return self.hub == "hs" and self.state == FREE


class Vhci:
    """The controller as files in a directory of sysfs."""

    def __init__(self, sysfs: Path = SYSFS) -> None:
        self._sysfs: Final = sysfs

    def check(self) -> None:
        """Raise VhciError with what to do if devices cannot be attached."""
        attach = self._sysfs / "attach"
        try:
            attach.open("wb").close()  # without a write nothing happens to a file of sysfs
        except FileNotFoundError:
            raise VhciError(
                f"{attach} does not exist: the kernel's module is not loaded; as root: modprobe vhci-hcd"
            ) from None
        except PermissionError:
            raise VhciError(f"{attach} may be written by root only; run this command with sudo") from None

    def ports(self) -> list[Port]:
        """Read the ports of all controllers. Raises VhciError."""
        try:
            files = [path.read_text() for path in sorted(self._sysfs.glob("status*"))]
        except OSError as error:
            raise VhciError(f"cannot read the ports of vhci_hcd: {error}") from None
        lines = [line for text in files for line in text.splitlines()[1:] if line.strip()]
        return [Port.from_line(line) for line in lines]

    def attach(self, descriptor: int, devid: int) -> int:
        """Plug the device behind a connected stream socket into a free port, and return it. Raises VhciError.

        The kernel holds the socket from here on; the caller may close the descriptor.
        """
        for port in self.ports():
            if port.takes_device:
                try:
                    self.write("attach", f"{port.number} {descriptor} {devid} {HIGH_SPEED}")
                except OSError as error:
                    if error.errno == errno.EBUSY:
                        continue  # another program was faster
                    raise VhciError(f"vhci_hcd refused a device at port {port.number}: {error}") from None
                return port.number
        raise VhciError("no high-speed port of vhci_hcd is free; `usbip port` lists what is attached")

    def detach(self, port: int) -> None:
        """Unplug a port's device, unless the kernel has done so already. Raises VhciError."""
        try:
            self.write("detach", f"{port}")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise VhciError(f"vhci_hcd did not detach port {port}: {error}") from None

    def write(self, name: str, text: str) -> None:
        """Write a file of the controller, as one message. Raises OSError."""
        with (self._sysfs / name).open("wb", buffering=0) as file:
            file.write(text.encode())


@dataclass
class Attached:
    """A device that is plugged in."""

    port: int
    """Port, another one each time that the device was plugged in again."""
    is_in: bool = True
    """Whether the device has its port; not while its cable is out."""
    detached: trio.Event = field(default_factory=trio.Event)
    """Set when the kernel has ended the connection."""


@asynccontextmanager
async def attached(bus: HostPort, devid: int, vhci: Vhci) -> AsyncIterator[Attached]:
    """Plug a device into the kernel for as long as the block lasts. Raises VhciError.

    A device that leaves the bus by itself is plugged in again: at once, or when its cable is in again. One
    that failed is detached.
    """
    port, connection = _plug_in(bus, devid, vhci)
    plugged = Attached(port)

    async def serve() -> None:
        nonlocal connection
        try:
            while True:
                await connection.run()
                if not connection.left:
                    return
                plugged.is_in, port = False, plugged.port
                if bus.is_unplugged:
                    logger.warning("the device left vhci_hcd port %d", port)
                if not await bus.wait_plugged():
                    return
                plugged.port, connection = _plug_in(bus, devid, vhci)
                plugged.is_in = True
                logger.warning(
                    "the device left vhci_hcd port %d and was attached again at port %d", port, plugged.port
                )
        except (UsbipError, OSError, VhciError) as error:
            logger.warning("vhci_hcd port %d: %s", plugged.port, error)
        finally:
            bus.reset()
            plugged.detached.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            yield plugged
        finally:
            # The kernel is asked while the device still answers; it closes the socket then.
            if plugged.is_in and not plugged.detached.is_set():
                vhci.detach(plugged.port)
                with trio.move_on_after(DETACH_SECONDS, shield=True):
                    await plugged.detached.wait()
            nursery.cancel_scope.cancel()


def _plug_in(bus: HostPort, devid: int, vhci: Vhci) -> tuple[int, Connection]:
    """Plug a device into a free port; return the port and the connection to serve. Raises VhciError."""
    ours, theirs = socket.socketpair()
    bus.reset()
    with theirs:
        try:
            port = vhci.attach(theirs.fileno(), devid)
        except VhciError:
            ours.close()
            raise
    return port, Connection(trio.socket.from_stdlib_socket(ours), bus, devid)
