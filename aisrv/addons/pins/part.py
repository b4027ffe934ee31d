"""The peripherals of a board, built from their settings, on the pins of a device beside its tasks."""

from __future__ import annotations

import logging
from array import array
from contextlib import ExitStack, asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio
from msgspec import Struct

from aisrv.addons.pins.peripherals.button import Button
from aisrv.addons.pins.peripherals.i2c_memory import I2cMemory
from aisrv.addons.pins.peripherals.i2c_target import SPEEDS, I2cTarget
from aisrv.addons.pins.peripherals.i2s_clock import I2sClock
from aisrv.addons.pins.peripherals.i2s_format import I2sPins, Sound, SoundError, read_wav, write_wav
from aisrv.addons.pins.peripherals.i2s_sink import I2sSink
from aisrv.addons.pins.peripherals.i2s_source import I2sSource
from aisrv.addons.pins.peripherals.led import Led
from aisrv.addons.pins.peripherals.parallel_camera import BITS, CameraPins, ParallelCamera
from aisrv.addons.pins.peripherals.spi_controller import SpiController
from aisrv.addons.pins.peripherals.spi_mode import MODES
from aisrv.addons.pins.peripherals.spi_port import SpiPortAnswerer
from aisrv.addons.pins.peripherals.spi_target import SpiMemory, SpiPins, SpiTarget
from aisrv.addons.pins.peripherals.stimulus import Stimulus, StimulusError, read_stimulus
from aisrv.addons.pins.peripherals.uart import Uart
from aisrv.addons.pins.peripherals.uart_format import Parity, UartFormat
from aisrv.addons.pins.peripherals.uart_output import UartFile, UartLines
from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from aisrv.addons.pins.peripherals.uart_transmitter import UartTransmitter
from aisrv.addons.pins.peripherals.vcd import PinsVcd
from aisrv.addons.pins.specs import signals_of
from aisrv.board import Board, BoardError, PeripheralKind, PeripheralSpec
from aisrv.device.camera_frames import CameraFrames
from aisrv.device.own_registers import OwnRegisters
from aisrv.values.regular_file import read_regular
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.ports.map import pin_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from aisrv.device.parts import DeviceParts
    from aisrv.protocol.i2c import I2cDevice
    from aisrv.xcore.node import Node
    from aisrv.xcore.ports.pin import Pin

logger = logging.getLogger(__name__)

LARGEST_INPUT: Final = 16 << 20
"""Bytes of a file that a UART sends."""
_LEVELS: Final = {None: None, "low": 0, "high": 1}


class Peripheral(Protocol):
    """A peripheral of a device: a task on its pins, as those of `aisrv.addons.pins.peripherals`."""

    async def run(self, task_status: trio.TaskStatus[None] = ...) -> None:
        """Run until cancelled; it has started once its pins have their first levels."""


class BoardPins(Struct, frozen=True):
    """What a board has on its pins, with the files read."""

    board: Board
    stimuli: Sequence[Stimulus | None]
    """For each pin."""
    inputs: Mapping[str, bytes | Sound]
    """The content of the input of each peripheral that has one."""
    outputs: Mapping[str, UartFile]
    """The file of each UART that has one."""
    registers: Mapping[str, I2cDevice]
    """The user's own registers of each I2C target that has some."""
    frames: Mapping[str, CameraFrames]
    """The frames of each camera."""
    recording: Path | None = None
    """Where the levels of all pins are recorded, from the node's start on."""

    @classmethod
    def load(cls, board: Board, closing: ExitStack, recording: Path | None = None) -> BoardPins:
        """Read the files of a board, and open those to be written. Raises BoardError."""
        stimuli: list[Stimulus | None] = []
        for number, pin in enumerate(board.pins):
            names = (f"X{pin.tile}D{pin_number(pin.port):02}", pin.port, pin.to)
            try:
                found = None if pin.stimulus is None else read_stimulus(pin.stimulus, pin.signal, names=names)
            except (StimulusError, OSError) as error:
                raise BoardError(f"{pin.origin or pin.port}: {error}", "pins", number, "stimulus") from None
            stimuli.append(found)
        inputs: dict[str, bytes | Sound] = {}
        outputs: dict[str, UartFile] = {}
        registers: dict[str, I2cDevice] = {}
        frames: dict[str, CameraFrames] = {}
        for number, spec in enumerate(board.peripherals):
            if ":" in (spec.registers or ""):
                registers[spec.name] = OwnRegisters.load(number, spec)
            if spec.source is not None:
                frames[spec.name] = CameraFrames.load(number, spec)
            try:
                if spec.input is not None:
                    is_sound = spec.kind is PeripheralKind.I2S_SOURCE
                    read = read_wav if is_sound else _read_bytes
                    inputs[spec.name] = read(spec.input)
                if spec.output is not None and spec.kind is PeripheralKind.UART:
                    outputs[spec.name] = closing.enter_context(UartFile(spec.name, spec.output))
            except (SoundError, OSError) as error:
                raise BoardError(
                    f"{spec.origin or spec.name}: {error}", "peripherals", number, "input"
                ) from None
        return cls(board, stimuli, inputs, outputs, registers, frames, recording)

    def names(self, node: Node) -> dict[str, Pin]:
        """Return the pin of each signal, as `sensor.scl`."""
        return {
            f"{spec.name}.{signal}": node.tiles[pin.tile].pin(pin.port)
            for spec in self.board.peripherals
            for signal, pin in signals_of(self.board.pins, spec).items()
        }

    @asynccontextmanager
    async def running(self, parts: DeviceParts) -> AsyncIterator[Mapping[str, Peripheral]]:
        """Run the peripherals within the block, drive the stimuli, and record. Raises OSError."""
        node = parts.node
        recording = None if self.recording is None else PinsVcd(self.recording, node, self.names(node))
        for pin, stimulus in zip(self.board.pins, self.stimuli, strict=True):
            if stimulus is not None:
                stimulus.drive(node.tiles[pin.tile].pin(pin.port), 0)
        with ExitStack() as ends:
            async with trio.open_nursery() as nursery:
                if recording is not None:
                    nursery.start_soon(recording.run)
                with ExitStack() as leaving:
                    found: dict[str, Peripheral] = {}
                    for spec in self.board.peripherals:
                        pins = signals_of(self.board.pins, spec)
                        place = _Place(
                            spec,
                            {name: node.tiles[pin.tile].pin(pin.port) for name, pin in pins.items()},
                            self.inputs.get(spec.name, b""),
                            self.outputs,
                            self.registers,
                            self.frames,
                            parts,
                            ends,
                        )
                        found[spec.name] = each = _BUILDERS[spec.kind](place)
                        # A cancelled device would have it leave its pins before the recording ends.
                        own = trio.CancelScope(shield=True)
                        leaving.callback(own.cancel)
                        await nursery.start(_run_within, own, each)
                    if recording is not None:
                        leaving.enter_context(recording)
                    yield found
                nursery.cancel_scope.cancel()


async def _run_within(
    scope: trio.CancelScope,
    peripheral: Peripheral,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a peripheral until the scope is cancelled."""
    with scope:
        await peripheral.run(task_status)


def _read_bytes(path: Path) -> bytes:
    return read_regular(path, LARGEST_INPUT)


class _Place(Struct, frozen=True):
    """Where a peripheral is built: its settings, pins and files."""

    spec: PeripheralSpec
    pins: Mapping[str, Pin]
    input: bytes | Sound
    outputs: Mapping[str, UartFile]
    registers: Mapping[str, I2cDevice]
    frames: Mapping[str, CameraFrames]
    parts: DeviceParts
    ends: ExitStack
    """Runs what is to be done once the peripherals have ended."""


def _i2c_target(place: _Place) -> Peripheral:
    spec = place.spec
    stretch = round((spec.stretch or 0) * 1e-6 * TICKS_PER_SECOND)
    return I2cTarget(
        spec.name,
        place.pins["scl"],
        place.pins["sda"],
        _registers(place),
        speed=SPEEDS[spec.speed or "fast"],
        stretch=stretch,
    )


def _registers(place: _Place) -> I2cDevice:
    from aisrv.sensors.registers import SENSOR_MODELS, GenericSensor

    spec = place.spec
    address: dict[str, Any] = {} if spec.address is None else {"address": spec.address}
    if spec.registers == "sensor":
        assert place.parts.registers is not None  # noqa: S101 - for the type checker
        return place.parts.registers
    if spec.name in place.registers:
        return place.registers[spec.name]
    if spec.registers == "memory":
        return I2cMemory(**address)
    if spec.registers in (None, "generic"):
        return GenericSensor(**address)
    return SENSOR_MODELS[str(spec.registers)]()


def _spi_pins(place: _Place) -> SpiPins:
    return SpiPins(*(place.pins[name] for name in SpiPins._fields))


def _spi_target(place: _Place) -> Peripheral:
    answer = bytes.fromhex(place.spec.answer or "")
    mode = MODES[place.spec.mode or 0]
    return SpiTarget(place.spec.name, _spi_pins(place), SpiMemory(answer), mode=mode)


def _spi_port(place: _Place) -> Peripheral:
    assert place.parts.spi is not None  # noqa: S101 - for the type checker
    return SpiTarget(place.spec.name, _spi_pins(place), SpiPortAnswerer(place.parts.spi))


def _spi_controller(place: _Place) -> Peripheral:
    spec = place.spec
    half = max(round(TICKS_PER_SECOND / (spec.clock or 10_000_000) / 2), 1)
    return SpiController(
        spec.name,
        _spi_pins(place),
        half_period=half,
        mode=MODES[spec.mode or 0],
        send=bytes.fromhex(spec.send or ""),
        every=spec.every,
    )


def _uart(place: _Place) -> Peripheral:
    spec, pins = place.spec, place.pins
    form = UartFormat(
        spec.baud or UartFormat().baud, spec.bits or 8, Parity(spec.parity or "none"), spec.stop or 1
    )
    receiver = transmitter = None
    if "rx" in pins:
        receiver = UartReceiver(spec.name, pins["rx"], form, sink=_uart_sink(place))
    if "tx" in pins:
        assert isinstance(place.input, bytes)  # noqa: S101 - for the type checker
        transmitter = UartTransmitter(spec.name, pins["tx"], form, place.input)
    return Uart(receiver, transmitter)


def _uart_sink(place: _Place) -> Callable[[int], object]:
    """Return what takes the bytes that a UART receives: its file, or lines in the log."""
    output = place.outputs.get(place.spec.name)
    return UartLines(place.spec.name).add if output is None else output.add


def _i2s_pins(place: _Place) -> I2sPins:
    return I2sPins(*(place.pins[name] for name in I2sPins._fields))


def _i2s_source(place: _Place) -> Peripheral:
    sound = place.input
    assert isinstance(sound, Sound)  # noqa: S101 - for the type checker
    return I2sSource(place.spec.name, _i2s_pins(place), sound.samples, width=sound.width)


def _i2s_sink(place: _Place) -> Peripheral:
    spec = place.spec
    samples = array("i")
    width = spec.width or 16

    def write() -> None:
        assert spec.output is not None  # noqa: S101 - for the type checker
        whole = samples[: len(samples) // 2 * 2]
        try:
            write_wav(spec.output, Sound(spec.rate or 48_000, width, whole))
        except OSError as error:
            logger.error("%s: %s: %s", spec.name, spec.output, error.strerror)

    place.ends.callback(write)
    return I2sSink(spec.name, _i2s_pins(place), width=width, sink=samples.append)


def _i2s_clock(place: _Place) -> Peripheral:
    spec, pins = place.spec, place.pins
    return I2sClock(spec.name, pins["bclk"], pins["lrclk"], rate=spec.rate or 48_000, slot=spec.slot or 32)


def _parallel_camera(place: _Place) -> Peripheral:
    spec, pins = place.spec, place.pins
    data = tuple(pins[f"d{bit}"] for bit in range(BITS))
    wired = CameraPins(data, pins["pclk"], pins["hsync"], pins["vsync"])
    frames = place.frames[spec.name].by(place.parts.factory.source)
    return ParallelCamera(spec.name, wired, frames, clock=spec.clock or 10_000_000)


def _button(place: _Place) -> Peripheral:
    spec = place.spec
    return Button(
        spec.name,
        place.pins["pin"],
        active=_LEVELS[spec.active] or 0,
        presses=spec.presses or (),
        hold=spec.hold or 0.1,
        bounces=spec.bounces or (),
    )


def _led(place: _Place) -> Peripheral:
    active = 1 if place.spec.active is None else _LEVELS[place.spec.active]
    assert active is not None  # noqa: S101 - for the type checker
    return Led(place.spec.name, place.pins["pin"], active=active)


_BUILDERS: Final[Mapping[PeripheralKind, Callable[[_Place], Peripheral]]] = MappingProxyType(
    {
        PeripheralKind.I2C_TARGET: _i2c_target,
        PeripheralKind.SPI_TARGET: _spi_target,
        PeripheralKind.SPI_PORT: _spi_port,
        PeripheralKind.SPI_CONTROLLER: _spi_controller,
        PeripheralKind.UART: _uart,
        PeripheralKind.I2S_SOURCE: _i2s_source,
        PeripheralKind.I2S_SINK: _i2s_sink,
        PeripheralKind.I2S_CLOCK: _i2s_clock,
        PeripheralKind.PARALLEL_CAMERA: _parallel_camera,
        PeripheralKind.BUTTON: _button,
        PeripheralKind.LED: _led,
    }
)
