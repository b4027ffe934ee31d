"""The bus: a hub between a device and peers, each of which gets the frames of all others.

Nothing here waits: a peer that takes its frames too slowly loses its own, and nobody else's.
"""

from collections import deque
from typing import Final

import trio

from aisrv.addons.jacdac.wire.frame import FRAME_HEADER_BYTES, LARGEST_DATA, SMALLEST_DATA, frame_size

QUEUE_FRAMES: Final = 1024
"""Frames that wait for one peer: a quarter of a megabyte at most."""


class BusPeer:
    """A device or a host on the bus."""

    def __init__(self, bus: "JacdacBus", name: str) -> None:
        self.name: Final = name
        self.lost = 0
        """Frames lost because the peer was too slow."""
        self._bus = bus
        self._queue: deque[tuple[bytes, BusPeer]] = deque()
        self._watches_departures = False
        self._senders: set[BusPeer] = set()
        """Those that it got frames of, and whose departure it has to be told; only if it watches."""
        self._arrived = trio.Event()

    def send(self, frame: bytes) -> None:
        """Send a frame to all others, or drop bytes that are shorter or longer than their header says."""
        if is_frame_sized(frame):
            self._bus.forward(frame, self)

    def deliver(self, frame: bytes, sender: "BusPeer") -> None:
        """Queue a frame for this peer, or drop it if the queue is full."""
        if len(self._queue) >= QUEUE_FRAMES:
            self.lost += 1
            return
        self._queue.append((frame, sender))
        if self._watches_departures:
            self._senders.add(sender)
        self._notify()

    def watch_departures(self) -> None:
        """Receive an empty frame when another peer leaves the bus, after its last one, if it had any.

        So what waits here is bounded, however many peers come and go.
        """
        self._watches_departures = True
        self._senders.update(sender for _, sender in self._queue)

    def take_departure(self, other: "BusPeer") -> None:
        if other in self._senders:
            self._senders.remove(other)
            self._queue.append((b"", other))
            self._notify()

    def wake(self) -> None:
        """Let `receive` return, maybe without a frame."""
        self._notify()

    def _notify(self) -> None:
        self._arrived.set()

    def _take(self, most: int) -> list[tuple[bytes, "BusPeer"]]:
        return [self._queue.popleft() for _ in range(min(most, len(self._queue)))]

    async def receive_until(
        self, deadline: float | None, most: int = QUEUE_FRAMES
    ) -> list[tuple[bytes, "BusPeer"]]:
        """`receive_with_senders`, up to a time of Trio's clock; none where that comes first."""
        with trio.move_on_at(float("inf") if deadline is None else deadline):
            return await self.receive_with_senders(most)
        return []

    async def receive(self, most: int = QUEUE_FRAMES) -> list[bytes]:
        """Wait for frames and return up to `most` of them."""
        return [frame for frame, _ in await self.receive_with_senders(most)]

    async def receive_with_senders(self, most: int = QUEUE_FRAMES) -> list[tuple[bytes, "BusPeer"]]:
        """Like `receive`, each frame with its sender; see `watch_departures`."""
        await self._arrived.wait()
        frames = self._take(most)
        if not self._queue:
            self._arrived = trio.Event()
        return frames

    def leave(self) -> None:
        """Leave the bus, and drop what waits: others may keep this peer until they hear that it has left."""
        self._bus.remove(self)
        self._queue.clear()


class JacdacBus:
    """Joins peers to one bus."""

    def __init__(self) -> None:
        self._peers: list[BusPeer] = []

    @property
    def peers(self) -> tuple[BusPeer, ...]:
        return tuple(self._peers)

    def join(self, name: str) -> BusPeer:
        """Add a peer; `name` is for logs."""
        peer = BusPeer(self, name)
        self._peers.append(peer)
        return peer

    def join_device(self) -> BusPeer:
        """Add the device."""
        return self.join("device")

    def forward(self, frame: bytes, sender: BusPeer) -> None:
        for peer in self._peers:
            if peer is not sender:
                peer.deliver(frame, sender)

    def remove(self, peer: BusPeer) -> None:
        if peer in self._peers:
            self._peers.remove(peer)
            for other in self._peers:
                other.take_departure(peer)


def is_frame_sized(data: bytes) -> bool:
    """Check whether bytes have the size of the frame that they begin with."""
    if len(data) < FRAME_HEADER_BYTES + SMALLEST_DATA or data[2] > LARGEST_DATA:
        return False
    return frame_size(data) == len(data)
