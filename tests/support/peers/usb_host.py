"""The host's end of the endpoints, request by request, and an independent model of what crosses the bus."""

from collections.abc import Callable, Iterable
from functools import cache

from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import InEndpoint, OutEndpoint, Packets

SIZES = (0, 1, 3, 4, 511, 512, 513, 1024, 1025)
"""Lengths around every boundary of a bulk endpoint with packets of 512 bytes."""

PACKET = 512


@cache
def pattern(length: int) -> bytes:
    """Bytes of which no two packets are alike."""
    return bytes((i * 7 + i // 256 * 13 + 1) & 0xFF for i in range(length))


def packets_of(data: bytes, *, ended: bool = True) -> list[bytes]:
    """Packets of a transfer: full ones and then, where it is ended, a shorter one."""
    full = len(data) // PACKET
    packets = [data[i * PACKET : (i + 1) * PACKET] for i in range(full)]
    return [*packets, data[full * PACKET :]] if ended else packets


def wire(taken: Packets) -> list[bytes]:
    """What `get_buffer` returned, packet by packet."""
    return packets_of(taken.data, ended=taken.short)


class Out:
    """An OUT request, submitted, and how it ended; a second end would be a second entry."""

    def __init__(
        self,
        endpoint: OutEndpoint,
        data: bytes = b"",
        *,
        length: int | None = None,
        zero_packet: bool = False,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        self.ended: list[tuple[TransferStatus, int]] = []
        self._endpoint = endpoint

        def complete(status: TransferStatus, taken: int) -> None:
            self.ended.append((status, taken))
            then()

        self.request = OutUrb(len(data) if length is None else length, complete, zero_packet=zero_packet)
        if data:
            self.request.feed(data)
        endpoint.submit(self.request)

    def feed(self, *pieces: bytes | memoryview) -> None:
        for piece in pieces:
            self.request.feed(piece)
            self._endpoint.data_arrived()


class In:
    """An IN request, submitted, and how it ended."""

    def __init__(
        self, endpoint: InEndpoint, length: int, *, then: Callable[[], object] = lambda: None
    ) -> None:
        self.ended: list[tuple[TransferStatus, bytes | memoryview]] = []

        def complete(status: TransferStatus, data: bytes | memoryview) -> None:
            self.ended.append((status, data))
            then()

        self.request = InUrb(length, complete)
        endpoint.submit(self.request)


def received(packets: Iterable[bytes], lengths: Iterable[int]) -> list[tuple[TransferStatus, bytes] | None]:
    """How requests of these lengths end on these packets, by the rules of USB 2.0, sections 5.8.3 and 8.7.4.

    A packet that is larger than the room left is babble: the request fails and the device, which got no
    handshake, offers the packet again. None is a request that still waits.
    """
    left = list(packets)
    ends: list[tuple[TransferStatus, bytes] | None] = []
    for length in lengths:
        got = b""
        end = None
        while left and end is None:
            if len(left[0]) > length - len(got):
                end = TransferStatus.OVERFLOW
                break
            packet = left.pop(0)
            got += packet
            if len(packet) < PACKET or len(got) == length:
                end = TransferStatus.OKAY
        ends.append(None if end is None else (end, got))
    return ends
