"""One host that has imported a device: the byte stream between its socket and the device's URBs."""

import mmap
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from aisrv.attach.usbip.sender import Sender
from aisrv.attach.usbip.urbs import PendingUrbs
from aisrv.listeners.turns import MESSAGES_A_TURN, Turns
from aisrv.protocol.usbip import HEADER_SIZE, MAX_TRANSFER, Direction, MessageCode, Submit, UsbipError
from phy.usb.bus import HostPort

if TYPE_CHECKING:
    from phy.usb.urb import OutUrb

RECEIVE_BUFFER: Final = 256 * 1024

WHOLE_LIMIT: Final = 64 * 1024
"""OUT data up to this length are passed on when all of them have come, longer ones piece by piece."""

UNSENT_LIMIT: Final = MAX_TRANSFER
"""Bytes of answers that may wait for a host that does not read; past it no message is taken."""

HALF_MESSAGE_SECONDS: Final = 30.0
"""Time that a peer has to go on with a message it has begun."""

_HEADER: Final = Submit.struct_of(
    "message", "seqnum", "devid", "direction", "endpoint", "flags", "length", "setup"
)
"""Fields of a SUBMIT that count here; in an UNLINK, the target takes the place of the flags."""

# Plain integers: an enum's attribute access shows in the time of a small request.
_CMD_SUBMIT: Final = int(MessageCode.CMD_SUBMIT)
_CMD_UNLINK: Final = int(MessageCode.CMD_UNLINK)
_OUT: Final = int(Direction.OUT)
_IN: Final = int(Direction.IN)


class Connection:
    """Carries messages between a connected socket and a bus, until the host goes away.

    The reader never waits for the device, because control transfers and UNLINK come on the same stream.
    """

    def __init__(
        self, sock: trio.socket.SocketType, bus: HostPort, devid: int, turns: Turns | None = None
    ) -> None:
        """Serve `bus` as `devid` on a socket, which is taken over; `turns` are those of the listener."""
        # The plain socket: a Trio stream would cost a task switch for every message.
        self._socket = socket.socket(fileno=sock.detach())
        self._socket.setblocking(False)
        self._sender = Sender(self._socket)
        self._bus = bus
        self._turns = turns or Turns()
        self.left = False
        """Whether the device left its bus by itself, which ended the connection."""
        self._urbs = self._sender.work = PendingUrbs(bus, devid, self._sender.put)
        # Of pages that take no memory before they are used: most hosts never send so much at once.
        self._buffer = memoryview(mmap.mmap(-1, RECEIVE_BUFFER))
        self._start = self._end = 0
        self._receiving: OutUrb | None = None
        self._missing = 0

    async def run(self) -> None:
        """Serve until the host closes the connection, or the device leaves. Raises UsbipError, OSError."""
        failures: list[Exception] = []

        async def until_failure(direction: Callable[[], Awaitable[None]]) -> None:
            try:
                await direction()
            except (UsbipError, OSError) as failure:
                failures.append(failure)
            nursery.cancel_scope.cancel()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(until_failure, self._sender.run)
                nursery.start_soon(until_failure, self._until_unplugged)
                await until_failure(self._read)
            for failure in failures:
                raise failure
        finally:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def _until_unplugged(self) -> None:
        await self._bus.wait_unplugged()
        self.left = True
        self._sender.flush()  # what the device answered before still reaches the host

    async def _read(self) -> None:
        needed = HEADER_SIZE
        while not needed or await self._fill(needed):
            self._sender.gather()
            needed = self._take_messages()
            # The firmware takes and gives data in turns of its own; answers of a few turns leave together. A
            # request whose data have yet to come has none.
            turns = 0 if self._missing else await self._sender.gather_more()
            self._sender.flush()
            if not needed:
                await self._turns.next()
            elif turns:
                await trio.lowlevel.checkpoint_if_cancelled()
            else:
                await trio.lowlevel.checkpoint()
            if self._missing:
                await self._feed()
            if self._sender.unsent_bytes > UNSENT_LIMIT:
                await self._sender.wait_below(UNSENT_LIMIT)

    async def _fill(self, needed: int) -> bool:
        """Receive until `needed` bytes are there; False at the end of the stream between two messages."""
        left = self._end - self._start
        if left and self._start:
            self._buffer[:left] = self._buffer[self._start : self._end]
        self._start, self._end = 0, left
        while True:
            room = self._buffer[self._end :] if self._end else self._buffer
            received = await self._receive_into(room, within_message=self._end > 0)
            if not received:
                if self._end:
                    raise UsbipError(f"the stream ended after {self._end} of {needed} bytes of a message")
                return False
            self._end += received
            if self._end >= needed:
                return True

    async def _receive_into(self, room: memoryview, *, within_message: bool) -> int:
        """Receive some bytes into `room`, 0 at the end of the stream."""
        try:
            return self._socket.recv_into(room)
        except BlockingIOError:
            pass
        while True:
            if within_message:
                with trio.move_on_after(HALF_MESSAGE_SECONDS) as patience:
                    await trio.lowlevel.wait_readable(self._socket)
                if patience.cancelled_caught:
                    raise UsbipError(f"the rest of a message did not come within {HALF_MESSAGE_SECONDS:g} s")
            else:
                await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv_into(room)
            except BlockingIOError:
                continue

    async def _feed(self) -> None:
        """Pass on the rest of an OUT request's data as they come; the buffer is empty and serves for them."""
        while self._missing:
            if self._receiving is not None:
                self._receiving.keep()
            room = self._buffer[: min(self._missing, RECEIVE_BUFFER)]
            received = await self._receive_into(room, within_message=True)
            if not received:
                raise UsbipError(f"the stream ended {self._missing} bytes before the end of a request")
            self._missing -= received
            if self._receiving is not None:
                self._urbs.feed(self._receiving, room[:received])
            await trio.lowlevel.checkpoint()
        if self._receiving is not None:
            self._receiving.keep()
        self._receiving = None

    def _take_messages(self) -> int:
        """Act on messages in the buffer; return the bytes that the next one needs, 0 if a turn is over."""
        left = MESSAGES_A_TURN
        while (held := self._end - self._start) >= HEADER_SIZE:
            if not left:
                return 0
            left -= 1
            message, seqnum, devid, direction, endpoint, flags, length, setup = _HEADER.unpack_from(
                self._buffer, self._start
            )
            if message == _CMD_SUBMIT and direction == _OUT:
                size: int = HEADER_SIZE + length
                if size > held:
                    if length > MAX_TRANSFER:
                        raise UsbipError(f"request {seqnum} sends {length} bytes, {MAX_TRANSFER} are allowed")
                    if length <= WHOLE_LIMIT:
                        return size
                    self._missing = size - held
                    size = held
                data = self._buffer[self._start + HEADER_SIZE : self._start + size]
                self._start += size
                if self._missing:  # what is taken before the buffer's memory is needed again is not copied
                    self._receiving = self._urbs.submit_out(
                        seqnum, devid, endpoint, flags, length, setup, data
                    )
                else:
                    self._urbs.submit_out(seqnum, devid, endpoint, flags, length, setup, bytes(data))
                continue
            self._start += HEADER_SIZE
            if message == _CMD_SUBMIT and direction == _IN:
                self._urbs.submit_in(seqnum, devid, endpoint, length, setup)
            elif message == _CMD_UNLINK:
                self._urbs.unlink(seqnum, target=flags)
            elif message == _CMD_SUBMIT:
                raise UsbipError(f"request {seqnum} goes in direction {direction}, neither OUT nor IN")
            else:
                raise UsbipError(f"message {message} where SUBMIT or UNLINK was expected")
        return HEADER_SIZE
