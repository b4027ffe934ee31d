"""The SPI link as values: what a program that drives SPI and a device say to each other over TCP.

Values only, no I/O; a protocol of our own, described in docs/guides/programs.md. Every frame is a head of
8 bytes (kind u8, three zero bytes, length of the body u32), then the body; every integer is big-endian. The
client begins with HELLO and gets SLAVES; it opens one of them, and then each MESSAGE is answered by one DONE.
Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, NamedTuple

from aisrv.values.packet import I32, U8, U16, U32, Packet, Pad3, Rest, Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION: Final = 1
MAGIC: Final = b"AISRVSPI"
"""The first bytes of a HELLO: a peer that speaks something else is known at once."""

MAX_MESSAGE: Final = 1024 * 1024
"""Bytes that one message may clock."""

MAX_TRANSFERS: Final = 511
"""Transfers of one message, as many as Linux takes in one SPI_IOC_MESSAGE."""

MAX_SLAVES: Final = 255
MAX_NAME: Final = 255

_UNSTATED = 0xFFFFFFFF


class SpiLinkError(ValueError):
    """Bytes that are not a frame of this protocol."""


class FrameKind(enum.IntEnum):
    """The kind of a frame."""

    HELLO = 1
    SLAVES = 2
    OPEN = 3
    OPENED = 4
    MESSAGE = 5
    DONE = 6


class LinkPacket(Packet, byte_order=">", error=SpiLinkError):
    """Base of the fixed layouts; the bytes of those with a `KIND` are the body of a frame."""


class Head(LinkPacket, name="the head of a frame"):
    """What every frame begins with; a body of `size` bytes follows."""

    kind: U8
    padding: ClassVar[Pad3]
    size: U32


class TransferHead(LinkPacket, name="the head of a transfer"):
    """One transfer of a MESSAGE without its bytes; 0xffffffff stands for what the master does not state."""

    size: U32
    clock_hz: U32
    cs_setup: U32
    cs_hold: U32
    cs_idle: U32
    deselect: U8
    padding: ClassVar[Pad3]


HEAD_SIZE: Final = Head.SIZE
_COUNT_SIZE: Final = 2

MAX_BODY: Final = _COUNT_SIZE + MAX_TRANSFERS * TransferHead.SIZE + MAX_MESSAGE
"""Bytes of the largest body; a frame that announces more is not a frame of this protocol."""


def parse_head(data: bytes | bytearray) -> tuple[int, int]:
    """Kind and length of the body from the first 8 bytes; SpiLinkError where the length is too large."""
    head = Head.unpack_from(data)
    if head.size > MAX_BODY:
        raise SpiLinkError(f"frame {head.kind} announces {head.size} bytes, {MAX_BODY} are allowed")
    return head.kind, head.size


def frame(value: Hello | Slaves | Open | Opened | LinkMessage | Done) -> bytes:
    """A whole frame: head and body."""
    body = bytes(value)
    return bytes(Head(value.KIND, len(body))) + body


class Hello(LinkPacket, name="a HELLO"):
    """The client's first frame."""

    KIND: ClassVar = FrameKind.HELLO

    magic: ClassVar[Annotated[bytes, Wire("8s")]] = MAGIC
    version: U16 = VERSION


@dataclass(frozen=True, slots=True)
class Slaves:
    """The server's version and the names of its slaves, such as `0.0`: bus and chip select."""

    KIND: ClassVar = FrameKind.SLAVES

    names: tuple[str, ...]
    version: int = VERSION

    @classmethod
    def from_bytes(cls, body: bytes) -> Slaves:
        """Read SLAVES; names that do not fill the body are a SpiLinkError."""
        if len(body) < 3:
            raise SpiLinkError(f"SLAVES has at least 3 bytes, not {len(body)}")
        version, count = int.from_bytes(body[:2], "big"), body[2]
        names: list[str] = []
        place = 3
        for _ in range(count):
            end = place + 1 + (body[place] if place < len(body) else 0)
            if place >= len(body) or end > len(body):
                raise SpiLinkError(f"SLAVES of {len(body)} bytes ends within name {len(names)} of {count}")
            names.append(_name(body[place + 1 : end]))
            place = end
        if place != len(body):
            raise SpiLinkError(f"SLAVES has {len(body) - place} bytes after its {count} names")
        return cls(tuple(names), version)

    def __bytes__(self) -> bytes:
        if len(self.names) > MAX_SLAVES:
            raise SpiLinkError(f"{len(self.names)} slaves, {MAX_SLAVES} are allowed")
        names = [_encoded(name) for name in self.names]
        head = self.version.to_bytes(2, "big") + bytes([len(names)])
        return head + b"".join(bytes([len(name)]) + name for name in names)


@dataclass(frozen=True, slots=True)
class Open:
    """Asks for a slave by its name."""

    KIND: ClassVar = FrameKind.OPEN

    name: str

    @classmethod
    def from_bytes(cls, body: bytes) -> Open:
        """Read OPEN; a name that is empty, too long or no ASCII is a SpiLinkError."""
        if not 0 < len(body) <= MAX_NAME:
            raise SpiLinkError(f"the name of a slave has 1 to {MAX_NAME} bytes, not {len(body)}")
        return cls(_name(body))

    def __bytes__(self) -> bytes:
        return _encoded(self.name)


class Opened(LinkPacket, name="OPENED"):
    """Whether the slave is there: `error` is 0 or an errno value of Linux."""

    KIND: ClassVar = FrameKind.OPENED

    error: I32 = 0
    max_speed_hz: U32 = 0
    """The fastest clock that the slave takes."""


class LinkTransfer(NamedTuple):
    """Bytes clocked in one go; what a master does not state is None."""

    mosi: bytes
    deselect: bool = True
    """Whether chip select goes high at the end."""
    clock_hz: int | None = None
    cs_setup: int | None = None
    """Nanoseconds from chip select low to the first clock edge."""
    cs_hold: int | None = None
    """Nanoseconds from the last clock edge to chip select high."""
    cs_idle: int | None = None
    """Nanoseconds that chip select was high before."""


@dataclass(frozen=True, slots=True)
class LinkMessage:
    """Transfers to clock one after the other."""

    KIND: ClassVar = FrameKind.MESSAGE

    transfers: Sequence[LinkTransfer]

    @classmethod
    def from_bytes(cls, body: bytes) -> LinkMessage:
        """Read a MESSAGE; sizes that do not fill the body, or break a bound, are a SpiLinkError."""
        if len(body) < _COUNT_SIZE:
            raise SpiLinkError(f"a MESSAGE has at least {_COUNT_SIZE} bytes, not {len(body)}")
        count = int.from_bytes(body[:_COUNT_SIZE], "big")
        if count > MAX_TRANSFERS:
            raise SpiLinkError(f"a MESSAGE of {count} transfers, {MAX_TRANSFERS} are allowed")
        start = _COUNT_SIZE + count * TransferHead.SIZE
        if len(body) < start:
            raise SpiLinkError(f"a MESSAGE of {count} transfers has {start} bytes or more, not {len(body)}")
        transfers = []
        for place in range(_COUNT_SIZE, start, TransferHead.SIZE):
            head = TransferHead.unpack_from(body, place)
            mosi = body[start : start + head.size]
            if len(mosi) < head.size:
                raise SpiLinkError(
                    f"a transfer of {head.size} bytes, the MESSAGE has {len(mosi)} left for it"
                )
            stated = map(_stated, (head.clock_hz, head.cs_setup, head.cs_hold, head.cs_idle))
            transfers.append(LinkTransfer(mosi, bool(head.deselect), *stated))
            start += head.size
        if start != len(body):
            raise SpiLinkError(f"a MESSAGE has {len(body) - start} bytes after its transfers")
        return cls(transfers)

    def __bytes__(self) -> bytes:
        size = sum(len(each.mosi) for each in self.transfers)
        if len(self.transfers) > MAX_TRANSFERS or size > MAX_MESSAGE:
            raise SpiLinkError(
                f"a message of {len(self.transfers)} transfers and {size} bytes; "
                f"{MAX_TRANSFERS} and {MAX_MESSAGE} are allowed"
            )
        heads = [
            bytes(
                TransferHead(
                    len(each.mosi),
                    _word(each.clock_hz),
                    _word(each.cs_setup),
                    _word(each.cs_hold),
                    _word(each.cs_idle),
                    each.deselect,
                )
            )
            for each in self.transfers
        ]
        count = len(heads).to_bytes(_COUNT_SIZE, "big")
        return b"".join((count, *heads, *(each.mosi for each in self.transfers)))


class Done(LinkPacket, name="DONE"):
    """The end of a message: `error` is 0 or an errno value; `miso` is what came, all transfers joined."""

    KIND: ClassVar = FrameKind.DONE

    error: I32 = 0
    miso: Rest = b""


def _encoded(name: str) -> bytes:
    encoded = name.encode("ascii", "replace")
    if not 0 < len(encoded) <= MAX_NAME:
        raise SpiLinkError(f"the name of a slave has 1 to {MAX_NAME} characters, {name!r} has {len(encoded)}")
    return encoded


def _name(encoded: bytes) -> str:
    try:
        return bytes(encoded).decode("ascii")
    except UnicodeDecodeError:
        raise SpiLinkError(f"the name of a slave is ASCII, not {bytes(encoded)!r}") from None


def _word(value: int | None) -> int:
    return _UNSTATED if value is None else min(value, _UNSTATED - 1)


def _stated(word: int) -> int | None:
    return None if word == _UNSTATED else word
