"""The CUSE attachment: its messages as bytes, and a scripted kernel over a socket that keeps messages."""

import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.spidev import cuse_wire as wire
from aisrv.attach.spidev.cuse import CuseConnection, CuseError, serve_cuse
from aisrv.attach.spidev.file import SpidevNode
from phy.spi.bus import SpiBus
from tests.support.benches.spi_echo import EchoSlave, echo
from tests.support.peers.spidev_messages import MESSAGE_OF_1, MESSAGE_OF_2, ioc_transfer

OPEN, READ, WRITE, RELEASE, FLUSH, INTERRUPT, IOCTL, POLL, INIT = 14, 15, 16, 18, 25, 36, 39, 40, 4096
EINTR, EIO, EBADF, ENOMEM, EFAULT, EINVAL, ENOTTY, ENOSYS, EMSGSIZE = 4, 5, 9, 12, 14, 22, 25, 38, 90
MOST = 0x7FE06B00
RETRY = 4
ARRAY, DATA, ANSWER = 0x10000, 0x20000, 0x30000


# Messages.


def test_request_from_bytes() -> None:
    raw = bytes.fromhex("2a000000 0f000000 0700000000000000" + "00" * 24 + "abcd")
    assert wire.Request.from_bytes(raw) == wire.Request(42, READ, 7, b"\xab\xcd")


@pytest.mark.parametrize("size", [0, 1, 39, 41])
def test_request_of_another_size_than_it_says(size: int) -> None:
    raw = struct.pack("<IIQQIIII", 40, READ, 7, 0, 0, 0, 0, 0).ljust(41, b"\0")[:size]
    with pytest.raises(wire.CuseWireError):
        wire.Request.from_bytes(raw)


def test_replies() -> None:
    assert wire.reply(7, b"ab").hex() == "120000000000000007000000000000006162"
    assert wire.reply(7, errno=EINVAL).hex() == "10000000eaffffff0700000000000000"
    assert bytes(wire.OpenReply(5)).hex() == "05000000000000000000000000000000"
    assert bytes(wire.WriteReply(3)).hex() == "0300000000000000"
    assert wire.ioctl_reply(-1, b"x").hex() == "ffffffff00000000000000000000000078"


def test_init_reply_names_the_device() -> None:
    body = wire.init_reply(31, 8192, "spidev0.0")
    assert body.hex() == (
        "070000001f000000000000000100000000200000002000000000000000000000"
        + "00" * 40
        + b"DEVNAME=spidev0.0\0".hex()
    )


def test_retry_lists_what_is_read_before_what_is_written() -> None:
    body = wire.ioctl_retry([(0x1000, 32), (0x2000, 3)], [(0x3000, 4)])
    assert body == struct.pack("<iIII6Q", 0, RETRY, 2, 1, 0x1000, 32, 0x2000, 3, 0x3000, 4)


def test_bodies() -> None:
    assert wire.Read.from_bytes(struct.pack("<QQIIQII", 5, 0, 9, 0, 0, 0, 0)) == wire.Read(5, 9)
    raw = struct.pack("<QQIIQII", 5, 0, 2, 0, 0, 0, 0)
    assert wire.Write.from_bytes(raw + b"ab") == wire.Write(5, 2, b"ab")
    assert wire.Release.from_bytes(struct.pack("<QIIQ", 5, 0, 0, 0)) == wire.Release(5)
    assert wire.Interrupt.from_bytes(struct.pack("<Q", 9)) == wire.Interrupt(9)
    raw = struct.pack("<QIIQII", 5, 2, MESSAGE_OF_1, ARRAY, 2, 7)
    assert wire.Ioctl.from_bytes(raw + b"ab") == wire.Ioctl(5, 2, MESSAGE_OF_1, ARRAY, 2, 7, b"ab")


@pytest.mark.parametrize("kind", [wire.Init, wire.Read, wire.Write, wire.Release, wire.Interrupt, wire.Ioctl])
def test_body_that_is_too_short(kind: type[wire.Init]) -> None:
    with pytest.raises(wire.CuseWireError):
        kind.from_bytes(bytes(kind.SIZE - 1))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_an_error(raw: bytes) -> None:
    for kind in (wire.Request, wire.Write, wire.Ioctl):
        try:
            kind.from_bytes(raw)
        except wire.CuseWireError:
            continue


# The played kernel.


class Kernel:
    """The other end of `/dev/cuse`."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = trio.socket.from_stdlib_socket(sock)
        self.number = 0

    async def send(self, opcode: int, body: bytes = b"") -> int:
        self.number += 1
        head = struct.pack("<IIQQIIII", 40 + len(body), opcode, self.number, 0, 0, 0, 0, 0)
        await self.sock.send(head + body)
        return self.number

    async def reply(self) -> tuple[int, int, bytes]:
        """Number of a request, errno, and body of the next reply."""
        raw = await self.sock.recv(65536)
        size, error, number = struct.unpack_from("<IiQ", raw)
        assert size == len(raw)
        return number, -error, raw[16:]

    async def call(self, opcode: int, body: bytes = b"") -> tuple[int, bytes]:
        number = await self.send(opcode, body)
        answered, error, answer = await self.reply()
        assert answered == number
        return error, answer

    async def open(self) -> int:
        error, body = await self.call(OPEN, bytes(8))
        assert error == 0
        handle: int = struct.unpack("<QII", body)[0]
        return handle

    async def close(self, handle: int) -> None:
        assert await self.call(RELEASE, struct.pack("<QIIQ", handle, 0, 0, 0)) == (0, b"")

    async def read(self, handle: int, size: int) -> tuple[int, bytes]:
        return await self.call(READ, struct.pack("<QQIIQII", handle, 0, size, 0, 0, 0, 0))

    async def write(self, handle: int, data: bytes) -> tuple[int, bytes]:
        return await self.call(WRITE, struct.pack("<QQIIQII", handle, 0, len(data), 0, 0, 0, 0) + data)

    async def attempt(
        self, handle: int, code: int, argument: int, data: bytes = b"", out: int = 0
    ) -> tuple[int, bytes]:
        body = struct.pack("<QIIQII", handle, 2, code, argument, len(data), out)
        return await self.call(IOCTL, body + data)

    async def ioctl(self, handle: int, code: int, argument: int, memory: dict[int, bytes]) -> tuple[int, int]:
        """Make an ioctl with all retries, as the kernel does; its errno and result."""
        data, out = b"", 0
        writes: list[tuple[int, int]] = []
        while True:
            error, body = await self.attempt(handle, code, argument, data, out)
            if error:
                return error, -1
            result, flags, reads, wanted = struct.unpack_from("<iIII", body)
            if not flags & RETRY:
                rest = body[16:]
                for address, size in writes:
                    memory[address], rest = rest[:size], rest[size:]
                return 0, result
            numbers = struct.unpack_from(f"<{2 * (reads + wanted)}Q", body, 16)
            regions = list(zip(numbers[::2], numbers[1::2], strict=True))
            data = b"".join(memory[address][:size] for address, size in regions[:reads])
            writes = regions[reads:]
            out = sum(size for _, size in writes)


@asynccontextmanager
async def served(bus: SpiBus, minor: int = 38) -> AsyncIterator[tuple[Kernel, SpidevNode]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    with ours, theirs:
        kernel, node = Kernel(ours), SpidevNode(bus)
        connection = CuseConnection(theirs.fileno(), node)
        async with trio.open_nursery() as nursery:
            await kernel.send(INIT, struct.pack("<IIII", 7, minor, 0, 1))
            await connection.start()
            number, error, body = await kernel.reply()
            assert (number, error) == (1, 0)
            assert struct.unpack_from("<II", body) == (7, min(minor, 38))
            nursery.start_soon(connection.run)
            yield kernel, node
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Kernel, EchoSlave]]:
    slave = EchoSlave()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.run)
        async with served(slave.bus) as (kernel, node):
            yield kernel, slave
            assert node.users == 0
        nursery.cancel_scope.cancel()


async def test_read_and_write() -> None:
    async with echoing() as (kernel, slave):
        handle = await kernel.open()
        assert await kernel.write(handle, b"abc") == (0, struct.pack("<II", 3, 0))
        assert await kernel.read(handle, 5) == (0, echo(bytes(5)))
        assert slave.transactions == [b"abc", bytes(5)]
        await kernel.close(handle)


async def test_too_long_read_and_write() -> None:
    async with echoing() as (kernel, slave):
        handle = await kernel.open()
        assert await kernel.write(handle, bytes(4097)) == (EMSGSIZE, b"")
        assert await kernel.read(handle, 4097) == (EMSGSIZE, b"")
        assert await kernel.read(handle, 0xFFFFFFFF) == (EMSGSIZE, b"")
        assert slave.transfers == []
        await kernel.close(handle)


async def test_message_takes_three_attempts() -> None:
    async with echoing() as (kernel, slave):
        handle = await kernel.open()
        array = ioc_transfer(DATA, ANSWER, 3)
        first = await kernel.attempt(handle, MESSAGE_OF_1, ARRAY)
        assert first == (0, struct.pack("<iIII2Q", 0, RETRY, 1, 0, ARRAY, 32))
        second = await kernel.attempt(handle, MESSAGE_OF_1, ARRAY, array)
        assert second == (0, struct.pack("<iIII6Q", 0, RETRY, 2, 1, ARRAY, 32, DATA, 3, ANSWER, 3))
        assert slave.transfers == []
        third = await kernel.attempt(handle, MESSAGE_OF_1, ARRAY, array + b"abc", 3)
        assert third == (0, struct.pack("<iIII", 3, 0, 0, 0) + echo(b"abc"))
        assert slave.transactions == [b"abc"]
        await kernel.close(handle)


async def test_transfers_that_changed_between_attempts_are_asked_for_anew() -> None:
    async with echoing() as (kernel, slave):
        handle = await kernel.open()
        changed = ioc_transfer(DATA, ANSWER, 9) + b"abc"
        error, body = await kernel.attempt(handle, MESSAGE_OF_1, ARRAY, changed, 3)
        assert (error, body[:8]) == (0, struct.pack("<iI", 0, RETRY))
        assert slave.transfers == []
        await kernel.close(handle)


async def test_message_of_two_transfers() -> None:
    async with echoing() as (kernel, slave):
        handle = await kernel.open()
        memory = {ARRAY: ioc_transfer(DATA, 0, 3, 1) + ioc_transfer(0, ANSWER, 2, 1), DATA: b"abc"}
        assert await kernel.ioctl(handle, MESSAGE_OF_2, ARRAY, memory) == (0, 5)
        assert memory[ANSWER] == echo(bytes(2))
        assert (slave.transactions, slave.sent) == ([b"abc"], bytes(2))
        await kernel.close(handle)
        assert slave.transactions == [b"abc", bytes(2)]


async def test_settings() -> None:
    async with echoing() as (kernel, _):
        handle = await kernel.open()
        memory = {DATA: struct.pack("<I", 1_000_000)}
        assert await kernel.ioctl(handle, 0x40046B04, DATA, memory) == (0, 0)
        assert await kernel.ioctl(handle, 0x80046B04, ANSWER, memory) == (0, 0)
        assert memory[ANSWER] == memory[DATA]
        assert await kernel.ioctl(handle, 0x40046B04, DATA, {DATA: bytes(4)}) == (EINVAL, -1)
        await kernel.close(handle)


async def test_message_with_more_buffers_than_a_retry_can_name() -> None:
    async with echoing() as (kernel, slave):
        handle = await kernel.open()
        memory = {ARRAY: ioc_transfer(DATA, ANSWER, 1) * 511, DATA: b"a"}
        assert await kernel.ioctl(handle, MOST, ARRAY, memory) == (ENOMEM, -1)
        memory[ARRAY] = ioc_transfer(0, 0, 1) * 511
        assert await kernel.ioctl(handle, MOST, ARRAY, memory) == (0, 511)
        assert slave.transactions == [bytes(511)]
        await kernel.close(handle)


@pytest.mark.parametrize(
    ("opcode", "body", "errno"),
    [
        (POLL, bytes(24), ENOSYS),
        (999, b"", ENOSYS),
        (READ, b"", EIO),
        (IOCTL, bytes(31), EIO),
        (WRITE, struct.pack("<QQIIQII", 1, 0, 5, 0, 0, 0, 0) + b"abc", EIO),
        (READ, struct.pack("<QQIIQII", 77, 0, 5, 0, 0, 0, 0), EBADF),
        (RELEASE, struct.pack("<QIIQ", 77, 0, 0, 0), EBADF),
        (FLUSH, bytes(24), 0),
    ],
)
async def test_requests_that_are_odd(opcode: int, body: bytes, errno: int) -> None:
    async with echoing() as (kernel, slave):
        assert await kernel.call(opcode, body) == (errno, b"")
        assert slave.transfers == []


async def test_interrupt_ends_a_message_that_waits_and_nothing_else() -> None:
    bus = SpiBus()
    async with served(bus) as (kernel, _):
        handle = await kernel.open()
        waiting = await kernel.send(READ, struct.pack("<QQIIQII", handle, 0, 5, 0, 0, 0, 0))
        await wait_all_tasks_blocked()
        await kernel.send(INTERRUPT, struct.pack("<Q", 9999))
        await kernel.send(INTERRUPT, struct.pack("<Q", waiting))
        assert await kernel.reply() == (waiting, EINTR, b"")
        await kernel.close(handle)


async def test_release_is_carried_out_though_it_is_interrupted() -> None:
    slave = EchoSlave()
    async with trio.open_nursery() as nursery:
        clocking = trio.CancelScope()
        nursery.start_soon(_run_within, clocking, slave)
        async with served(slave.bus) as (kernel, _):
            handle = await kernel.open()
            memory = {ARRAY: ioc_transfer(DATA, 0, 3, 1), DATA: b"abc"}
            assert await kernel.ioctl(handle, MESSAGE_OF_1, ARRAY, memory) == (0, 3)
            clocking.cancel()
            await wait_all_tasks_blocked()
            releasing = await kernel.send(RELEASE, struct.pack("<QIIQ", handle, 0, 0, 0))
            await wait_all_tasks_blocked()
            await kernel.send(INTERRUPT, struct.pack("<Q", releasing))
            await wait_all_tasks_blocked()
            nursery.start_soon(slave.run)
            assert await kernel.reply() == (releasing, 0, b"")
            assert slave.transactions == [b"abc"]
        nursery.cancel_scope.cancel()


async def _run_within(scope: trio.CancelScope, slave: EchoSlave) -> None:
    with scope:
        await slave.run()


@pytest.mark.parametrize(("major", "minor"), [(7, 15), (6, 40), (8, 0)])
async def test_kernel_of_another_protocol(major: int, minor: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    with ours, theirs:
        await Kernel(ours).send(INIT, struct.pack("<IIII", major, minor, 0, 1))
        with pytest.raises(CuseError, match=rf"version {major}\.{minor} of FUSE's protocol, not 7\.16"):
            await CuseConnection(theirs.fileno(), SpidevNode(SpiBus())).start()


# Where it cannot be.


async def test_missing_device_says_what_to_load(tmp_path: Path) -> None:
    with pytest.raises(CuseError, match="as root: modprobe cuse"):
        await serve_cuse(SpiBus(), device=tmp_path / "cuse")


async def test_device_that_may_not_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(CuseError, match="run this command with sudo"):
        await serve_cuse(SpiBus(), device=tmp_path / "cuse")


@pytest.mark.parametrize("name", ["", "spidev", "spidev0", "spidev0.0\n", "../spidev0.0", "sda"])
async def test_name_that_is_none(name: str) -> None:
    with pytest.raises(CuseError, match="is not the name of a device"):
        await serve_cuse(SpiBus(), name)
