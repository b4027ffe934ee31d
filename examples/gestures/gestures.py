"""Gestures on a Jacdac bus: a board with an accelerometer gives the AI server a model and gets what it sees.

    python examples/gestures/gestures.py

The board is a Jacdac device like a micro:bit. Its program finds the Model Runner, uploads the network, tells
the Sensor Aggregator to take the board's accelerometer every 20 ms, and has the network run after each 8
samples. Time is virtual, so that the example ends at once, with the same numbers each time.
"""

import struct
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import numpy as np
import trio
from gesture_network import AXES, GESTURES, SAMPLES, Array, movement, network
from trio.testing import MockClock

from aisrv.addons.jacdac.board import Jacdac
from aisrv.addons.jacdac.device import bus_of
from aisrv.addons.jacdac.task.device import JacdacDevice, device_id_of
from aisrv.addons.jacdac.task.jacdac import serve_device
from aisrv.addons.jacdac.task.service import Service
from aisrv.addons.jacdac.wire.frame import ServicePacket, command_frame
from aisrv.addons.jacdac.wire.packing import Value
from aisrv.addons.jacdac.wire.pipes import PipeArgument
from aisrv.addons.jacdac.wire.service_spec import BASE_REGISTERS, GET, SET, ServiceSpec, ro, rw
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER, SENSOR_AGGREGATOR
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline

INTERVAL_MS: Final = 20
EVERY: Final = 8
"""Samples between two runs of the network."""
SHIFT: Final = 20
"""An accelerometer's readings are in units of 2**-20 g."""

ACCELEROMETER: Final = ServiceSpec(
    "Accelerometer",
    0x1F140409,
    "Accelerations along three axes.",
    (
        ro(0x101, "forces", "i32 i32 i32", "In g, with 20 bits behind the point."),
        rw(0x003, "streaming_samples", "u8", "How many readings to report."),
        rw(0x004, "streaming_interval", "u32", "Milliseconds between them."),
        *BASE_REGISTERS,
    ),
)


class Accelerometer(Service):
    """Reports what a movement gives while somebody wants readings."""

    SPEC: ClassVar[ServiceSpec] = ACCELEROMETER

    def __init__(self, device: JacdacDevice, forces: Array) -> None:
        super().__init__(device, 1, "accelerometer")
        self._forces = np.round(forces * (1 << SHIFT)).astype(int)
        self._next = 0
        self._wanted = 0
        self._interval = INTERVAL_MS
        self.getters |= {0x101: self._reading, 0x003: lambda: self._wanted, 0x004: lambda: self._interval}
        self.setters |= {0x003: self._stream, 0x004: self._set_interval}

    def _reading(self) -> Value:
        return tuple(map(int, self._forces[self._next]))

    def _set_interval(self, value: Value) -> None:
        if isinstance(value, int):
            self._interval = value

    def _stream(self, value: Value) -> None:
        idle = not self._wanted
        self._wanted = value if isinstance(value, int) else 0
        if idle:
            self._report()

    def _report(self) -> None:
        if not self._wanted or self._next == len(self._forces):
            return
        self.report_register("forces")
        self._wanted -= 1
        self._next += 1
        self.device.timers.after(1000 * self._interval, self._report)


class Program:
    """What the board does with the AI server; each step follows from a report."""

    def __init__(self, device: JacdacDevice, model: bytes, seen: Callable[[tuple[float, ...]], None]) -> None:
        self._board = device
        self._model = model
        self._seen = seen
        self._server = 0
        self._indexes = (0, 0)  # of the Sensor Aggregator and the Model Runner

    def hear_report(self, device: int, packet: ServicePacket) -> None:
        """Take a report of another device."""
        aggregator, runner = self._indexes
        if not self._server:
            self._begin(device)
        elif (device, packet.service) != (self._server, runner):
            return
        elif packet.command == MODEL_RUNNER.action("set_model").code:
            self._upload(int.from_bytes(packet.payload, "little"))
        elif packet.command == GET | MODEL_RUNNER.register("model_size").code:
            if int.from_bytes(packet.payload, "little") == len(self._model):
                self._set(aggregator, SENSOR_AGGREGATOR, "inputs", self._inputs())
                self._set(runner, MODEL_RUNNER, "auto_invoke_every", EVERY)
        elif packet.command == GET | MODEL_RUNNER.register("outputs").code and packet.payload:
            self._seen(struct.unpack(f"<{len(packet.payload) // 4}f", packet.payload))

    def _begin(self, device: int) -> None:
        classes = self._board.neighbor_services(device) or ()
        if MODEL_RUNNER.service_class not in classes:
            return
        self._server = device
        aggregator, runner = (
            classes.index(spec.service_class) + 1 for spec in (SENSOR_AGGREGATOR, MODEL_RUNNER)
        )
        self._indexes = aggregator, runner
        action = MODEL_RUNNER.action("set_model")
        packet = ServicePacket(runner, action.code, action.packing.pack(len(self._model)))
        self._board.send_to(command_frame(device, [packet]))

    def _upload(self, port: int) -> None:
        pipe = self._board.open_out_pipe(PipeArgument(self._server, port), lambda: None)
        pipe.write(self._model)
        pipe.close()

    def _inputs(self) -> Value:
        sensor = (self._board.id.to_bytes(8, "little"), ACCELEROMETER.service_class, 1, 4 * AXES, 0xA0, SHIFT)
        return (INTERVAL_MS, SAMPLES, 0, (sensor,))

    def _set(self, index: int, spec: ServiceSpec, name: str, value: Value) -> None:
        register = spec.register(name)
        packet = ServicePacket(index, SET | register.code, register.packing.pack(value))
        self._board.send_to(command_frame(self._server, [packet], ack=True))


def movements() -> Array:
    """Return accelerations in g every 20 ms, 0.8 s of each gesture, after one that starts the clock."""
    times = np.arange(40) * INTERVAL_MS / 1000
    parts = [movement(gesture, times) for gesture in GESTURES]
    return np.concatenate([parts[0][:1], *parts])


async def run(model: bytes, forces: Array) -> list[tuple[float, ...]]:
    """Run the device and the board; return the scores after each 8 samples of the movements."""
    seen: list[tuple[float, ...]] = []
    done = trio.Event()

    def take(scores: tuple[float, ...]) -> None:
        seen.append(scores)
        if len(seen) == (len(forces) - 1) // EVERY:
            done.set()

    async with open_device(Board(parts=(Jacdac(),)), runner=inline) as device:
        bus = bus_of(device)
        peer = bus.join("board")
        board = JacdacDevice(device_id_of("board"), peer.send)
        async with trio.open_nursery() as nursery:
            board.start([Accelerometer(board, forces)], [Program(board, model, take)])
            nursery.start_soon(serve_device, board, peer)
            await done.wait()
            nursery.cancel_scope.cancel()
    return seen


def show(seen: Sequence[tuple[float, ...]]) -> None:
    """Print the gesture of each run."""
    for number, scores in enumerate(seen, 1):
        best = max(range(len(scores)), key=scores.__getitem__)
        print(f"{number * EVERY * INTERVAL_MS / 1000:4.2f} s  {GESTURES[best]:<12} {scores[best]:.2f}")


if __name__ == "__main__":
    show(trio.run(run, network(), movements(), clock=MockClock(autojump_threshold=0)))
