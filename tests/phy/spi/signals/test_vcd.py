"""Recordings of the SPI bus as sigrok, which others wrote, decodes them; exact times; pictures."""

import os
import shutil
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import trio
from click.testing import CliRunner
from trio.testing import MockClock

from aisrv.protocol.commands import Command
from aisrv.xcore.node import open_node
from phy.spi.bus import LARGEST_MESSAGE, SpiBus, SpiError, SpiTransfer, Timing
from phy.spi.shared_memory import SharedMemory
from phy.spi.signals import waveform
from phy.spi.signals.vcd import VcdFile, VcdPort
from phy.spi.slave import spi_slave
from tests.support.benches.spi_echo import inverted, inverting_bus
from tests.support.paths import ROOT
from tests.support.programs import run_process

PICTURE = ROOT / "docs/guides/images/spi-transaction.svg"
PICTURE_TITLE = "GET_ID at 10 MHz: the command, two dummy bytes, 0x12345678"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spi.vcd"


Decoded = list[tuple[bytes, bytes]]


@pytest.fixture
def sigrok(path: Path) -> Callable[[], Decoded]:
    """Decodes the file into MOSI and MISO of each transaction."""
    found = shutil.which("sigrok-cli")
    if found is None:
        reason = "Debian's package sigrok-cli is not installed; .ci/packages does that"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)

    def decode() -> Decoded:
        decoder = ["-P", "spi:clk=CLK:mosi=MOSI:miso=MISO:cs=CS", "-A", "spi=mosi-transfer:miso-transfer"]
        command = [found, "-i", str(path), "-I", "vcd", *decoder]
        done = run_process(command, check=True)
        assert done.stderr == ""
        lines = [bytes.fromhex(line.removeprefix("spi-1: ")) for line in done.stdout.splitlines()]
        return list(zip(lines[1::2], lines[::2], strict=True))  # MISO comes first

    return decode


@asynccontextmanager
async def recorded(path: Path, **options: int) -> AsyncIterator[VcdPort]:
    """A slave that answers every bit inverted, behind a recorder."""
    with VcdFile(path, **options) as file:
        async with inverting_bus() as bus:
            yield VcdPort(bus, file)


def content(path: Path) -> str:
    return path.read_text(encoding="ascii")


def changes(path: Path) -> list[tuple[int, str, int]]:
    """Read time, line and level of every change after the initial values."""
    head, _, body = content(path).partition("$dumpvars")
    names = {words[3]: words[4] for words in map(str.split, head.splitlines()) if words[:1] == ["$var"]}
    found = []
    now = 0
    for line in body.partition("$end")[2].split():
        if line.startswith("#"):
            now = int(line[1:])
        else:
            found.append((now, names[line[1:]], int(line[0])))
    return found


def when(path: Path, name: str) -> list[int]:
    return [time for time, line, _ in changes(path) if line == name]


# What sigrok decodes.


@pytest.mark.parametrize("hz", [100_000, 1_000_000, 3_000_000, 47_619_048, 50_000_000, 70_000_000, None])
async def test_bytes_at_any_clock_rate(path: Path, sigrok: Callable[[], Decoded], hz: int | None) -> None:
    async with recorded(path) as port:
        assert await port.message([SpiTransfer(b"\x10\x81\x00\xff", clock_hz=hz)]) == [b"\xef\x7e\xff\x00"]
    assert sigrok() == [(b"\x10\x81\x00\xff", b"\xef\x7e\xff\x00")]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024, 1025])
async def test_transactions_of_any_length(path: Path, sigrok: Callable[[], Decoded], size: int) -> None:
    data = bytes(number * 31 & 0xFF for number in range(size))
    async with recorded(path) as port:
        await port.message([SpiTransfer(data, clock_hz=50_000_000), SpiTransfer(b"\x55")])
    assert sigrok() == [(data, inverted(data)), (b"\x55", b"\xaa")]


async def test_transfers_and_messages_of_one_transaction(path: Path, sigrok: Callable[[], Decoded]) -> None:
    async with recorded(path) as port:
        await port.message(
            [
                SpiTransfer(b"\x01", deselect=False, clock_hz=1_000_000),
                SpiTransfer(b"", deselect=False),
                SpiTransfer(b"\x02\x03", deselect=False, clock_hz=50_000_000),
            ]
        )
        await port.message([SpiTransfer(b"\x04", deselect=False, clock_hz=3_000_000)])
        await port.message([SpiTransfer(b"\x05"), SpiTransfer(b"\x06")])
    data = bytes(range(1, 6))
    assert sigrok() == [(data, inverted(data)), (b"\x06", b"\xf9")]


async def test_empty_transactions_and_a_release(path: Path, sigrok: Callable[[], Decoded]) -> None:
    async with recorded(path) as port:
        await port.message([])
        await port.message([SpiTransfer(b"")])
        await port.release()
        await port.message([SpiTransfer(b"\x01", deselect=False)])
        await port.release()
        await port.message([SpiTransfer(b"", deselect=False), SpiTransfer(b"")])
        await port.message([SpiTransfer(b"\x02")])
    assert sigrok() == [(b"", b""), (b"\x01", b"\xfe"), (b"", b""), (b"\x02", b"\xfd")]


async def test_messages_of_several_masters_in_the_order_of_the_bus(
    path: Path, sigrok: Callable[[], Decoded]
) -> None:
    seen = []

    async def slave(bus: SpiBus) -> None:
        while True:
            message = await bus.next_message()
            seen.append(message.transfers[0].mosi)
            bus.answer(message, [inverted(each.mosi) for each in message.transfers])

    with VcdFile(path) as file:
        bus = SpiBus()
        port = VcdPort(bus, file)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slave, bus)
            async with trio.open_nursery() as masters:
                for number in range(20):
                    masters.start_soon(port.message, [SpiTransfer(bytes((number,)))])
            nursery.cancel_scope.cancel()
    assert [mosi for mosi, _ in sigrok()] == seen
    assert len(set(seen)) == 20


# Times.


async def test_file_of_one_byte(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\xa0", clock_hz=50_000_000)])
    edges = "".join(f'#{300 + 20 * bit}\n1"\n#{310 + 20 * bit}\n0"\n' for bit in range(3, 8))
    assert content(path) == (
        "$timescale 1 ns $end\n$version aisrv $end\n$scope module spi $end\n"
        '$var wire 1 ! CS $end\n$var wire 1 " CLK $end\n$var wire 1 # MOSI $end\n$var wire 1 $ MISO $end\n'
        "$upscope $end\n$enddefinitions $end\n"
        '#0\n$dumpvars\n1!\n0"\n0#\n0$\n$end\n'
        "#200\n0!\n1#\n"
        '#300\n1"\n#310\n0"\n0#\n1$\n'
        '#320\n1"\n#330\n0"\n1#\n0$\n'
        '#340\n1"\n#350\n0"\n0#\n1$\n' + edges + "#550\n1!\n#750\n"
    )


async def test_edges_do_not_drift(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(bytes(125), clock_hz=3_000_000)])  # 1000 periods of 333 1/3 ns
    clk = when(path, "CLK")
    assert [edge - clk[0] for edge in clk[:5]] == [0, 166, 333, 500, 666]
    assert clk[-2] - clk[0] == 333_000
    assert clk[-1] - clk[0] == 333_166


async def test_chip_select_as_stated(path: Path) -> None:
    async with recorded(path) as port:
        stated = Timing(cs_setup=1000, cs_hold=2000, cs_idle=5000)
        await port.message([SpiTransfer(b"\0", clock_hz=10_000_000, timing=stated)] * 2)
    falls, rises = when(path, "CS")[::2], when(path, "CS")[1::2]
    clk = when(path, "CLK")
    assert (falls[0], clk[0] - falls[0], rises[0] - clk[15], falls[1] - rises[0]) == (5000, 1000, 2000, 5000)


async def test_chip_select_as_the_rules_have_it_where_nothing_is_stated(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\0"), SpiTransfer(b""), SpiTransfer(b"\0")])
    falls, rises = when(path, "CS")[::2], when(path, "CS")[1::2]
    clk = when(path, "CLK")
    assert (falls[0], clk[0] - falls[0], rises[0] - clk[15]) == (200, 100, 100)
    assert (falls[1] - rises[0], rises[1] - falls[1], falls[2] - rises[1]) == (200, 200, 200)


async def test_breaches_are_drawn_as_they_are(path: Path) -> None:
    async with recorded(path) as port:
        none = Timing(cs_setup=0, cs_hold=0, cs_idle=0)
        await port.message([SpiTransfer(b"", timing=none), SpiTransfer(b"\0", timing=none)])
    assert when(path, "CS") == [0, 1, 1, 751]
    assert when(path, "CLK")[0] == 1


async def test_default_rate_is_drawn_where_none_is_stated(path: Path) -> None:
    async with recorded(path, default_hz=1000) as port:
        await port.message([SpiTransfer(b"\0"), SpiTransfer(b"\0", clock_hz=0)])
    clk = when(path, "CLK")
    assert clk[2] - clk[0] == clk[18] - clk[16] == 1_000_000


async def test_rate_that_nanoseconds_cannot_show_is_drawn_at_their_limit(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\0", clock_hz=4_000_000_000)])
    assert when(path, "CLK") == list(range(300, 316))


@pytest.mark.parametrize("hz", [0, -1, 500_000_001])
def test_default_rate_that_cannot_be_drawn_is_refused(path: Path, hz: int) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        VcdFile(path, default_hz=hz)
    assert not path.exists()


def test_time_of_a_message_is_that_of_the_clock_or_the_end_of_the_one_before(path: Path) -> None:
    async def main() -> None:
        async with recorded(path) as port:
            slow = SpiTransfer(bytes(100), clock_hz=1000)  # 0.8 s
            await trio.sleep(5)
            await port.message([slow])  # the recording begins here
            await trio.sleep(0.5)
            await port.message([slow])
            await trio.sleep(9.5)
            await port.message([slow])

    trio.run(main, clock=MockClock(autojump_threshold=0))
    falls, rises = when(path, "CS")[::2], when(path, "CS")[1::2]
    assert (falls[0], falls[1] - rises[0], falls[2]) == (200, 200, 10_000_000_000)
    assert rises[0] == 200 + 100 + 799_500_000 + 100


def test_chip_select_low_between_messages_and_its_release_keep_the_clocks_time(path: Path) -> None:
    async def main() -> None:
        async with recorded(path) as port:
            await port.message([SpiTransfer(b"\0", deselect=False, clock_hz=50_000_000)])
            await trio.sleep(1)
            await port.message([SpiTransfer(b"\0", deselect=False, clock_hz=50_000_000)])
            await trio.sleep(1)
            await port.release()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert when(path, "CS") == [200, 2_000_000_100]
    assert when(path, "CLK")[16] == 1_000_000_010


# The file and the port.


async def test_file_is_whole_after_each_message(path: Path) -> None:
    async with recorded(path) as port:
        for count in range(1, 4):
            await port.message([SpiTransfer(b"\x55")])
            assert len(when(path, "CLK")) == 16 * count
            assert len(when(path, "CS")) == 2 * count


async def test_file_is_complete_at_close_with_chip_select_low(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\x55", deselect=False)])
    assert when(path, "CS") == [200]
    assert content(path).endswith("#1250\n")


def test_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        VcdFile(tmp_path / "missing" / "spi.vcd")


async def test_full_disk_ends_the_recording_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with recorded(Path("/dev/full")) as port:
        for size in (1, 100_000, 0, 1):
            data = bytes(size)
            assert await port.message([SpiTransfer(data)]) == [inverted(data)]
        await port.release()
    assert [record.getMessage() for record in caplog.records] == [
        "/dev/full: No space left on device; the recording ends here"
    ]


async def test_reader_that_goes_away_ends_the_recording_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    async with recorded(fifo) as port:
        await port.message([SpiTransfer(b"\x55")])
        os.close(reader)
        for size in (1, 100_000, 1):
            assert await port.message([SpiTransfer(bytes(size))]) == [b"\xff" * size]
    assert [record.getMessage() for record in caplog.records] == [
        f"{fifo}: Broken pipe; the recording ends here"
    ]


async def test_after_close_messages_pass_unrecorded(path: Path) -> None:
    async with recorded(path) as port:
        port._file.close()
        before = content(path)
        assert await port.message([SpiTransfer(b"\x01")]) == [b"\xfe"]
        port._file.close()
    assert content(path) == before


async def test_message_that_is_refused_or_given_up_is_not_recorded(path: Path) -> None:
    with VcdFile(path) as file:
        port = VcdPort(SpiBus(), file)  # nobody answers
        with pytest.raises(SpiError):
            await port.message([SpiTransfer(bytes(LARGEST_MESSAGE + 1))])
        with trio.move_on_after(0.001) as scope:
            await port.message([SpiTransfer(b"\x01")])
        assert scope.cancelled_caught
    assert changes(path) == []


async def test_message_that_was_clocked_is_not_lost_by_a_cancellation(path: Path) -> None:
    data = bytes(20_000)
    async with recorded(path) as port, trio.open_nursery() as nursery:
        got = []

        async def master() -> None:
            got.extend(await port.message([SpiTransfer(data)]))

        nursery.start_soon(master)
        while not when(path, "CLK"):  # drawing has begun
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert got == [inverted(data)]
    assert len(when(path, "CLK")) == 16 * len(data)


async def test_other_tasks_run_while_a_long_message_is_drawn(path: Path) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with recorded(path) as port, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await port.message([SpiTransfer(b"")])
        before = turns
        await port.message([SpiTransfer(bytes(10 * 1024))])
        assert turns - before >= 9
        nursery.cancel_scope.cancel()


async def test_memory_does_not_grow_with_the_message(path: Path) -> None:
    async with recorded(path) as port:
        data = bytes(4 * 1024)
        await port.message([SpiTransfer(b"\x01")])
        tracemalloc.start()
        await port.message([SpiTransfer(data)])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(content(path)) > 600_000
    assert peak < 200_000


# Pictures.


async def record_get_id(path: Path) -> None:
    """GET_ID, answered by the product's slave."""
    async with open_node() as node:
        channel = node.channel(node.tiles[1], node.tiles[1])
        bus, memory = SpiBus(), SharedMemory(answers={Command.GET_ID: bytes.fromhex("78563412")})
        node.tiles[1].start(spi_slave, bus, memory, channel.a)
        with VcdFile(path) as file:
            await VcdPort(bus, file).message([SpiTransfer(b"\x10" + bytes(6), clock_hz=10_000_000)])
        node.stop()


def read(path: Path) -> list[waveform.Waveform]:
    with path.open("rb") as file:
        return list(waveform.read_transactions(file))


async def test_picture_in_the_documentation_is_what_the_bus_does(path: Path) -> None:
    await record_get_id(path)
    (found,) = read(path)
    assert [value for _, _, value in found.data("MOSI")] == [0x10, 0, 0, 0, 0, 0, 0]
    assert [value for _, _, value in found.data("MISO")] == [0, 0, 0, 0x78, 0x56, 0x34, 0x12]
    assert PICTURE.read_text() == waveform.svg(found, PICTURE_TITLE)


def texts(picture: str) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(picture).iter() if (each.text or "").strip()]


async def test_transactions_are_read_one_by_one(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\x01\x02"), SpiTransfer(b""), SpiTransfer(b"\x03", deselect=False)])
    first, second = read(path)
    assert [value for _, _, value in first.data("MOSI")] == [1, 2]
    assert [value for _, _, value in first.data("MISO")] == [0xFE, 0xFD]
    assert (first.start, first.end, len(first.edges)) == (200, 200 + 100 + 1550 + 100, 16)
    assert (second.end - second.start, second.edges) == (200, [])


async def test_picture_shows_lines_and_bytes(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\x01\xa2", clock_hz=50_000_000), SpiTransfer(b"")])
    full, empty = read(path)
    assert texts(waveform.svg(full, "a <b> & c")) == [
        "a <b> & c", "CS", "CLK", "MOSI", "01", "a2", "MISO", "fe", "5d", "160 ns",
    ]  # fmt: skip
    assert texts(waveform.svg(empty)) == ["CS", "CLK", "MOSI", "MISO", "1600 ns"]


async def test_transaction_that_is_too_long_for_a_picture_is_refused(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(bytes(1000))])
    with pytest.raises(ValueError, match="1000 bytes is too long"):
        waveform.svg(read(path)[0])


async def test_command_draws_the_transaction_that_is_asked_for(path: Path) -> None:
    async with recorded(path) as port:
        await port.message([SpiTransfer(b"\x01"), SpiTransfer(b"\x02"), SpiTransfer(bytes(1000))])

    def command(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(waveform.main, [str(path), *arguments])
        return done.exit_code, done.output

    assert command("--number", "1", "--title", "second") == (0, waveform.svg(read(path)[1], "second"))
    assert command("--number", "3") == (1, "Error: the file has no transaction 3\n")
    code, text = command("--number", "2")
    assert (code, text) == (1, "Error: a transaction of 1000 bytes is too long for a picture\n")
