"""The pins of a running device: the peripherals and stimuli on them, and a recording."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import trio

from aisrv.addons.pins.board import Pins
from aisrv.addons.pins.building import BUILDERS, Peripheral, Place
from aisrv.addons.pins.camera_frames import CameraFrames
from aisrv.addons.pins.own_registers import OwnRegisters
from aisrv.addons.pins.peripherals.i2s_format import Sound, SoundError, read_wav
from aisrv.addons.pins.peripherals.stimulus import Stimulus, StimulusError, read_stimulus
from aisrv.addons.pins.peripherals.uart_output import UartFile
from aisrv.addons.pins.peripherals.vcd import PinsVcd
from aisrv.addons.pins.specs import PeripheralKind, signals_of
from aisrv.board import BoardError
from aisrv.device.device import Device
from aisrv.device.parts import DeviceParts, RunningPart
from aisrv.protocol.i2c import I2cDevice
from aisrv.values.regular_file import read_regular
from aisrv.xcore.node import Node
from aisrv.xcore.ports.map import pin_number
from aisrv.xcore.ports.pin import Pin

LARGEST_INPUT: Final = 16 << 20
"""Bytes of a file that a UART sends."""


@dataclass(slots=True)
class PinsOnDevice(RunningPart):
    """The peripherals and stimuli on the pins of a device, which run beside its tasks."""

    spec: Pins
    _stimuli: Sequence[Stimulus | None] = ()
    """Levels that drive each pin; None where nothing does."""
    _inputs: dict[str, bytes | Sound] = field(default_factory=dict)
    """The content of the input of each peripheral that has one."""
    _outputs: dict[str, UartFile] = field(default_factory=dict)
    """The file of each UART that has one."""
    _registers: dict[str, I2cDevice] = field(default_factory=dict)
    """The user's own registers of each I2C target that has some."""
    _frames: dict[str, CameraFrames] = field(default_factory=dict)
    """The opened source of each camera."""
    peripherals: dict[str, Peripheral] = field(default_factory=dict)
    """The peripherals by name, while they run."""

    @classmethod
    @contextmanager
    def open(cls, spec: Pins) -> Iterator[Self]:
        """Read the files of a board, and open those to be written. Raises BoardError."""
        pins = cls(spec, [_stimulus(spec, number) for number in range(len(spec.pins))])
        with ExitStack() as files:
            for number in range(len(spec.peripherals)):
                pins._open_files(number, files)
            yield pins

    def _open_files(self, number: int, files: ExitStack) -> None:
        """Open the files of a peripheral."""
        spec = self.spec.peripherals[number]
        if ":" in (spec.registers or ""):
            self._registers[spec.name] = OwnRegisters.load(self.spec, number)
        if spec.source is not None:
            self._frames[spec.name] = CameraFrames.load(self.spec, number)
        try:
            if spec.input is not None:
                is_sound = spec.kind is PeripheralKind.I2S_SOURCE
                read = read_wav if is_sound else _read_bytes
                self._inputs[spec.name] = read(spec.input)
            if spec.output is not None and spec.kind is PeripheralKind.UART:
                self._outputs[spec.name] = files.enter_context(UartFile(spec.name, spec.output))
        except (SoundError, OSError) as error:
            place = self.spec.place(spec.name, "peripherals", number)
            raise BoardError(f"{place}: {error}", "peripherals", number, "input") from None

    def names(self, node: Node) -> dict[str, Pin]:
        """Return the pin of each signal, as `sensor.scl`."""
        return {
            f"{spec.name}.{signal}": node.tiles[pin.tile].pin(pin.port)
            for spec in self.spec.peripherals
            for signal, pin in signals_of(self.spec.pins, spec).items()
        }

    @asynccontextmanager
    async def beside(self, parts: DeviceParts) -> AsyncIterator[None]:
        """Run the peripherals within the block, drive the stimuli, and record. Raises OSError."""
        node, spec = parts.node, self.spec
        recording = None if spec.recording is None else PinsVcd(spec.recording, node, self.names(node))
        for pin, stimulus in zip(spec.pins, self._stimuli, strict=True):
            if stimulus is not None:
                stimulus.drive(node.tiles[pin.tile].pin(pin.port), 0)
        with ExitStack() as ends:
            async with trio.open_nursery() as nursery:
                if recording is not None:
                    nursery.start_soon(recording.run)
                with ExitStack() as leaving:
                    for peripheral in spec.peripherals:
                        pins = signals_of(spec.pins, peripheral)
                        place = Place(
                            peripheral,
                            {name: node.tiles[pin.tile].pin(pin.port) for name, pin in pins.items()},
                            self._inputs.get(peripheral.name, b""),
                            self._outputs,
                            self._registers,
                            self._frames,
                            parts,
                            ends,
                        )
                        each = self.peripherals[peripheral.name] = BUILDERS[peripheral.kind](place)
                        # A cancelled device would have it leave its pins before the recording ends.
                        own = trio.CancelScope(shield=True)
                        leaving.callback(own.cancel)
                        await nursery.start(_run_within, own, each)
                    if recording is not None:
                        leaving.enter_context(recording)
                    yield
                nursery.cancel_scope.cancel()


def peripherals_of(device: Device) -> Mapping[str, Peripheral]:
    """Return the peripherals on the pins of a device, by name."""
    pins = device.part(PinsOnDevice)
    return {} if pins is None else pins.peripherals


async def _run_within(
    scope: trio.CancelScope,
    peripheral: Peripheral,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a peripheral until the scope is cancelled."""
    with scope:
        await peripheral.run(task_status)


def _stimulus(spec: Pins, number: int) -> Stimulus | None:
    """Read the stimulus of a pin; None where it has none."""
    pin = spec.pins[number]
    if pin.stimulus is None:
        return None
    names = (f"X{pin.tile}D{pin_number(pin.port):02}", pin.port, pin.to)
    try:
        return read_stimulus(pin.stimulus, pin.signal, names=names)
    except (StimulusError, OSError) as error:
        path = ("pins", number, "stimulus")
        raise BoardError(f"{spec.place(pin.port, *path)}: {error}", *path) from None


def _read_bytes(path: Path) -> bytes:
    return read_regular(path, LARGEST_INPUT)
