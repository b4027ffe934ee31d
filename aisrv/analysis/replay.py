"""Replay: the host's side of a USB capture played against a device, and every answer compared.

Transfers are played one after another in the order in which they ended in the capture, which is one in which
a host that waits for each can do them. Control transfers of the host's system, such as reading descriptors,
are left out; SET_CONFIGURATION and CLEAR_FEATURE(ENDPOINT_HALT) are played.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.protocol.commands import (
    PACKET_SIZE,
    Command,
    CommandPacket,
    Dialect,
    ProtocolError,
    command_name,
    is_set,
)
from aisrv.protocol.usb_descriptors import DIRECTION_IN, Recipient, SetupPacket, StandardRequest
from aisrv.protocol.usbip import UrbStatus
from host_tools.errors import HostError, TransferStall, TransferTimeout
from host_tools.transports.transport import Transport
from phy.usb.taps.capture_reader import CapturedEvent, CaptureError
from phy.usb.taps.usbmon import EventType, TransferType, UsbmonEvent

_TAKEN_BACK: Final = frozenset((-errno.ENOENT, UrbStatus.UNLINKED, UrbStatus.SHUTDOWN))
"""Statuses of transfers that the host took back, or that ended with the device's connection."""

MASKED: Final = frozenset((Command.GET_TIMINGS, Command.GET_DEBUG_LOG))
"""Commands whose data differ from run to run."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer of a capture."""

    number: int
    """Of the packet with which it began, from 1, as Wireshark counts."""
    transfer: TransferType
    endpoint: int
    setup: SetupPacket | None
    sent: bytes
    """OUT data."""
    wanted: int
    """Bytes that an IN request has room for."""
    status: int
    """0, or a negative errno of Linux."""
    length: int
    """Bytes that went across."""
    received: bytes
    """IN data, or the first of them, as many as the capture kept."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first answer that was not as in the capture."""

    number: int
    command: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"packet {self.number}, {self.command}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay came to."""

    transfers: int
    """Transfers that were played."""
    commands: int
    left_out: int
    """Transfers that were not: those of the host's system, and those that the host took back."""
    difference: Difference | None


def devices_of(events: Sequence[CapturedEvent]) -> list[tuple[int, int]]:
    """List the devices of a capture that have bulk transfers, as bus and device number, in order."""
    bulk = (each.event for each in events if each.event.transfer is TransferType.BULK)
    return list(dict.fromkeys((event.bus, event.device) for event in bulk))


def transfers_of(events: Iterable[CapturedEvent], device: tuple[int, int]) -> Iterator[Transfer]:
    """Pair the events of one device, in the order in which the transfers ended.

    Raises CaptureError where OUT data were not captured whole. What had begun before the capture, or has no
    end in it, is left out.
    """
    begun: dict[int, CapturedEvent] = {}
    for each in events:
        event = each.event
        if (event.bus, event.device) != device:
            continue
        if event.event is EventType.SUBMIT:
            begun[event.urb] = each
        elif (start := begun.pop(event.urb, None)) is not None:
            yield _transfer(start.number, start.event, event)


def _transfer(number: int, start: UsbmonEvent, end: UsbmonEvent) -> Transfer:
    inwards = bool(start.endpoint & DIRECTION_IN)
    if not inwards and start.transfer is TransferType.BULK and len(start.data) < start.length:
        raise CaptureError(
            f"packet {number} has {len(start.data)} of {start.length} bytes that the host sent; "
            "record with a larger snapshot length"
        )
    setup = None if start.setup is None else SetupPacket.from_bytes(start.setup)
    return Transfer(
        number,
        start.transfer,
        start.endpoint,
        setup,
        b"" if inwards else start.data,
        start.length if inwards else 0,
        end.status,
        end.length,
        end.data if inwards else b"",
    )


class _Commands:
    """Follows the commands of a host in what it sends."""

    def __init__(self) -> None:
        self.count = 0
        self.current: CommandPacket | None = None
        self._data_follows = False
        self._status_follows = False

    def restart(self) -> None:
        """Expect a command, as after a reset or a halt."""
        self._data_follows = self._status_follows = False

    def sent(self, data: bytes) -> None:
        """Follow one OUT transfer."""
        if self._data_follows:
            self._data_follows = len(data) % PACKET_SIZE == 0 and len(data) > 0
            return
        try:
            self.current = CommandPacket.from_bytes(data)
        except ProtocolError:
            return
        self.count += 1
        self._data_follows = is_set(self.current.command)
        self._status_follows = self.current.dialect is Dialect.DESIGN

    def answer_is_masked(self) -> bool:
        """Return whether the data of the IN transfer that comes now differ from run to run."""
        if self._status_follows:
            self._status_follows = False
            return False
        return self.current is not None and self.current.command in MASKED

    def __str__(self) -> str:
        if self.current is None:
            return "before the first command"
        packet = self.current
        return f"{command_name(packet.command)} of engine {packet.engine}, tensor {packet.tensor}"


def replay(
    transfers: Iterable[Transfer], transport: Transport, *, mask: bool = True, timeout: float | None = 30.0
) -> ReplayResult:
    """Play transfers to a device and compare status, length and data, up to the first difference.

    With `mask` the data of timings and of the debug log are not compared, nor the length of the log. Raises
    HostError where the device cannot be reached any more.
    """
    commands = _Commands()
    played = left_out = 0
    for transfer in transfers:
        if transfer.transfer is TransferType.CONTROL:
            if _play_control(transfer, transport, commands):
                played += 1
            else:
                left_out += 1
            continue
        if transfer.transfer is not TransferType.BULK or transfer.status in _TAKEN_BACK:
            left_out += 1
            continue
        played += 1
        difference = (
            _read(transfer, transport, commands, mask, timeout)
            if transfer.endpoint & DIRECTION_IN
            else _write(transfer, transport, commands, timeout)
        )
        if difference is not None:
            return ReplayResult(played, commands.count, left_out, difference)
    return ReplayResult(played, commands.count, left_out, None)


def _play_control(transfer: Transfer, transport: Transport, commands: _Commands) -> bool:
    setup = transfer.setup
    if setup is None or transfer.status:
        return False
    if (setup.request_type, setup.request) == (Recipient.ENDPOINT, StandardRequest.CLEAR_FEATURE):
        transport.clear_halts()
    elif (setup.request_type, setup.request) == (0, StandardRequest.SET_CONFIGURATION):
        transport.reset()
    else:
        return False
    commands.restart()
    return True


def _write(
    transfer: Transfer, transport: Transport, commands: _Commands, timeout: float | None
) -> Difference | None:
    commands.sent(transfer.sent)
    try:
        transport.write(transfer.sent, timeout)
    except (TransferStall, TransferTimeout) as error:
        got = _status_of(error)
    else:
        got = "ok"
    return _compare(transfer, commands, _expected_status(transfer), got)


def _read(
    transfer: Transfer, transport: Transport, commands: _Commands, mask: bool, timeout: float | None
) -> Difference | None:
    masked = commands.answer_is_masked() and mask
    room = max(PACKET_SIZE, -(-transfer.wanted // PACKET_SIZE) * PACKET_SIZE)
    try:
        data = transport.read(room, timeout)
    except (TransferStall, TransferTimeout) as error:
        return _compare(transfer, commands, _expected_status(transfer), _status_of(error))
    if transfer.status:
        return _compare(transfer, commands, _expected_status(transfer), f"{len(data)} bytes")
    is_log = commands.current is not None and commands.current.command == Command.GET_DEBUG_LOG
    if not (masked and is_log) and len(data) != transfer.length:
        return _compare(transfer, commands, f"{transfer.length} bytes", f"{len(data)} bytes")
    if masked:
        return None
    place = _first_difference(transfer.received, data)
    if place is None:
        return None
    at = f"at byte {place}: "
    return _compare(transfer, commands, at + _shown(transfer.received, place), at + _shown(data, place))


def _compare(transfer: Transfer, commands: _Commands, expected: str, got: str) -> Difference | None:
    return None if expected == got else Difference(transfer.number, str(commands), expected, got)


def _expected_status(transfer: Transfer) -> str:
    if not transfer.status:
        return f"{transfer.length} bytes" if transfer.endpoint & DIRECTION_IN else "ok"
    return "a stall" if transfer.status == UrbStatus.STALL else f"status {transfer.status}"


def _status_of(error: HostError) -> str:
    return "a stall" if isinstance(error, TransferStall) else "no answer in time"


def _first_difference(expected: bytes, got: bytes) -> int | None:
    if expected == got[: len(expected)]:
        return None
    return next(place for place, pair in enumerate(zip(expected, got, strict=False)) if pair[0] != pair[1])


def _shown(data: bytes, place: int) -> str:
    """Show some bytes from a place on."""
    return data[place : place + 8].hex(" ") + (" ..." if len(data) > place + 8 else "")
