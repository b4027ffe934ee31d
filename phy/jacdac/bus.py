"""The bus: a hub between a device and peers, each of which gets the frames of all others.

Nothing here waits: a peer that takes its frames too slowly loses its own, and nobody else's.
"""

from collections import deque
from typing import Final

import trio

from aisrv.protocol.jacdac.frame import FRAME_HEADER_BYTES, LARGEST_DATA, SMALLEST_DATA, frame_size

QUEUE_FRAMES: Final = 1024
"""Frames that wait for one peer: about a quarter of a megabyte at most."""


class BusPeer:
    """One side of the bus: it sends frames, and takes those that others send."""

    def __init__(self, bus: "JacdacBus", name: str) -> None:
        """Use `JacdacBus.join`."""
        self.name: Final = name
        self.lost = 0
        """Frames that it was too slow for."""
        self._bus = bus
        self._queue: deque[tuple[bytes, BusPeer]] = deque()
        self._watches_departures = False
        self._arrived = trio.Event()

    def send(self, frame: bytes) -> None:
        """Send a frame to all others; bytes that have another size than they say are dropped."""
        if is_frame_sized(frame):
            self._bus.forward(frame, self)

    def deliver(self, frame: bytes, sender: "BusPeer") -> None:
        """Queue a frame for this peer, or drop it where the queue is full."""
        if len(self._queue) >= QUEUE_FRAMES:
            self.lost += 1
            return
        self._queue.append((frame, sender))
        self._arrived.set()

    def watch_departures(self) -> None:
        """Get an empty frame of each other peer that leaves the bus from now on, behind its last one."""
        self._watches_departures = True

    def take_departure(self, other: "BusPeer") -> None:
        """Take note that another peer has left the bus."""
        if self._watches_departures:
            self._queue.append((b"", other))
            self._arrived.set()

    def wake(self) -> None:
        """Let `receive` return, maybe without a frame."""
        self._arrived.set()

    async def receive(self, most: int = QUEUE_FRAMES) -> list[bytes]:
        """Wait for frames and return those that are there, up to `most`."""
        return [frame for frame, _ in await self.receive_with_senders(most)]

    async def receive_with_senders(self, most: int = QUEUE_FRAMES) -> list[tuple[bytes, "BusPeer"]]:
        """As `receive`, each frame with the peer that sent it; see `watch_departures`."""
        await self._arrived.wait()
        queue = self._queue
        frames = [queue.popleft() for _ in range(min(most, len(queue)))]
        if not queue:
            self._arrived = trio.Event()
        return frames

    def leave(self) -> None:
        """Leave the bus. Leaving again does nothing."""
        self._bus.remove(self)


class JacdacBus:
    """Joins peers to one bus."""

    def __init__(self) -> None:
        self._peers: list[BusPeer] = []

    @property
    def peers(self) -> tuple[BusPeer, ...]:
        """Those who have joined and not left."""
        return tuple(self._peers)

    def join(self, name: str) -> BusPeer:
        """Add a peer; `name` is for those who show it."""
        peer = BusPeer(self, name)
        self._peers.append(peer)
        return peer

    def forward(self, frame: bytes, sender: BusPeer) -> None:
        """Give a frame to all but its sender."""
        for peer in self._peers:
            if peer is not sender:
                peer.deliver(frame, sender)

    def remove(self, peer: BusPeer) -> None:
        """Remove a peer, if it is there, and tell the others."""
        if peer in self._peers:
            self._peers.remove(peer)
            for other in self._peers:
                other.take_departure(peer)


def is_frame_sized(data: bytes) -> bool:
    """Return whether bytes have the size of the frame that they begin with."""
    if len(data) < FRAME_HEADER_BYTES + SMALLEST_DATA or data[2] > LARGEST_DATA:
        return False
    return frame_size(data) == len(data)
