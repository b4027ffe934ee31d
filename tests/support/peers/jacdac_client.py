"""A client on a Jacdac bus in process: a peer that sends commands and awaits reports."""

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from aisrv.addons.jacdac.board import Jacdac
from aisrv.addons.jacdac.bus.bus import BusPeer, JacdacBus
from aisrv.addons.jacdac.device import bus_of
from aisrv.addons.jacdac.task.device import device_id_of
from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    PIPE_INDEX,
    Frame,
    ServicePacket,
    ack_frame,
    command_frame,
)
from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline

CLIENT = 0xC1C1C1C1C1C1C1C1
DEVICE = device_id_of("aisrv")


class BusClient:
    """Sends commands to the device, and waits for what it answers."""

    def __init__(self, peer: BusPeer, device: int = DEVICE) -> None:
        self.peer = peer
        self.device = device
        self._frames: list[Frame] = []

    async def next_packet(self, wanted: Callable[[Frame, ServicePacket], bool]) -> ServicePacket:
        """Wait for a packet; what comes before it is dropped."""
        with trio.fail_after(60):
            while True:
                while self._frames:
                    frame = self._frames.pop(0)
                    for packet in frame.packets:
                        if wanted(frame, packet):
                            return packet
                self._frames = [Frame.from_bytes(data) for data in await self.peer.receive()]

    async def report(self, service: int, command: int) -> bytes:
        packet = await self.next_packet(
            lambda frame, p: (
                not frame.is_command
                and frame.device == self.device
                and p.service == service
                and p.command == command
            )
        )
        return packet.payload

    def send(self, service: int, command: int, payload: bytes = b"") -> None:
        self.peer.send(command_frame(self.device, [ServicePacket(service, command, payload)]))

    async def call(self, service: int, command: int, payload: bytes = b"") -> bytes:
        """Send a command and return its report."""
        self.send(service, command, payload)
        return await self.report(service, command)

    async def get(self, service: int, register: int) -> bytes:
        return await self.call(service, 0x1000 | register)

    async def pipe(self, port: int, *messages: bytes) -> None:
        """Send messages and close the pipe, each packet when the previous one is acknowledged."""
        packets = [(0, message[at : at + 224]) for message in messages for at in range(0, len(message), 224)]
        for number, (flags, data) in enumerate([*packets, (0x20, b"")]):
            packet = ServicePacket(PIPE_INDEX, port << 7 | flags | number & 0x1F, data)
            frame = command_frame(self.device, [packet], ack=True)
            self.peer.send(frame)
            crc = int.from_bytes(frame[:2], "little")
            await self._acknowledged(crc)

    async def _acknowledged(self, crc: int) -> None:
        await self.next_packet(lambda _, p: p.service == ACK_INDEX and p.command == crc)

    async def upload(self, service: int, model: bytes) -> str:
        """Set a model; returns the last error when it is loaded."""
        port = int.from_bytes(await self.call(service, 0x80, struct.pack("<I", len(model))), "little")
        assert port
        await self.pipe(port, model)
        await self.report(service, 0x1184)
        return (await self.report(service, 0x1185)).decode()

    async def predict(self, service: int, *inputs: bytes) -> list[bytes]:
        """Run inputs; returns the messages of the result pipe, acknowledged as they come."""
        argument = struct.pack("<QHH", CLIENT, 5, 0)
        port = int.from_bytes(await self.call(service, 0x81, argument), "little")
        assert port
        results: list[bytes] = []
        taken: set[int] = set()
        whole = b"".join(inputs)
        pieces = [(0, whole[at : at + 200]) for at in range(0, len(whole), 200)]
        sent = [
            ServicePacket(PIPE_INDEX, port << 7 | flags | n & 0x1F, data)
            for n, (flags, data) in enumerate([*pieces, (0x20, b"")])
        ]
        for packet in sent:
            self.peer.send(command_frame(self.device, [packet], ack=True))
        while True:
            frames: list[Frame] = []

            def is_result(frame: Frame, packet: ServicePacket, frames: list[Frame] = frames) -> bool:
                if frame.is_command and frame.device == CLIENT and packet.service == PIPE_INDEX:
                    frames.append(frame)
                    return True
                return False

            packet = await self.next_packet(is_result)
            self.peer.send(ack_frame(CLIENT, frames[0].crc))
            if packet.command in taken:
                continue
            taken.add(packet.command)
            if packet.command & 0x20:
                return results
            results.append(packet.payload)


@asynccontextmanager
async def jacdac_device(board: Board | None = None) -> AsyncIterator[tuple[Device, JacdacBus, BusClient]]:
    """Run a device on a Jacdac bus with a client; the device has announced itself."""
    async with open_device(board or Board(parts=(Jacdac(),)), runner=inline) as device:
        bus = bus_of(device)
        client = BusClient(bus.join("client"))
        await client.report(0, 0)
        yield device, bus, client
