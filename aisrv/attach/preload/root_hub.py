"""The emulated bus: a device in each port of its root hub, as the kernel has it.

A device that leaves is gone for good for those who have it open: they get ENODEV. When it is in again it is
a new device, with the next number, and programs hear of both from udev. Source: Linux, drivers/usb/core/hub.c
and devio.c.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Final

import trio
from msgspec import Struct

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.attach.preload.node_socket import NodeSocket
from aisrv.attach.preload.sysfs import BusPlace
from aisrv.attach.preload.tree import PreloadTree, usb_place
from aisrv.attach.preload.trial import FIRST_DEVICE
from aisrv.attach.preload.uevents import Action, Uevents
from aisrv.attach.preload.usbfs_node import UsbfsNode
from phy.usb.bus import HostPort

logger = logging.getLogger(__name__)

MOST_DEVICES: Final = 126
"""Capacity of a bus besides its root hub."""

TRIES: Final = 4
"""Times in a row that a device may leave the bus while it is configured, as the kernel's PORT_INIT_TRIES."""

Serve = Callable[[UsbfsNode, trio.SocketStream], Awaitable[None]]
"""Serves a program that has opened a device."""


class _Plugged(Struct, frozen=True, eq=False):
    """A device with a number, and what ends its service."""

    place: BusPlace
    node: UsbfsNode
    scope: trio.CancelScope

    @property
    def held(self) -> bool:
        """Return whether the number may not be another device's yet."""
        return not self.node.unplugged or bool(self.node.files)


class RootHub:
    """The ports of the bus, from 1, with a device each."""

    def __init__(
        self, tree: PreloadTree, ports: Sequence[HostPort], serve: Serve, nursery: trio.Nursery
    ) -> None:
        """Plug nothing in yet; `nursery` serves who opens devices."""
        self.nodes: Final[list[UsbfsNode]] = []
        """The device of each port: the last one, where none is in."""
        self._tree = tree
        self._ports = ports
        self._serve = serve
        self._nursery = nursery
        self._uevents = Uevents(tree.directory)
        self._numbered: dict[int, _Plugged] = {}
        self._last = FIRST_DEVICE - 1

    async def start(self) -> None:
        """Plug all devices in, and keep them so: each is in again when its cable is."""
        self._tree.add_root_hub(len(self._ports))
        for port, device in enumerate(self._ports, 1):
            configured = await configure(device, f"the device in port {port}")
            plugged = self._plug_in(port, device)
            self.nodes.append(plugged.node)
            self._nursery.start_soon(self._keep, port, device, plugged, configured)

    async def _keep(self, port: int, device: HostPort, plugged: _Plugged, configured: bool) -> None:
        """Follow a port: take its device out when it leaves, and plug it in again when it can be."""
        failed = 0
        while True:
            failed = 0 if configured else failed + 1
            await device.wait_unplugged()
            self._unplug(plugged)
            if failed == TRIES:
                logger.warning(
                    "the device in port %d left the bus %d times as it was configured: given up", port, TRIES
                )
                return
            if not await device.wait_plugged():
                return
            configured = await configure(device, f"the device in port {port}")
            plugged = self._plug_in(port, device)
            self.nodes[port - 1] = plugged.node

    def _plug_in(self, port: int, device: HostPort) -> _Plugged:
        place = usb_place(self._next_number(), port)
        listener = NodeSocket(self._tree.socket_of(place.node))
        fifo = self._tree.add(place, device.descriptors)
        claimed = partial(self._tree.set_claimed, place, device.descriptors.configuration.value)
        node = UsbfsNode(device, place.device_number, fifo.set_ready, claimed)
        plugged = self._numbered[place.device_number] = _Plugged(place, node, trio.CancelScope())

        async def serve() -> None:
            with closing(fifo), plugged.scope:
                await listener.serve(partial(self._serve, node))

        self._nursery.start_soon(serve)
        self._uevents.send(Action.ADD, self._tree.devpath(place), self._tree.uevent(place))
        return plugged

    def _unplug(self, plugged: _Plugged) -> None:
        """Take a device out. Its socket stays: a program may be about to open it, and is to get ENODEV."""
        self._forget_those_gone()
        place = plugged.place
        path, properties = self._tree.devpath(place), self._tree.uevent(place)
        plugged.node.unplug()
        self._tree.remove(place)
        self._uevents.send(Action.REMOVE, path, properties)

    def _forget_those_gone(self) -> None:
        for number, each in list(self._numbered.items()):
            if not each.held:
                self._forget(number)

    def _forget(self, number: int) -> None:
        plugged = self._numbered.pop(number)
        plugged.scope.cancel()
        self._tree.socket_of(plugged.place.node).unlink()

    def _next_number(self) -> int:
        """Return the next number that no device has: as in the kernel, one is used again late."""
        numbers = [
            FIRST_DEVICE + (self._last - FIRST_DEVICE + 1 + step) % MOST_DEVICES
            for step in range(MOST_DEVICES)
        ]
        free = [number for number in numbers if number not in self._numbered]
        if not free:
            free = [number for number in numbers if self._numbered[number].node.unplugged]
            self._forget(free[0])
        self._last = free[0]
        return free[0]


async def configure(device: HostPort, name: str) -> bool:
    """Reset and configure a device; one that refuses stays on the bus without a configuration."""
    try:
        await InProcessHost(device).plug_in()
    except TransferFailed as failure:
        logger.warning("%s was not configured: %s", name, failure)
        return False
    return True
