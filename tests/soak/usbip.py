"""USB/IP messages from a grammar, sound and unsound, to devices of this process and of `aisrv run` over TCP.

Every request must be answered once, with a status that there is, or be taken back; a connection ends only
after a message that no host sends; and then the device must still classify a digit, as must its neighbor,
whose host stays connected all the time.
"""

import logging
import math
import random
import socket
import struct
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board
from aisrv.device.device import open_devices
from aisrv.inference.process.inline import inline
from tests.soak.check import Check, Figures
from tests.support.models import networks
from tests.support.oracles.process_resources import count_descriptors, count_tasks
from tests.support.peers.usbip_host import (
    CLEAR_HALT_IN,
    CLEAR_HALT_OUT,
    DEVICE_DESCRIPTOR,
    GET_DEVICE_DESCRIPTOR,
    IN,
    OUT,
    SET_CONFIGURATION,
    control_in,
    control_out,
    receive_exactly,
    request_import,
    submit,
    submit_in,
    submit_out,
    unlink,
)
from tests.support.programs import running

SESSION: Final = 400
"""Messages of a session, on average."""
PATIENCE: Final = 300.0
"""Seconds that no answer may take, however busy the machine is."""
STATUSES: Final = frozenset((0, -12, -19, -22, -32, -75, -108))
"""What a request may end with; -104 is the answer of an UNLINK."""
TOO_LARGE: Final = (16 * 1024 * 1024 + 1, 1 << 31, (1 << 32) - 1)
MODEL: Final = digits.model_bytes()
IMAGE: Final = digits.test_images()[0].image

COMMANDS: Final = (
    *(
        0x00,
        0x01,
        0x03,
        0x05,
        0x08,
        0x09,
        0x0A,
        0x0B,
        0x0C,
        0x0D,
        0x0E,
        0x0F,
        0x10,
        0x11,
        0x12,
        0x13,
        0x14,
        0x15,
    ),
    *(
        0x16,
        0x18,
        0x55,
        0x83,
        0x84,
        0x86,
        0x87,
        0x8C,
        0x8D,
        0x8E,
        0x8F,
        0x91,
        0x92,
        0x93,
        0x96,
        0x97,
        0xFF,
        0x42,
    ),
)
SETUPS: Final = tuple(
    map(
        bytes.fromhex,
        (
            "8006000100001200",  # GET_DESCRIPTOR: device, configuration, strings, qualifier
            "800600020000ff00",
            "8006000300000400",
            "8006020309040001",
            "8006000600000a00",
            "8000000000000200",  # GET_STATUS of the device and of an endpoint
            "8200000081000200",
            "8008000000000100",  # GET_CONFIGURATION
            "810a000000000100",  # GET_INTERFACE
            "c0ff000000004000",  # a vendor's
        ),
    )
)
SETUPS_OUT: Final = (
    *(SET_CONFIGURATION, CLEAR_HALT_IN, CLEAR_HALT_OUT),
    *map(bytes.fromhex, ("0009000000000000", "0009070000000000", "010b000000000000", "0203000081000000")),
    *map(bytes.fromhex, ("0005070000000000", "4001000000000000", "0201010001000000", "0201000085000000")),
)


class Host:
    """One connection; checks each answer as it comes."""

    def __init__(self, stream: trio.SocketStream, devid: int) -> None:
        self._stream = stream
        self._devid = devid
        self._inwards: dict[int, bool] = {}
        self._expected: Counter[int] = Counter()
        self._unlinks: dict[int, int] = {}
        self._taken_back: set[int] = set()
        self._changed = trio.Event()
        self._asked = 0
        self._answer: tuple[int, bytes] | None = None
        self.next = 1
        self.ended = False
        self.statuses: Counter[int] = Counter()

    @property
    def pending(self) -> list[int]:
        return [number for number, count in self._expected.items() if count]

    def sends(self, number: int, *, inwards: bool) -> None:
        """Note that a request is on its way."""
        self._expected[number] += 1
        self._inwards[number] = inwards

    def takes_back(self, number: int, target: int) -> None:
        self._unlinks[number] = target
        self._taken_back.add(target)

    def may_come_again(self, number: int) -> bool:
        return number not in self._taken_back

    def is_inwards(self, number: int) -> bool:
        return self._inwards[number]

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def read(self) -> None:
        """Take answers until the other side closes."""
        buffer = bytearray()
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while piece := await self._stream.receive_some(1 << 18):
                buffer += piece
                del buffer[: self._take(buffer)]
                self._changed.set()
                self._changed = trio.Event()
        self.ended = True
        self._changed.set()

    def _take(self, buffer: bytearray) -> int:
        start = 0
        while len(buffer) - start >= 48:
            message, number, status, actual = struct.unpack_from(">II12xii", buffer, start)
            if message == 4:
                start += 48
                self._unlinked(number, status)
                continue
            assert message == 3, f"message {message}"
            assert self._expected[number] > 0, f"an answer to {number}, which waits for none"
            size = actual if self._inwards[number] else 0
            if len(buffer) - start < 48 + size:
                break
            assert status in STATUSES, f"status {status} of {number}"
            assert actual >= 0
            if number == self._asked:
                self._answer = status, bytes(buffer[start + 48 : start + 48 + size])
            start += 48 + size
            self.statuses[status] += 1
            self._expected[number] -= 1
            if not self._expected[number]:
                del self._expected[number]
        return start

    def _unlinked(self, number: int, status: int) -> None:
        target = self._unlinks.pop(number)
        if status == -104:
            assert self._expected[target] > 0, f"{target} is taken back, and was answered"
            self._expected[target] -= 1
            self._expected += Counter()
        else:
            assert status == 0
            assert not self._expected[target], f"{target} was answered, says the device, but no answer came"

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until something holds, or the connection has ended."""
        while not (done() or self.ended):
            changed = self._changed
            await changed.wait()

    async def settle(self) -> None:
        """Take back all that waits; afterwards nothing may."""
        for target in self.pending:
            self.takes_back(self.next, target)
            await self.send(struct.pack(">6I24x", 2, self.next, self._devid, 0, 0, target))
            self.next += 1
        await self.until(lambda: not self._unlinks and not self._expected)
        assert self.ended or (not self._unlinks and not self._expected)

    async def ask(self, message: bytes, *, inwards: bool) -> bytes:
        """Send a request with the next number and wait for its answer, which must be OKAY."""
        number = int.from_bytes(message[4:8], "big")
        assert number == self.next
        self.next += 1
        self._asked, self._answer = number, None
        self.sends(number, inwards=inwards)
        await self.send(message)
        await self.until(lambda: self._answer is not None)
        assert self._answer is not None, "the connection ended"
        status, data = self._answer
        assert status == 0, f"{message[:48].hex()} ended with {status}"
        return data

    async def classifies(self, expected: bytes, *, loads: bool) -> None:
        """Assert that the device is who it is, and gives the bytes of a digit."""
        devid = self._devid
        configure = submit(self.next, OUT, 0, 0, setup=SET_CONFIGURATION, devid=devid)
        await self.ask(configure, inwards=False)
        describe = submit(self.next, IN, 0, 18, setup=GET_DEVICE_DESCRIPTOR, devid=devid)
        descriptor = await self.ask(describe, inwards=True)
        assert descriptor[:16] == DEVICE_DESCRIPTOR[:16], descriptor.hex()  # behind it, the serial number's
        steps = [(0x83, IMAGE), (0x84, b"")]
        if loads:
            steps.insert(0, (0x87, MODEL))
        for command, data in steps:
            await self.ask(submit_out(self.next, bytes((command, 0, 0)), devid=devid), inwards=False)
            await self.ask(submit_out(self.next, data, flags=0x40, devid=devid), inwards=False)
        await self.ask(submit_out(self.next, b"\x05\0\0", devid=devid), inwards=False)
        assert await self.ask(submit_in(self.next, 512, devid=devid), inwards=True) == expected

    async def close(self) -> None:
        await self._stream.aclose()


def message(chance: random.Random, host: Host, devid: int) -> tuple[bytes, bool]:
    """Return a message, or a few that belong together, and whether the connection ends by it."""
    number = host.next
    host.next += 1
    dice = chance.random()
    if dice < 0.34:
        return _command(chance, host, number, devid), False
    if dice < 0.44:
        size = chance.choice((0, 1, 2, 3, 4, 11, 12, 13, 64, 511, 512, 513, 1024, 5000))
        host.sends(number, inwards=False)
        flags = chance.choice((0, 0, 0x40, chance.getrandbits(32)))
        return submit_out(number, chance.randbytes(size), flags=flags, devid=devid), False
    if dice < 0.58:
        host.sends(number, inwards=True)
        return submit_in(
            number, chance.choice((0, 1, 4, 64, 511, 512, 513, 65_536, 1 << 24)), devid=devid
        ), False
    if dice < 0.74:
        return _control(chance, host, number, devid), False
    if dice < 0.88:
        pending = host.pending
        target = chance.choice((*pending[-20:], chance.getrandbits(32), number, max(number - 1, 0)))
        host.takes_back(number, target)
        return unlink(number, target), False
    if dice < 0.94:
        inwards = chance.random() < 0.5
        host.sends(number, inwards=inwards)
        endpoint = chance.choice((2, 3, 15, 16, 0x81, 0xFFFFFFFF))
        odd = chance.choice((devid, 0, devid ^ 1, 0xFFFFFFFF))
        size = chance.choice((0, 1, 512))
        data = b"" if inwards else bytes(size)
        return submit(number, int(inwards), endpoint, size, data=data, devid=odd), False
    if dice < 0.97:
        again = [each for each in host.pending[-20:] if host.may_come_again(each)]
        if again:
            number = chance.choice(again)
        inwards = host.is_inwards(number) if again else True
        host.sends(number, inwards=inwards)
        return submit(number, int(inwards), 1, 0, devid=devid), False
    if dice < 0.985:
        host.sends(number, inwards=True)
        return submit(number, IN, chance.choice((0, 1, 5)), chance.choice(TOO_LARGE), devid=devid), False
    if dice < 0.997:
        size = chance.choice((65_535, 65_536, 65_537, 70_000, 300_000))
        host.sends(number, inwards=False)
        return submit_out(number, bytes(size), chance.choice((0, 1, 1, 2)), devid=devid), False
    return _last(chance, number, devid), True


def _command(chance: random.Random, host: Host, number: int, devid: int) -> bytes:
    command = chance.choice(COMMANDS)
    engine, tensor = chance.choice((0, 0, 0, 0, 1, 255)), chance.choice((0, 0, 0, 1, 255))
    packet = chance.choice(
        (bytes((command, engine, tensor)), bytes((command,)), struct.pack("<3I", command, engine, tensor))
    )
    host.sends(number, inwards=False)
    messages = [submit_out(number, packet, devid=devid)]
    if command & 0x80 and chance.random() < 0.9:
        data = chance.choice((b"", b"", b"\1", bytes(64), IMAGE, bytes(512), bytes(513)))
        if command in (0x86, 0x87):
            data = chance.choice((MODEL, MODEL, MODEL[:-1], bytes(700)))
        host.sends(host.next, inwards=False)
        messages.append(submit_out(host.next, data, flags=chance.choice((0x40, 0x40, 0)), devid=devid))
        host.next += 1
    if chance.random() < 0.8:
        host.sends(host.next, inwards=True)
        messages.append(submit_in(host.next, chance.choice((4, 512, 4096)), devid=devid))
        host.next += 1
    if chance.random() < 0.5:
        for setup in (CLEAR_HALT_IN, CLEAR_HALT_OUT):
            host.sends(host.next, inwards=False)
            messages.append(submit(host.next, OUT, 0, 0, setup=setup, devid=devid))
            host.next += 1
    return b"".join(messages)


def _control(chance: random.Random, host: Host, number: int, devid: int) -> bytes:
    dice = chance.random()
    if dice < 0.4:
        setup = chance.choice(SETUPS)
        host.sends(number, inwards=True)
        length = chance.choice((int.from_bytes(setup[6:8], "little"), 0, 64, 4096))
        return submit(number, IN, 0, length, setup=setup, devid=devid)
    if dice < 0.7:
        host.sends(number, inwards=False)
        return submit(number, OUT, 0, 0, setup=chance.choice(SETUPS_OUT), devid=devid)
    setup = chance.randbytes(8)
    inwards = chance.random() < 0.5
    host.sends(number, inwards=inwards)
    if inwards:
        return control_in(number, setup)
    data = chance.randbytes(chance.choice((0, 1, int.from_bytes(setup[6:8], "little") % 300)))
    return control_out(number, setup, data)


def _last(chance: random.Random, number: int, devid: int) -> bytes:
    """A message that no host sends, or the beginning of one that does not go on."""
    return chance.choice(
        (
            struct.pack(">I", chance.choice((0, 3, 4, 5, 0x01000000, 0xFFFFFFFF))) + bytes(44),
            submit(number, chance.choice((2, 0xFFFFFFFF)), 1, 0, devid=devid),
            submit(number, OUT, chance.choice((0, 1)), chance.choice(TOO_LARGE), devid=devid),
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".ljust(48, b"\0"),
            b"\xee" + chance.randbytes(200),
        )
    )


Connect = Callable[[], Awaitable[trio.SocketStream]]


async def greet(chance: random.Random, connect: Connect) -> None:
    """Say something before an import that leads to none; the server answers or closes."""
    stream = await connect()
    dice = chance.random()
    async with stream:
        with suppress(trio.BrokenResourceError):
            if dice < 0.3:
                await stream.send_all(bytes.fromhex("0111800500000000"))
                header = await receive_exactly(stream, 12)
                assert header == bytes.fromhex("011100050000000000000002")
                await receive_exactly(stream, 2 * (312 + 4))
                return
            if dice < 0.5:
                busid = chance.choice((b"1-2", b"1-3", b"", b"9" * 31, b"\xff" * 32, chance.randbytes(32)))
                await stream.send_all(request_import(busid))
                assert await receive_exactly(stream, 8) == bytes.fromhex("0111000300000001")
            elif dice < 0.8:
                await stream.send_all(chance.randbytes(chance.choice((1, 8, 9, 40, 400))))
                await stream.send_eof()
            else:
                await stream.send_all(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n")
            while await stream.receive_some(4096):
                pass


async def attach(connect: Connect, devid: int) -> Host:
    """Import a device, as soon as the server has noticed that its previous host is gone."""
    busid = f"1-{devid & 0xFF}".encode()
    while True:
        stream = await connect()
        await stream.send_all(request_import(busid))
        header = await receive_exactly(stream, 8)
        if header == bytes.fromhex("0111000300000000"):
            await receive_exactly(stream, 312)
            return Host(stream, devid)
        await stream.aclose()


async def session(
    chance: random.Random, connect: Connect, expected: bytes, statuses: Counter[int], limit: int
) -> int:
    """One connection from its import to its end; returns the messages sent."""
    devid = 0x10001
    host = await attach(connect, devid)
    wanted = min(limit, 1 + int(-math.log(1 - chance.random()) * SESSION))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.read)
        is_last = False
        with suppress(trio.BrokenResourceError):
            await host.ask(submit(1, OUT, 0, 0, setup=SET_CONFIGURATION, devid=devid), inwards=False)
            while host.next <= wanted and not is_last:
                batch = []
                for _ in range(chance.choice((1, 1, 4, 30))):
                    data, is_last = message(chance, host, devid)
                    batch.append(data)
                    if is_last:
                        break
                await host.send(b"".join(batch))
                if chance.random() < 0.05:
                    await trio.lowlevel.checkpoint()
        if is_last:
            await host.until(lambda: False)
        elif chance.random() < 0.6:
            await host.settle()
            assert not host.ended, "the server ended a connection for no reason"
            await host.classifies(expected, loads=True)
        await host.close()
    statuses.update(host.statuses)
    return host.next


async def fuzz(connect: Connect, size: int, seed: str) -> Figures:
    """Send so many messages, with a neighbor that classifies a digit after each session."""
    expected = networks.run(MODEL, IMAGE)[0]
    statuses: Counter[int] = Counter()
    sent = sessions = 0
    neighbor = await attach(connect, 0x10002)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbor.read)
        while sent < size:
            chance = random.Random(f"{seed}:{sessions}")
            with trio.move_on_after(PATIENCE) as scope:
                try:
                    if chance.random() < 0.3:
                        await greet(chance, connect)
                    sent += await session(chance, connect, expected, statuses, max(10, size - sent))
                    await neighbor.classifies(expected, loads=not sessions)
                except AssertionError as fault:
                    raise AssertionError(f"session {seed}:{sessions}: {fault}") from fault
            assert not scope.cancelled_caught, f"session {seed}:{sessions} hangs"
            sessions += 1
        host = await attach(connect, 0x10001)
        nursery.start_soon(host.read)
        await host.classifies(expected, loads=True)
        await host.close()
        await neighbor.close()
    assert statuses[0], "nothing succeeded"
    return {"messages": sent, "sessions": sessions, "statuses": dict(sorted(statuses.items(), reverse=True))}


async def in_process(size: int, seed: int) -> Figures:
    """Fuzz devices of this process, through a Unix socket."""
    async with trio.open_nursery() as nursery:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "usbip"
            async with open_devices([Board(), Board()], runner=inline) as devices:
                exports = export_all([device.usb for device in devices])
                await nursery.start(UsbipServer(exports).serve_unix, path)

                async def connect() -> trio.SocketStream:
                    stream = await trio.open_unix_socket(path)
                    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
                    return stream

                await wait_all_tasks_blocked()
                before = count_tasks(), count_descriptors()
                figures = await fuzz(connect, size, f"{seed}:in process")
                await wait_all_tasks_blocked(0.05)
                after = count_tasks(), count_descriptors()
                # Other tests of this process may close theirs meanwhile.
                assert after[0] == before[0], f"{after[0]} tasks, {before[0]} before"
                assert after[1] <= before[1], f"{after[1]} descriptors, {before[1]} before"
                assert [each.imported_by for each in exports] == [None, None]
                nursery.cancel_scope.cancel()
    return figures


async def over_tcp(size: int, seed: int, address: tuple[str, int]) -> Figures:
    """Fuzz devices of another process."""

    async def connect() -> trio.SocketStream:
        return await trio.open_tcp_stream(*address)

    return await fuzz(connect, size, f"{seed}:tcp")


def run(size: int, seed: int) -> Figures:
    """Send half of the messages within this process, and half over TCP to another."""
    logger, silence = logging.getLogger(), logging.NullHandler()
    logger.addHandler(silence)
    try:
        figures = {"in process": trio.run(in_process, size // 2, seed)}
    finally:
        logger.removeHandler(silence)
    with running("--devices", "2", "-v") as (process, ready):
        name, _, port = ready.removeprefix("usbip:").rpartition(":")
        figures["over TCP"] = trio.run(over_tcp, size - size // 2, seed, (name, int(port)))
        assert process.poll() is None, "the process is gone"
        process.terminate()
        errors = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0, errors[-2000:]
        assert "Traceback" not in errors, errors[-2000:]
    return figures


CHECK: Final = Check(
    "usbip", "USB/IP messages from a grammar, in process and over TCP", "messages", 1_000_000, 4000, 8, run
)
