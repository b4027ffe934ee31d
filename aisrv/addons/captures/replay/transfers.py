"""The transfers of a capture: each request of one device with its end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.protocol.commands import PACKET_SIZE
from aisrv.protocol.usb_descriptors import DIRECTION_IN, SetupPacket
from aisrv.protocol.usbip import MAX_TRANSFER
from phy.usb.taps.capture_reader import CapturedEvent, CaptureError
from phy.usb.taps.usbmon import EventType, TransferType, UsbmonEvent
from phy.usb.taps.usbpcap import ROOM_UNKNOWN

MAX_IN_FLIGHT: Final = 64 * 1024 * 1024
"""Bytes of all requests in flight at once that are played; Linux allows its programs a quarter of it."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One request of a capture with its end."""

    number: int
    """Number of the packet with which it began, from 1, as Wireshark counts."""
    end: int
    transfer: TransferType
    endpoint: int
    """Address; for endpoint 0, bit 7 is the direction of the data stage."""
    setup: SetupPacket | None
    sent: bytes
    wanted: int
    """Room of an IN request, in bytes."""
    status: int
    """0, or a negative errno of Linux."""
    length: int
    """Bytes transferred."""
    received: bytes
    """IN data, or the first of them, as many as the capture kept."""
    zero_packet: bool = False
    """Whether OUT data of whole packets end with an empty one."""
    seconds: float = 0.0

    @property
    def is_in(self) -> bool:
        return bool(self.endpoint & DIRECTION_IN)


def devices_of(events: Sequence[CapturedEvent]) -> list[tuple[int, int]]:
    """List the devices of a capture that have bulk transfers, as bus and device number, in order."""
    bulk = (each.event for each in events if each.event.transfer is TransferType.BULK)
    return list(dict.fromkeys((event.bus, event.device) for event in bulk))


def transfers_of(events: Iterable[CapturedEvent], device: tuple[int, int]) -> list[Transfer]:
    """Pair the events of one device, in the order in which the transfers began.

    Requests that began before the capture, or have no end in it, are left out. Raises CaptureError if OUT
    data were not captured whole, and for more data than a host can have in flight.
    """
    begun: dict[int, CapturedEvent] = {}
    found: list[Transfer] = []
    for each in events:
        event = each.event
        if (event.bus, event.device) != device:
            continue
        if event.event is EventType.SUBMIT:
            begun[event.urb] = each
        elif (start := begun.pop(event.urb, None)) is not None and event.event is EventType.COMPLETE:
            found.append(_transfer(start, each))
    found.sort(key=lambda transfer: transfer.number)
    _check_in_flight(found)
    return found


def _transfer(begin: CapturedEvent, done: CapturedEvent) -> Transfer:
    start, end = begin.event, done.event
    inwards = bool(start.endpoint & DIRECTION_IN)
    if not inwards and len(start.data) < start.length:
        raise CaptureError(
            f"packet {begin.number} has {len(start.data)} of {start.length} bytes that the host sent; "
            "record with a larger snapshot length"
        )
    if start.length > MAX_TRANSFER:
        raise CaptureError(
            f"packet {begin.number} is a request for {start.length:,} bytes; at most {MAX_TRANSFER:,} can be "
            "played"
        )
    return Transfer(
        number=begin.number,
        end=done.number,
        transfer=start.transfer,
        endpoint=start.endpoint,
        setup=None if start.setup is None else SetupPacket.from_bytes(start.setup),
        sent=b"" if inwards else start.data,
        wanted=_room(start, end) if inwards else 0,
        status=end.status,
        length=end.length,
        received=end.data[: end.length] if inwards else b"",
        zero_packet=start.zero_packet,
        seconds=max(0.0, (end.timestamp - start.timestamp) / 1e9),
    )


def _room(start: UsbmonEvent, end: UsbmonEvent) -> int:
    """Return the room of an IN request; if unrecorded, enough for a short packet to end the answer."""
    if start.length != ROOM_UNKNOWN:
        return start.length
    return min((end.length // PACKET_SIZE + 1) * PACKET_SIZE, MAX_TRANSFER)


def _check_in_flight(transfers: Sequence[Transfer]) -> None:
    """Raise CaptureError for more than MAX_IN_FLIGHT bytes at once."""
    changes = [(each.number, len(each.sent) + each.wanted) for each in transfers]
    changes += [(each.end, -len(each.sent) - each.wanted) for each in transfers]
    in_flight = 0
    for number, change in sorted(changes):
        in_flight += change
        if in_flight > MAX_IN_FLIGHT:
            raise CaptureError(f"with packet {number} more than {MAX_IN_FLIGHT:,} bytes are in flight")
