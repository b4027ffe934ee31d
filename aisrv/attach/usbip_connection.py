"""One host that has imported a device: its requests on the way in, their ends on the way out."""

import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from aisrv.usbip import (
    HEADER_SIZE,
    MAX_TRANSFER,
    NO_ISO_PACKETS,
    REPLY_HEADER,
    SUBMIT_HEADER,
    URB_ZERO_PACKET,
    Direction,
    Message,
    Unlink,
    UnlinkReply,
    UrbStatus,
    UsbipError,
)
from phy.usb.bus import ControlRequest, UsbBus
from phy.usb.descriptors import SetupPacket
from phy.usb.xud import InRequest, OutRequest, TransferStatus

logger = logging.getLogger(__name__)

RECEIVE_BUFFER: Final = 256 * 1024
UNSENT_LIMIT: Final = 4 * MAX_TRANSFER
"""Bytes of answers that may wait for a host that does not read; past it no request is taken."""

UNTAKEN_LIMIT: Final = MAX_TRANSFER
"""Bytes of OUT data that may wait for the firmware, as much as usbfs lets a host have in flight."""

HALF_MESSAGE_SECONDS: Final = 30.0
"""Time that a peer has to finish a message it has begun."""

_GATHER: Final = 64
"""Buffers handed to one system call."""

_STATUS: Final = {
    TransferStatus.OKAY: UrbStatus.OKAY,
    TransferStatus.STALL: UrbStatus.STALL,
    TransferStatus.OVERFLOW: UrbStatus.OVERFLOW,
    TransferStatus.SHUTDOWN: UrbStatus.SHUTDOWN,
}

Request = OutRequest | InRequest | ControlRequest


class Connection:
    """Carries requests between a connected, non-blocking socket and a bus, until the host goes away."""

    def __init__(self, sock: trio.socket.SocketType, bus: UsbBus, devid: int) -> None:
        # The plain socket: a Trio stream would cost a task switch for every message.
        self._socket = socket.socket(fileno=sock.detach())
        self._socket.setblocking(False)
        self._bus = bus
        self._devid = devid
        self._pending: dict[int, Request] = {}
        self._untaken = 0
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self._reading = False
        self._wake_writer = trio.Event()
        self._sent = trio.Event()
        self._buffer = memoryview(bytearray(RECEIVE_BUFFER))
        self._start = self._end = 0

    async def run(self) -> None:
        """Serve until the host closes the connection; a message that is none raises UsbipError."""
        failures: list[Exception] = []

        async def until_failure(direction: Callable[[], Awaitable[None]]) -> None:
            try:
                await direction()
            except (UsbipError, OSError) as failure:
                failures.append(failure)
            nursery.cancel_scope.cancel()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(until_failure, self._write)
                await until_failure(self._read)
            for failure in failures:
                raise failure
        finally:
            self._pending.clear()
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    # The way in.

    async def _read(self) -> None:
        while await self._fill(HEADER_SIZE):
            self._reading = True
            while self._end - self._start >= HEADER_SIZE:
                unfinished = self._take_message()
                if unfinished is not None:
                    self._reading = False
                    self._flush()
                    await self._feed(*unfinished)
                    self._reading = True
            self._reading = False
            self._flush()
            while self._unsent_bytes > UNSENT_LIMIT:
                self._sent = trio.Event()
                await self._sent.wait()

    async def _fill(self, size: int) -> bool:
        """Receive until `size` bytes are there; False at the end of the stream between two messages."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > RECEIVE_BUFFER - HEADER_SIZE:
            left = bytes(self._buffer[self._start : self._end])
            self._buffer[: len(left)] = left
            self._start, self._end = 0, len(left)
        while True:
            within = self._start != self._end
            received = await self._receive_into(self._buffer[self._end :], within_message=within)
            if not received:
                if self._start != self._end:
                    raise UsbipError(f"the stream ended after {self._end - self._start} bytes of a message")
                return False
            self._end += received
            if self._end - self._start >= size:
                return True

    async def _receive_into(self, room: memoryview, *, within_message: bool) -> int:
        """Receive some bytes into `room`, 0 at the end of the stream; lets other tasks run either way."""
        try:
            received = self._socket.recv_into(room)
        except BlockingIOError:
            pass
        else:
            await trio.lowlevel.checkpoint()
            return received
        while True:
            if within_message:
                with trio.move_on_after(HALF_MESSAGE_SECONDS) as patience:
                    await trio.lowlevel.wait_readable(self._socket)
                if patience.cancelled_caught:
                    raise UsbipError(f"half a message, then silence for {HALF_MESSAGE_SECONDS:g} s")
            else:
                await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv_into(room)
            except BlockingIOError:
                continue

    def _take_message(self) -> tuple[OutRequest | None, int] | None:
        """Act on the message at the head of the buffer.

        Returns None, or the OUT request whose data are not all there with the count of the missing bytes;
        no request means that the bytes belong to nobody.
        """
        header = self._buffer[self._start : self._start + HEADER_SIZE]
        (message, seqnum, devid, direction, endpoint, flags, length, _, _, _, setup) = (
            SUBMIT_HEADER.unpack_from(header)
        )
        self._start += HEADER_SIZE
        if message == Message.CMD_SUBMIT:
            if direction == Direction.OUT:
                return self._submit_out(seqnum, devid, endpoint, flags, length, setup)
            self._submit_in(seqnum, devid, endpoint, length, setup)
            return None
        if message == Message.CMD_UNLINK:
            self._unlink(Unlink.from_bytes(bytes(header)))
            return None
        raise UsbipError(f"message {message} where SUBMIT or UNLINK was expected")

    def _submit_in(self, seqnum: int, devid: int, endpoint: int, length: int, setup: bytes) -> None:
        if refusal := self._refusal(seqnum, devid, length):
            self._reply(seqnum, refusal)
        elif endpoint == 0:
            self._submit_control(seqnum, setup, b"")
        else:
            request = InRequest(length, lambda status, data: self._complete(seqnum, status, len(data), data))
            self._pending[seqnum] = request
            if not self._bus.submit_in(endpoint | 0x80, request):
                self._complete(seqnum, TransferStatus.STALL, 0)

    def _submit_out(
        self, seqnum: int, devid: int, endpoint: int, flags: int, length: int, setup: bytes
    ) -> tuple[OutRequest | None, int] | None:
        if length > MAX_TRANSFER:
            raise UsbipError(f"request {seqnum} sends {length} bytes, {MAX_TRANSFER} are allowed")
        here = min(length, self._end - self._start)
        data = bytes(self._buffer[self._start : self._start + here])
        self._start += here
        missing = length - here
        if refusal := self._refusal(seqnum, devid, length):
            self._reply(seqnum, refusal)
        elif endpoint == 0:
            if missing:
                raise UsbipError(
                    f"control request {seqnum} with {length} bytes, larger than any the device has"
                )
            self._submit_control(seqnum, setup, data)
        else:
            return self._submit_bulk_out(seqnum, endpoint, flags, length, data)
        return (None, missing) if missing else None

    def _submit_bulk_out(
        self, seqnum: int, endpoint: int, flags: int, length: int, data: bytes
    ) -> tuple[OutRequest | None, int] | None:
        missing = length - len(data)
        if self._untaken + length > UNTAKEN_LIMIT and self._untaken:
            self._reply(seqnum, UrbStatus.NO_MEMORY)
            return (None, missing) if missing else None

        def complete(status: TransferStatus, taken: int) -> None:
            self._untaken -= length
            self._complete(seqnum, status, taken)

        request = OutRequest(length, complete, zero_packet=bool(flags & URB_ZERO_PACKET))
        if data:
            request.feed(data)
        self._pending[seqnum] = request
        self._untaken += length
        if not self._bus.submit_out(endpoint, request):
            complete(TransferStatus.STALL, 0)
        return (request, missing) if missing else None

    def _submit_control(self, seqnum: int, setup: bytes, data: bytes) -> None:
        request = ControlRequest(
            SetupPacket.from_bytes(setup),
            data,
            lambda status, answer: self._complete(
                seqnum, status, len(answer) if setup[0] & 0x80 else len(data), answer
            ),
        )
        self._pending[seqnum] = request
        self._bus.submit_control(request)

    def _refusal(self, seqnum: int, devid: int, length: int) -> UrbStatus | None:
        if devid != self._devid:
            logger.warning("request %d is for device %#x, this is %#x", seqnum, devid, self._devid)
            return UrbStatus.NO_DEVICE
        if seqnum in self._pending:
            logger.warning("request %d is still pending and came again", seqnum)
            return UrbStatus.INVALID
        if length > MAX_TRANSFER:
            logger.warning("request %d asks for %d bytes, %d are allowed", seqnum, length, MAX_TRANSFER)
            return UrbStatus.INVALID
        return None

    async def _feed(self, request: OutRequest | None, missing: int) -> None:
        """Pass on the rest of an OUT request's data as they come; the buffer is empty and serves for them."""
        while missing:
            room = self._buffer[: min(missing, RECEIVE_BUFFER)]
            received = await self._receive_into(room, within_message=True)
            if not received:
                raise UsbipError(f"the stream ended {missing} bytes before the end of a request")
            missing -= received
            if request is not None and not request.done:
                request.feed(bytes(room[:received]))
                self._bus.out.fed()

    def _unlink(self, message: Unlink) -> None:
        request = self._pending.get(message.target)
        status = UrbStatus.OKAY
        if request is not None and self._bus.unlink(request):
            del self._pending[message.target]
            if isinstance(request, OutRequest):
                self._untaken -= request.length
            status = UrbStatus.UNLINKED
        self._queue(bytes(UnlinkReply(message.seqnum, status)))

    # The way out.

    def _complete(self, seqnum: int, status: TransferStatus, actual: int, data: bytes = b"") -> None:
        if self._pending.pop(seqnum, None) is not None:
            self._reply(seqnum, _STATUS[status], actual, data)

    def _reply(self, seqnum: int, status: UrbStatus, actual: int = 0, data: bytes = b"") -> None:
        header = REPLY_HEADER.pack(Message.RET_SUBMIT, seqnum, 0, 0, 0, status, actual, 0, NO_ISO_PACKETS, 0)
        self._queue(header)
        if data:
            self._queue(data)

    def _queue(self, data: bytes) -> None:
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if not self._reading:
            self._wake_writer.set()

    def _flush(self) -> bool:
        """Send what the socket takes; whether that was all."""
        unsent = self._unsent
        while unsent:
            try:
                if len(unsent) == 1:
                    sent = self._socket.send(unsent[0])
                else:
                    sent = self._socket.sendmsg([unsent[i] for i in range(min(len(unsent), _GATHER))])
            except BlockingIOError:
                self._wake_writer.set()
                return False
            self._unsent_bytes -= sent
            while sent:
                first = unsent.popleft()
                if len(first) > sent:
                    unsent.appendleft(memoryview(first)[sent:])
                    break
                sent -= len(first)
        self._sent.set()
        return True

    async def _write(self) -> None:
        while True:
            await self._wake_writer.wait()
            self._wake_writer = trio.Event()
            while not self._flush():
                await trio.lowlevel.wait_writable(self._socket)
