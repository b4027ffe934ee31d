"""A Jacdac bus in device time: one wire, on which a frame takes its bytes at 1 Mbaud, one frame at a time.

Source: "Device time and traces", section 2, Other costs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from aisrv.addons.jacdac.bus.bus import QUEUE_FRAMES, BusPeer, JacdacBus
from aisrv.xcore.signal import Signal
from aisrv.xcore.timed.device_costs import JACDAC_BYTE_TICKS
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.timed.timeline import OUTSIDE


class TimedDevicePeer(BusPeer):
    """The device, which receives in its turn."""

    def __init__(self, bus: JacdacBus, runtime: TimedRuntime) -> None:
        super().__init__(bus, "device")
        self._timeline = runtime.timeline
        self._signal = Signal(runtime, "the Jacdac bus")

    def _notify(self) -> None:
        self._signal.set()

    async def receive_with_senders(self, most: int = QUEUE_FRAMES) -> list[tuple[bytes, BusPeer]]:
        await self._signal.wait()
        frames = self._take(most)
        if self._queue:
            self._signal.set()
        return frames

    async def receive_until(
        self, deadline: float | None, most: int = QUEUE_FRAMES
    ) -> list[tuple[bytes, BusPeer]]:
        """Receive up to a time of Trio's clock: an alarm of the timeline is that."""
        if deadline is None:
            return await self.receive_with_senders(most)
        ticks = self._timeline.reference.first_tick_at(deadline)
        alarm = self._timeline.at(self._timeline.clock_at(ticks), self._notify)
        try:
            return await self.receive_with_senders(most)
        finally:
            alarm.call_off()


class TimedJacdacBus(JacdacBus):
    """`JacdacBus` in device time."""

    def __init__(self, runtime: TimedRuntime) -> None:
        super().__init__()
        self._runtime: Final = runtime
        self._timeline: Final = runtime.timeline
        self._free = 0
        self._under_way = 0
        self.clocks = 0
        """Clocks of a core in which the wire carried frames."""

    def join_device(self) -> BusPeer:
        peer = TimedDevicePeer(self, self._runtime)
        self._peers.append(peer)
        return peer

    def forward(self, frame: bytes, sender: BusPeer) -> None:
        """Put a frame on the wire, after those that wait for it; where too many do it is lost."""
        others = [peer for peer in self._peers if peer is not sender]
        if self._under_way >= QUEUE_FRAMES:
            for peer in others:
                peer.lost += 1
            return
        takes = self._timeline.clocks(len(frame) * JACDAC_BYTE_TICKS)
        self._free = max(self._free, self._timeline.now()) + takes
        self.clocks += takes
        self._under_way += 1
        self._at_end(partial(self._arrive, others, frame, sender))

    def remove(self, peer: BusPeer) -> None:
        """Let a peer leave after its last frame."""
        if peer in self._peers:
            self._peers.remove(peer)
            for other in self._peers:
                self._at_end(partial(other.take_departure, peer))

    def _at_end(self, act: Callable[[], object]) -> None:
        clock = max(self._free, self._timeline.now())
        self._timeline.at(clock, act, port=(OUTSIDE, 1 << 16))

    def _arrive(self, others: Sequence[BusPeer], frame: bytes, sender: BusPeer) -> None:
        """Deliver a frame to all others, which hear its end at once."""
        self._under_way -= 1
        for peer in others:
            if peer in self._peers:
                peer.deliver(frame, sender)
