"""Jacdac messages from a grammar, sound and unsound, over TCP, WebSocket, a serial port and a hub.

A session is one connection. It ends after a message that no peer sends, or when its peer leaves; no other
connection ends with it. After each session the device answers two neighbors, which stay connected over TCP
and WebSocket all the time, and every so often it takes a model from one of them and classifies a digit.
"""

import logging
import math
import random
import struct
from binascii import crc_hqx
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from shutil import copyfileobj
from tempfile import TemporaryFile
from threading import Thread
from typing import Final

import numpy as np
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.addons.jacdac.attach.serial_port import serve_serial_port
from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer, join_hub
from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.board import Jacdac
from aisrv.addons.jacdac.bus.bus import JacdacBus
from aisrv.addons.jacdac.device import bus_of
from aisrv.addons.jacdac.wire.frame import Frame, ServicePacket, command_frame
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER, SERVICES
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from tests.soak.check import Check, Figures
from tests.soak.jacdac_links import (
    Link,
    enabled,
    hub_link,
    masked,
    read,
    read_link,
    serial_link,
    tcp_link,
    websocket_link,
)
from tests.support.models import networks
from tests.support.oracles.process_resources import count_descriptors, count_tasks
from tests.support.peers.jacdac_client import CLIENT, BusClient
from tests.support.programs import running

SESSION: Final = 80
"""Messages of a session, on average."""
PATIENCE: Final = 120.0
"""Seconds that no answer may take, however busy the machine is."""
SESSIONS_A_DIGIT: Final = 50
MODEL: Final = digits.model_bytes()
IMAGE: Final = digits.test_images()[0].image
RUNNER: Final = 2
UPTIME: Final = 0x1186
CODES: Final = tuple(
    {
        *(each.code for service in SERVICES for each in service.actions),
        *(
            kind | each.code
            for service in SERVICES
            for each in service.registers
            for kind in (0x1000, 0x2000)
        ),
    }
)
CLASSES: Final = tuple(each.service_class for each in SERVICES)
WEIGHTS: Final = {"tcp": 40, "websocket": 35, "serial": 20, "hub": 5}
"""How often each wire has its turn; a hub is joined again after a quarter of a second."""


@dataclass
class Places:
    """Where a bus is reached."""

    tcp: int
    websocket: int
    serial: str
    hub: trio.SocketListener


def frame(chance: random.Random, device: int) -> bytes:
    """A frame to the device, to a class or of another device; one in eight is damaged."""
    packets = [_packet(chance) for _ in range(chance.choice((1, 1, 1, 1, 2, 3)))]
    to = chance.choice((device, device, device, device, chance.getrandbits(64), CLIENT ^ 1))
    flags = chance.choice((0x01, 0x01, 0x03, 0x03, 0x05, chance.getrandbits(8)))
    if flags & 0x04:
        to = 0xAAAAAAAA << 32 | chance.choice((*CLASSES, chance.getrandbits(32)))
    if not flags & 0x01 and to == device:
        to ^= 1  # an answer in the name of the device would be taken for one of its own
    data = bytes(Frame(to, tuple(packets), flags))
    if chance.random() < 0.125:
        data = _damaged(chance, data)
    return data


def _packet(chance: random.Random) -> ServicePacket:
    index = chance.choice((0, 1, 2, 2, 3, 4, 0x3D, 0x3E, 0x3E, 0x3F, chance.getrandbits(6)))
    command = chance.choice((*chance.sample(CODES, 4), 0x80, 0x81, chance.getrandbits(16)))
    size = chance.choice((0, 0, 1, 2, 4, 4, 9, 12, 12, 20, 60))
    payload = chance.choice((chance.randbytes(size), bytes(size), struct.pack("<I", len(MODEL))))
    if command == 0x81 and chance.random() < 0.5:
        payload = struct.pack("<QHH", CLIENT ^ 1, chance.getrandbits(4), 0)
    return ServicePacket(index, command, payload)


def _damaged(chance: random.Random, data: bytes) -> bytes:
    """Change a byte behind the frame's size, with the checksum of before or one that fits."""
    changed = bytearray(data)
    place = chance.choice((0, 3, chance.randrange(3, len(data)), min(12, len(data) - 1)))
    changed[place] ^= 1 << chance.randrange(8)
    changed[3] |= not changed[3] & 0x01  # a damaged command stays one
    if chance.random() < 0.7:
        changed[:2] = crc_hqx(bytes(changed[2:]), 0xFFFF).to_bytes(2, "little")
    return bytes(changed)


def message(chance: random.Random, wire: str, link: Link, device: int) -> bytes:
    """A message after which the connection goes on."""
    dice = chance.random()
    if dice < 0.85:
        return link.encode(frame(chance, device))
    return ODD[wire](chance)


def _odd_stream(chance: random.Random) -> bytes:
    size = chance.choice((0, 1, 100, 5000))
    return chance.choice((b"\0", bytes(30), b"\xff" + struct.pack("<H", size) + chance.randbytes(size)))


def _odd_socket(chance: random.Random) -> bytes:
    text = chance.choice(("", "frame", "\N{GREEK SMALL LETTER MU}" * 20)).encode()
    data = chance.randbytes(chance.choice((0, 1, 15, 16, 300, 65536)))
    return chance.choice(
        (
            masked(text, 0x81),
            masked(data),
            masked(chance.randbytes(chance.randrange(126)), 0x89),
            masked(b"", 0x8A),
            masked(data[:100], 0x02) + masked(b"?", 0x89) + masked(data[100:200], 0x80),
        )
    )


def _odd_serial(chance: random.Random) -> bytes:
    noise = chance.randbytes(chance.choice((1, 10, 300, 2000)))
    return chance.choice(
        (noise, b"\xfe" * 9, b"\xfe\xfc" + noise, b"\xfe\xfd", b"\xfe\xf8", b"log: all is well\n")
    )


ODD: Final = {"tcp": _odd_stream, "hub": _odd_stream, "websocket": _odd_socket, "serial": _odd_serial}


def _last_stream(chance: random.Random) -> bytes:
    length = chance.choice((1, 15, 253, 254))
    return chance.choice(
        (
            bytes((length,)) + chance.randbytes(length),
            bytes((16, 1, 1, 5)) + bytes(14),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        )
    )


def _last_socket(chance: random.Random) -> bytes:
    return chance.choice(
        (
            b"\x82\x01a",  # without a mask
            masked(b"", chance.choice((0x83, 0x87, 0x8B, 0xC2, 0xF2))),
            masked(b"x", 0x80),  # goes on with nothing
            masked(b"", 0x02) + masked(b""),
            masked(bytes(126), 0x89),
            masked(b"\xff\xfe", 0x81),
            masked(bytes(65537)),
            b"\x82\xff" + struct.pack(">Q", 1 << 63) + bytes(4),
            masked(b"\x03", 0x88),
            masked(struct.pack(">H", chance.choice((0, 999, 1005, 1000, 4000))), 0x88),
        )
    )


LAST: Final = {"tcp": _last_stream, "hub": _last_stream, "websocket": _last_socket}
"""Messages after which the connection ends; noise is nothing that ends a serial port."""


async def greet(chance: random.Random, port: int) -> None:
    """Ask the WebSocket's port for what it refuses; it answers, and closes."""
    request = chance.choice(
        (
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: \xff\r\n\r\n",
            b"GET /" + b"a" * 20_000,
            chance.randbytes(200) + b"\r\n\r\n",
        )
    )
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(request)
            await stream.send_eof()
            while await stream.receive_some(4096):
                pass


async def answers(link: Link, device: int, number: int) -> None:
    """Assert that the device acknowledges a question of this number, and answers it."""
    question = command_frame(device, [ServicePacket(0, UPTIME, struct.pack("<I", number))], ack=True)
    client = BusClient(link, device)  # type: ignore[arg-type]
    link.forget()
    link.send(question)
    crc = int.from_bytes(question[:2], "little")
    await client.next_packet(lambda each, packet: each.device == device and packet[:2] == (0x3F, crc))


async def classifies(link: Link, device: int) -> None:
    """Assert that the device takes a model, and gives the numbers of a digit."""
    client = BusClient(link, device)  # type: ignore[arg-type]
    link.forget()
    client.send(0, 0x2080, bytes(4))  # of a session that is gone: no reset later
    client.send(0, 0x82)
    port = 0
    while not port:  # until the device knows that an upload's host is gone
        answer = await client.call(RUNNER, 0x80, struct.pack("<I", len(MODEL)))
        port = int.from_bytes(answer, "little")
    await client.pipe(port, MODEL)
    while await client.report(RUNNER, 0x1184) != struct.pack("<I", len(MODEL)):
        pass
    image = (np.frombuffer(IMAGE, "i1").astype("f4") + 128) / 240
    output = np.frombuffer(networks.run(MODEL, IMAGE)[0], "i1").astype("f4")
    found = await client.predict(RUNNER, image.astype("<f4").tobytes())
    assert found == [((output + 128) / 256).astype("<f4").tobytes()], found


Connect = Callable[[], AbstractAsyncContextManager[Link]]


async def session(chance: random.Random, wire: str, connect: Connect, device: int, limit: int) -> int:
    """One connection to its end; returns the messages sent."""
    wanted = min(limit, 1 + int(-math.log(1 - chance.random()) * SESSION))
    async with connect() as link:
        with suppress(trio.BrokenResourceError):
            sent = 0
            while sent < wanted:
                count = chance.choice((1, 1, 4, 30))
                data = b"".join(message(chance, wire, link, device) for _ in range(count))
                sent += count
                cut = chance.randrange(len(data) + 1) if chance.random() < 0.2 else len(data)
                await link.raw(data[:cut])
                await link.raw(data[cut:])
            dice = chance.random()
            if wire in LAST and dice < 0.3:
                await link.raw(LAST[wire](chance))
                await link.over.wait()
                return sent + 1
            if dice < 0.8:
                if wire == "serial":
                    await link.raw(enabled())
                assert not link.ended, "the server ended a connection for no reason"
                await answers(link, device, chance.getrandbits(32))
            if dice > 0.7:
                await link.raw(link.encode(frame(chance, device))[:9])  # leaves within a message
            await link.close(reset=dice > 0.85)
            return sent
    raise AssertionError("the server ended a connection for no reason")


async def fuzz(places: Places, size: int, seed: str) -> Figures:
    """Send so many messages, with two neighbors whom the device answers after each session."""
    device = await _device_at(places.tcp)
    counts: Counter[str] = Counter()
    sent = sessions = 0
    wires: dict[str, Connect] = {
        "tcp": partial(read, partial(tcp_link, places.tcp, device)),
        "websocket": partial(read, partial(websocket_link, places.websocket, device)),
        "serial": partial(read, partial(serial_link, places.serial, device)),
    }
    async with AsyncExitStack() as stack:
        neighbors = [await stack.enter_async_context(wires[wire]()) for wire in ("tcp", "websocket")]
        hubs, come = trio.open_memory_channel[Link](0)
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(_accept, places.hub, device, hubs)
        while sent < size:
            chance = random.Random(f"{seed}:{sessions}")
            (wire,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            with trio.move_on_after(PATIENCE) as scope:
                try:
                    if chance.random() < 0.1:
                        await greet(chance, places.websocket)
                    connect = wires.get(wire, partial(_next_hub, come))
                    sent += await session(chance, wire, connect, device, max(10, size - sent))
                    for link in neighbors:
                        await answers(link, device, chance.getrandbits(32))
                    if sessions % SESSIONS_A_DIGIT == 0:
                        await classifies(neighbors[0], device)
                except Exception as fault:  # assertions among them, in groups
                    raise AssertionError(f"session {seed}:{sessions} over {wire}: {fault!r}") from fault
            assert not scope.cancelled_caught, f"session {seed}:{sessions} over {wire} hangs"
            counts[wire] += 1
            sessions += 1
        await classifies(neighbors[0], device)
        nursery.cancel_scope.cancel()
    return {"messages": sent, "sessions": sessions, **dict(sorted(counts.items()))}


async def _accept(listener: trio.SocketListener, device: int, hubs: trio.MemorySendChannel[Link]) -> None:
    """Give on the connections of a bus that joins our hub, while they last."""
    while True:
        link = await hub_link(listener, device)
        async with read_link(link), trio.open_nursery() as nursery:

            async def give(link: Link = link) -> None:
                await hubs.send(link)

            nursery.start_soon(give)
            await link.over.wait()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _next_hub(come: trio.MemoryReceiveChannel[Link]) -> AsyncIterator[Link]:
    while (link := await come.receive()).ended:
        pass
    try:
        yield link
    finally:
        await link.close()


async def _device_at(port: int) -> int:
    """Return the id of the device on a bus: the one that announces a Model Runner."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        received = b""
        while True:
            received += await stream.receive_some(4096)
            while received and len(received) > received[0]:
                announce = Frame.from_bytes(received[1 : 1 + received[0]])
                received = received[1 + received[0] :]
                if struct.pack("<I", MODEL_RUNNER.service_class) in announce.packets[0].payload:
                    return announce.device


@asynccontextmanager
async def served(hub: trio.SocketListener) -> AsyncIterator[Places]:
    """A device of this process, reached in all ways; nothing may be left of who was there."""
    board = Board(parts=(Jacdac(protocol_test=True),))
    async with open_device(board, runner=inline) as device, trio.open_nursery() as nursery:
        bus = bus_of(device)
        _, tcp = await nursery.start(JacdacTcpServer(bus).serve)
        _, websocket = await nursery.start(JacdacWebSocketServer(bus).serve)
        serial = await nursery.start(serve_serial_port, bus)
        await wait_all_tasks_blocked()
        before = count_tasks(), count_descriptors(), len(bus.peers)
        joined = trio.CancelScope()
        nursery.start_soon(_join, joined, bus, _port(hub))
        yield Places(tcp, websocket, serial, hub)
        joined.cancel()
        await wait_all_tasks_blocked(0.05)
        after = count_tasks(), count_descriptors(), len(bus.peers)
        # Other tests of this process may close descriptors meanwhile.
        assert (after[0], after[2]) == (before[0], before[2]), f"tasks, peers: {after}, {before} before"
        assert after[1] <= before[1], f"{after[1]} descriptors, {before[1]} before"
        nursery.cancel_scope.cancel()


async def _join(scope: trio.CancelScope, bus: JacdacBus, port: int) -> None:
    with scope:
        await join_hub(bus, "127.0.0.1", port)


async def in_process(size: int, seed: int) -> Figures:
    """Fuzz a device of this process."""
    (hub,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with hub, served(hub) as places:
        return await fuzz(places, size, f"{seed}:in process")


async def in_another(size: int, seed: int) -> Figures:
    """Fuzz a device of `aisrv run`, which must end well."""
    (hub,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    options = [
        *("--jacdac-port", "0", "--jacdac-websocket-port", "0", "--jacdac-serial", "--jacdac-protocol-test"),
        *("--jacdac-hub", f"127.0.0.1:{_port(hub)}"),
    ]
    async with hub:
        with running(*options) as (process, ready), TemporaryFile("w+") as log:
            assert process.stderr is not None
            copying = Thread(target=copyfileobj, args=(process.stderr, log))
            copying.start()
            found = dict(place.split(":", 1) for place in ready.split(", "))
            places = Places(
                int(found["jacdac"].rpartition(":")[2]),
                int(found["ws"].rstrip("/").rpartition(":")[2]),
                found["jacdac-serial"],
                hub,
            )
            try:
                figures = await fuzz(places, size, f"{seed}:in another")
                assert process.poll() is None, "the process is gone"
            finally:
                process.terminate()
                await trio.to_thread.run_sync(copying.join)
            assert process.wait(PATIENCE) == 0
            log.seek(0)
            errors = log.read()
            assert "Traceback" not in errors, errors[-4000:]
    return figures


def _port(listener: trio.SocketListener) -> int:
    return int(listener.socket.getsockname()[1])


def run(size: int, seed: int) -> Figures:
    """Send half of the messages to a device of this process, and half to one of another."""
    logger, silence = logging.getLogger(), logging.NullHandler()
    logger.addHandler(silence)
    try:
        figures = {"in process": trio.run(in_process, size // 2, seed)}
    finally:
        logger.removeHandler(silence)
    figures["in another"] = trio.run(in_another, size - size // 2, seed)
    return figures


CHECK: Final = Check(
    "jacdac", "Jacdac messages over TCP, WebSocket, serial port and hub", "messages", 1_000_000, 3000, 13, run
)
