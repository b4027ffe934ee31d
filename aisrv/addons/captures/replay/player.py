"""Player of a capture's transfers to a device, in the order in which they began and ended there.

A request begins where it began in the capture: after those that had ended before it, and beside those that
had not. Each answer is compared when its end comes; the first that differs ends the replay.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.addons.captures.replay import control
from aisrv.addons.captures.replay.commands import FOLLOWERS, CommandFollower, Mask
from aisrv.addons.captures.replay.transfers import Transfer
from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usbip import UrbStatus
from host_tools.transports.transport import TIMED_OUT, Outcome, Request, RequestTransport, Ticket
from phy.usb.taps.usbmon import TransferType

_TAKEN_BACK: Final = frozenset((-errno.ENOENT, UrbStatus.UNLINKED))
"""Statuses of requests that the host took back."""
_SHORT: Final = -errno.EREMOTEIO
"""Status of an IN request that ended with a short packet, if the host asked to be told."""
_SHOWN_BYTES: Final = 8
_LARGEST_ANSWER: Final = 64 * 1024
"""Room for an answer that may be longer than the recorded one."""

_STATUS_NAMES: Final = {
    UrbStatus.STALL: "a stall",
    UrbStatus.OVERFLOW: "more data than there is room for",
    UrbStatus.UNLINKED: "no answer until the host took the request back",
    -errno.ENOENT: "no answer until the host took the request back",
    TIMED_OUT: "no answer in time",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first answer that was not as in the capture."""

    number: int
    """Number of the packet with which the transfer began."""
    command: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"packet {self.number}, {self.command}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay."""

    transfers: int
    commands: int
    left_out: int
    """Skipped transfers: those of the bus and of one device alone, and such as have no answer."""
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class _Step:
    """A transfer with its name, and the compared parts of its answer."""

    transfer: Transfer
    name: str
    mask: Mask


def replay(
    transfers: Sequence[Transfer],
    transport: RequestTransport,
    *,
    protocol: str = "aisrv",
    mask: bool = True,
    timeout: float | None = 30.0,
) -> ReplayResult:
    """Play transfers to a device and compare status, length and data, up to the first difference.

    With `mask` the data of timings, of the debug log and of the profile are not compared, nor the length of
    the latter two, nor what differs from device to device. Raises HostError if the device is gone.
    """
    follower = FOLLOWERS[protocol]()
    steps = _steps(transfers, follower, mask=mask)
    in_flight: dict[int, Ticket] = {}
    played = 0
    try:
        for number, is_end, step in _timeline(steps):
            if not is_end:
                in_flight[number] = transport.start(_request(step), _time_for(step.transfer, timeout))
                continue
            ticket = in_flight.pop(step.transfer.number)
            taken_back = step.transfer.status in _TAKEN_BACK
            outcome = ticket.withdraw() if taken_back else ticket.finish()
            played += 1
            difference = _compare(step, outcome, mask=mask)
            if difference is not None:
                return ReplayResult(played, follower.count, len(transfers) - len(steps), difference)
    finally:
        for ticket in in_flight.values():
            ticket.withdraw()
    return ReplayResult(played, follower.count, len(transfers) - len(steps), None)


def _steps(transfers: Sequence[Transfer], follower: CommandFollower, *, mask: bool) -> list[_Step]:
    """Name the transfers, in the order in which they ended, and leave out what is not played."""
    skipped = control.left_out(transfers)
    steps = []
    for transfer in sorted(transfers, key=lambda each: each.end):
        masked = Mask.NOTHING
        if transfer.transfer is TransferType.CONTROL:
            if transfer.setup is None or transfer.number in skipped:
                continue
            name = control.describe(transfer.setup)
            if not transfer.status and control.restarts_commands(transfer.setup):
                follower.restart()
        elif transfer.transfer is TransferType.BULK:
            if not transfer.is_in and transfer.status not in _TAKEN_BACK:
                follower.sent(transfer.sent)
            elif transfer.is_in and transfer.status in (UrbStatus.OKAY, _SHORT):
                masked = follower.answered() if mask else Mask.NOTHING
            name = str(follower)
        else:
            continue
        if masked is Mask.REST or transfer.status in (UrbStatus.SHUTDOWN, UrbStatus.NO_DEVICE):
            continue
        steps.append(_Step(transfer, name, masked))
    return steps


def _timeline(steps: Sequence[_Step]) -> list[tuple[int, bool, _Step]]:
    begins = [(step.transfer.number, False, step) for step in steps]
    ends = [(step.transfer.end, True, step) for step in steps]
    return sorted(begins + ends, key=lambda each: each[:2])


def _request(step: _Step) -> Request:
    transfer = step.transfer
    room = transfer.wanted
    if step.mask is Mask.LENGTH:
        room = max(room, _LARGEST_ANSWER)
    if transfer.transfer is TransferType.BULK and transfer.is_in:
        # A device may not send more than there is room for in whole packets.
        room = max(PACKET_SIZE, -(-room // PACKET_SIZE) * PACKET_SIZE)
    setup = b"" if transfer.setup is None else bytes(transfer.setup)
    return Request(transfer.endpoint, transfer.sent, room, setup, transfer.zero_packet)


def _time_for(transfer: Transfer, timeout: float | None) -> float | None:
    """Return the time-out: a request that its host took back has no longer than it had in the capture."""
    if transfer.status not in _TAKEN_BACK:
        return timeout
    return transfer.seconds if timeout is None else min(transfer.seconds, timeout)


def _compare(step: _Step, outcome: Outcome, *, mask: bool) -> Difference | None:
    expected, got = _statuses(step.transfer, outcome)
    if expected is None:
        expected, got = _answers(step, outcome, mask=mask)
    if expected is None or got is None:
        return None
    return Difference(step.transfer.number, step.name, expected, got)


def _statuses(transfer: Transfer, outcome: Outcome) -> tuple[str | None, str | None]:
    """Return expected and actual status if they differ; None twice if both are the same."""
    recorded = UrbStatus.OKAY if transfer.status == _SHORT else transfer.status
    if transfer.status in _TAKEN_BACK and outcome.status in (*_TAKEN_BACK, TIMED_OUT):
        return None, None
    if recorded == outcome.status:
        return None, None
    return _status(recorded, transfer.length, transfer), _status(outcome.status, outcome.length, transfer)


def _status(status: int, length: int, transfer: Transfer) -> str:
    if status:
        return _STATUS_NAMES.get(status, f"status {status}")
    return f"{length} bytes" if transfer.is_in else "ok"


def _answers(step: _Step, outcome: Outcome, *, mask: bool) -> tuple[str | None, str | None]:
    """Return expected and actual answer if they differ."""
    transfer = step.transfer
    if outcome.status or step.mask is Mask.LENGTH:
        return None, None
    if transfer.is_in and outcome.length != transfer.length:
        return f"{transfer.length} bytes", f"{outcome.length} bytes"
    if step.mask is Mask.DATA or not transfer.is_in:
        return None, None
    if transfer.setup is not None:
        found = control.first_difference(transfer.setup, transfer.received, outcome.data, mask=mask)
        return found or (None, None)
    place = _first_difference(transfer.received, outcome.data)
    if place is None:
        return None, None
    at = f"at byte {place}: "
    return at + _shown(transfer.received, place), at + _shown(outcome.data, place)


def _first_difference(expected: bytes, got: bytes) -> int | None:
    if expected == got[: len(expected)]:
        return None
    return next(place for place, pair in enumerate(zip(expected, got, strict=False)) if pair[0] != pair[1])


def _shown(data: bytes, place: int) -> str:
    more = " ..." if len(data) > place + _SHOWN_BYTES else ""
    return data[place : place + _SHOWN_BYTES].hex(" ") + more
