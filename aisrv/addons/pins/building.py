"""Peripherals, built from their settings on the pins of a device."""

from __future__ import annotations

import logging
from array import array
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from aisrv.addons.pins.peripherals.button import Button
from aisrv.addons.pins.peripherals.i2c_memory import I2cMemory
from aisrv.addons.pins.peripherals.i2c_target import SPEEDS, I2cTarget
from aisrv.addons.pins.peripherals.i2s_clock import I2sClock
from aisrv.addons.pins.peripherals.i2s_format import I2sPins, Sound, write_wav
from aisrv.addons.pins.peripherals.i2s_sink import I2sSink
from aisrv.addons.pins.peripherals.i2s_source import I2sSource
from aisrv.addons.pins.peripherals.led import Led
from aisrv.addons.pins.peripherals.parallel_camera import BITS, CameraPins, ParallelCamera
from aisrv.addons.pins.peripherals.spi_controller import SpiController
from aisrv.addons.pins.peripherals.spi_mode import MODES
from aisrv.addons.pins.peripherals.spi_port import SpiPortAnswerer
from aisrv.addons.pins.peripherals.spi_target import SpiMemory, SpiPins, SpiTarget
from aisrv.addons.pins.peripherals.uart import Uart
from aisrv.addons.pins.peripherals.uart_format import Parity, UartFormat
from aisrv.addons.pins.peripherals.uart_output import UartFile, UartLines
from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from aisrv.addons.pins.peripherals.uart_transmitter import UartTransmitter
from aisrv.addons.pins.specs import PeripheralKind, PeripheralSpec
from aisrv.xcore.clock import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    import trio

    from aisrv.addons.pins.camera_frames import CameraFrames
    from aisrv.device.parts import DeviceParts
    from aisrv.protocol.i2c import I2cDevice
    from aisrv.xcore.ports.pin import Pin

logger = logging.getLogger(__name__)

_LEVELS: Final = {None: None, "low": 0, "high": 1}


class Peripheral(Protocol):
    """A peripheral of a device: a task on its pins, as those of `aisrv.addons.pins.peripherals`."""

    async def run(self, task_status: trio.TaskStatus[None] = ...) -> None:
        """Run until cancelled; it has started once its pins have their first levels."""


class Place(Struct, frozen=True):
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


def _i2c_target(place: Place) -> Peripheral:
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


def _registers(place: Place) -> I2cDevice:
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


def _spi_pins(place: Place) -> SpiPins:
    return SpiPins(*(place.pins[name] for name in SpiPins._fields))


def _spi_target(place: Place) -> Peripheral:
    answer = bytes.fromhex(place.spec.answer or "")
    mode = MODES[place.spec.mode or 0]
    return SpiTarget(place.spec.name, _spi_pins(place), SpiMemory(answer), mode=mode)


def _spi_port(place: Place) -> Peripheral:
    assert place.parts.spi is not None  # noqa: S101 - for the type checker
    return SpiTarget(place.spec.name, _spi_pins(place), SpiPortAnswerer(place.parts.spi))


def _spi_controller(place: Place) -> Peripheral:
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


def _uart(place: Place) -> Peripheral:
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


def _uart_sink(place: Place) -> Callable[[int], object]:
    """Return what takes the bytes that a UART receives: its file, or lines in the log."""
    output = place.outputs.get(place.spec.name)
    return UartLines(place.spec.name).add if output is None else output.add


def _i2s_pins(place: Place) -> I2sPins:
    return I2sPins(*(place.pins[name] for name in I2sPins._fields))


def _i2s_source(place: Place) -> Peripheral:
    sound = place.input
    assert isinstance(sound, Sound)  # noqa: S101 - for the type checker
    return I2sSource(place.spec.name, _i2s_pins(place), sound.samples, width=sound.width)


def _i2s_sink(place: Place) -> Peripheral:
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


def _i2s_clock(place: Place) -> Peripheral:
    spec, pins = place.spec, place.pins
    return I2sClock(spec.name, pins["bclk"], pins["lrclk"], rate=spec.rate or 48_000, slot=spec.slot or 32)


def _parallel_camera(place: Place) -> Peripheral:
    spec, pins = place.spec, place.pins
    data = tuple(pins[f"d{bit}"] for bit in range(BITS))
    wired = CameraPins(data, pins["pclk"], pins["hsync"], pins["vsync"])
    frames = place.frames[spec.name].by(place.parts.factory.source)
    return ParallelCamera(spec.name, wired, frames, clock=spec.clock or 10_000_000)


def _button(place: Place) -> Peripheral:
    spec = place.spec
    return Button(
        spec.name,
        place.pins["pin"],
        active=_LEVELS[spec.active] or 0,
        presses=spec.presses or (),
        hold=spec.hold or 0.1,
        bounces=spec.bounces or (),
    )


def _led(place: Place) -> Peripheral:
    active = 1 if place.spec.active is None else _LEVELS[place.spec.active]
    assert active is not None  # noqa: S101 - for the type checker
    return Led(place.spec.name, place.pins["pin"], active=active)


BUILDERS: Final[Mapping[PeripheralKind, Callable[[Place], Peripheral]]] = MappingProxyType(
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
