"""What udev tells programs of devices that come and go: its messages, and the sockets that wait for them.

umockdev's library makes a socket in the emulated system of each netlink socket that a program binds. Its name
ends in the descriptor, so that of two programs with the same number the later one alone is told. Sources:
systemd, src/libsystemd/sd-device/device-monitor.c; umockdev, src/uevent_sender.c.
"""

import enum
import logging
import socket
import struct
from itertools import count
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_HEADER: Final = struct.Struct("=8s4sIII4s4s8x")
"""`monitor_netlink_header`: prefix, magic, sizes and places, hashes for filters in the kernel, no tags."""
_MAGIC: Final = bytes.fromhex("feedcafe")
_USB_HASH: Final = bytes.fromhex("0577c5e5")
"""MurmurHash2 of the subsystem `usb`, by which programs filter; seed 0."""
_USB_DEVICE_HASH: Final = bytes.fromhex("27f8f50c")
"""That of the device type `usb_device`."""


class Action(enum.StrEnum):
    """What has become of a device."""

    ADD = "add"
    REMOVE = "remove"


def uevent(action: Action, path: str, number: int, properties: str) -> bytes:
    """Return udev's message about a USB device at a path below `/sys`.

    `properties` are the lines of the device's file `uevent`; messages are numbered from 1.
    """
    lines = (
        f"ACTION={action}",
        f"DEVPATH={path}",
        "SUBSYSTEM=usb",
        f"SEQNUM={number}",
        *properties.splitlines(),
    )
    data = b"".join(line.encode() + b"\0" for line in lines)
    size = _HEADER.size
    return _HEADER.pack(b"libudev", _MAGIC, size, size, len(data), _USB_HASH, _USB_DEVICE_HASH) + data


class Uevents:
    """Tells the programs in an emulated system what has become of devices."""

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._numbers: Final = count(1)

    def send(self, action: Action, path: str, properties: str) -> None:
        """Send a message to all who listen now."""
        message = uevent(action, path, next(self._numbers), properties)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for listener in self._directory.glob("event[0-9]*"):
                try:
                    sender.sendto(message, str(listener))
                except BlockingIOError:
                    logger.warning(
                        "a program takes no events of devices, and misses one: %s %s", action, path
                    )
                except OSError as error:  # the program has closed it, or it is no such socket
                    logger.debug("no event for %s: %s", listener.name, error)
