"""The programmer's socket: flashrom, our own programmer, and peers that lie, stop or break off."""

import os
import shutil
import socket
import struct
import subprocess
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.attach import serprog as serprog_server
from aisrv.attach.serprog import LARGEST_READ, LARGEST_SEND, SerprogServer
from flash_server.chip import programmer
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import MX25R3235F, MX25R6435F, Erase, FlashPart
from flash_server.chip.programmer import Programmer
from flash_server.chip.serprog import SpiOperation, pack_command_map, pack_spi_operation, unpack_command_map
from flash_server.chip.storage import FileStorage, MemoryStorage, Storage
from flash_server.errors import PartError, ProgrammerError, ProtectedError, StorageError
from tests.support.programs import missing

ACK, NAK = b"\x06", b"\x15"
SMALL = FlashPart("small", 65536, 0x123456, erases=(Erase(0x20, 4096, 0.016), Erase(0xD8, 65536, 0.016)))


@asynccontextmanager
async def served(
    part: FlashPart = MX25R6435F,
    storage: Storage | None = None,
    released: Callable[[], Awaitable[None]] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[FlashChip, int]]:
    """A chip of these settings behind a server, and the server's port."""
    chip = FlashChip(part, storage or MemoryStorage(part.size), **settings)
    async with trio.open_nursery() as nursery:
        _, port = await nursery.start(SerprogServer(chip, released).serve)
        yield chip, port
        nursery.cancel_scope.cancel()


async def programmed(port: int, work: Callable[[Programmer], object]) -> object:
    """What `work` returns, which blocks and so has a thread of its own."""

    def session() -> object:
        with Programmer.connect(f"127.0.0.1:{port}") as programmer:
            return work(programmer)

    return await trio.to_thread.run_sync(session, abandon_on_cancel=True)


class Peer:
    """A client of bare bytes."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream

    async def ask(self, data: bytes, size: int) -> bytes:
        await self.stream.send_all(data)
        return await self.receive(size)

    async def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self.stream.receive_some(size - len(data))
            if not piece:
                break
            data += piece
        return data


@asynccontextmanager
async def peer(port: int) -> AsyncIterator[Peer]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield Peer(stream)


async def works(port: int) -> None:
    async with peer(port) as client:
        assert await client.ask(pack_spi_operation(b"\x9f", 3), 4) == ACK + b"\xc2\x28\x17"


# flashrom


async def flashrom(port: int, *arguments: str | Path) -> str:
    program = shutil.which("flashrom") or shutil.which("flashrom", path="/usr/sbin")
    if program is None:
        missing("no flashrom: install the package flashrom")
    done = await trio.run_process(
        [program, "-p", f"serprog:ip=127.0.0.1:{port}", *map(str, arguments)],
        capture_stdout=True,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = done.stdout.decode()
    assert done.returncode == 0, text
    return text


@pytest.mark.parametrize(
    "part",
    [MX25R3235F, pytest.param(MX25R6435F, marks=pytest.mark.long("a size more"))],
    ids=lambda part: part.name,
)
async def test_flashrom_reads_the_file(part: FlashPart, tmp_path: Path) -> None:
    content = bytes(range(251)) * 1000
    with FileStorage(tmp_path / "chip", part.size) as storage:
        for address in (0, part.size - len(content)):
            for offset in range(0, len(content), 50_200):
                storage.write(address + offset, content[offset : offset + 50_200])
        async with served(part, storage) as (_, port):
            text = await flashrom(port, "-r", tmp_path / "read")
    assert f'Found Macronix flash chip "{part.name}" ({part.size // 1024} kB, SPI)' in text
    assert (tmp_path / "read").read_bytes() == (tmp_path / "chip").read_bytes()


async def test_flashrom_writes_and_verifies(tmp_path: Path) -> None:
    """A part of the chip, since flashrom polls after each page."""
    (tmp_path / "layout").write_text("00100000:00107fff model\n")
    image = bytearray(b"\xff" * MX25R6435F.size)
    image[0x100000:0x108000] = os.urandom(0x8000)
    (tmp_path / "image").write_bytes(image)
    with FileStorage(tmp_path / "chip", MX25R6435F.size) as storage:
        storage.write(0x101234, bytes(100))  # so that it has to erase
        storage.write(0x0FFFFF, b"beside")
        async with served(storage=storage) as (_, port):
            text = await flashrom(port, "-l", tmp_path / "layout", "-i", "model", "-w", tmp_path / "image")
    assert "VERIFIED" in text
    image[0x0FFFFF] = ord("b")
    assert (tmp_path / "chip").read_bytes() == image


# Our programmer


async def test_programmer_identifies_a_known_part() -> None:
    async with served(MX25R3235F) as (_, port):
        assert await programmed(port, Programmer.identify) is MX25R3235F


async def test_programmer_identifies_a_part_by_its_own_table() -> None:
    async with served(SMALL) as (_, port):
        part = await programmed(port, Programmer.identify)
    assert isinstance(part, FlashPart)
    assert (part.name, part.size, part.erases) == ("SFDP-123456", 65536, SMALL.erases)


@pytest.mark.parametrize(
    ("address", "size"),
    [(0, 0), (0, 1), (4095, 2), (256, 256), (255, 258), (0, 65536), (65535, 1), (8000, 20000)],
)
@pytest.mark.parametrize("before", [0x00, 0x5A, 0xFF])
async def test_programmer_writes_and_keeps_what_is_beside(address: int, size: int, before: int) -> None:
    data = os.urandom(size)
    storage = MemoryStorage(SMALL.size)
    storage.write(0, bytes((before,)) * SMALL.size)
    told: list[tuple[int, int]] = []
    async with served(SMALL, storage) as (_, port):
        await programmed(port, lambda each: each.write(address, data, lambda *done: told.append(done)))
        assert await programmed(port, lambda each: each.read(address, size)) == data
    beside = bytes((before,))
    assert storage.read(0, SMALL.size) == beside * address + data + beside * (SMALL.size - address - size)
    assert told == sorted(told)
    assert not size or told[-1] == (size, size)


async def test_programmer_does_not_erase_where_bits_are_only_cleared() -> None:
    erased: list[int] = []

    class Watched(MemoryStorage):
        def write(self, address: int, data: bytes) -> None:
            if data == b"\xff" * 4096:
                erased.append(address)
            super().write(address, data)

    async with served(SMALL, Watched(SMALL.size)) as (_, port):
        await programmed(port, lambda each: each.write(0, b"\xf0" * 5000))
        await programmed(port, lambda each: each.write(0, b"\xf0" * 5000))
        assert erased == []
        await programmed(port, lambda each: each.write(4096, b"\xf1"))
    assert erased == [4096]


async def test_programmer_erases_whole_sectors() -> None:
    storage = MemoryStorage(SMALL.size)
    storage.write(0, bytes(SMALL.size))
    async with served(SMALL, storage) as (_, port):
        await programmed(port, lambda each: each.erase(4096, 8192))
        with pytest.raises(PartError, match="4096 bytes at 0x1 are not whole sectors of 4096"):
            await programmed(port, lambda each: each.erase(1, 4096))
    assert storage.read(0, SMALL.size) == bytes(4096) + b"\xff" * 8192 + bytes(SMALL.size - 12288)


async def test_programmer_waits_while_the_chip_is_busy() -> None:
    async with served(SMALL, pace=trio.sleep) as (_, port):
        start = trio.current_time()
        await programmed(port, lambda each: each.erase(0, 8192))
        assert trio.current_time() - start > 0.032
        await programmed(port, lambda each: each.write(0, b"done"))
        assert await programmed(port, lambda each: each.read(0, 5)) == b"done\xff"


class Busyness:
    """A chip's time and pace: an operation lasts `polls` transactions, once so many have come."""

    def __init__(self, after: int, polls: float) -> None:
        self.left = after
        self.polls = polls
        self.time = 0.0

    async def pace(self, _seconds: float) -> None:
        self.left -= 1
        self.time += 1 if self.left >= 0 else SMALL.page_program_seconds / self.polls
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def busy(after: int, polls: float) -> AsyncIterator[int]:
    """The port of a chip that is fast at first."""
    busyness = Busyness(after, polls)
    async with served(SMALL, pace=busyness.pace, now=lambda: busyness.time) as (_, port):
        yield port


@pytest.mark.parametrize("after", [60, 63, 66, 100])
async def test_programmer_writes_again_what_a_chip_that_became_busy_did_not_take(after: int) -> None:
    """Pages of the first sector are written one by one, those of the others at once."""
    data = os.urandom(16384)
    async with busy(after, polls=10) as port:
        await programmed(port, lambda each: each.write(0, data))
        assert await programmed(port, lambda each: each.read(0, len(data))) == data


async def test_programmer_gives_up_a_chip_that_stays_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programmer, "SECONDS", 0.25)
    async with busy(0, polls=float("inf")) as port:
        with pytest.raises(ProgrammerError, match=r"SFDP-123456 is still busy after 0\.4 s"):
            await programmed(port, lambda each: each.erase(0, 4096))


async def test_programmer_tells_how_far_it_has_read() -> None:
    told: list[tuple[int, int]] = []
    async with served() as (_, port):
        size = 2 * LARGEST_READ + 1
        await programmed(port, lambda each: each.read(0, size, lambda *done: told.append(done)))
    assert told[-1] == (size, size)
    assert len(told) >= 3
    assert told == sorted(set(told))


async def test_programmer_verifies_what_it_wrote() -> None:
    class Worn(MemoryStorage):
        def write(self, address: int, data: bytes) -> None:
            super().write(address, data)
            super().write(0x123, b"\x61")

    async with served(SMALL, Worn(SMALL.size)) as (_, port):
        with pytest.raises(ProgrammerError, match="holds 0x61 at 0x000123, not 0x00: it is worn"):
            await programmed(port, lambda each: each.write(0x100, bytes(256)))


async def test_programmer_refuses_a_protected_chip() -> None:
    async with served() as (chip, port):
        await chip.transact(b"\x06", 0)
        await chip.transact(b"\x01\x04", 0)
        for work in (lambda each: each.write(0, b"a"), lambda each: each.erase(0, 4096)):
            with pytest.raises(ProtectedError, match="status register 0x04"):
                await programmed(port, work)


@pytest.mark.parametrize(("address", "size"), [(65536, 1), (-1, 1), (0, 65537)])
async def test_programmer_refuses_addresses_that_do_not_exist(address: int, size: int) -> None:
    async with served(SMALL) as (_, port):
        for work in (lambda each: each.read(address, size), lambda each: each.write(address, bytes(size))):
            with pytest.raises(PartError, match="SFDP-123456 ends at 0x10000"):
                await programmed(port, work)


@pytest.mark.parametrize("address", ["", "host", ":", "host:", "host:x", "host:0", "host:65536", "host:-1"])
def test_addresses_of_no_server(address: str) -> None:
    with pytest.raises(ProgrammerError, match="give HOST:PORT"):
        Programmer.connect(address)


async def test_programmer_without_a_server() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    with pytest.raises(ProgrammerError, match=f"no serprog server at 127.0.0.1:{port}: .*refused"):
        await programmed(port, Programmer.identify)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (b"", "closed the connection"),
        (b"HT", "does not speak the serprog protocol"),
        (NAK + ACK + ACK + b"\2\0", "version 2 of serprog"),
        (NAK + ACK + ACK + b"\1\0" + ACK + bytes(32), "a programmer without SPI"),
        (NAK + ACK + NAK, "refuses Q_IFACE"),
        (NAK + ACK + b"?", "answers Q_IFACE with 0x3F, which is neither ACK nor NAK"),
        (NAK + ACK + ACK + b"\1\0" + ACK + pack_command_map() + ACK + b"\4\0\0" + ACK + bytes(3), "too few"),
    ],
)
async def test_programmer_of_a_server_that_lies(answers: bytes, message: str) -> None:
    async def lie(stream: trio.SocketStream) -> None:
        await stream.send_all(answers)
        await stream.send_eof()
        while await stream.receive_some():
            pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, lie, 0, host="127.0.0.1"))
        with pytest.raises(ProgrammerError, match=message):
            await programmed(listeners[0].socket.getsockname()[1], Programmer.identify)
        nursery.cancel_scope.cancel()


# The protocol


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("00", "06"),
        ("01", "060100"),
        ("02", "063f011f" + "00" * 29),
        ("03", "06" + b"aisrv".hex().ljust(32, "0")),
        ("04", "06ffff"),
        ("05", "0608"),
        ("08", "06001000"),
        ("10", "1506"),
        ("11", "06000001"),
        ("1208", "06"),
        ("120f", "06"),
        ("1207", "15"),
        ("13000000000000", "06"),
        ("130100000300009f", "06c22817"),
        ("1400000000", "15"),
        ("1440420f00", "0640420f00"),
        ("14ffffffff", "0680f0fa02"),
    ],
)
async def test_commands(command: str, answer: str) -> None:
    """flashrom, "Serial Flasher Protocol Specification - version 1"; a NOP shows that it is in step."""
    async with served() as (_, port), peer(port) as client:
        assert (await client.ask(bytes.fromhex(command) + b"\0", len(answer) // 2 + 1)).hex() == answer + "06"


@pytest.mark.parametrize("number", sorted({*range(256)} - unpack_command_map(pack_command_map())))
async def test_byte_that_no_programmer_sends_ends_the_connection(number: int) -> None:
    """What comes behind it, an erase of the whole chip, is not looked at; the next programmer is served."""
    erase = pack_spi_operation(b"\x06", 0) + pack_spi_operation(b"\xc7", 0)
    storage = MemoryStorage(SMALL.size)
    storage.write(0, b"precious")
    async with served(SMALL, storage) as (_, port):
        async with peer(port) as client:
            assert await client.ask(b"\0" + bytes((number,)) + erase, 2) == ACK
        async with peer(port) as client:
            assert await client.ask(b"\0", 1) == ACK
    assert storage.read(0, 8) == b"precious"


async def test_commands_byte_by_byte_and_all_at_once() -> None:
    command = pack_spi_operation(b"\x9f", 3)
    async with served() as (_, port), peer(port) as client:
        for byte in command:
            await client.stream.send_all(bytes((byte,)))
        assert await client.receive(4) == ACK + b"\xc2\x28\x17"
        assert await client.ask(command * 1000, 4000) == (ACK + b"\xc2\x28\x17") * 1000


@pytest.mark.parametrize(
    ("send", "read"), [(LARGEST_SEND + 1, 0), (1, LARGEST_READ + 1), ((1 << 24) - 1, (1 << 24) - 1)]
)
async def test_operations_past_the_limits_take_no_memory(
    send: int, read: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as (_, port), peer(port) as client:
        tracemalloc.start()
        await client.stream.send_all(b"\x13" + bytes(SpiOperation(send, read)))
        left = send
        while left:
            piece = min(left, 65536)
            await client.stream.send_all(bytes(piece))
            left -= piece
        assert await client.ask(b"", 1) == NAK
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20
    assert f"serprog operation of {send} and {read} bytes refused" in caplog.text


async def test_the_largest_operations() -> None:
    async with served() as (_, port), peer(port) as client:
        answer = await client.ask(pack_spi_operation(b"\x03\0\0\0", LARGEST_READ), LARGEST_READ + 1)
        assert answer == ACK + b"\xff" * LARGEST_READ
        assert await client.ask(pack_spi_operation(bytes(LARGEST_SEND), 0), 1) == ACK


async def test_a_second_programmer_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serprog_server, "HANDOVER_SECONDS", 0.02)
    async with served() as (_, port), peer(port) as first:
        assert await first.ask(b"\0", 1) == ACK
        with pytest.raises(ProgrammerError, match="another programmer may have the chip"):
            await programmed(port, Programmer.identify)
        assert await first.ask(b"\0", 1) == ACK


async def test_a_connection_that_says_nothing_does_not_hold_the_chip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A browser connects to where a page may lead, before there is a request."""
    monkeypatch.setattr(serprog_server, "HANDOVER_SECONDS", 0.02)
    async with served() as (_, port), await trio.open_tcp_stream("127.0.0.1", port):
        await wait_all_tasks_blocked()
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            assert await Peer(stream).ask(b"\0", 1) == ACK


async def test_a_second_programmer_waits_for_the_first_to_leave() -> None:
    async with served() as (_, port), peer(port) as first, trio.open_nursery() as nursery:
        assert await first.ask(b"\0", 1) == ACK
        nursery.start_soon(works, port)
        await wait_all_tasks_blocked(0.02)
        await first.stream.aclose()


@pytest.mark.parametrize("size", [1, 3, 6, 7, 9])
async def test_a_programmer_that_leaves_within_a_command(size: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served() as (_, port):
        async with peer(port) as client:
            await client.stream.send_all(pack_spi_operation(b"\x02\0\0\0", 0)[:size])
            await client.stream.send_eof()
            assert await client.receive(1) == b""
        await works(port)
    assert "connection closed" in caplog.text


@pytest.mark.parametrize("ending", ["closed", "reset", "within a command"])
async def test_what_a_programmer_wrote_counts_however_its_connection_ends(ending: str) -> None:
    left = trio.Event()

    async def released() -> None:
        left.set()

    async with served(released=released) as (_, port):
        async with peer(port) as client:
            assert await client.ask(pack_spi_operation(b"\x06", 0), 1) == ACK
            assert await client.ask(pack_spi_operation(b"\x02\0\0\0\x55", 0), 1) == ACK
            if ending == "reset":
                client.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif ending == "within a command":
                await client.stream.send_all(b"\x13\1")
        await left.wait()
        await works(port)


async def test_a_programmer_that_stops_within_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serprog_server, "PATIENCE_SECONDS", 0.02)
    async with served() as (_, port):
        async with peer(port) as client:
            assert await client.ask(b"\x13\1", 1) == b""
        await works(port)


async def test_a_chip_file_that_fails_is_no_end_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryStorage):
        def read(self, address: int, size: int) -> bytes:
            raise StorageError("chip: cut short")

    async with served(storage=Broken(MX25R6435F.size)) as (_, port), peer(port) as client:
        assert await client.ask(pack_spi_operation(b"\x03\0\0\0", 1), 1) == NAK
        assert await client.ask(pack_spi_operation(b"\x9f", 3), 4) == ACK + b"\xc2\x28\x17"
    assert "flash: chip: cut short" in caplog.text


@given(st.integers(0, (1 << 24) - 1), st.integers(0, (1 << 24) - 1))
def test_operations_round_trip(send: int, read: int) -> None:
    assert SpiOperation.from_bytes(bytes(SpiOperation(send, read))) == SpiOperation(send, read)


def test_operations_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="5 bytes are not the two lengths"):
        SpiOperation.from_bytes(bytes(5))
    with pytest.raises(OverflowError):
        bytes(SpiOperation(1 << 24, 0))
