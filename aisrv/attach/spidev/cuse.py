"""The CUSE attachment: a real `/dev/spidevB.D` on this machine, for every program that the kernel runs.

    async with trio.open_nursery() as nursery:
        await nursery.start(serve_cuse, port, "spidev0.0")

Needs root and the kernel's module `cuse`. The device is there until the task is cancelled. Source: the Linux
kernel's header `linux/fuse.h`; the retries of unrestricted ioctls are those of its `fs/fuse/ioctl.c`.
"""

import errno
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NoReturn

import trio

from aisrv.attach.spidev import cuse_wire as wire
from aisrv.attach.spidev.cuse_wire import CuseWireError, Opcode, Request
from aisrv.attach.spidev.file import SpidevFile, SpidevNode
from aisrv.attach.spidev.ioctls import Region, SpidevError
from phy.spi.bus import SpiPort

logger = logging.getLogger(__name__)

DEVICE: Final = Path("/dev/cuse")
NODES: Final = Path("/dev")

LARGEST_PIECE: Final = 8192
"""Bytes of a read or a write that come as one request: more than spidev takes, so that it can refuse them."""

_RECEIVE: Final = 64 * 1024
"""The largest ioctl is 511 transfers with 4096 bytes."""


class CuseError(Exception):
    """The kernel's CUSE is missing, may not be used, or made no device."""


async def serve_cuse(
    port: SpiPort,
    name: str = "spidev0.0",
    *,
    device: Path = DEVICE,
    task_status: trio.TaskStatus[SpidevNode] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve a slave as `/dev/NAME` until cancelled; ready when the device exists. Raises CuseError."""
    if not re.fullmatch(r"spidev\d+\.\d+", name):
        raise CuseError(f"{name!r} is not the name of a device: spidev, bus, a dot, chip select")
    if (NODES / name).exists():
        raise CuseError(f"/dev/{name} exists already; choose another bus or chip select")
    fd = _open(device)
    failure = CuseError(f"the kernel made no /dev/{name}")
    try:
        connection = CuseConnection(fd, SpidevNode(port, name))
        await connection.start()
        if (NODES / name).exists():
            task_status.started(connection.node)
            await connection.run()
    except* (CuseError, CuseWireError) as errors:
        failure = CuseError(str(errors.exceptions[0]))
    finally:
        os.close(fd)
    raise failure


def _open(device: Path) -> int:
    try:
        return os.open(device, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            raise CuseError(f"{device}: the kernel's module is not loaded; as root: modprobe cuse") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise CuseError(f"{device} may be opened by root only; run this command with sudo") from None
        raise CuseError(f"{device} cannot be opened: {error.strerror}") from None


class _Retry(Exception):
    """An ioctl that needs more of its program's memory than came with the request."""

    def __init__(self, reads: Sequence[Region], writes: Sequence[Region]) -> None:
        super().__init__(reads, writes)
        self.reads: Final = reads
        self.writes: Final = writes


class IoctlMemory:
    """The memory of a program, see `UserMemory`, as far as an ioctl's request brought it.

    The kernel brings the pieces that the reply to an earlier attempt asked for: `fetch` ends an attempt with
    a retry if something is missing. Pieces that a program changes meanwhile no longer fit, and are asked for
    anew.
    """

    def __init__(self, request: wire.Ioctl) -> None:
        self._request: Final = request
        self._reads: list[Region] = []
        self._writes: list[Region] = []
        self._stored: dict[Region, bytes] = {}

    async def fetch(self, reads: Sequence[Region], writes: Sequence[Region]) -> list[bytes]:
        before = sum(each.size for each in self._reads)
        self._reads += [each for each in reads if each.size]
        self._writes += [each for each in writes if each.size]
        size, out_size = sum(each.size for each in self._reads), sum(each.size for each in self._writes)
        if len(self._request.data) < size or self._request.out_size < out_size:
            raise _Retry(self._reads, self._writes)
        pieces = []
        for each in reads:
            pieces.append(self._request.data[before : before + each.size])
            before += each.size
        return pieces

    def store(self, region: Region, data: bytes) -> None:
        self._stored[region] = data

    def stored(self) -> bytes:
        """Return the bytes for the regions to be written, one after the other."""
        return b"".join(self._stored[each] for each in self._writes)


class CuseConnection:
    """The kernel's side of one device, through an open `/dev/cuse` or any descriptor that keeps messages."""

    def __init__(self, fd: int, node: SpidevNode) -> None:
        self.node: Final = node
        self._fd: Final = fd
        self._buffer: Final = bytearray(_RECEIVE)
        self._files: dict[int, SpidevFile] = {}
        self._handles: Final = count(1)
        self._waiting: dict[int, trio.CancelScope] = {}

    async def start(self) -> None:
        request = await self._receive()
        init = wire.Init.from_bytes(request.body)
        if request.opcode != Opcode.INIT or init.major != wire.MAJOR or init.minor < wire.OLDEST_MINOR:
            raise CuseError(
                f"the kernel speaks version {init.major}.{init.minor} of FUSE's protocol, not "
                f"{wire.MAJOR}.{wire.OLDEST_MINOR} or later"
            )
        minor = min(init.minor, wire.NEWEST_MINOR)
        self._send(wire.reply(request.unique, wire.init_reply(minor, LARGEST_PIECE, self.node.name)))

    async def run(self) -> NoReturn:
        """Answer the kernel's requests until cancelled. Raises CuseError if the kernel ends the device."""
        async with trio.open_nursery() as nursery:
            while True:
                request = await self._receive()
                if request.opcode == Opcode.INTERRUPT:
                    self._interrupt(request)
                else:
                    scope = trio.CancelScope()
                    if request.opcode in _INTERRUPTIBLE:
                        self._waiting[request.unique] = scope
                    nursery.start_soon(self._serve, request, scope)

    async def _serve(self, request: Request, scope: trio.CancelScope) -> None:
        """Answer one request; EINTR if an interrupt was faster."""
        answer = wire.reply(request.unique, errno=errno.EINTR)
        with scope:
            answer = await self._answer(request)
        self._waiting.pop(request.unique, None)
        self._send(answer)

    async def _answer(self, request: Request) -> bytes:
        handler = _HANDLERS.get(request.opcode)
        if handler is None:
            return wire.reply(request.unique, errno=errno.ENOSYS)
        try:
            return wire.reply(request.unique, await handler(self, request.body))
        except SpidevError as error:
            return wire.reply(request.unique, errno=error.errno)
        except CuseWireError as error:
            logger.warning("%s: %s", self.node.name, error)
            return wire.reply(request.unique, errno=errno.EIO)

    def _interrupt(self, request: Request) -> None:
        """Let a request end that waits for the bus; an interrupt itself has no reply."""
        scope = self._waiting.get(wire.Interrupt.from_bytes(request.body).unique)
        if scope is not None:
            scope.cancel()

    def _file(self, handle: int) -> SpidevFile:
        try:
            return self._files[handle]
        except KeyError:
            raise SpidevError(errno.EBADF) from None

    async def open(self, _body: bytes) -> bytes:
        handle = next(self._handles)
        self._files[handle] = self.node.open()
        return bytes(wire.OpenReply(handle))

    async def read(self, body: bytes) -> bytes:
        asked = wire.Read.from_bytes(body)
        return await self._file(asked.handle).read(asked.size)

    async def write(self, body: bytes) -> bytes:
        asked = wire.Write.from_bytes(body)
        return bytes(wire.WriteReply(await self._file(asked.handle).write(asked.data)))

    async def ioctl(self, body: bytes) -> bytes:
        """Do an ioctl, or ask for the memory that it needs."""
        asked = wire.Ioctl.from_bytes(body)
        memory = IoctlMemory(asked)
        try:
            result = await self._file(asked.handle).ioctl(asked.code, asked.argument, memory)
        except _Retry as retry:
            if len(retry.reads) + len(retry.writes) > wire.MOST_REGIONS:
                raise SpidevError(errno.ENOMEM) from None
            return wire.ioctl_retry(retry.reads, retry.writes)
        return wire.ioctl_reply(result, memory.stored())

    async def flush(self, _body: bytes) -> bytes:
        """Answer FLUSH and FSYNC: nothing is kept back."""
        return b""

    async def release(self, body: bytes) -> bytes:
        """Answer RELEASE: the last descriptor of a file is closed."""
        handle = wire.Release.from_bytes(body).handle
        file = self._file(handle)
        del self._files[handle]
        await file.close()
        return b""

    async def _receive(self) -> Request:
        while True:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                size = os.readv(self._fd, [self._buffer])
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._fd)
                continue
            except OSError as error:
                if error.errno == errno.ENODEV:
                    raise CuseError(
                        f"the kernel did not create /dev/{self.node.name}, or removed it"
                    ) from None
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue  # a request that was taken back meanwhile
                raise CuseError(f"requests cannot be read: {error.strerror}") from None
            return Request.from_bytes(bytes(memoryview(self._buffer)[:size]))

    def _send(self, message: bytes) -> None:
        try:
            os.write(self._fd, message)
        except OSError as error:
            if error.errno != errno.ENOENT:  # whoever made the request is gone
                raise CuseError(f"a reply was refused: {error.strerror}") from None


_INTERRUPTIBLE: Final = (Opcode.READ, Opcode.WRITE, Opcode.IOCTL)
"""A program that is killed has its RELEASE interrupted, too: that one must be done all the same."""

_HANDLERS: Final[dict[int, Callable[[CuseConnection, bytes], Awaitable[bytes]]]] = {
    Opcode.OPEN: CuseConnection.open,
    Opcode.READ: CuseConnection.read,
    Opcode.WRITE: CuseConnection.write,
    Opcode.IOCTL: CuseConnection.ioctl,
    Opcode.FLUSH: CuseConnection.flush,
    Opcode.FSYNC: CuseConnection.flush,
    Opcode.RELEASE: CuseConnection.release,
}
