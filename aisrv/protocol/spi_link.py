"""The SPI link as values: what a program that drives SPI and a device say to each other over TCP.

Values only, no I/O; a protocol of our own, described in docs/guides/spi-programs.md. Every frame is a head of
8 bytes (kind u8, three zero bytes, length of the body u32), then the body; every integer is big-endian. The
client begins with HELLO and gets SLAVES; it opens one of them, and then each MESSAGE is answered by one DONE.
Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

VERSION: Final = 1
MAGIC: Final = b"AISRVSPI"
"""The first bytes of a HELLO: a peer that speaks something else is known at once."""

MAX_MESSAGE: Final = 1024 * 1024
"""Bytes that one message may clock."""

MAX_TRANSFERS: Final = 511
"""Transfers of one message, as many as Linux takes in one SPI_IOC_MESSAGE."""

MAX_SLAVES: Final = 255
MAX_NAME: Final = 255

HEAD_SIZE: Final = 8

_HEAD = struct.Struct(">B3xI")
_HELLO = struct.Struct(">8sH")
_OPENED = struct.Struct(">iI")
_TRANSFER = struct.Struct(">5IB3x")
_STATUS = struct.Struct(">i")
_COUNT = struct.Struct(">H")
_UNSTATED = 0xFFFFFFFF

MAX_BODY: Final = _COUNT.size + MAX_TRANSFERS * _TRANSFER.size + MAX_MESSAGE
"""Bytes of the largest body; a frame that announces more is no frame of this protocol."""


class SpiLinkError(ValueError):
    """Bytes that are no frame of this protocol."""


class Kind(enum.IntEnum):
    """What a frame is."""

    HELLO = 1
    SLAVES = 2
    OPEN = 3
    OPENED = 4
    MESSAGE = 5
    DONE = 6


def frame(kind: Kind, body: bytes) -> bytes:
    """A whole frame: head and body."""
    return _HEAD.pack(kind, len(body)) + body


def parse_head(data: bytes | bytearray) -> tuple[int, int]:
    """Kind and length of the body from the first 8 bytes; SpiLinkError where the length is too large."""
    if len(data) < HEAD_SIZE:
        raise SpiLinkError(f"a frame begins with {HEAD_SIZE} bytes, not {len(data)}")
    kind, size = _HEAD.unpack_from(data)
    if size > MAX_BODY:
        raise SpiLinkError(f"frame {kind} announces {size} bytes, {MAX_BODY} are allowed")
    return kind, size


class Hello(NamedTuple):
    """The client's first frame."""

    version: int = VERSION

    @classmethod
    def from_body(cls, body: bytes) -> Hello:
        """Read a HELLO; anything else is a SpiLinkError."""
        if len(body) != _HELLO.size:
            raise SpiLinkError(f"a HELLO has {_HELLO.size} bytes, not {len(body)}")
        magic, version = _HELLO.unpack(body)
        if magic != MAGIC:
            raise SpiLinkError(f"a HELLO begins with {MAGIC!r}, not {magic!r}")
        return cls(version)

    def __bytes__(self) -> bytes:
        return frame(Kind.HELLO, _HELLO.pack(MAGIC, self.version))


class Slaves(NamedTuple):
    """The server's version and the names of its slaves, such as `0.0`: bus and chip select."""

    names: tuple[str, ...]
    version: int = VERSION

    @classmethod
    def from_body(cls, body: bytes) -> Slaves:
        """Read SLAVES; names that do not fill the body are a SpiLinkError."""
        if len(body) < 3:
            raise SpiLinkError(f"SLAVES has at least 3 bytes, not {len(body)}")
        version, count = struct.unpack_from(">HB", body)
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
        body = struct.pack(">HB", self.version, len(names))
        return frame(Kind.SLAVES, body + b"".join(bytes([len(name)]) + name for name in names))


class Open(NamedTuple):
    """Asks for a slave by its name."""

    name: str

    @classmethod
    def from_body(cls, body: bytes) -> Open:
        """Read OPEN; a name that is empty, too long or no ASCII is a SpiLinkError."""
        if not 0 < len(body) <= MAX_NAME:
            raise SpiLinkError(f"the name of a slave has 1 to {MAX_NAME} bytes, not {len(body)}")
        return cls(_name(body))

    def __bytes__(self) -> bytes:
        return frame(Kind.OPEN, _encoded(self.name))


class Opened(NamedTuple):
    """Whether the slave is there: `error` is 0 or an errno value of Linux."""

    error: int = 0
    max_speed_hz: int = 0
    """The fastest clock that the slave takes."""

    @classmethod
    def from_body(cls, body: bytes) -> Opened:
        """Read OPENED; another length than 8 bytes is a SpiLinkError."""
        if len(body) != _OPENED.size:
            raise SpiLinkError(f"OPENED has {_OPENED.size} bytes, not {len(body)}")
        return cls(*_OPENED.unpack(body))

    def __bytes__(self) -> bytes:
        return frame(Kind.OPENED, _OPENED.pack(self.error, self.max_speed_hz))


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


class Message(NamedTuple):
    """Transfers to clock one after the other."""

    transfers: Sequence[LinkTransfer]

    @classmethod
    def from_body(cls, body: bytes) -> Message:
        """Read a MESSAGE; sizes that do not fill the body, or break a bound, are a SpiLinkError."""
        if len(body) < _COUNT.size:
            raise SpiLinkError(f"a MESSAGE has at least {_COUNT.size} bytes, not {len(body)}")
        (count,) = _COUNT.unpack_from(body)
        if count > MAX_TRANSFERS:
            raise SpiLinkError(f"a MESSAGE of {count} transfers, {MAX_TRANSFERS} are allowed")
        start = _COUNT.size + count * _TRANSFER.size
        if len(body) < start:
            raise SpiLinkError(f"a MESSAGE of {count} transfers has {start} bytes or more, not {len(body)}")
        transfers = []
        for place in range(_COUNT.size, start, _TRANSFER.size):
            size, clock, setup, hold, idle, deselect = _TRANSFER.unpack_from(body, place)
            mosi = body[start : start + size]
            if len(mosi) < size:
                raise SpiLinkError(f"a transfer of {size} bytes, the MESSAGE has {len(mosi)} left for it")
            transfers.append(
                LinkTransfer(
                    mosi, bool(deselect), _stated(clock), _stated(setup), _stated(hold), _stated(idle)
                )
            )
            start += size
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
            _TRANSFER.pack(
                len(each.mosi),
                _word(each.clock_hz),
                _word(each.cs_setup),
                _word(each.cs_hold),
                _word(each.cs_idle),
                each.deselect,
            )
            for each in self.transfers
        ]
        body = [_COUNT.pack(len(heads)), *heads, *(each.mosi for each in self.transfers)]
        return frame(Kind.MESSAGE, b"".join(body))


class Done(NamedTuple):
    """The end of a message: `error` is 0 or an errno value; `miso` is what came, all transfers joined."""

    miso: bytes = b""
    error: int = 0

    @classmethod
    def from_body(cls, body: bytes) -> Done:
        """Read DONE; fewer than 4 bytes are a SpiLinkError."""
        if len(body) < _STATUS.size:
            raise SpiLinkError(f"DONE has at least {_STATUS.size} bytes, not {len(body)}")
        return cls(body[_STATUS.size :], *_STATUS.unpack_from(body))

    def __bytes__(self) -> bytes:
        return frame(Kind.DONE, _STATUS.pack(self.error) + self.miso)


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
