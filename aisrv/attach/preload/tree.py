"""The emulated system of the preload library: a directory that stands for `/sys`, and for nodes in `/dev`.

The library leads every path below `/sys` here, those below `/dev` if they exist here, and finds the socket
for the calls on a node at the node's path below `ioctl`.
"""

import os
import shutil
import socket
from pathlib import Path
from typing import Final

from aisrv.attach.preload.sysfs import ROOT_HUB, USB_MAJOR, BusPlace, SysfsFolder, device_folder
from aisrv.protocol.usb_descriptors import Descriptors

BUS: Final = 1
_ROOT_HUB_PLACE: Final = BusPlace(BUS, 1, 0)
_CONTROLLER: Final = "aisrv"
"""Name of the host controller, and of its driver."""

_FIFO_SIZE: Final = 4096
_REAL: Final = ("devices/system", "fs", "kernel", "module")
"""Folders of /sys that have nothing to do with devices."""

_MEMORY: Final = "/dev/shm"  # noqa: S108 - what is made there is private
"""A file system in memory: the tree has some hundred entries, each of which takes a journal its time."""

LONGEST_PATH: Final = "ioctl//dev/bus/usb/001/001"
"""Longest path of a socket in the directory."""


def tree_parent() -> str | None:
    """Return the best folder for the directory; None for that of temporary files."""
    in_memory = "TMPDIR" not in os.environ and os.access(_MEMORY, os.R_OK | os.W_OK | os.X_OK)
    return _MEMORY if in_memory else None


class ReadyFifo:
    """A device node as libusb polls it: writable while a request can be reaped.

    A FIFO does that which is full but for that time; a plain file is always writable, and libusb would spin.
    """

    def __init__(self, path: Path) -> None:
        import fcntl  # where there are FIFOs

        os.mkfifo(path, 0o666)
        path.chmod(0o666)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _FIFO_SIZE)
        self.set_ready(False)

    def set_ready(self, ready: bool) -> None:
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
        """Socket for nodes that are none of ours: without it, the library would leak sockets."""
        return self.directory / "ioctl" / "_default"

    def socket_of(self, node: str) -> Path:
        """Return the socket for a node, a path below `/dev`."""
        return self.directory / "ioctl" / "dev" / node

    def add_node(self, node: str, major: int, minor: int) -> Path:
        """Create the directories of a node with this device number; return the path for its file."""
        path = self.directory / "dev" / node
        path.parent.mkdir(parents=True, exist_ok=True)
        self.socket_of(node).parent.mkdir(parents=True, exist_ok=True)
        self._number_of(node).symlink_to(f"{major}:{minor}")
        return path

    def add_root_hub(self, ports: int) -> None:
        """Add the root hub with the given number of ports.

        Its node is there, so that no program opens the machine's own in its place, but cannot be opened.
        """
        node = self.add_node(_ROOT_HUB_PLACE.node, USB_MAJOR, _ROOT_HUB_PLACE.minor)
        with socket.socket(socket.AF_UNIX) as unopenable:
            unopenable.bind(os.fspath(node))
        self._controller.mkdir(parents=True, exist_ok=True)
        self._bind(self._controller, _CONTROLLER, "platform")
        self._add_device(self._controller, _ROOT_HUB_PLACE, ROOT_HUB, ports)

    def add(self, place: BusPlace, descriptors: Descriptors) -> ReadyFifo:
        """Add a device in a port of the root hub; return its node."""
        path = self.add_node(place.node, USB_MAJOR, place.minor)
        self._add_device(self._controller / _ROOT_HUB_PLACE.name, place, descriptors)
        return ReadyFifo(path)

    def remove(self, place: BusPlace) -> None:
        """Remove a device, but for the socket of its node."""
        home = self._home(place)
        for link in (self.directory / "sys/bus/usb/devices").iterdir():
            if link.name.partition(":")[0] == place.name:
                link.unlink()
        (self.directory / "dev" / place.node).unlink()
        self._number_of(place.node).unlink()
        shutil.rmtree(home)

    def devpath(self, place: BusPlace) -> str:
        """Return the path of a device below `/sys`, as events name it."""
        return f"/{self._home(place).relative_to(self.directory / 'sys')}"

    def uevent(self, place: BusPlace) -> str:
        """Return the lines of a device's file `uevent`."""
        return (self._home(place) / "uevent").read_text()

    def set_claimed(self, place: BusPlace, configuration: int, interface: int, claimed: bool) -> None:
        """Show the driver `usbfs` at an interface while a program has claimed it."""
        home = self._home(place) / place.interface(interface, configuration)
        if claimed:
            self._bind(home, "usbfs")
        else:
            (home / "driver").unlink()

    @property
    def _controller(self) -> Path:
        return self.directory / "sys/devices" / _CONTROLLER

    def _home(self, place: BusPlace) -> Path:
        return self._controller / _ROOT_HUB_PLACE.name / place.name

    def _number_of(self, node: str) -> Path:
        """Return the link that has a node's device number."""
        return self.directory / "dev" / ".node" / node.replace("/", "_")

    def _add_device(self, parent: Path, place: BusPlace, descriptors: Descriptors, ports: int = 0) -> None:
        """Write a device's folder, and link it and its interfaces among the devices of the bus."""
        device = device_folder(place, descriptors, ports)
        home = self._write(parent, device)
        (home / "descriptors").write_bytes(bytes(descriptors.device) + bytes(descriptors.configuration))
        for folder in (home, *(home / each.name for each in device.folders if ":" in each.name)):
            _link(folder / "subsystem", self.directory / "sys/bus/usb")
            _link(self.directory / "sys/bus/usb/devices" / folder.name, folder)

    def _write(self, parent: Path, folder: SysfsFolder) -> Path:
        home = parent / folder.name
        home.mkdir(parents=True)
        for name, value in folder.attributes.items():
            (home / name).write_text(value + "\n")
        if folder.driver:
            self._bind(home, folder.driver)
        for each in folder.folders:
            self._write(home, each)
        return home

    def _bind(self, home: Path, driver: str, bus: str = "usb") -> None:
        known = self.directory / "sys/bus" / bus / "drivers" / driver
        known.mkdir(parents=True, exist_ok=True)
        _link(home / "driver", known)


def usb_place(device_number: int, port: int) -> BusPlace:
    """Return the position of a device in a port of the root hub, from 1."""
    return BusPlace(BUS, device_number, port)


def _link(path: Path, target: Path) -> None:
    path.symlink_to(os.path.relpath(target, path.parent))
