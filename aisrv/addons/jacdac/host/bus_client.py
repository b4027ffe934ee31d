"""A client on a Jacdac bus, for host programs: registers, commands, and pipes both ways.

    with BusClient.open("127.0.0.1:8082") as bus:
        (device,) = bus.find(MODEL_RUNNER.service_class)
        print(bus.get(device, 2, MODEL_RUNNER.register("model_size")))

It is synchronous: the bus is served while a method waits. It does not announce itself.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

from aisrv.addons.jacdac.host.connection import JacdacConnection
from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    CONTROL_INDEX,
    PIPE_INDEX,
    Frame,
    FrameFlags,
    ServicePacket,
    ack_frame,
    command_frame,
    multicast_frame,
)
from aisrv.addons.jacdac.wire.packing import PackingError, Value
from aisrv.addons.jacdac.wire.pipes import PIPE_BYTES, InPipe, InPipes, OutPipe, PipeArgument
from aisrv.addons.jacdac.wire.service_spec import GET, NOT_IMPLEMENTED, SET, Register
from aisrv.addons.jacdac.wire.service_tables import CONTROL
from aisrv.addons.jacdac.wire.timers import MILLISECOND, SECOND, Timer, Timers
from host_tools.errors import TransferError, TransferTimeout, UnsupportedCommand
from host_tools.transports.transport import Progress

ANNOUNCE_SECONDS: Final = 0.6
"""A little more than the time between two announces of a device."""
ANSWER_SECONDS: Final = 3.0
"""What a service may take for its answer, by Jacdac's own clients."""
ASK_AGAIN: Final = 250 * MILLISECOND
"""After which a question without an answer is sent again: a bus may lose frames."""
_PIECE: Final = 64 * PIPE_BYTES
"""Bytes that are handed to a pipe at once."""


class BusClient:
    """One client. Its methods raise DeviceGone where the bus ends, TransferTimeout where nobody answers."""

    def __init__(self, connection: JacdacConnection) -> None:
        """Join by a connection, which the client closes."""
        self.id: Final = secrets.randbits(64)
        """Where the pipes to this client lead."""
        self._connection = connection
        self._started = time.monotonic()
        self._timers = Timers()
        self._pipes = InPipes()
        self._out_pipes: list[OutPipe] = []
        self._classes: dict[int, tuple[int, ...]] = {}
        self._awaited: dict[tuple[int, int, int], bytes | None] = {}  # reports, by device, service and code

    @classmethod
    def open(cls, address: str) -> Self:
        """Join the bus at `HOST:PORT`; BadAddressError or DeviceNotFound where that cannot be."""
        return cls(JacdacConnection(address))

    def close(self) -> None:
        """Leave the bus."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Devices

    def find(self, service_class: int, device: int | None = None) -> list[int]:
        """Return the ids of the devices that have a service of a class, after one round of announces.

        With `device` only that one counts, and the round ends when it has announced itself.
        """
        self._connection.send(multicast_frame(CONTROL.service_class, ServicePacket(CONTROL_INDEX, 0)))
        with contextlib.suppress(TransferTimeout):  # the round is over
            self.serve_until(lambda: device in self._classes, ANNOUNCE_SECONDS, "no such device")
        ids = sorted(self._classes) if device is None else [device]
        return [one for one in ids if service_class in self._classes.get(one, ())]

    def indexes(self, device: int, service_class: int) -> Sequence[int]:
        """Return the indexes of a device's services of a class."""
        return [n for n, one in enumerate(self._classes.get(device, ()), 1) if one == service_class]

    # Registers and commands

    def get(
        self, device: int, index: int, register: Register, seconds: float | None = ANSWER_SECONDS
    ) -> Value:
        """Return the value of a register; UnsupportedCommand where the service has none."""
        packet = ServicePacket(index, GET | register.code)
        key, unknown = (device, index, packet.command), (device, index, NOT_IMPLEMENTED)
        frame = command_frame(device, [packet])
        self._ask(frame, (key, unknown), seconds, f"no answer about {register.name}")
        answer = self._awaited[key]
        if answer is None:
            raise UnsupportedCommand(f"service {index} of {device:016x} has no register {register.name}")
        try:
            return register.packing.unpack(answer)
        except PackingError as error:
            raise TransferError(f"{register.name}: {error}") from error

    def set(
        self,
        device: int,
        index: int,
        register: Register,
        value: Value,
        seconds: float | None = ANSWER_SECONDS,
    ) -> None:
        """Set a register; returns when the device has acknowledged it."""
        packet = ServicePacket(index, SET | register.code, register.packing.pack(value))
        frame = command_frame(device, [packet], ack=True)
        ack = (device, ACK_INDEX, int.from_bytes(frame[:2], "little"))
        self._ask(frame, (ack,), seconds, f"no ACK for {register.name}")

    def command(
        self,
        device: int,
        index: int,
        code: int,
        payload: bytes = b"",
        seconds: float | None = ANSWER_SECONDS,
    ) -> bytes:
        """Send a command once and return its report."""
        key = (device, index, code)
        self._awaited = {key: None}
        self._connection.send(command_frame(device, [ServicePacket(index, code, payload)]))
        self.serve_until(lambda: self._awaited[key] is not None, seconds, f"no report of command {code:#04x}")
        return self._awaited[key] or b""

    # Pipes

    def open_port(self, pipe: InPipe) -> PipeArgument:
        """Open a port for a pipe to this client; return its address, for a command."""
        return PipeArgument(self.id, self._pipes.open(pipe))

    def close_port(self, port: int) -> None:
        """Take a port back. What comes for it is acknowledged and dropped."""
        self._pipes.close(port)

    def send(
        self, target: PipeArgument, data: bytes, seconds: float | None, progress: Progress | None = None
    ) -> None:
        """Send all of `data` into a pipe and close it; TransferError where the receiver stops taking it."""
        pipe = OutPipe(target, self._timers, self._connection.send, lambda: None)
        self._out_pipes.append(pipe)
        try:
            for start in range(0, len(data), _PIECE):
                end = min(start + _PIECE, len(data))
                pipe.write(data[start:end])
                self.serve_until(lambda: not (pipe.queued and pipe.is_alive), seconds, "a pipe is stuck")
                if not pipe.is_alive:
                    break
                if progress:
                    progress(end, len(data))
            pipe.close()
            self.serve_until(lambda: not pipe.is_alive, seconds, "a pipe is stuck")
        finally:
            self._out_pipes.remove(pipe)
        if not pipe.is_delivered:
            raise TransferError(f"device {target.device:016x} acknowledges nothing more of a pipe")

    # The bus

    def serve_until(self, done: Callable[[], object], seconds: float | None, what: str) -> None:
        """Serve the bus until `done()`; TransferTimeout, with `what` as its text, after `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not done():
            self._timers.advance(self._now)
            waits = []
            if self._timers.next_deadline is not None:
                waits.append((self._timers.next_deadline - self._now) / SECOND)
            if deadline is not None:
                waits.append(deadline - time.monotonic())
                if waits[-1] <= 0:
                    raise TransferTimeout(f"Jacdac: {what} within {seconds:g} s")
            for frame in self._connection.receive(max(min(waits), 0) if waits else None):
                self._take(frame)

    @property
    def _now(self) -> int:
        return round((time.monotonic() - self._started) * SECOND)

    def _ask(
        self, frame: bytes, answers: Iterable[tuple[int, int, int]], seconds: float | None, what: str
    ) -> None:
        """Send a question, again and again, until one of the reports is there that may answer it."""
        asked: list[Timer] = []
        self._awaited = dict.fromkeys(answers)

        def ask() -> None:
            self._connection.send(frame)
            asked.append(self._timers.after(ASK_AGAIN, ask))

        self._timers.advance(self._now)
        ask()
        try:
            self.serve_until(lambda: any(each is not None for each in self._awaited.values()), seconds, what)
        finally:
            asked[-1].cancel()

    def _take(self, frame: Frame) -> None:
        if not frame.is_command:
            for packet in frame.packets:
                self._take_report(frame.device, packet)
        elif frame.device == self.id:
            if frame.flags & FrameFlags.ACK_REQUESTED:
                self._connection.send(ack_frame(self.id, frame.crc))
            for packet in frame.packets:
                if packet.service == PIPE_INDEX:
                    self._pipes.receive(packet)

    def _take_report(self, device: int, packet: ServicePacket) -> None:
        if packet.service == ACK_INDEX:
            for pipe in list(self._out_pipes):
                pipe.acknowledge(device, packet.command)
        elif packet[:2] == (CONTROL_INDEX, 0):
            announce = Announce.from_bytes(packet.payload)
            if announce is not None:
                self._classes[device] = announce.classes
        key = (device, packet.service, packet.command)
        if key in self._awaited:
            self._awaited[key] = packet.payload
