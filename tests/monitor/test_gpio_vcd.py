"""Recordings of LEDs, as pyvcd's reader decodes them."""

import logging
import struct
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock
from vcd.reader import ScalarChange, ScopeDecl, TokenKind, VarDecl, tokenize

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.engine.gpio import Gpio
from aisrv.inference.process.inline import inline
from aisrv.monitor.gpio_vcd import GpioVcd

MS = 1_000_000
LOW = {f"led{number}": "0" for number in range(4)}

Signals = dict[str, str]
Changes = list[tuple[int, str, str]]


def decode(path: Path) -> tuple[Signals, Changes, int]:
    """Levels at the start by signal, changes as time, signal and level, and the last time."""
    names: dict[str, str] = {}
    scopes: list[str] = []
    start: Signals = {}
    changes: Changes = []
    now = 0
    dumping = False
    with path.open("rb") as file:
        for token in tokenize(file):
            data = token.data
            if isinstance(data, ScopeDecl):
                scopes.append(data.ident)
            elif token.kind is TokenKind.UPSCOPE:
                scopes.pop()
            elif isinstance(data, VarDecl):
                assert (data.type_.value, data.size) == ("wire", 1)
                names[data.id_code] = ".".join([*scopes, data.reference])
            elif token.kind is TokenKind.DUMPVARS:
                dumping = True
            elif token.kind is TokenKind.END:
                dumping = False
            elif token.kind is TokenKind.CHANGE_TIME:
                assert token.time_change >= now
                now = token.time_change
            elif isinstance(data, ScalarChange):
                if dumping:
                    start[names[data.id_code]] = data.value
                else:
                    changes.append((now, names[data.id_code], data.value))
    return start, changes, now


def drive(gpio: Gpio, *values: int) -> None:
    """Let an inference have this output."""
    gpio.enabled = True
    gpio.thresholds = [0] * 4
    gpio.update(memoryview(struct.pack(f"{len(values)}b", *values)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leds.vcd"


def test_changes_of_two_engines_at_their_times(path: Path) -> None:
    async def main() -> None:
        first, second = Gpio(), Gpio()
        with GpioVcd(path, [first, second]):
            await trio.sleep(0.1)
            drive(first, 1, 0, 0, 1)
            await trio.sleep(0.2)
            drive(second, 0, 1)
            drive(first, 0, 0, 0, 1)
            await trio.sleep(0.5)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    start, changes, end = decode(path)
    assert start == {f"engine{number}.{led}": level for number in range(2) for led, level in LOW.items()}
    assert changes == [
        (100 * MS, "engine0.led0", "1"),
        (100 * MS, "engine0.led3", "1"),
        (300 * MS, "engine1.led1", "1"),
        (300 * MS, "engine0.led0", "0"),
    ]
    assert end == 800 * MS


def test_time_is_in_nanoseconds_since_the_beginning(path: Path) -> None:
    async def main() -> None:
        await trio.sleep(5)
        gpio = Gpio()
        with GpioVcd(path, [gpio]):
            await trio.sleep(0.3)  # as a float 5.3 - 5 is somewhat less
            drive(gpio, 1)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert "$timescale 1 ns $end" in path.read_text()
    assert decode(path)[1:] == ([(300 * MS, "engine0.led0", "1")], 300 * MS)


async def test_levels_at_the_beginning_are_those_of_the_outputs(path: Path) -> None:
    gpio = Gpio()
    drive(gpio, 0, 1)
    with GpioVcd(path, [gpio]):
        pass
    assert decode(path)[0] == {f"engine0.{led}": level for led, level in (LOW | {"led1": "1"}).items()}


async def test_file_is_whole_after_each_change(path: Path) -> None:
    gpio = Gpio()
    with GpioVcd(path, [gpio]):
        assert decode(path)[1] == []
        await trio.sleep(0.001)
        drive(gpio, 0, 0, 1)
        ((_, name, level),) = decode(path)[1]
        assert (name, level) == ("engine0.led2", "1")


async def test_nothing_is_recorded_after_the_end(path: Path) -> None:
    gpio = Gpio()
    with GpioVcd(path, [gpio]) as recording:
        pass
    before = decode(path)
    await trio.sleep(0.001)
    drive(gpio, 1, 1)
    recording.close()
    assert decode(path) == before


async def test_an_inference_lights_leds_of_a_device(path: Path) -> None:
    image, label = next(digit for digit in digits.test_images() if digit.label == 2)
    board = Board(engines=(EngineSpec(tile=0), EngineSpec(tile=1)))
    async with open_device(board, runner=inline) as device:
        with GpioVcd(path, [engine.gpio for engine in device.engines]):
            host = InProcessHost(device.usb)
            await host.plug_in()
            await device.load_model(digits.model_bytes(), engine=1)
            for command, data in ((0x91, b"\1"), (0x93, b"\1"), (0x83, image), (0x84, b"")):
                await host.write(bytes((command, 1, 0)))
                await host.write(data)
            await host.write(b"\x01\1\0")
            assert await host.read(512) == bytes(4)
    assert [change[1:] for change in decode(path)[1]] == [(f"engine1.led{label}", "1")]


# Files that cannot be had.


async def test_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GpioVcd(tmp_path / "missing" / "leds.vcd", [Gpio()])


async def test_full_disk_ends_the_recording_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    gpio = Gpio()
    with caplog.at_level(logging.ERROR), GpioVcd(Path("/dev/full"), [gpio]):
        drive(gpio, 1)
        await trio.sleep(0.001)
        drive(gpio, 0)
    assert caplog.messages == ["/dev/full: No space left on device; the recording ends here"]
