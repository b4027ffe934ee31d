"""A Jacdac device: takes frames, gives frames, and keeps its deadlines. No I/O and no clock.

The owner hands it each frame of the bus (`receive`), lets its timers advance, and puts on the bus what it
sends. It survives any frame: invalid ones, and those for others, are dropped.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from aisrv.addons.jacdac.task.control import ControlService, Identity
from aisrv.addons.jacdac.task.neighbors import Neighbors
from aisrv.addons.jacdac.task.service import Service
from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    CONTROL_INDEX,
    PIPE_INDEX,
    Frame,
    FrameError,
    FrameFlags,
    ServicePacket,
    ack_frame,
    report_frame,
)
from aisrv.addons.jacdac.wire.pipes import InPipes, OutPipe, PipeArgument
from aisrv.addons.jacdac.wire.service_spec import EVENT, NOT_IMPLEMENTED
from aisrv.addons.jacdac.wire.timers import MILLISECOND, Timers

EVENT_COUNTER_MASK: Final = 0x7F
EVENT_REPEATS: Final = (20 * MILLISECOND, 100 * MILLISECOND)
"""Delays of the repetitions of an event, counted from the first time."""

# Plain numbers: each frame of the bus is compared with them.
_COMMAND: Final = FrameFlags.COMMAND.value
_ACK_REQUESTED: Final = FrameFlags.ACK_REQUESTED.value
_MULTICAST: Final = FrameFlags.MULTICAST.value

Send = Callable[[bytes], None]


class ReportListener(Protocol):
    """A service that listens to reports of other devices."""

    def hear_report(self, device: int, packet: ServicePacket) -> None: ...


def device_id_of(name: str) -> int:
    """Derive a device id from a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class JacdacDevice:
    """One device: the control service and others, from index 1."""

    def __init__(self, device_id: int, send: Send, *, identity: Identity | None = None) -> None:
        """Create a device without services; `send` puts a frame on the bus and returns at once."""
        self.id: Final = device_id
        self.timers: Final = Timers()
        self.pipes: Final = InPipes()
        self.neighbors: Final = Neighbors(self.timers, self._lose)
        self.dropped = 0
        """Number of invalid frames."""
        self._send = send
        self._identity = identity or Identity()
        self._services: list[Service] = []
        self._listeners: list[ReportListener] = []
        self._out_pipes: list[OutPipe] = []
        self._openers: dict[OutPipe, object] = {}  # who sent the commands that opened them
        self.sender: object | None = None
        """Sender of the frame that is handled now, such as a peer of the bus; else None."""
        self._events = 0
        self.control = ControlService(self, self._identity, (), self.reset)

    def start(self, services: Sequence[Service], listeners: Sequence[ReportListener] = ()) -> None:
        """Take the services, with indexes 1, 2 and so on, and begin to announce."""
        classes = [service.SPEC.service_class for service in services]
        self.control = ControlService(self, self._identity, classes, self.reset)
        self._services = [self.control, *services]
        self._listeners = list(listeners)
        self.control.start()

    def reset(self) -> None:
        """Drop pipes, and restart counters and services."""
        for pipe in list(self._out_pipes):
            pipe.abort()
        self.pipes.close_all()
        self._events = 0
        for service in self._services:
            service.reset()

    # From the bus.

    def receive(self, data: bytes, sender: object | None = None) -> None:
        """Handle a frame of the bus, valid or not; `sender` is None if unknown."""
        try:
            frame = Frame.from_bytes(data)
        except FrameError:
            self.dropped += 1
            return
        self.sender = sender
        try:
            self._take(frame)
        finally:
            self.sender = None

    def sender_left(self, sender: object) -> None:
        """Release what the hosts behind a sender hold: pipes, and uploads of models."""
        for pipe in [pipe for pipe, opener in self._openers.items() if opener is sender]:
            pipe.abort()
        for service in self._services:
            service.sender_left(sender)

    def _take(self, frame: Frame) -> None:
        flags = frame.flags
        if not flags & _COMMAND:
            if frame.device != self.id:  # else an echo
                self._take_reports(frame)
        elif flags & _MULTICAST:
            self._take_multicast(frame)
        elif frame.device == self.id:
            self._take_commands(frame)

    def _take_commands(self, frame: Frame) -> None:
        if frame.flags & _ACK_REQUESTED:
            self._put(ack_frame(self.id, frame.crc))
        for packet in frame.packets:
            if packet.service == PIPE_INDEX:
                self.pipes.receive(packet)
            elif packet.service < len(self._services) and not self._services[packet.service].handle(packet):
                unknown = packet.command.to_bytes(2, "little") + frame.crc.to_bytes(2, "little")
                self.report(packet.service, NOT_IMPLEMENTED, unknown)

    def _take_multicast(self, frame: Frame) -> None:
        for service in self._services:
            if service.SPEC.service_class == frame.multicast_class:
                for packet in frame.packets:
                    service.handle(packet)

    def _take_reports(self, frame: Frame) -> None:
        for packet in frame.packets:
            if packet.service == ACK_INDEX:
                for pipe in list(self._out_pipes):
                    pipe.acknowledge(frame.device, packet.command)
                continue
            if packet.service == CONTROL_INDEX and packet.command == 0:
                announce = Announce.from_bytes(packet.payload)
                if announce is not None:
                    self.neighbors.hear(frame.device, announce)
            for listener in self._listeners:
                listener.hear_report(frame.device, packet)

    def _lose(self, device: int) -> None:
        for pipe in [pipe for pipe in self._out_pipes if pipe.target.device == device]:
            pipe.abort()

    def has_neighbor(self, device: int) -> bool:
        return device in self.neighbors

    def neighbor_ids(self) -> Iterable[int]:
        return self.neighbors.ids()

    def neighbor_services(self, device: int) -> Sequence[int] | None:
        """Return the classes of a neighbor's services, from index 1; None if it is not there."""
        neighbor = self.neighbors.get(device)
        return None if neighbor is None else neighbor.classes

    # To the bus.

    def report(self, index: int, command: int, payload: bytes) -> None:
        self._put(report_frame(self.id, ServicePacket(index, command, payload)))

    def send_event(self, index: int, event: int, payload: bytes) -> None:
        """Send an event of a service, three times in all."""
        command = EVENT | self._events << 8 | event
        self._events = self._events + 1 & EVENT_COUNTER_MASK
        frame = report_frame(self.id, ServicePacket(index, command, payload))
        self._put(frame)
        for delay in EVENT_REPEATS:
            self.timers.after(delay, lambda: self._put(frame))

    def send_to(self, frame: bytes) -> None:
        """Send a frame to others: a command, or a packet of a pipe."""
        self._send(frame)

    def open_out_pipe(self, target: PipeArgument, ended: Callable[[], None]) -> OutPipe:
        """Open a pipe to a port of another device; `ended` is called when it is over."""

        def finish() -> None:
            self._out_pipes.remove(pipe)
            self._openers.pop(pipe, None)
            ended()

        pipe = OutPipe(target, self.timers, self._send, finish)
        self._out_pipes.append(pipe)
        if self.sender is not None:
            self._openers[pipe] = self.sender
        return pipe

    def _put(self, frame: bytes) -> None:
        self.control.reports += 1
        self._send(frame)
