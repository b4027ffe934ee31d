"""Hosts whose connection is lost: what they hold of a device is free for others at once."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio_websocket import open_websocket_url

from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer, join_hub, join_stream
from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.bus.bus import BusPeer, JacdacBus
from aisrv.addons.jacdac.task.device import JacdacDevice
from aisrv.addons.jacdac.task.jacdac import serve_device
from aisrv.addons.jacdac.task.model_runner import MOST_PREDICTIONS, ModelRunner
from aisrv.addons.jacdac.wire.frame import Frame, ServicePacket, command_frame
from aisrv.addons.jacdac.wire.pipes import PipeArgument
from tests.support.benches.jacdac_core import CLIENT, DEVICE, Script, state

RUNNER = 1


class Host:
    """A program that joins the bus at `kind`, and asks the device for predicts."""

    def __init__(self, kind: str, place: "tuple[str, int] | trio.SocketListener") -> None:
        self._kind = kind
        self._place = place

    @asynccontextmanager
    async def join(self) -> AsyncIterator[BusPeer]:
        """Join from another bus, whose only other peer is returned."""
        there = JacdacBus()
        me = there.join("program")
        async with trio.open_nursery() as nursery:
            if self._kind == "websocket":
                assert isinstance(self._place, tuple)
                async with open_websocket_url(f"ws://127.0.0.1:{self._place[1]}/") as socket:
                    line = there.join("socket")

                    async def send() -> None:
                        while True:
                            for frame in await line.receive():
                                await socket.send_message(frame)

                    async def receive() -> None:
                        while True:
                            message = await socket.get_message()
                            assert isinstance(message, bytes)
                            line.send(message)

                    nursery.start_soon(send)
                    nursery.start_soon(receive)
                    yield me
                    nursery.cancel_scope.cancel()
            else:
                if isinstance(self._place, tuple):
                    stream = await trio.open_tcp_stream(*self._place)
                else:
                    stream = await self._place.accept()
                async with stream:
                    nursery.start_soon(join_stream, stream, there.join("stream"))
                    yield me
                    nursery.cancel_scope.cancel()


async def predict(host: BusPeer, port: int) -> int:
    """Ask for a predict; the port that the device answers."""
    payload = bytes(PipeArgument(CLIENT, port))
    host.send(command_frame(DEVICE, [ServicePacket(RUNNER, 0x81, payload)]))
    while True:
        for data in await host.receive():
            frame = Frame.from_bytes(data)
            for packet in frame.packets:
                if not frame.is_command and (packet.service, packet.command) == (RUNNER, 0x81):
                    return int(struct.unpack("<H", packet.payload)[0])


async def departure(bus: JacdacBus, peer: BusPeer) -> None:
    """Wait until a peer has left the bus; it tells none but the device."""
    while peer in bus.peers:  # noqa: ASYNC110
        await trio.sleep(0.005)


@asynccontextmanager
async def bus_with(kind: str) -> AsyncIterator[tuple[Host, JacdacBus]]:
    """Run a device on a bus that hosts join by `kind`."""
    bus = JacdacBus()
    peer = bus.join("device")
    device = JacdacDevice(DEVICE, peer.send)
    device.start([ModelRunner(device, RUNNER, 0, Script(), state=state())])
    with trio.fail_after(50):  # less than a predict is kept for a host that nobody has lost
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_device, device, peer)
            if kind == "hub":
                (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                async with listener:
                    nursery.start_soon(join_hub, bus, *listener.socket.getsockname()[:2])
                    yield Host(kind, listener), bus
            else:
                server = JacdacTcpServer(bus) if kind == "tcp" else JacdacWebSocketServer(bus)
                yield Host(kind, await nursery.start(server.serve)), bus
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["tcp", "websocket", "hub"])
async def test_predicts_of_a_host_that_is_lost_are_free_for_the_next(kind: str) -> None:
    async with bus_with(kind) as (host, bus):
        async with host.join() as program:
            ports = [await predict(program, 1 + number) for number in range(MOST_PREDICTIONS + 1)]
            assert [port != 0 for port in ports] == [True] * MOST_PREDICTIONS + [False]
            lost = bus.peers[-1]
        await departure(bus, lost)
        async with host.join() as program:
            assert await predict(program, 1) != 0


async def test_hosts_behind_other_peers_keep_their_predicts() -> None:
    async with bus_with("tcp") as (host, bus), host.join() as stays:
        for number in range(MOST_PREDICTIONS - 1):
            assert await predict(stays, 1 + number)
        async with host.join() as leaves:
            assert await predict(leaves, 8)
            assert await predict(leaves, 9) == 0
            lost = bus.peers[-1]
        await departure(bus, lost)
        async with host.join() as third:  # hosts hear answers to each other
            assert [await predict(third, 9) != 0, await predict(third, 10) != 0] == [True, False]
