"""Unmodified programs on spidev reach a slave by preload: the package `spidev`, and a program in C."""

import os
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.preload.server import serve_preload
from aisrv.attach.preload.trial import PreloadMissingError
from aisrv.attach.spidev.ioctls import Ioctl
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.spi.bus import SpiBus, Timing
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.benches.spi_echo import echo
from tests.support.peers.preloaded_spidev import spidev_client, spidev_preloaded
from tests.support.peers.spidev_expected import OF_SETTINGS, OF_SIZES, OPENING
from tests.support.peers.spidev_program import pattern
from tests.support.programs import missing

__all__ = ["spidev_client"]


def sent(size: int, start: int = 0) -> bytes:
    return bytes(pattern(start + size))[start:]


# The package.


async def test_package_with_every_size() -> None:
    async with spidev_preloaded() as server:
        assert await server.report("sizes") == OPENING | OF_SIZES


async def test_package_with_every_setting() -> None:
    async with spidev_preloaded() as server:
        assert await server.report("settings") == OPENING | OF_SETTINGS


async def test_mode_that_does_not_work_is_logged_once_and_clocks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with spidev_preloaded() as server:
        await server.report("settings")
        assert [each.hex() for each in server.slave.transactions] == ["0102", "010203", "010203", "00000000"]
    assert [each.getMessage()[:39] for each in caplog.records if each.levelname == "WARNING"] == [
        f"spidev0.0: a message in SPI mode {mode}; the" for mode in (1, 2, 3)
    ]


# A program in C.


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024, 4095, 4096])
async def test_sizes(spidev_client: Path, size: int) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, f"write={size}", f"read={size}", f"message={size}tr")
        assert server.slave.transactions == [sent(size), bytes(size), sent(size)]
    answers = (echo(bytes(size))[:16].hex(), echo(sent(size))[:16].hex())
    assert lines == [
        line.strip()
        for line in (f"write {size}", f"read {size} {answers[0]}", f"message {size} {answers[1]}")
    ]


async def test_too_many_bytes(spidev_client: Path) -> None:
    messages = ("4097t", "4097r", "4000t+97t", "4000r+97r")
    steps = ("write=4097", "read=4097", *(f"message={each}" for each in messages))
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, *steps)
        assert server.slave.transfers == []
    assert lines == [f"{step.partition('=')[0]} -1 errno 90" for step in steps]


async def test_either_direction_has_a_buffer_of_its_own(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, "message=4096t+4096r+9")
        assert server.slave.transactions == [sent(4096) + bytes(4096 + 9)]
    assert lines == [f"message 8201 {echo(bytes(16), 4096).hex()}"]


async def test_chip_select_stays_low_within_a_message(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, "message=3t+5r")
        assert server.slave.transactions == [sent(3) + bytes(5)]
    assert lines == [f"message 8 {echo(bytes(5), 3).hex()}"]


async def test_cs_change_lets_chip_select_go_high_between_transfers(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        await server.run(spidev_client, "message=3tc+5r")
        assert server.slave.transactions == [sent(3), bytes(5)]


async def test_cs_change_at_the_end_keeps_chip_select_low(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, "message=3tc", "read=2", "write=1")
        assert server.slave.transactions == [sent(3) + bytes(2), sent(1)]
    assert lines[1] == f"read 2 {echo(bytes(2), 3).hex()}"


async def test_last_close_lets_chip_select_go_high(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        await server.run(spidev_client, "message=3tc")
        await server.unused()
        await wait_all_tasks_blocked()
        assert (server.slave.transactions, server.slave.sent) == ([sent(3)], b"")


async def test_speed_and_delay(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        await server.run(
            spidev_client,
            *("message=1ts2000000d7+2td5", "put=0x40046b04:1000000", "message=1ts2000000c", "message=1t"),
        )
        assert [(each.clock_hz, each.timing) for each in server.slave.transfers] == [
            (2_000_000, Timing()),
            (50_000_000, Timing(cs_hold=5_000)),
            (1_000_000, Timing()),
            (1_000_000, Timing()),
        ]


async def test_most_transfers_of_a_message(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, "many=0", "many=511")
        assert server.slave.transactions == [sent(511)]
    assert lines == ["many 0", f"many 511 {echo(sent(511))[-4:].hex()}"]


async def test_codes_are_those_of_the_header(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        (line,) = await server.run(spidev_client, "codes")
    ours = [*Ioctl, 0x40206B00, 0x7FE06B00]
    assert [int(code, 16) for code in line.split()[1:]] == ours


@pytest.mark.parametrize(
    ("step", "errno"),
    [
        ("ioctl=0x6b07:0", 25),
        ("ioctl=0x5401:0", 25),
        ("ioctl=0x80206b00:0", 25),
        ("ioctl=0x40216b00:0", 22),
        ("ioctl=0x40206b00:0", 14),
        ("ioctl=0x80016b01:0", 14),
        ("pointers=8:0:3", 14),
        ("pointers=0:8:3", 14),
        ("pointers=0xffffffffffffff00:0:3", 14),
        ("writefrom=0:3", 14),
        ("readto=8:3", 14),
        ("put=0x40016b01:8", 22),
        ("put=0x40046b05:0x20000", 22),
        ("put=0x40016b02:1", 22),
        ("put=0x40016b03:16", 22),
        ("put=0x40046b04:0", 22),
        ("message=3tb9", 22),
        ("message=3tn2", 22),
        ("pointers=0:0:0xffffffff", 90),
        ("pointers=0x1000:0:0x7fffffff", 90),
    ],
)
async def test_call_that_is_refused(spidev_client: Path, step: str, errno: int) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, step, "read=2")
        assert server.slave.transactions == [bytes(2)]
    assert lines == [f"{step.partition('=')[0]} -1 errno {errno}", "read 2 fffe"]


async def test_modes_of_several_lines_are_dropped_as_the_kernel_does(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        lines = await server.run(spidev_client, "put=0x40046b05:0x0f00", "get=0x80046b05", "put=0x40016b03:0")
    assert lines == ["put 0", "get 0 0", "put 0"]


async def test_killed_program_leaves_chip_select_high_and_nothing_open(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        process = server.start(spidev_client, "message=3tc", "hang")
        assert process.stdout is not None
        while not server.slave.sent:
            await wait_all_tasks_blocked(0.005)
        process.kill()
        process.communicate()
        await server.unused()
        await wait_all_tasks_blocked()
        assert server.slave.transactions == [sent(3)]
        assert await server.run(spidev_client, "read=2") == ["read 2 fffe"]


async def test_programs_killed_at_any_moment_leave_nothing(spidev_client: Path) -> None:
    async with spidev_preloaded() as server:
        for number in range(12):
            process = server.start(spidev_client, "bench=1000000:700")
            await trio.sleep(0.002 * number)
            process.kill()
            process.communicate()
            await server.unused()
        assert set(server.slave.transactions) <= {sent(700)}
        assert await server.run(spidev_client, "read=2") == ["read 2 fffe"]


# The server.


async def test_usb_and_spi_together(spidev_client: Path) -> None:
    async with trio.open_nursery() as nursery:
        usb, first, second = UsbBus(aisrv_descriptors()), SpiBus(), SpiBus()
        nursery.start_soon(usb_ep0, usb)
        try:
            preload = await nursery.start(partial(serve_preload, [usb], spi=[first, second]))
        except PreloadMissingError as error:
            missing(str(error))
        code = (
            "import os, usb.core; print(usb.core.find(product='xAISRV') is not None, "
            "sorted(os.listdir('/sys/class/spidev')), "
            "open('/sys/class/spidev/spidev1.0/dev').read().strip(), "
            "os.path.exists('/sys/bus/spi/devices/spi0.0/modalias'), "
            "os.path.exists('/sys/bus/spi/drivers/spidev/spi1.0/driver/spi0.0/modalias'), "
            "os.stat('/dev/spidev1.0').st_rdev, "
            "open('/sys/module/spidev/parameters/bufsiz').read().strip())"
        )
        done = await trio.run_process(
            [sys.executable, "-c", code], env=preload.environment(), capture_stdout=True
        )
        nursery.cancel_scope.cancel()
    device = os.makedev(153, 1)
    assert done.stdout.decode() == f"True ['spidev0.0', 'spidev1.0'] 153:1 True True {device} 4096\n"
