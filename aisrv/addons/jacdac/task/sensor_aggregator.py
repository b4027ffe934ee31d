"""The Sensor Aggregator: samples of sensors on the bus, for the Model Runners of the device. No I/O.

Sources: Jacdac's specification of the service, and MakeCode's aggregator for streaming, windows and times.
"""

import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Protocol

from aisrv.addons.jacdac.task.numbers import FLOAT_BYTES
from aisrv.addons.jacdac.task.service import Host, Service
from aisrv.addons.jacdac.wire.frame import (
    CONTROL_INDEX,
    LARGEST_PAYLOAD,
    FrameError,
    JacdacPacket,
    ServicePacket,
    command_frame,
)
from aisrv.addons.jacdac.wire.packing import Value
from aisrv.addons.jacdac.wire.service_spec import GET, SET, ServiceSpec
from aisrv.addons.jacdac.wire.service_tables import SENSOR_AGGREGATOR
from aisrv.addons.jacdac.wire.timers import MILLISECOND
from aisrv.values.packet import I8, U8, U16, U32, Wire

logger = logging.getLogger(__name__)

MOST_INPUTS: Final = 14
MOST_REPEATS: Final = 5
"""Samples that are filled in for missing readings."""
READING: Final = 0x101
STREAMING_SAMPLES: Final = 0x003
"""Register of a sensor: how many readings it is to send."""
STREAMING_INTERVAL: Final = 0x004
KEEP_STREAMING: Final = b"\xff"

_STRUCTS: Final = {
    0x08: struct.Struct("<B"),
    0x88: struct.Struct("<b"),
    0x10: struct.Struct("<H"),
    0x90: struct.Struct("<h"),
    0x20: struct.Struct("<I"),
    0xA0: struct.Struct("<i"),
}
"""Formats of one number, by the code of its type."""
_INPUTS: Final = 0x080
_NUM_SAMPLES: Final = 0x180
_SAMPLE_SIZE: Final = 0x181
_STREAM: Final = 0x081
_STREAM_ALIAS: Final = 0x003


class _InputsHead(JacdacPacket, name="inputs"):
    interval_ms: U16
    window: U16
    reserved: U32


class SensorInput(JacdacPacket, name="an input"):
    """One input: a sensor, and how to read what it reports."""

    device: Annotated[int, Wire("Q")]
    """0: the first that has such a service."""
    service_class: U32
    index: U8
    """0: the first of the class."""
    size: U8
    """Bytes of a reading."""
    type: U8
    shift: I8

    def problem(self) -> str:
        """Reason why it is invalid, or an empty text."""
        number = _STRUCTS.get(self.type)
        if number is None:
            return f"no type {self.type:#04x}"
        if not self.size or self.size % number.size:
            return f"{self.size} bytes are not a multiple of the type's {number.size}"
        return ""

    @property
    def floats(self) -> int:
        """Numbers in a reading."""
        return self.size // _STRUCTS[self.type].size

    def decode(self, payload: bytes) -> bytes:
        """Return a reading as float32; missing numbers are zeros."""
        raw = payload[: self.size].ljust(self.size, b"\0")
        scale = 2.0**self.shift
        numbers = [value / scale for (value,) in _STRUCTS[self.type].iter_unpack(raw)]
        return struct.pack(f"<{len(numbers)}f", *numbers)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Value of the register `inputs`."""

    interval_ms: int
    window: int
    """Samples of a window, as clients want it; each Model Runner has a window of its own."""
    sensors: tuple[SensorInput, ...]

    @classmethod
    def from_bytes(cls, data: bytes) -> "Inputs":
        """Decode a setting; FrameError if it is invalid."""
        head = _InputsHead.unpack_from(data)
        rest = len(data) - _InputsHead.SIZE
        if rest % SensorInput.SIZE or rest // SensorInput.SIZE > MOST_INPUTS:
            raise FrameError(f"inputs of {len(data)} bytes")
        if not head.interval_ms:
            raise FrameError("inputs with an interval of 0 ms")
        sensors = tuple(
            SensorInput.unpack_from(data, at) for at in range(_InputsHead.SIZE, len(data), SensorInput.SIZE)
        )
        for number, sensor in enumerate(sensors):
            problem = sensor.problem()
            if problem:
                raise FrameError(f"input {number}: {problem}")
        inputs = cls(head.interval_ms, head.window, sensors)
        if inputs.sample_bytes > LARGEST_PAYLOAD:
            raise FrameError(f"samples of {inputs.sample_bytes} bytes, {LARGEST_PAYLOAD} fit in a packet")
        return inputs

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample as float32."""
        return FLOAT_BYTES * sum(sensor.floats for sensor in self.sensors)


class SampleConsumer(Protocol):
    """A Model Runner that receives the samples."""

    def inputs_changed(self, sample_bytes: int) -> None:
        """Take the size of a sample as float32, in bytes, 0 without inputs."""

    def take_sample(self, sample: bytes) -> None:
        """Take a sample, as float32."""


class SensorAggregator(Service):
    """The sensors of the bus that clients choose, as samples at a fixed interval."""

    SPEC: ClassVar[ServiceSpec] = SENSOR_AGGREGATOR

    def __init__(
        self,
        device: Host,
        index: int,
        consumers: Sequence[SampleConsumer] = (),
        keep: Callable[[bytes], None] = lambda _data: None,
    ) -> None:
        """Feed the consumers; `keep` stores the setting."""
        super().__init__(device, index, "sensor aggregator")
        self._consumers = list(consumers)
        self._keep = keep
        self._written = bytes(_InputsHead.SIZE)
        self._inputs: Inputs | None = None
        self._values: list[bytes] = []
        self._bound: list[tuple[int, int] | None] = []  # device and index of each input's sensor
        self._samples = 0
        self._streaming = 0
        self._last: int | None = None  # time of the last sample
        self._previous = b""
        self.getters |= {
            _NUM_SAMPLES: lambda: self._samples & 0xFFFFFFFF,
            _SAMPLE_SIZE: lambda: 0 if self._inputs is None else self._inputs.sample_bytes,
            _STREAM: lambda: self._streaming,
            READING: lambda: self._previous,
        }
        self.setters |= {_STREAM: self._set_streaming}

    def handle(self, packet: ServicePacket) -> bool:
        if packet.command == GET | _INPUTS:
            self.device.report(self.index, packet.command, self._written)
            return True
        if packet.command == SET | _INPUTS:
            self._set_inputs(packet.payload)
            return True
        if packet.command in (GET | _STREAM_ALIAS, SET | _STREAM_ALIAS):
            packet = packet._replace(command=packet.command & 0xF000 | _STREAM)
        return super().handle(packet)

    def add_consumer(self, consumer: SampleConsumer) -> None:
        self._consumers.append(consumer)

    def restore(self, data: bytes) -> None:
        """Take a stored setting; an invalid one is dropped."""
        self._apply(data)

    def hear_report(self, device: int, packet: ServicePacket) -> None:
        """Handle a report of another device: an announce, or a reading."""
        if self._inputs is None:
            return
        if packet.service == CONTROL_INDEX and packet.command == 0:
            self._bind(device)
            self._keep_streaming(device)
        elif packet.command == GET | READING:
            self._take_reading((device, packet.service), packet.payload)

    def reset(self) -> None:
        super().reset()
        self._streaming = 0

    # Settings.

    def _set_inputs(self, data: bytes) -> None:
        if data != self._written and self._apply(data):
            self._keep(data)

    def _apply(self, data: bytes) -> bool:
        try:
            inputs = Inputs.from_bytes(data)
        except FrameError as error:
            logger.warning("Sensor Aggregator: %s; ignored", error)
            return False
        self._written = data
        self._inputs = inputs
        self._samples = 0
        self._last = None
        self._values = [bytes(FLOAT_BYTES * sensor.floats) for sensor in inputs.sensors]
        self._previous = bytes(inputs.sample_bytes)
        self._bound = [None] * len(inputs.sensors)
        for consumer in self._consumers:
            consumer.inputs_changed(inputs.sample_bytes)
        for device in sorted(self.device.neighbor_ids()):
            self._bind(device)
        return True

    def _set_streaming(self, value: Value) -> None:
        if isinstance(value, int):
            self._streaming = value

    # Sensors.

    def _bind(self, device: int) -> None:
        """Bind the inputs without a sensor to the services of this device."""
        classes = self.device.neighbor_services(device)
        if self._inputs is None or classes is None:
            return
        taken = {bound for bound in self._bound if bound is not None}
        for number, sensor in enumerate(self._inputs.sensors):
            if sensor.device not in (0, device) or not self._is_free(number):
                continue
            for index, service_class in enumerate(classes, 1):
                place = (device, index)
                fits = service_class == sensor.service_class and sensor.index in (0, index)
                if fits and (place not in taken or sensor.index):
                    self._bound[number] = place
                    taken.add(place)
                    self._configure(place)
                    break

    def _is_free(self, number: int) -> bool:
        bound = self._bound[number]
        return bound is None or self.device.neighbor_services(bound[0]) is None

    def _configure(self, place: tuple[int, int]) -> None:
        assert self._inputs is not None  # noqa: S101 - for the type checker
        device, index = place
        interval = self._inputs.interval_ms.to_bytes(4, "little")
        packets = (
            ServicePacket(index, SET | STREAMING_INTERVAL, interval),
            ServicePacket(index, SET | STREAMING_SAMPLES, KEEP_STREAMING),
        )
        self.device.send_to(command_frame(device, packets))

    def _keep_streaming(self, device: int) -> None:
        places = sorted({bound for bound in self._bound if bound is not None and bound[0] == device})
        for _, index in places:
            packet = ServicePacket(index, SET | STREAMING_SAMPLES, KEEP_STREAMING)
            self.device.send_to(command_frame(device, [packet]))

    # Samples.

    def _take_reading(self, place: tuple[int, int], payload: bytes) -> None:
        assert self._inputs is not None  # noqa: S101 - for the type checker
        found = [number for number, bound in enumerate(self._bound) if bound == place]
        if not found:
            return
        for number in found:
            self._values[number] = self._inputs.sensors[number].decode(payload)
        now = self.device.timers.now
        if self._last is None:
            self._last = now
            return
        interval = self._inputs.interval_ms * MILLISECOND
        passed = now - self._last
        intervals = (passed + passed // 2) // interval
        if not intervals:
            return
        self._last = now
        for _ in range(min(intervals - 1, MOST_REPEATS)):
            self._push(self._previous)
        self._push(b"".join(self._values))

    def _push(self, sample: bytes) -> None:
        self._previous = sample
        self._samples += 1
        if self._streaming:
            self._streaming -= 1
            self.report_register("current_sample")
        for consumer in self._consumers:
            consumer.take_sample(sample)
