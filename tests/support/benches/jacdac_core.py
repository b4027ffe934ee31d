"""A Jacdac device without I/O on virtual time, a client of it, and an engine that follows a script."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from aisrv.addons.jacdac.task.device import JacdacDevice
from aisrv.addons.jacdac.task.engine_jobs import (
    BootJob,
    Job,
    LoadJob,
    LoadResult,
    ModelState,
    RunJob,
    RunResult,
)
from aisrv.addons.jacdac.task.model_runner import ModelRunner
from aisrv.addons.jacdac.task.protocol_check import ProtocolTestService
from aisrv.addons.jacdac.task.sensor_aggregator import SensorAggregator
from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    CONTROL_INDEX,
    PIPE_INDEX,
    Frame,
    ServicePacket,
    ack_frame,
    command_frame,
    report_frame,
)
from aisrv.model.values import TensorType
from aisrv.protocol.tensor_descriptions import TensorDescription, TensorDescriptions

DEVICE = 0x1122334455667788
CLIENT = 0xC1C1C1C1C1C1C1C1
AGGREGATOR, RUNNER, PROTOCOL_TEST = 1, 2, 3
MS = 1000


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def state(inputs: int = 4, outputs: int = 2, *, size: int = 1000) -> ModelState:
    """A model of float32 tensors."""
    return ModelState(
        size,
        500,
        100_000,
        TensorDescriptions(
            (TensorDescription(TensorType.FLOAT32, (1, inputs)),),
            (TensorDescription(TensorType.FLOAT32, (1, outputs)),),
        ),
    )


EMPTY = ModelState(room=100_000)


@dataclass
class Script:
    """Takes jobs; the test answers them when it likes."""

    jobs: list[Job] = field(default_factory=list)

    def __call__(self, job: Job) -> None:
        self.jobs.append(job)

    def load(self, result: LoadResult) -> bytes | None:
        """Answer the oldest job, a load, and return its model; None for one from flash."""
        job = self.jobs.pop(0)
        assert isinstance(job, LoadJob | BootJob)
        job.done(result)
        return job.model if isinstance(job, LoadJob) else None

    def run(self, result: RunResult) -> bytes | None:
        """Answer the oldest job, a run, and return its input; None where nobody wants it."""
        job = self.jobs.pop(0)
        assert isinstance(job, RunJob)
        if not job.is_wanted():
            return None
        job.done(result)
        return job.tensor


@dataclass
class ScriptedCore:
    """A device with an aggregator, one runner and Protocol Test, and what it has sent."""

    model: ModelState = EMPTY
    sent: list[Frame] = field(default_factory=list)
    engine: Script = field(default_factory=Script)
    kept: list[bytes] = field(default_factory=list)
    resets: bool = False
    acks: bool = True
    """Whether the client acknowledges what comes through a pipe."""
    sender: object | None = None
    """Where the client's commands come from."""
    _counter: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.device = JacdacDevice(DEVICE, self._take)
        self.aggregator = SensorAggregator(self.device, AGGREGATOR, keep=self.kept.append)
        self.runner = ModelRunner(
            self.device,
            RUNNER,
            0,
            self.engine,
            state=self.model,
            resets_after_load=self.device.reset if self.resets else None,
        )
        self.aggregator.add_consumer(self.runner)
        services = [self.aggregator, self.runner, ProtocolTestService(self.device, PROTOCOL_TEST)]
        self.device.start(services, [self.aggregator])
        self._to_acknowledge: list[Frame] = []
        self.piped = bytearray()
        self.pipe_packets: list[ServicePacket] = []
        self.sent.clear()

    def _take(self, data: bytes) -> None:
        frame = Frame.from_bytes(data)
        self.sent.append(frame)
        if frame.is_command and frame.device == CLIENT:
            self._to_acknowledge.append(frame)

    def acknowledge(self) -> None:
        """Take the pipe packets that came, in order, as their receiver does."""
        while self._to_acknowledge:
            frame = self._to_acknowledge.pop(0)
            (packet,) = frame.packets
            assert packet.service == PIPE_INDEX
            self.pipe_packets.append(packet)
            self.piped += packet.payload
            self.device.receive(ack_frame(CLIENT, frame.crc))

    def at(self, milliseconds: float) -> None:
        """Let the time go on to so many milliseconds after the start."""
        self.device.timers.advance(round(milliseconds * MS))

    def take(self) -> list[Frame]:
        """Return what was sent since, without announces and ACKs."""
        sent, self.sent = self.sent, []
        return [
            frame
            for frame in sent
            if frame.packets[0].service != ACK_INDEX
            and not (frame.packets[0].service == CONTROL_INDEX and frame.packets[0].command == 0)
        ]

    def command(self, service: int, command: int, payload: bytes = b"", *, ack: bool = False) -> list[Frame]:
        """Send a command and return what it is answered at once."""
        self.take()
        frame = command_frame(DEVICE, [ServicePacket(service, command, payload)], ack=ack)
        self.device.receive(frame, self.sender)
        return self.take()

    def get(self, service: int, register: int) -> bytes:
        """Get a register that is answered at once."""
        (frame,) = self.command(service, 0x1000 | register)
        (packet,) = frame.packets
        assert (frame.device, packet.service, packet.command) == (DEVICE, service, 0x1000 | register)
        return packet.payload

    def set(self, service: int, register: int, payload: bytes) -> list[Frame]:
        return self.command(service, 0x2000 | register, payload)

    def error(self) -> str:
        return self.get(RUNNER, 0x185).decode()

    # Pipes.

    def open(self, command: int, payload: bytes) -> int:
        """Send a command that answers with a port."""
        frames = self.command(RUNNER, command, payload)
        (packet,) = [packet for frame in frames for packet in frame.packets if packet.command == command]
        return int.from_bytes(packet.payload, "little")

    def pipe(self, port: int, data: bytes = b"", *, flags: int = 0, counter: int | None = None) -> None:
        """Send a packet of a pipe, the next one unless `counter` says otherwise."""
        number = self._counter.get(port, 0) if counter is None else counter
        if counter is None:
            self._counter[port] = number + 1 & 0x1F
        packet = ServicePacket(PIPE_INDEX, port << 7 | flags | number, data)
        self.device.receive(command_frame(DEVICE, [packet], ack=True))

    def upload(self, model: bytes, size: int | None = None) -> int:
        """Send a model and close the pipe; returns the port."""
        port = self.open(0x80, struct.pack("<I", len(model) if size is None else size))
        for at in range(0, len(model), 224):
            self.pipe(port, model[at : at + 224])
        self.pipe(port, flags=0x20)
        return port

    def predict(self, target: int = 5) -> int:
        return self.open(0x81, struct.pack("<QHH", CLIENT, target, 0))

    def announce(self, device: int, *classes: int, restart: int = 1) -> None:
        payload = struct.pack(f"<HBB{len(classes)}I", 0x0700 | restart, 1, 0, *classes)
        self.device.receive(report_frame(device, ServicePacket(0, 0, payload)))

    def reports(self, frames: list[Frame], command: int) -> list[bytes]:
        """Return the payloads of reports of one command."""
        return [p.payload for frame in frames for p in frame.packets if p.command == command]


Answer = Callable[[RunResult], None]
