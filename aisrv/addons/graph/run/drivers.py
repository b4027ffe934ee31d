"""Drivers for the IOs of a running graph: sources of frames, files, and pins.

Those that take time are tasks; their data enter the graph between two RUNs, through their `post`.
"""

from collections.abc import Awaitable, Callable
from typing import BinaryIO, Final, Protocol, runtime_checkable

import numpy as np

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.nodes.samples import dtype_of
from aisrv.addons.graph.run.io import IoPort
from aisrv.xcore.runtime import current_runtime
from aisrv.xcore.signal import Signal

Post = Callable[[IoPort, bytes], None]
"""Enters the bytes of an input before the next RUN."""


class StreamEnded(Exception):
    """A source of frames that has no more."""


@runtime_checkable
class TaskDriver(Protocol):
    """A driver that is a task besides."""

    def request(self, port: IoPort) -> None: ...

    async def run(self, post: Post) -> None:
        """Serve the requests until cancelled, or until the source ends."""


class FrameDriver:
    """An input: for each request, the bytes of a frame that a function waits for."""

    def __init__(self, frame: Callable[[], Awaitable[bytes]]) -> None:
        """Take a function that returns the bytes of the next frame, or raises StreamEnded."""
        self._frame = frame
        self._port: IoPort | None = None
        self._asked: Signal | None = None
        self.frames = 0
        self.ended = False

    def request(self, port: IoPort) -> None:
        self._port = port
        if self._asked is not None:
            self._asked.set()

    async def run(self, post: Post) -> None:
        """Give a frame for each request, until there are no more; on a core of a node."""
        runtime = current_runtime()
        assert runtime is not None  # noqa: S101 - for the type checker
        asked = self._asked = Signal(runtime, "requests of an input")
        if self._port is not None:
            asked.set()
        while True:
            await asked.wait()
            while (port := self._port) is not None and port.ongoing:
                try:
                    data = await self._frame()
                except StreamEnded:
                    self.ended = True
                    return
                self.frames += 1
                post(port, data)
                await runtime.let_others_run()
                break


class FileInput:
    """An input from a file of raw bytes, a frame a request, at once. At its end the request stays open."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.ended = False

    def request(self, port: IoPort) -> None:
        """Read frames until the transfer is over; one may be short at the end of the file."""
        frame = port.arc.producer_frame
        while port.ongoing and port.has_room and not self.ended:
            data = self._file.read(frame)
            self.ended = len(data) < frame
            if data:
                port.acknowledge(data)


class FileOutput:
    """An output to a file: all readable bytes, at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def request(self, port: IoPort) -> None:
        data = take(port)
        self._file.write(data)
        self._file.flush()


class Pin:
    """A GPIO output of a graph; `observe` tells of changes."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.level = False
        self.changes = 0
        self._observers: list[Callable[[bool], None]] = []

    def observe(self, observer: Callable[[bool], None]) -> None:
        """Call `observer` with the new level at each change."""
        self._observers.append(observer)

    def drive(self, level: bool) -> None:
        if level == self.level:
            return
        self.level = level
        self.changes += 1
        for observer in self._observers:
            observer(level)


class GpioOutput:
    """An output to pins: a channel each, high while its sample is above 0."""

    def __init__(self, pins: list[Pin], form: Format) -> None:
        """Take the pins of channel 0, 1 and so on, and the format of the samples."""
        self._pins = pins
        self._dtype = dtype_of(form)
        self._channels = form.channels

    def request(self, port: IoPort) -> None:
        """Drive the pins with each sample in turn."""
        data = take(port)
        instant = self._dtype.itemsize * self._channels
        samples = np.frombuffer(data[: len(data) // instant * instant], self._dtype)
        for row in samples.reshape(-1, self._channels):
            for pin, value in zip(self._pins, row, strict=False):
                pin.drive(bool(value > 0))


def take(port: IoPort) -> bytes:
    """Acknowledge whole frames of an output, and return them."""
    arc = port.arc
    size = arc.filled // arc.consumer_frame * arc.consumer_frame
    if port.copies:
        data = bytearray(size)
        port.acknowledge(data, size)
        return bytes(data)
    data = bytearray(arc.readable()[:size])
    port.acknowledge(np.zeros(max(len(arc.buffer), arc.producer_frame), np.uint8))
    return bytes(data)
