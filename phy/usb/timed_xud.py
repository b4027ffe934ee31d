"""Endpoints in device time: each packet takes the bus, and then the chip until its task has it.

A transaction begins when task and host are ready and the bus is free; a NAK costs nothing. A request ends
with its last transaction. Figures: `aisrv.xcore.timed.device_costs`. Source:
"Device time and traces", section 2.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from aisrv.protocol.commands import PACKET_SIZE
from aisrv.xcore.timed.device_costs import USB_TURN_TICKS, usb_transaction_ticks
from aisrv.xcore.timed.parking import HostParking
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.timed.timeline import OUTSIDE
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import InEndpoint, OutEndpoint, Packets

if TYPE_CHECKING:
    from aisrv.xcore.timed.turns import Turn


class TimedWires:
    """The two wires of a high-speed bus: one transaction at a time."""

    def __init__(self, runtime: TimedRuntime) -> None:
        self.runtime: Final = runtime
        self.timeline: Final = runtime.timeline
        self._free = 0  # clock at which the last transaction ends
        self.turn: Final = self.timeline.clocks(USB_TURN_TICKS)
        """Clocks until the task or the endpoint has a packet."""
        self.turns = 0
        """Packets so far that took a turn."""
        self.crossing = 0
        """Clocks of all transactions so far."""
        self.awaited = 0
        """Clocks so far in which a task was ready, and the host was not."""

    def cross(self, nbytes: int, submitted: int) -> int:
        """Begin a transaction of some bytes as soon as the bus is free; return the clock at its end.

        It does not begin before the host has `submitted` its request, however late the task is.
        """
        ready = max(self._free, self.timeline.now())
        begin = max(ready, submitted)
        self.awaited += begin - ready
        self._free = begin + self.timeline.clocks(usb_transaction_ticks(nbytes))
        self.crossing += self._free - begin
        return self._free


class Crossing:
    """Requests of an endpoint whose last packet is on the wires."""

    def __init__(self, wires: TimedWires, address: int) -> None:
        self._wires = wires
        self._port = (OUTSIDE, address)
        self._ends: dict[int, tuple[Turn, Callable[[TransferStatus], None]]] = {}
        self._number = 0

    def end_at(self, clock: int, finish: Callable[[TransferStatus], None], status: TransferStatus) -> None:
        """End a request at a clock."""
        number = self._number = self._number + 1

        def end() -> None:
            del self._ends[number]
            finish(status)

        self._ends[number] = self._wires.timeline.at(clock, end, port=self._port), finish

    def drop(self) -> None:
        """End all requests now: the bus was reset."""
        ends, self._ends = self._ends, {}
        for turn, finish in ends.values():
            turn.call_off()
            finish(TransferStatus.SHUTDOWN)


class TimedOutEndpoint(OutEndpoint):
    """From host to device, a packet a call."""

    def __init__(self, address: int, wires: TimedWires) -> None:
        super().__init__(address)
        self._wires = wires
        self._firmware: HostParking[Any] = HostParking(wires.runtime, wires.timeline)
        self._ended: list[OutUrb] = []
        self._zero_packet_comes = False
        self._submitted = 0
        """Clock of the request of which the last packet is."""
        self._crossing = Crossing(wires, address)
        self._across = 0
        """Clock at which the last packet was off the wires."""
        self._cut = False
        """Whether a reset came while it was on them."""

    def submit(self, urb: OutUrb) -> None:
        urb.submitted = self._wires.timeline.arrival()
        super().submit(urb)

    def data_arrived(self) -> None:
        if self._urbs:
            self._urbs[-1].submitted = self._wires.timeline.arrival()
        super().data_arrived()

    async def get_buffer(self, limit: int = PACKET_SIZE) -> Packets:  # noqa: ARG002 - one packet at a time
        """Take the next packet. A reset after it has crossed is told by the next call."""
        self._cut = False
        await self._wires.timeline.settle()
        if self._zero_packet_comes:
            packets = Packets(b"", short=True)
            self.check_reset()
        else:
            ready = self._wires.timeline.now()
            packets = await super().get_buffer(self.packet_size)
            self._wires.awaited += self._wires.timeline.now() - ready
        self._zero_packet_comes = packets.short and len(packets.data) == self.packet_size
        self._across = end = self._wires.cross(len(packets.data), self._submitted)
        if self._zero_packet_comes:
            packets.short = False
        else:
            ended, self._ended = self._ended, []
            for urb in ended:
                self._crossing.end_at(end, urb.finish, TransferStatus.OKAY)
        self._wires.turns += 1
        await self._wires.timeline.wait_until(end + self._wires.turn)
        if self._cut:
            self.check_reset()
        return packets

    def reset(self) -> None:
        self._cut = self._cut or self._wires.timeline.now() < self._across
        ended, self._ended = self._ended, []
        for urb in ended:
            urb.finish(TransferStatus.SHUTDOWN)
        self._zero_packet_comes = False
        self._crossing.drop()
        super().reset()

    def _wait(self, verb: str) -> Awaitable[Any]:
        return self._firmware.park(verb, self, self._forget, timed=True)

    def _take(self, limit: int) -> tuple[Packets | None, list[OutUrb]]:
        if self._urbs:
            self._submitted = self._urbs[0].submitted
        return super()._take(limit)

    def _end(self, urbs: list[OutUrb]) -> None:
        self._ended += urbs


class TimedInEndpoint(InEndpoint):
    """From device to host, a packet at a time."""

    def __init__(self, address: int, wires: TimedWires) -> None:
        super().__init__(address)
        self._wires = wires
        self._firmware: HostParking[Any] = HostParking(wires.runtime, wires.timeline)
        self._ended: list[tuple[InUrb, TransferStatus]] = []
        self._submitted = 0
        """Clock of the request that takes the packet."""
        self._crossing = Crossing(wires, address)

    def submit(self, urb: InUrb) -> None:
        urb.submitted = self._wires.timeline.arrival()
        super().submit(urb)

    async def set_buffer(self, data: bytes, *, last: bool = True) -> None:
        """Send packets one by one; see `InEndpoint.set_buffer`."""
        full = self.packet_size
        whole = len(data) - len(data) % full
        for at in range(0, whole, full):
            await self._send_packet(data[at : at + full], last=False)
        if last:
            await self._send_packet(data[whole:], last=True)

    async def _send_packet(self, data: bytes, *, last: bool) -> None:
        timeline = self._wires.timeline
        self.check_reset()
        await timeline.wait_until(timeline.now() + self._wires.turn)
        self._wires.turns += 1
        ready = timeline.now()
        await super().set_buffer(data, last=last)
        self._wires.awaited += timeline.now() - ready
        end = self._wires.cross(len(data), self._submitted)
        ended, self._ended = self._ended, []
        for urb, status in ended:
            self._crossing.end_at(end, urb.finish, status)
        await timeline.wait_until(end)

    def reset(self) -> None:
        ended, self._ended = self._ended, []
        for urb, _ in ended:
            urb.finish(TransferStatus.SHUTDOWN)
        self._crossing.drop()
        super().reset()

    def _wait(self, verb: str) -> Awaitable[Any]:
        return self._firmware.park(verb, self, self._forget, timed=True)

    def _send(self) -> None:
        if self._urbs:
            self._submitted = self._urbs[0].submitted
        super()._send()

    def _end(self, urb: InUrb, status: TransferStatus) -> None:
        if status is TransferStatus.OVERFLOW:  # the packet goes on waiting, for another request
            end = self._wires.cross(self.packet_size, urb.submitted)
            self._crossing.end_at(end, urb.finish, status)
        else:
            self._ended.append((urb, status))
