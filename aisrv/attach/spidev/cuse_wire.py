"""Messages of CUSE as values: Linux's kernel hands the calls on a character device to a program.

Each request is read from `/dev/cuse` as one message, a header and the structure of its opcode; each reply is
written as one, with the request's number. All in this machine's byte order. Source: the Linux kernel's header
`linux/fuse.h`, protocol 7.
"""

import enum
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from aisrv.values.packet import I32, U32, U64, Packet, Pad4, Pad8, Pad16, Pad20, Pad24, Pad40, Rest

MAJOR: Final = 7
OLDEST_MINOR: Final = 16
"""From here on a retried ioctl's pieces of memory have 64-bit addresses, whatever the program's are."""

NEWEST_MINOR: Final = 38

MOST_REGIONS: Final = 256
"""Pieces of memory that an ioctl may ask for (FUSE_IOCTL_MAX_IOV)."""


class CuseWireError(ValueError):
    """Bytes that are not a request of CUSE."""


class Opcode(enum.IntEnum):
    """Request of the kernel; others are to be answered with ENOSYS."""

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
    """Flags of INIT."""

    UNRESTRICTED_IOCTL = 1
    """Ioctls may ask for memory that their argument points to."""


class IoctlFlag(enum.IntFlag):
    """Flags of IOCTL and its reply."""

    UNRESTRICTED = 2
    RETRY = 4
    """In a reply: make the same ioctl again, with the pieces of memory that follow."""


class CusePacket(Packet, byte_order="=", error=CuseWireError):
    """Base of CUSE's structures."""

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        return cls.unpack_from(data)


class Request(CusePacket, name="a request"):
    """`struct fuse_in_header`, and the bytes of the opcode's own structure and data."""

    size: U32
    """Bytes of header and body."""
    opcode: U32
    unique: U64
    node_and_caller: ClassVar[Pad24]
    body: Rest

    def __post_init__(self) -> None:
        if self.size != self.SIZE + len(self.body):
            raise CuseWireError(
                f"a request of {self.SIZE + len(self.body)} bytes that says it has {self.size}"
            )


class Reply(CusePacket, name="a reply"):
    """`struct fuse_out_header`, and the body of the reply; `error` is 0 or a negative errno."""

    size: U32
    error: I32
    unique: U64
    body: Rest


def reply(unique: int, body: bytes = b"", *, errno: int = 0) -> bytes:
    """Return the reply to a request, or with an errno its failure."""
    return bytes(Reply(Reply.SIZE + len(body), -errno, unique, body))


class Init(CusePacket, name="INIT"):
    """`struct cuse_init_in`: the protocol that the kernel speaks."""

    major: U32
    minor: U32
    unused: ClassVar[Pad4]
    flags: U32 = 0


class InitReply(CusePacket, name="the reply to INIT"):
    """`struct cuse_init_out`, and the text that names the device."""

    major: U32
    minor: U32
    unused: ClassVar[Pad4]
    flags: U32
    max_read: U32
    max_write: U32
    device_number: ClassVar[Pad8]
    """Major and minor number: any."""
    spare: ClassVar[Pad40]
    text: Rest


def init_reply(minor: int, most_bytes: int, name: str) -> bytes:
    """Return the reply's body: makes `/dev/NAME`, whose reads and writes come in pieces of `most_bytes`."""
    text = f"DEVNAME={name}".encode() + b"\0"
    return bytes(InitReply(MAJOR, minor, InitFlag.UNRESTRICTED_IOCTL, most_bytes, most_bytes, text))


class OpenReply(CusePacket, name="the reply to OPEN"):
    """`struct fuse_open_out`: the number by which later requests name the open file."""

    handle: U64
    flags: ClassVar[Pad8]


class WriteReply(CusePacket, name="the reply to WRITE"):
    """`struct fuse_write_out`: how many bytes were taken."""

    size: U32
    padding: ClassVar[Pad4]


class Read(CusePacket, name="READ"):
    """`struct fuse_read_in`: up to `size` bytes."""

    handle: U64
    offset: ClassVar[Pad8]
    size: U32
    flags_and_owner: ClassVar[Pad20]


class Write(CusePacket, name="WRITE"):
    """`struct fuse_write_in`, and the bytes."""

    handle: U64
    offset: ClassVar[Pad8]
    size: U32
    flags_and_owner: ClassVar[Pad20]
    data: Rest

    def __post_init__(self) -> None:
        if len(self.data) != self.size:
            raise CuseWireError(f"WRITE of {self.size} bytes with {len(self.data)}")


class Release(CusePacket, name="RELEASE"):
    """`struct fuse_release_in`, and FLUSH's, which is as long: the file is closed."""

    handle: U64
    flags_and_owner: ClassVar[Pad16]


class Interrupt(CusePacket, name="INTERRUPT"):
    """`struct fuse_interrupt_in`: interrupts the request `unique`."""

    unique: U64


class Ioctl(CusePacket, name="IOCTL"):
    """`struct fuse_ioctl_in`: a request code, its argument, and the memory an earlier reply asked for."""

    handle: U64
    flags: U32
    code: U32
    argument: U64
    in_size: U32
    """Bytes in `data`."""
    out_size: U32
    """Bytes of the pieces of memory to be written, together."""
    data: Rest
    """Contents of the pieces of memory to be read, one after the other."""

    def __post_init__(self) -> None:
        if len(self.data) != self.in_size:
            raise CuseWireError(f"IOCTL with {self.in_size} bytes of memory, {len(self.data)} came")


class IoctlReply(CusePacket, name="the reply to IOCTL"):
    """`struct fuse_ioctl_out`, and the bytes for the memory to be written, or the pieces asked for."""

    result: I32 = 0
    flags: U32 = 0
    reads: U32 = 0
    writes: U32 = 0
    data: Rest = b""


class Region(CusePacket, name="a piece of memory"):
    """`struct fuse_ioctl_iovec`."""

    address: U64
    size: U64


def ioctl_reply(result: int, data: bytes = b"") -> bytes:
    """Return the reply's body: the ioctl's result, and the bytes for the memory to be written."""
    return bytes(IoctlReply(result, data=data))


def ioctl_retry(reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]]) -> bytes:
    """Return the reply's body that asks for memory; each piece is an address and a size."""
    regions = b"".join(bytes(Region(*region)) for region in (*reads, *writes))
    return bytes(IoctlReply(0, IoctlFlag.RETRY, len(reads), len(writes), regions))
