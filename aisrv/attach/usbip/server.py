"""The USB/IP server: exports devices to hosts over TCP.

A Linux kernel (`usbip attach`), `usbip list`, and our own pyusb backend are such hosts. One reader a
connection hands requests to the device without waiting for them, because control transfers and UNLINK come on
the same stream; a writer sends what the device completes later. Source: "Ways for a host program to reach the
virtual device", section USB/IP server.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

import trio
from msgspec import Struct, field

from aisrv.attach.usbip.connection import Connection
from aisrv.listeners.peer_stream import PeerStream
from aisrv.listeners.stream_server import StreamServer
from aisrv.protocol import usbip
from aisrv.protocol.usbip import DeviceRecord, InterfaceRecord, Operation, OperationHeader, UsbipError
from phy.usb.bus import HostPort

logger = logging.getLogger(__name__)

GREETING_SECONDS: Final = 10.0
"""Time that a peer has for each message before it has imported a device."""

BUS_DEVICES: Final = 127
"""Devices that one bus can address (Universal Serial Bus Specification 2.0, section 9.4.6)."""


class BusPlace(NamedTuple):
    """Position of a device; as text its bus id, such as `1-1`, by which USB/IP hosts know it."""

    bus: int
    port: int

    @classmethod
    def of(cls, number: int) -> Self:
        """Return the place of a device by its number from 0: 1-1, 1-2 and so on, past `BUS_DEVICES` 2-1."""
        before, port = divmod(number, BUS_DEVICES)
        return cls(before + 1, port + 1)

    def __str__(self) -> str:
        return f"{self.bus}-{self.port}"


class Export(Struct):
    """A device under its bus id; one host at a time may import it."""

    bus: HostPort
    """The device's bus, or a port that wraps it."""
    busid: str
    """Name for hosts, such as `1-1`."""
    number: int = 1
    """Address on its bus."""
    bus_number: int = 1
    imported_by: str | None = field(default=None)
    """Peer that has it; None while it is free."""

    @property
    def record(self) -> DeviceRecord:
        """The device, as its descriptors have it now: firmware of the user's may come back with others."""
        device, configuration = self.bus.descriptors.device, self.bus.descriptors.configuration
        return DeviceRecord(
            busid=self.busid,
            path=f"/sys/devices/aisrv/{self.busid}",
            bus_number=self.bus_number,
            device_number=self.number,
            vendor=device.vendor,
            product=device.product,
            bcd_device=device.bcd_device,
            device_class=device.device_class,
            device_subclass=device.device_subclass,
            device_protocol=device.device_protocol,
            configuration_value=configuration.value,
            configuration_count=device.configuration_count,
            interface_count=len(configuration.settings),
        )

    @property
    def interfaces(self) -> bytes:
        """Records of its interfaces, each of the first setting."""
        first = (settings[0] for settings in self.bus.descriptors.configuration.settings)
        return b"".join(
            bytes(InterfaceRecord(each.interface_class, each.interface_subclass, each.interface_protocol))
            for each in first
        )


def export_all(buses: Sequence[HostPort]) -> list[Export]:
    """Describe devices for export, each at its `BusPlace`."""
    places = map(BusPlace.of, range(len(buses)))
    return [Export(bus, str(place), place.port, place.bus) for bus, place in zip(buses, places, strict=True)]


class UsbipServer(StreamServer):
    """Serves any number of devices by bus id."""

    PEER = "USB/IP peer"
    PROTOCOL_ERROR = UsbipError

    def __init__(self, exports: Sequence[Export]) -> None:
        super().__init__()
        self.exports: Final[Mapping[str, Export]] = {each.busid: each for each in exports}

    @property
    def most_peers(self) -> int:
        return len(self.exports) + super().most_peers

    async def _serve_peer(self, stream: PeerStream, peer: str) -> None:
        exported = await self._greet(stream, peer)
        if exported is not None:
            await self._serve_import(stream, exported, peer)

    async def _greet(self, stream: PeerStream, peer: str) -> Export | None:
        """Answer device lists until the peer imports a device; None if it leaves or is refused."""
        while True:
            with trio.move_on_after(GREETING_SECONDS) as patience:
                header = await _receive(stream, OperationHeader.SIZE)
                if header is None:
                    return None
                operation = OperationHeader.from_bytes(header)
                if operation.version != usbip.VERSION:
                    raise UsbipError(f"speaks version 0x{operation.version:04x}, not 0x{usbip.VERSION:04x}")
                if operation.code == Operation.REQ_DEVLIST:
                    await stream.send_all(self._device_list())
                elif operation.code == Operation.REQ_IMPORT:
                    return await self._import(stream, peer)
                else:
                    raise UsbipError(f"asked for operation 0x{operation.code:04x}, which is unknown")
            if patience.cancelled_caught:
                logger.info("USB/IP peer %s was silent for %g s; connection closed", peer, GREETING_SECONDS)
                return None

    def _device_list(self) -> bytes:
        present = [each for each in self.exports.values() if not each.bus.is_unplugged]
        parts = [bytes(OperationHeader(code=Operation.REP_DEVLIST)), len(present).to_bytes(4, "big")]
        for each in present:
            parts += (bytes(each.record), each.interfaces)
        return b"".join(parts)

    async def _import(self, stream: PeerStream, peer: str) -> Export | None:
        wanted = await _receive(stream, usbip.BUSID_SIZE)
        if wanted is None:
            raise UsbipError("the stream ended where a bus id was expected")
        busid = usbip.unpack_busid(wanted)
        found = self.exports.get(busid)
        if found is not None and found.bus.is_unplugged:
            found = None
        if found is None or found.imported_by is not None:
            reason = f"is imported by {found.imported_by}" if found else "does not exist"
            logger.warning("USB/IP peer %s asked for device %r, which %s", peer, busid, reason)
            await stream.send_all(bytes(OperationHeader(code=Operation.REP_IMPORT, status=1)))
            return None
        found.imported_by = peer
        try:
            await stream.send_all(bytes(OperationHeader(code=Operation.REP_IMPORT)) + bytes(found.record))
        except BaseException:
            found.imported_by = None
            raise
        return found

    async def _serve_import(self, stream: PeerStream, exported: Export, peer: str) -> None:
        logger.info("USB/IP peer %s imported %s", peer, exported.busid)
        exported.bus.reset()
        try:
            await Connection(stream.socket, exported.bus, exported.record.devid, self.turns).run()
        finally:
            exported.bus.reset()
            exported.imported_by = None
            logger.info("USB/IP peer %s released %s", peer, exported.busid)


async def _receive(stream: PeerStream, size: int) -> bytes | None:
    """Read exactly `size` bytes; None at the end of the stream. Raises UsbipError within a message."""
    data = bytearray()
    while len(data) < size:
        piece = await stream.receive_some(size - len(data))
        if not piece:
            if data:
                raise UsbipError(f"the stream ended after {len(data)} of {size} bytes")
            return None
        data += piece
    return bytes(data)
