"""A peer of a Jacdac bus over TCP, for host programs: a length byte before each frame."""

import socket
import time
from collections.abc import Iterator
from typing import Final, Self

from aisrv.addons.jacdac.wire.frame import Frame, FrameError
from aisrv.addons.jacdac.wire.stream import FrameSplitter, with_length
from host_tools.errors import DeviceGone, DeviceNotFound
from host_tools.transports.server_address import parse_address

PORT: Final = 8082
CONNECT_TIMEOUT: Final = 5.0
CHUNK: Final = 65536


class JacdacConnection:
    """A connection to a bus. Use it as a context manager."""

    def __init__(self, address: str) -> None:
        """Connect to `HOST:PORT`; BadAddressError or DeviceNotFound where that cannot be."""
        place = parse_address(address, PORT)
        try:
            self._socket = socket.create_connection(place, CONNECT_TIMEOUT)
        except OSError as error:
            raise DeviceNotFound(f"no Jacdac bus at {address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = FrameSplitter()

    def send(self, frame: bytes) -> None:
        """Send a frame. Raises DeviceGone."""
        try:
            self._socket.settimeout(CONNECT_TIMEOUT)
            self._socket.sendall(with_length(frame))
        except OSError as error:
            raise DeviceGone(f"the Jacdac bus is gone: {error}") from error

    def receive(self, seconds: float | None) -> list[Frame]:
        """Wait `seconds` for frames, or without limit; return those received, maybe none.

        What is not a frame is dropped. Raises DeviceGone where the other side ends the connection.
        """
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(CHUNK)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError as error:
            raise DeviceGone(f"the Jacdac bus is gone: {error}") from error
        if not data:
            raise DeviceGone("the Jacdac bus ended the connection")
        frames = []
        for content in self._splitter.feed(data):
            try:
                frames.append(Frame.from_bytes(content))
            except FrameError:
                continue
        return frames

    def frames(self, seconds: float | None) -> Iterator[Frame]:
        """Yield the frames of the bus for `seconds`, or without end. Raises what `receive` raises."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            yield from self.receive(left)

    def close(self) -> None:
        """Leave the bus."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
