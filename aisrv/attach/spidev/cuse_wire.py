"""The messages of CUSE as values: how Linux's kernel hands the calls on a character device to a program.

Each request is read from `/dev/cuse` as one message, a header and what belongs to its opcode; each reply is
written as one, with the request's number. All in this machine's byte order. Source: the Linux kernel's header
`linux/fuse.h`, protocol 7.
"""

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

MAJOR: Final = 7
OLDEST_MINOR: Final = 16
"""From here on a retried ioctl's pieces of memory have 64-bit addresses, whatever the program's are."""

NEWEST_MINOR: Final = 38

MOST_REGIONS: Final = 256
"""Pieces of memory that an ioctl may ask for (FUSE_IOCTL_MAX_IOV)."""


class CuseWireError(ValueError):
    """Bytes that are no request of CUSE."""


class Opcode(enum.IntEnum):
    """What the kernel asks for; it may ask for more, which is to be answered with ENOSYS."""

    OPEN = 14
    READ = 15
    WRITE = 16
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INTERRUPT = 36
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    INIT = 4096
    """CUSE_INIT: the first request of all."""


class InitFlag(enum.IntFlag):
    """Of INIT."""

    UNRESTRICTED_IOCTL = 1
    """Ioctls may ask for memory that their argument points to."""


class IoctlFlag(enum.IntFlag):
    """Of IOCTL and its reply."""

    UNRESTRICTED = 2
    RETRY = 4
    """In a reply: make the same ioctl again, with the pieces of memory that follow."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request: its opcode, its number, and the bytes of the opcode's own structure and data."""

    opcode: int
    unique: int
    body: bytes

    LAYOUT: ClassVar = struct.Struct("=IIQQIIII")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a message; CuseWireError where it is shorter than its header says, or longer."""
        if len(data) < cls.LAYOUT.size:
            raise CuseWireError(f"a request of {len(data)} bytes, its header alone has {cls.LAYOUT.size}")
        size, opcode, unique, *_ = cls.LAYOUT.unpack_from(data)
        if size != len(data):
            raise CuseWireError(f"a request of {len(data)} bytes that says it has {size}")
        return cls(opcode, unique, bytes(data[cls.LAYOUT.size :]))


def reply(unique: int, body: bytes = b"", *, errno: int = 0) -> bytes:
    """The reply to a request, or with an errno its failure."""
    return _REPLY.pack(_REPLY.size + len(body), -errno, unique) + body


_REPLY: Final = struct.Struct("=IiQ")


def _fields(layout: struct.Struct, body: bytes, name: str) -> tuple[int, ...]:
    """The structure at the start of a body; a CuseWireError where the body is too short."""
    if len(body) < layout.size:
        raise CuseWireError(f"{name} with {len(body)} bytes, it has {layout.size}")
    return layout.unpack_from(body)


@dataclass(frozen=True, slots=True)
class Init:
    """INIT: the protocol that the kernel speaks."""

    major: int
    minor: int
    flags: int = 0

    LAYOUT: ClassVar = struct.Struct("=IIII")

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the body of a request."""
        major, minor, _, flags = _fields(cls.LAYOUT, body, "INIT")
        return cls(major, minor, flags)


_INIT_REPLY: Final = struct.Struct("=IIIIIIII40x")


def init_reply(minor: int, most_bytes: int, name: str) -> bytes:
    """The reply's body: makes `/dev/NAME`, whose reads and writes come in pieces of `most_bytes`."""
    flags = InitFlag.UNRESTRICTED_IOCTL
    any_number = (0, 0)
    numbers = _INIT_REPLY.pack(MAJOR, minor, 0, flags, most_bytes, most_bytes, *any_number)
    return numbers + f"DEVNAME={name}".encode() + b"\0"


def open_reply(handle: int) -> bytes:
    """The body of the reply to OPEN: the number by which later requests name the open file."""
    return struct.pack("=QII", handle, 0, 0)


def write_reply(size: int) -> bytes:
    """The body of the reply to WRITE: how many bytes were taken."""
    return struct.pack("=II", size, 0)


@dataclass(frozen=True, slots=True)
class Read:
    """READ: up to `size` bytes."""

    handle: int
    size: int

    LAYOUT: ClassVar = struct.Struct("=QQIIQII")

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the body of a request."""
        handle, _, size, *_ = _fields(cls.LAYOUT, body, "READ")
        return cls(handle, size)


@dataclass(frozen=True, slots=True)
class Write:
    """WRITE: these bytes."""

    handle: int
    data: bytes

    LAYOUT: ClassVar = struct.Struct("=QQIIQII")

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the body of a request."""
        handle, _, size, *_ = _fields(cls.LAYOUT, body, "WRITE")
        data = body[cls.LAYOUT.size :]
        if len(data) != size:
            raise CuseWireError(f"WRITE of {size} bytes with {len(data)}")
        return cls(handle, data)


@dataclass(frozen=True, slots=True)
class Release:
    """RELEASE and FLUSH: the file is closed."""

    handle: int

    LAYOUT: ClassVar = struct.Struct("=Q16x")

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the body of a request."""
        return cls(*_fields(cls.LAYOUT, body, "RELEASE"))


@dataclass(frozen=True, slots=True)
class Interrupt:
    """INTERRUPT: whoever made the request `unique` shall not wait any longer."""

    unique: int

    LAYOUT: ClassVar = struct.Struct("=Q")

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the body of a request."""
        return cls(*_fields(cls.LAYOUT, body, "INTERRUPT"))


@dataclass(frozen=True, slots=True)
class Ioctl:
    """IOCTL: a request code and its argument, with the memory that an earlier reply has asked for."""

    handle: int
    flags: int
    code: int
    argument: int
    data: bytes
    """What the pieces of memory to be read hold, one after the other."""
    out_size: int
    """How many bytes the pieces of memory to be written take together."""

    LAYOUT: ClassVar = struct.Struct("=QIIQII")

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read the body of a request."""
        handle, flags, code, argument, in_size, out_size = _fields(cls.LAYOUT, body, "IOCTL")
        data = body[cls.LAYOUT.size :]
        if len(data) != in_size:
            raise CuseWireError(f"IOCTL with {in_size} bytes of memory, {len(data)} came")
        return cls(handle, flags, code, argument, data, out_size)


_IOCTL_REPLY: Final = struct.Struct("=iIII")
_REGION: Final = struct.Struct("=QQ")


def ioctl_reply(result: int, data: bytes = b"") -> bytes:
    """The body of the reply to IOCTL: its result, and what fills the pieces of memory to be written."""
    return _IOCTL_REPLY.pack(result, 0, 0, 0) + data


def ioctl_retry(reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]]) -> bytes:
    """The body of the reply to IOCTL that asks for memory; each piece is an address and a size."""
    head = _IOCTL_REPLY.pack(0, IoctlFlag.RETRY, len(reads), len(writes))
    return head + b"".join(_REGION.pack(*region) for region in (*reads, *writes))
