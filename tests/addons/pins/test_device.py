"""Peripherals of boards on running devices: each kind by its settings, stimuli, files and recordings."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from aisrv.addons.pins.board import recorded
from aisrv.addons.pins.building import BUILDERS
from aisrv.addons.pins.device import peripherals_of
from aisrv.addons.pins.peripherals.button import Button
from aisrv.addons.pins.peripherals.i2s_format import Sound, read_wav, write_wav
from aisrv.addons.pins.peripherals.led import Led
from aisrv.addons.pins.peripherals.spi_controller import SpiController
from aisrv.addons.pins.peripherals.spi_mode import MODES
from aisrv.addons.pins.peripherals.spi_target import SpiPins
from aisrv.addons.pins.peripherals.uart_format import UartFormat
from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from aisrv.addons.pins.peripherals.uart_transmitter import UartTransmitter
from aisrv.addons.pins.peripherals.wave import assert_wave, keep_wave
from aisrv.addons.pins.specs import KINDS, PeripheralKind
from aisrv.board import Board, BoardError
from aisrv.board.toml_file import parse_board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command, Status
from aisrv.sensors.registers import GenericSensor
from tests.support.benches.pin_bench import Line
from tests.support.benches.simulation import simulated
from tests.support.models.networks import adding_network
from tests.support.paths import ROOT
from tests.support.peers.i2c_controller import I2cController

HEAD = "[[engines]]\narena = 0\n"


def pins(name: str, **wires: str) -> str:
    return "".join(f'[[pins]]\nport = "{port}"\nto = "{name}.{signal}"\n' for signal, port in wires.items())


def peripheral(name: str, kind: str, settings: str = "", **wires: str) -> str:
    return f'[[peripherals]]\nname = "{name}"\nkind = "{kind}"\n{settings}\n{pins(name, **wires)}'


@asynccontextmanager
async def device_with(
    text: str, folder: Path = Path(), recording: Path | None = None, **options: Any
) -> AsyncIterator[Device]:
    board = recorded(parse_board(HEAD + text, directory=folder), recording)
    async with open_device(board, runner=inline, **options) as device:
        yield device


async def until(device: Device, tick: int) -> None:
    await trio.sleep_until(device.node.clock.deadline(tick))
    await trio.testing.wait_all_tasks_blocked()


def signals_in_guide() -> dict[str, str]:
    """What the guide says of the signals of each kind, by the kind in backticks."""
    told, before = {}, ""
    for row in (ROOT / "docs/guides/pins.md").read_text().splitlines():
        if row.startswith("| `"):
            _, kind, signals, *_ = row.split("|")
            before = before if signals.strip() == "the same" else signals
            told[kind.strip()] = before
    return told


@pytest.mark.parametrize("kind", PeripheralKind)
def test_every_kind_is_built_and_in_the_guide_with_its_signals(kind: PeripheralKind) -> None:
    assert kind in BUILDERS
    signals = signals_in_guide()[f"`{kind.value}`"]
    assert f"`{KINDS[kind].signals[0]}`" in signals
    assert f"`{KINDS[kind].signals[-1]}`" in signals


I2C = {"scl": "1A", "sda": "1B"}
SPI = {"cs": "1A", "clk": "1B", "mosi": "1C", "miso": "1D"}


def i2c(device: Device) -> I2cController:
    tile = device.node.tiles[0]
    return I2cController(tile.pin("1A"), tile.pin("1B"))


def spi(device: Device, **options: Any) -> SpiController:
    tile = device.node.tiles[0]
    return SpiController("host", SpiPins(*(tile.pin(port) for port in SPI.values())), **options)


@simulated
async def test_registers_on_an_i2c_bus_with_two_devices() -> None:
    both = peripheral("a", "i2c-target", 'registers = "memory"\naddress = 0x48', **I2C)
    both += peripheral("b", "i2c-target", 'registers = "gc2145"', **I2C)
    async with device_with(both) as device:
        controller = i2c(device)
        await controller.wait(1000)
        await controller.start()
        assert [await controller.write(byte) for byte in (0x90, 7, 0xA5)] == [True] * 3
        await controller.start()
        assert [await controller.write(byte) for byte in (0x90, 7)] == [True] * 2
        await controller.start()
        assert await controller.write(0x91)
        assert await controller.read(last=True) == 0xA5
        await controller.stop()
        await controller.start()
        assert [await controller.write(byte) for byte in (0x78, 0xF0)] == [True] * 2
        await controller.start()
        assert await controller.write(0x79)
        assert [await controller.read(), await controller.read(last=True)] == [0x21, 0x45]


@simulated
async def test_the_sensor_s_registers_are_on_the_pins_and_shape_its_frames() -> None:
    text = '[sensor]\ntile = 1\nsource = "pattern:bars"\nencoding = "rgb"\nwidth = 8\nheight = 8\n'
    async with device_with(text + peripheral("bus", "i2c-target", 'registers = "sensor"', **I2C)) as device:
        controller = i2c(device)
        await controller.wait(1000)
        await controller.start()
        for byte in (0x20, GenericSensor.TEST_PATTERN, 2):
            assert await controller.write(byte)
        await controller.stop()
        assert device.registers is not None
        assert device.registers.read(GenericSensor.TEST_PATTERN) == 2


@pytest.mark.parametrize("mode", [0, 3])
@simulated
async def test_an_spi_target_answers(mode: int) -> None:
    text = peripheral("chip", "spi-target", f'mode = {mode}\nanswer = "9f c2 28"', **SPI)
    async with device_with(text) as device, trio.open_nursery() as nursery:
        controller = spi(device, mode=MODES[mode])
        await nursery.start(controller.run)
        assert await controller.transfer(bytes(4)) == b"\x9f\xc2\x28\0"
        nursery.cancel_scope.cancel()


@simulated
async def test_an_spi_controller_sends_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    text = peripheral("chip", "spi-target", 'answer = "01 02"', **SPI)
    text += peripheral("host", "spi-controller", 'send = "aa bb"\nevery = 0.001\nclock = 1000000', **SPI)
    with caplog.at_level(logging.INFO, "aisrv.addons.pins.peripherals.spi_controller"):
        async with device_with(text) as device:
            await until(device, 250_000)
    assert [each.message for each in caplog.records] == ["host: sent aa bb, got 01 02"] * 3


@simulated
async def test_a_uart_sends_a_file_and_writes_another(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"hello")
    text = peripheral(
        "console", "uart", 'input = "in.bin"\noutput = "out.bin"\nbaud = 1000000', rx="1A", tx="1B"
    )
    async with device_with(text, tmp_path) as device, trio.open_nursery() as nursery:
        form = UartFormat(1_000_000)
        receiver = UartReceiver("device", device.node.tiles[0].pin("1B"), form)
        transmitter = UartTransmitter("device", device.node.tiles[0].pin("1A"), form)
        await nursery.start(receiver.run)
        await nursery.start(transmitter.run)
        await transmitter.send(b"world")
        await until(device, 10_000)
        assert bytes(receiver.received) == b"hello"
        assert (tmp_path / "out.bin").read_bytes() == b"world"
        nursery.cancel_scope.cancel()


@simulated
async def test_a_uart_without_a_file_logs_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with device_with(peripheral("console", "uart", rx="1A")) as device, trio.open_nursery() as nursery:
        transmitter = UartTransmitter("device", device.node.tiles[0].pin("1A"))
        await nursery.start(transmitter.run)
        with caplog.at_level(logging.INFO, "aisrv.addons.pins.peripherals.uart_output"):
            await transmitter.send(b"one\r\n\r\ntwo\x1b\nrest")
        nursery.cancel_scope.cancel()
    assert [each.message for each in caplog.records] == [
        "console: one",
        "console: two\N{REPLACEMENT CHARACTER}",
    ]


@simulated
async def test_sound_goes_from_a_file_over_i2s_to_another(tmp_path: Path) -> None:
    samples = [number * 1000 * (-1) ** number for number in range(1, 21)]
    write_wav(tmp_path / "in.wav", Sound(48_000, 16, samples))
    wires = {"bclk": "1A", "lrclk": "1B", "data": "1C"}
    text = peripheral("mic", "i2s-source", 'input = "in.wav"', **wires)
    text += peripheral("speaker", "i2s-sink", 'output = "out.wav"', **wires)
    text += peripheral("clock", "i2s-clock", "slot = 16", bclk="1A", lrclk="1B")
    async with device_with(text, tmp_path) as device:
        await until(device, 100_000_000 // 48_000 * 14)
    sound = read_wav(tmp_path / "out.wav")
    assert (sound.rate, sound.width) == (48_000, 16)
    at = sound.samples.index(samples[0])
    assert list(sound.samples[at : at + 20]) == samples


@simulated
async def test_buttons_are_pressed_at_their_times_and_by_programs_and_leds_follow() -> None:
    text = peripheral("key", "button", "presses = [0.001]\nhold = 0.002", pin="1A")
    text += peripheral("red", "led", 'active = "low"', pin="1A")
    async with device_with(text) as device:
        key, red = peripherals_of(device)["key"], peripherals_of(device)["red"]
        assert isinstance(key, Button)
        assert isinstance(red, Led)
        await until(device, 400_000)
        key.press()
        await until(device, 400_010)
        assert red.changes == [(100_000, True), (300_000, False), (400_000, True)]


@simulated
async def test_a_stimulus_drives_its_pin_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,1E\n0,1\n0.001,0\n0.0015,1\n")
    async with device_with('[[pins]]\nport = "1E"\nstimulus = "a.csv"\n', tmp_path) as device:
        pin = device.node.tiles[0].pin("1E")
        keep_wave(pin)
        await until(device, 200_000)
        assert_wave(pin, "1 0@100000 1@150000")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[pins]]\nport = "1E"\nstimulus = "a.csv"\n',
            "board.toml:5: pins[0].stimulus: [Errno 2] No such file",
        ),
        (
            '[[pins]]\nport = "1E"\nstimulus = "b.csv"\nsignal = "y"\n',
            "board.toml:5: pins[0].stimulus: {folder}/b.csv: it has no signal 'y'; there are x",
        ),
        (
            peripheral("c", "uart", 'input = "none"', tx="1A"),
            "board.toml:3: peripherals[0]: [Errno 2] No such file",
        ),
        (
            peripheral("c", "uart", 'output = "none/x"', rx="1A"),
            "board.toml:3: peripherals[0]: [Errno 2] No such file",
        ),
        (
            peripheral("c", "i2s-source", 'input = "b.csv"', bclk="1A", lrclk="1B", data="1C"),
            "board.toml:3: peripherals[0]: {folder}/b.csv is no WAV file",
        ),
    ],
)
@simulated
async def test_a_file_that_cannot_be_read_or_written_is_an_error_of_the_board(
    text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "b.csv").write_text("time,x\n0,1\n")
    with pytest.raises(BoardError) as caught:
        async with device_with(text, tmp_path):
            pass
    assert str(caught.value).startswith(message.format(folder=tmp_path))


@simulated
async def test_pins_are_recorded_from_the_start_under_their_names(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    text = peripheral("key", "button", "presses = [0.001]", pin="1A")
    async with device_with(text, recording=path) as device:
        await until(device, 200_000)
    text = path.read_text()
    assert "$scope module key $end" in text
    assert "#1000000\n0" in text  # a millisecond


@simulated
async def test_a_recording_of_a_cancelled_device_ends_before_its_peripherals_leave(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    # Trio cancels tasks in any order: of eight, one would be before the recording.
    text = "".join(peripheral(f"key{n}", "button", pin=f"1{'ABCDEFGH'[n]}") for n in range(8))
    with trio.move_on_after(0.002):
        async with device_with(text, recording=path):
            await trio.sleep_forever()
    *_, level, end = path.read_text().splitlines()
    assert (level[0], end) == ("1", "#2000010")


@simulated
async def test_a_recording_needs_no_pins_in_the_board(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with open_device(recorded(Board(), path), runner=inline) as device:
        await until(device, 10)
        device.node.tiles[1].pin("1A").drive(1, Line())
        await until(device, 20)
    assert "#100\n1" in path.read_text()


@simulated
async def test_a_recording_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.RaisesGroup(OSError, flatten_subgroups=True, allow_unwrapped=True):
        async with open_device(recorded(Board(), tmp_path / "none" / "pins.vcd"), runner=inline):
            pass


# The SPI port on pins, against the same port message by message.

PORT = "[spi]\n" + peripheral("port", "spi-port", **SPI)


def read(command: Command, size: int) -> bytes:
    return bytes((command,)) + bytes(2 + size)


@pytest.mark.parametrize("device_time", [False, True])
@simulated
async def test_the_spi_port_answers_on_pins_as_on_its_bus(device_time: bool) -> None:
    async with device_with(PORT, device_time=device_time) as device, trio.open_nursery() as nursery:
        controller = spi(device, half_period=2)
        await nursery.start(controller.run)
        await until(device, 1000)  # the port has asked the engine
        assert device.spi is not None
        for command, size in ((Command.GET_ID, 4), (Command.GET_STATUS, 4), (Command.GET_SPEC, 40)):
            on_bus = await device.spi.transfer(read(command, size))
            assert await controller.transfer(read(command, size)) == on_bus
            assert any(on_bus) == (command is not Command.GET_STATUS)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("device_time", [False, True])
@simulated
async def test_a_model_is_loaded_and_runs_by_bits(device_time: bool) -> None:
    board = parse_board("[[engines]]\narena = 65536\n" + PORT)
    numbers = bytes(range(16))
    timed = open_device(board, runner=inline, device_time=device_time)
    async with timed as device, trio.open_nursery() as nursery:
        controller = spi(device, half_period=1)
        await nursery.start(controller.run)

        async def until_idle() -> None:
            busy = True
            while busy:
                busy = Status.BUSY in Status((await controller.transfer(read(Command.GET_STATUS, 4)))[3])

        async def write(command: Command, data: bytes) -> None:
            for at in range(0, len(data) + 1, 512):
                await controller.transfer(bytes((command,)) + data[at : at + 512])
                await until_idle()

        await write(Command.SET_MODEL_ARENA, adding_network(1, 4))
        await write(Command.SET_INPUT_TENSOR, numbers)
        await controller.transfer(bytes((Command.START_INFER,)))
        await until_idle()
        answer = await controller.transfer(read(Command.GET_OUTPUT_TENSOR, len(numbers)))
        assert answer[3:] == bytes(2 * number for number in numbers)
        nursery.cancel_scope.cancel()


CAMERA = {f"d{bit}": f"8B.{bit}" for bit in range(8)} | {"pclk": "1E", "hsync": "1F", "vsync": "1G"}


@simulated
async def test_a_camera_sends_the_frames_of_its_source(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "frames.bin").write_bytes(b"\xa5\x5a\xff\x01")
    text = peripheral(
        "eye", "parallel-camera", 'source = "raw:frames.bin:2x2:bayer"\nclock = 10000000', **CAMERA
    )
    async with device_with(text, tmp_path) as device:
        tile = device.node.tiles[0]
        hsync, data = tile.pin("1F"), [tile.pin(port) for port in list(CAMERA.values())[:8]]
        seen = []
        for _ in range(2):
            tick = await hsync.edge(rising=True)
            for at in (tick, tick + 10):  # a clock later
                await hsync.until(at)
                seen.append(sum(pin.value() << bit for bit, pin in enumerate(data)))
        assert bytes(seen) == b"\xa5\x5a\xff\x01"
        await until(device, 100_000)
    assert [each.message for each in caplog.records if each.name.startswith("aisrv")] == [
        f"eye: {tmp_path}/frames.bin ended after 1 frames; with the option loop it begins again"
    ]


def test_a_camera_s_source_that_is_not_there_is_an_error_of_the_board(tmp_path: Path) -> None:
    text = peripheral("eye", "parallel-camera", 'source = "image:none.png"', **CAMERA)

    async def run() -> None:
        async with device_with(text, tmp_path):
            pass

    with pytest.raises(BoardError, match=r"none\.png"):
        trio.run(run)
