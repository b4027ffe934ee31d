"""Ports that wrap those of a device, over USB and SPI, and write their transfers as slices of a trace.

Requests of one endpoint may be under way side by side; each of these has a track of its own.
"""

from collections.abc import Callable, Sequence

from aisrv.monitor.command_stream import LONGEST_COMMAND, CommandStream, Framing, aisrv_framing
from aisrv.monitor.trace.requests import Requests
from aisrv.monitor.trace.writer import TraceWriter
from aisrv.protocol.commands import PACKET_SIZE, CommandPacket, ProtocolError, command_name
from phy.spi.bus import SpiPort, SpiRelayPort, SpiTransfer
from phy.spi.transaction import NO_EFFECT
from phy.usb.bus import ControlUrb, HostPort
from phy.usb.taps.relay_port import Relay, RelayPort, Result, Urb
from phy.usb.urb import OutUrb, TransferStatus

_IN = 0x80


class _Lanes:
    """Tracks of which each has one slice at a time; the first free one takes the next.

    A counter has the bytes of all of them, from the first on.
    """

    def __init__(self, writer: TraceWriter, process: int, name: str) -> None:
        self._writer = writer
        self._process = process
        self._name = name
        self._tracks: list[int] = []
        self._free: list[int] = []
        self._bytes = 0
        self._counter = 0

    def count(self, change: int, now: int) -> None:
        """Add to the bytes that requests under way are for, or take some away."""
        if not self._counter:
            self._counter = self._writer.counter(self._process, f"{self._name} bytes under way", "bytes")
        self._bytes += change
        self._writer.count(self._counter, now, self._bytes)

    def take(self) -> int:
        if self._free:
            self._free.sort()
            return self._free.pop(0)
        name = self._name if not self._tracks else f"{self._name} ({len(self._tracks) + 1})"
        self._tracks.append(self._writer.track(self._process, name))
        return self._tracks[-1]

    def give_back(self, track: int) -> None:
        self._free.append(track)


class _TracedRelay(Relay):
    """A relay that knows where its slice is, and the end of OUT data if that may be a command."""

    __slots__ = ("tail", "track", "wanted")

    def __init__(self, address: int, urb: Urb) -> None:
        super().__init__(address, urb)
        self.track = 0
        self.tail = b""
        self.wanted = 0


class TracedUsbPort(RelayPort[_TracedRelay]):
    """Writes each request of a USB host, from its submission to its end, and resets and stalls.

    A request that is a command, by `framing`, goes on as a flow to that.
    """

    def __init__(
        self,
        inner: HostPort,
        writer: TraceWriter,
        now: Callable[[], int],
        process: int,
        requests: Requests,
        framing: Framing,
    ) -> None:
        """Take the port, the writer with its clock, and the track of the host's process."""
        super().__init__(inner)
        self._requests = requests
        self._stream = CommandStream(framing)
        self._names_commands = framing is aisrv_framing
        self._writer = writer
        self._now = now
        self._process = process
        self._lanes: dict[int, _Lanes] = {}

    def reset(self) -> None:
        """Pass a reset of the bus on, and mark it."""
        lanes = self._lanes_of(0)
        track = lanes.take()
        self._writer.instant(track, self._now(), "reset", "usb")
        lanes.give_back(track)
        self._stream.restart()
        super().reset()

    def _relay(self, address: int, urb: Urb) -> _TracedRelay:
        return _TracedRelay(address, urb)

    def _observe_start(self, relay: _TracedRelay) -> None:
        urb = relay.urb
        if isinstance(urb, ControlUrb):
            setup = urb.setup
            name = f"control {setup.request_type:#04x} {setup.request:#04x}"
            self._begin(relay, name, setup.length)
        else:
            self._begin(relay, "bulk IN", urb.length)

    def _observe_data(self, relay: _TracedRelay, parts: list[bytes]) -> None:
        assert isinstance(relay.urb, OutUrb)  # noqa: S101 - for the type checker
        if not relay.track:
            self._begin(relay, "bulk OUT", relay.urb.length)
        last = relay.urb.length % PACKET_SIZE
        if 0 < last <= LONGEST_COMMAND:
            for part in parts:
                relay.tail = (relay.tail + part)[-last:]

    def _observe_end(self, relay: _TracedRelay, status: TransferStatus, result: Result) -> None:
        flow, size = 0, result if isinstance(result, int) else len(result)
        if isinstance(relay.urb, OutUrb):
            whole = status is TransferStatus.OKAY and relay.urb.ends_transfer
            flow = self._follow(size, relay.tail if whole else None)
        self._finish(relay, status.name, size, flow)
        if status is TransferStatus.STALL:
            self._writer.instant(relay.track, self._now(), "STALL", "usb")

    def _observe_unlink(self, relay: _TracedRelay) -> None:
        taken = 0
        if isinstance(relay.urb, OutUrb):
            taken = relay.urb.taken
            self._follow(taken, None)
        self._finish(relay, "UNLINKED", taken)

    def _observe_refusal(self, relay: _TracedRelay) -> None:
        self._finish(relay, "NO ENDPOINT", 0)

    def _begin(self, relay: _TracedRelay, name: str, wanted: int) -> None:
        lanes, now = self._lanes_of(relay.address), self._now()
        relay.track, relay.wanted = lanes.take(), wanted
        self._writer.begin(relay.track, now, name, "usb", {"bytes asked for": wanted})
        lanes.count(wanted, now)

    def _follow(self, taken: int, short_packet: bytes | None) -> int:
        """Follow an OUT request; return the flow to the command that it is, or 0."""
        before = self._stream.commands
        self._stream.transfer(taken, short_packet)
        if short_packet is None or self._stream.commands == before or not self._names_commands:
            return 0
        try:
            packet = CommandPacket.from_bytes(short_packet)
        except ProtocolError:
            return 0
        return self._requests.ask(command_name(packet.command))

    def _finish(self, relay: _TracedRelay, status: str, taken: int, flow: int = 0) -> None:
        if relay.track:
            lanes, now = self._lanes_of(relay.address), self._now()
            self._writer.end(relay.track, now, {"status": status, "bytes": taken}, flow=flow)
            lanes.count(-relay.wanted, now)
            lanes.give_back(relay.track)

    def _lanes_of(self, address: int) -> _Lanes:
        lanes = self._lanes.get(address)
        if lanes is None:
            way = "control" if not address else f"{'IN' if address & _IN else 'OUT'} {address & 15}"
            lanes = self._lanes[address] = _Lanes(self._writer, self._process, f"usb {way}")
        return lanes


class TracedSpiPort(SpiRelayPort):
    """Writes each message of an SPI master; one that begins a command goes on as a flow to that."""

    def __init__(
        self,
        inner: SpiPort,
        name: str,
        writer: TraceWriter,
        now: Callable[[], int],
        process: int,
        requests: Requests,
    ) -> None:
        """Take the port by its name, the writer with its clock, and the track of the host's process."""
        super().__init__(inner)
        self._requests = requests
        self._selected = False
        self._writer = writer
        self._now = now
        self._track = writer.track(process, f"spi {name}")

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        clocked = sum(len(each.mosi) for each in transfers)
        first = next((each.mosi[0] for each in transfers if each.mosi), None)
        name = "message" if first is None else f"message {first:#04x}"
        flow = 0
        for each in transfers:
            if each.mosi and not self._selected and each.mosi[0] not in NO_EFFECT:
                flow = self._requests.ask(command_name(each.mosi[0]))
            self._selected = not each.deselect if each.mosi or each.deselect else self._selected
        self._writer.begin(self._track, self._now(), name, "spi", {"bytes": clocked}, flow=flow)
        try:
            return await super()._relay_message(transfers)
        finally:
            self._writer.end(self._track, self._now())

    async def _relay_release(self) -> None:
        await super()._relay_release()
        self._selected = False
