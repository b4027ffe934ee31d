"""The emulated system of the preload library: a directory that stands for `/sys`, and for nodes in `/dev`.

The library leads every path below `/sys` here, those below `/dev` where they exist here, and finds the socket
for the calls on a node at the node's path below `ioctl`.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from aisrv.attach.preload.usbfs import SPEED_HIGH
from aisrv.protocol.usb_descriptors import Descriptors

BUS: Final = 1
_MAJOR: Final = 189
"""Of usbfs nodes."""

_SPEEDS: Final = {SPEED_HIGH: "480"}
_FIFO_SIZE: Final = 4096
_REAL: Final = ("devices/system", "fs", "kernel", "module")
"""What programs look up below /sys that has nothing to do with devices."""

_SOCKET_PATH_LIMIT: Final = 107
_LONGEST_PATH: Final = "/ioctl//dev/bus/usb/001/001"


def make_directory() -> Path:
    """Create a private directory whose path leaves room for a socket's; the caller removes it."""
    directory = tempfile.gettempdir()
    if len(os.fsencode(directory)) + len("/aisrv-01234567" + _LONGEST_PATH) > _SOCKET_PATH_LIMIT:
        directory = "/tmp"  # noqa: S108 - what it makes there is private
    return Path(tempfile.mkdtemp(prefix="aisrv-", dir=directory))


class ReadyFifo:
    """A device node as libusb polls it: writable while a request can be reaped.

    A FIFO does that which is full but for that time; a plain file is always writable, and libusb would spin.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o666)
        path.chmod(0o666)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _FIFO_SIZE)
        self.set_ready(False)

    def set_ready(self, ready: bool) -> None:
        """Set whether the node is writable."""
        try:
            if ready:
                while os.read(self._fd, _FIFO_SIZE):
                    pass
            else:
                while os.write(self._fd, bytes(_FIFO_SIZE)):
                    pass
        except BlockingIOError:
            pass  # empty, or full

    def close(self) -> None:
        """Let go of the node."""
        os.close(self._fd)


class PreloadTree:
    """The directory, for as long as the context lasts."""

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        for name in ("sys/bus/usb/devices", "sys/bus/usb/drivers", "sys/class", "sys/devices", "dev/.node"):
            (directory / name).mkdir(parents=True)
        for name in _REAL:
            if Path("/sys", name).exists():
                (directory / "sys" / name).symlink_to(Path("/sys", name))

    @property
    def default_socket(self) -> Path:
        """Where the library connects for nodes that are none of ours: without it, it would leak sockets."""
        return self.directory / "ioctl" / "_default"

    def socket_of(self, node: str) -> Path:
        """Return where the library connects for a node, a path below `/dev`."""
        return self.directory / "ioctl" / "dev" / node

    def add_node(self, node: str, major: int, minor: int) -> Path:
        """Create the directories of a node with this device number; returns where its file belongs."""
        path = self.directory / "dev" / node
        path.parent.mkdir(parents=True, exist_ok=True)
        self.socket_of(node).parent.mkdir(parents=True, exist_ok=True)
        (self.directory / "dev" / ".node" / node.replace("/", "_")).symlink_to(f"{major}:{minor}")
        return path

    def add(self, device_number: int, descriptors: Descriptors) -> ReadyFifo:
        """Plug a device in as `1-N`, N one less than its number, which is 2 or more; returns its node."""
        node = usb_node(device_number)
        minor = (BUS - 1) * 128 + device_number - 1
        path = self.add_node(node, _MAJOR, minor)

        name = f"{BUS}-{device_number - 1}"
        home = self.directory / "sys" / "devices" / "aisrv" / f"usb{BUS}" / name
        home.mkdir(parents=True)
        for attribute, value in _attributes(device_number, minor, node, descriptors).items():
            (home / attribute).write_text(value + "\n")
        content = bytes(descriptors.device) + bytes(descriptors.configuration)
        (home / "descriptors").write_bytes(content)
        (home / "subsystem").symlink_to("../../../../bus/usb")
        (self.directory / "sys/bus/usb/devices" / name).symlink_to(f"../../../devices/aisrv/usb{BUS}/{name}")
        return ReadyFifo(path)

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        shutil.rmtree(self.directory)


def usb_node(device_number: int) -> str:
    """Path of a device's node below `/dev`."""
    return f"bus/usb/{BUS:03}/{device_number:03}"


def _attributes(device_number: int, minor: int, node: str, descriptors: Descriptors) -> dict[str, str]:
    device, configuration = descriptors.device, descriptors.configuration
    attributes = {
        "busnum": f"{BUS}",
        "devnum": f"{device_number}",
        "devpath": f"{device_number - 1}",
        "dev": f"{_MAJOR}:{minor}",
        "speed": _SPEEDS[SPEED_HIGH],
        "version": f"{device.usb_version >> 8:2x}.{device.usb_version & 0xFF:02x}",
        "bConfigurationValue": f"{configuration.value}",
        "bNumConfigurations": f"{device.configuration_count}",
        "bNumInterfaces": f"{len(configuration.interfaces):2}",
        "bmAttributes": f"{configuration.attributes:02x}",
        "bMaxPower": f"{configuration.max_power * 2}mA",
        "bMaxPacketSize0": f"{device.max_packet_size}",
        "idVendor": f"{device.vendor:04x}",
        "idProduct": f"{device.product:04x}",
        "bcdDevice": f"{device.bcd_device:04x}",
        "bDeviceClass": f"{device.device_class:02x}",
        "bDeviceSubClass": f"{device.device_subclass:02x}",
        "bDeviceProtocol": f"{device.device_protocol:02x}",
        "maxchild": "0",
        "uevent": "\n".join(
            (
                f"MAJOR={_MAJOR}",
                f"MINOR={minor}",
                f"DEVNAME={node}",
                "DEVTYPE=usb_device",
                "DRIVER=usb",
                f"PRODUCT={device.vendor:x}/{device.product:x}/{device.bcd_device:x}",
                f"TYPE={device.device_class}/{device.device_subclass}/{device.device_protocol}",
                f"BUSNUM={BUS:03}",
                f"DEVNUM={device_number:03}",
            )
        ),
    }
    strings = {
        "manufacturer": device.manufacturer_string,
        "product": device.product_string,
        "serial": device.serial_string,
    }
    named = {name: descriptors.strings[index - 1] for name, index in strings.items() if index}
    return attributes | named
