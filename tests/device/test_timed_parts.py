"""A device in device time: commands of a host take what is predicted, to the tick.

The worked example of "Device time and traces", section 3, and its acceptance 1.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace as changed

from aisrv import digits
from aisrv.addons.predict.profile.end_to_end import LIKELY, Link, Workload, spi, usb
from aisrv.board import Board, BoardError, SensorSpec
from aisrv.board.catalog import find_board
from aisrv.board.toml_file import read_board
from aisrv.device.device import Device, open_device
from aisrv.device.timed_parts import read_clocks
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.memories import FlashPath
from aisrv.xcore.timed.classes import timeline_of
from phy.usb.timed_bus import TimedUsbBus
from tests.support.amounts import some
from tests.support.benches.device_time import SpiHost, UsbHost, on_virtual_time, ticks, timed_device, workload
from tests.support.peers import mlperf_tiny

WORKED_INFERENCE = 3_054_088


def predicted(link: Link, work: Workload) -> list[Fraction]:
    """Ticks of each command after the upload."""
    return [time.ticks for time in link(work, LIKELY)][1:]


def stand_in(device: Device, total_ticks: int) -> None:
    """Have an inference take other ticks than predicted."""
    engine = device.engines[0].inference
    loaded = engine._loaded
    assert loaded is not None
    engine._loaded = changed(loaded, total=changed(loaded.total, ticks=total_ticks))


async def usb_rows(device: Device) -> list[int]:
    """Ticks from the first transaction to the next command's, for each command of a cycle."""
    host = UsbHost(device)
    size = len(device.engines[0].inference.input(0))
    begin = ticks(device)
    await host.cycle(bytes(size))
    taken = host.ends
    return [begin, taken[2] - 114, taken[4] - 114, taken[5]]


async def spi_rows(device: Device, clock_hz: int) -> list[int]:
    host = SpiHost(device, clock_hz)
    engine = device.engines[0].inference
    begin = ticks(device)
    await host.set(Command.SET_INPUT_TENSOR, bytes(len(engine.input(0))))
    written = ticks(device)
    await host.infer()
    inferred = ticks(device)
    await host.read(Command.GET_OUTPUT_TENSOR, len(engine.output(0)))
    return [begin, written, inferred, ticks(device)]


def assert_rows(rows: list[int], expected: list[Fraction]) -> None:
    """Each row ends at its tick, rounded up from the start."""
    begin, *ends = rows
    sums = [sum(expected[: count + 1], Fraction(0)) for count in range(len(expected))]
    assert [end - begin for end in ends] == [math.ceil(each) for each in sums]


def worked(rows: Callable[[Device], Awaitable[list[int]]]) -> list[int]:
    async def main() -> list[int]:
        async with timed_device(mlperf_tiny.model_bytes("vww_96_int8")) as device:
            stand_in(device, WORKED_INFERENCE)
            return await rows(device)

    return on_virtual_time(main)


def test_the_worked_cycle_over_usb() -> None:
    begin, *ends = worked(usb_rows)
    set_input, start, get = Fraction(243_603, 2), Fraction(6_112_163, 2), Fraction(6_094, 3)
    assert [end - begin for end in ends] == [
        math.ceil(set_input),
        math.ceil(set_input + start),
        math.ceil(set_input + start + get),
    ]
    assert ends[-1] - begin == 3_179_915


@pytest.mark.parametrize(
    ("clock_hz", "rows", "cycle"),
    [
        (10_000_000, [2_284_440, 3_055_320, 600], 5_340_360),
        (25_000_000, [931_992, 3_054_816, 264], 3_987_072),
    ],
)
@pytest.mark.long("its host polls the status; predictions have these figures every day")
def test_the_worked_cycle_over_spi(clock_hz: int, rows: list[int], cycle: int) -> None:
    begin, *ends = worked(lambda device: spi_rows(device, clock_hz))
    assert [end - before for before, end in zip((begin, *ends), ends, strict=False)] == rows
    assert ends[-1] - begin == cycle


CASES = [(name, threads) for threads in (5, 1) for name in mlperf_tiny.NAMES]


@pytest.mark.in_full
@pytest.mark.parametrize(("name", "threads"), some(CASES, every_day=2))
def test_predictions_equal_the_device(name: str, threads: int) -> None:
    async def main() -> None:
        board = Board()
        board = replace(board, engines=(replace(board.engines[0], threads=threads),))
        async with timed_device(mlperf_tiny.model_bytes(name), board) as device:
            work = workload(device)
            assert_rows(await usb_rows(device), predicted(usb, work))
            await trio.sleep(1)
            for clock_hz in (10_000_000, 25_000_000):
                assert_rows(await spi_rows(device, clock_hz), predicted(spi(clock_hz), work))

    on_virtual_time(main)


def test_an_upload_over_usb() -> None:
    model = digits.model_bytes()

    async def main() -> tuple[int, Fraction]:
        async with timed_device(board=Board(spi=None)) as device:  # nobody is told of the new model
            host = UsbHost(device)
            begin = ticks(device)
            await host.set(Command.SET_MODEL_ARENA, model)
            await host.read(Command.GET_ID)
            return host.ends[2] - 114 - begin, next(usb(workload(device, model))).ticks

    taken, upload = on_virtual_time(main)
    assert taken == math.ceil(upload)


async def answers(*, device_time: bool) -> list[bytes]:
    """Answers of a device to a session over USB and SPI."""
    model = digits.model_bytes()
    async with open_device(runner=inline, device_time=device_time) as device:
        device.usb.reset()
        device.usb.configure(1)
        host = UsbHost(device)
        await host.set(Command.SET_MODEL_ARENA, model)
        got = []
        for image, _ in digits.test_images()[:3]:
            await host.cycle(image)
            got.append(host.data)
            got += [await host.read(command) for command in (Command.GET_TIMINGS, Command.GET_STATUS)]
        master = SpiHost(device, None)
        await master.set(Command.SET_INPUT_TENSOR, digits.test_images()[4][0])
        await master.infer()
        reads = ((Command.GET_OUTPUT_TENSOR, 10), (Command.GET_TIMINGS, 20), (Command.GET_STATUS, 4))
        return got + [await master.read(command, size) for command, size in reads]


def test_answers_are_the_same_without_device_time() -> None:
    timed = on_virtual_time(lambda: answers(device_time=True))
    assert timed == on_virtual_time(lambda: answers(device_time=False))
    assert len(set(timed)) > 4


def test_a_read_from_flash_takes_its_way() -> None:
    assert read_clocks(None, 600)(100) == 2272 + 14_200
    assert read_clocks(FlashPath.FAST, 600)(1000) == 12_600
    assert read_clocks(20, 600)(1000) == 30_000


def test_a_master_sees_sensing_until_the_frame_is_due() -> None:
    async def main() -> tuple[list[int], int]:
        sensor = SensorSpec(1, "pattern:bars", "rgb", 8, 8, rate=1000)
        async with timed_device(digits.model_bytes(), Board(sensor=sensor)) as device:
            host = SpiHost(device, None)
            seen, acquire = [], bytes((Command.START_ACQUIRE_SINGLE,))
            for _ in range(2):
                await host.transfer(acquire)
                begin = ticks(device)
                while (status := (await host.read(Command.GET_STATUS, 4))[0]) & Status.BUSY:
                    seen.append(status)
            return seen, ticks(device) - begin

    seen, taken = on_virtual_time(main)
    assert set(seen) == {Status.BUSY | Status.SENSING}
    assert 90_000 < taken < 110_000  # the second frame is due 100,000 ticks after the first


def test_a_register_of_the_sensor_takes_29_bits_of_i2c() -> None:
    async def main() -> int:
        async with timed_device(board=find_board("camera")) as device:
            host, begun = UsbHost(device), ticks(device)
            await host.set(Command.START_ACQUIRE_SET_I2C, b"\x10\x01\x40")
            await host.read(Command.GET_ID)
            first = ticks(device) - begun
            begun = ticks(device)
            await host.set(Command.SET_OUTPUT_GPIO_EN, b"\0")
            await host.read(Command.GET_ID)
            return first - (ticks(device) - begun)

    # At 100 kbit/s; the rest is the way to the task of the sensor and back.
    assert on_virtual_time(main) in range(29_000, 30_000)


def test_a_board_s_file_says_that_it_is_in_device_time(tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text("[node]\ndevice_time = true\n")
    board = read_board(tmp_path / "board.toml")
    assert board.device_time

    async def main() -> type:
        async with open_device(board, runner=inline) as device:
            return type(device.usb)

    assert on_virtual_time(main) is TimedUsbBus


@pytest.mark.parametrize(
    ("text", "given", "timed"),
    [
        ("[node]\ndevice_time = true\n", None, True),
        ("[node]\ndevice_time = true\n", False, False),
        ("[node]\ndevice_time = false\n", None, False),
        ("", None, False),
        ("", True, True),
    ],
)
@pytest.mark.plain_time("it says itself whether a device is in device time")
def test_a_board_file_says_whether_a_device_is_in_device_time(
    tmp_path: Path, text: str, given: bool | None, timed: bool
) -> None:
    path = tmp_path / "board.toml"
    path.write_text(text)
    board = read_board(path)

    async def main() -> bool:
        async with open_device(board, runner=inline, device_time=given) as device:
            return timeline_of(device.node.runtime) is not None

    assert on_virtual_time(main) is timed


def test_a_board_file_s_device_time_is_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text("[node]\ndevice_time = 1\n")
    with pytest.raises(BoardError, match=r"2: node\.device_time"):
        read_board(path)
