"""The second half of USB/IP: requests in flight to an imported device, any number, from any thread.

There is no background thread. Of the threads that wait for an answer, one (the leader) reads the socket for
all of them. When its own answer is there it wakes the others, and one of them takes over. What a server
claims is checked against what was asked for; nonsense ends the connection with `DeviceGone`.

Source: the Linux kernel's "USB/IP protocol" document, version 1.1.1, USBIP_CMD_SUBMIT and USBIP_CMD_UNLINK.
Sizes are in bytes, times in seconds; a deadline is a time of `time.monotonic`, None means never.
"""

from __future__ import annotations

import contextlib
import functools
import math
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, Final

from aisrv.protocol.usbip import (
    HEADER_SIZE,
    MAX_TRANSFER,
    NO_ISO_PACKETS,
    MessageCode,
    Submit,
    SubmitReply,
    Unlink,
    UrbStatus,
)
from host_tools.errors import DeviceGone, TransferTimeout

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview

ANSWER_GRACE: Final = 5.0
"""Seconds that a server has for what needs no device: to take the rest of a message, to answer UNLINK."""

CLOSE_GRACE: Final = 1.0
"""Seconds that a server has to let go of the device when the connection is closed."""

_RECEIVE_SIZE: Final = 256 * 1024
_LAST_SEQNUM: Final = 0xFFFFFFFF
_NO_SETUP: Final = bytes(8)
_NOTHING: Final = memoryview(b"")

# Plain integers: an enum's attribute access and comparison show in the time of a small request.
_CMD_SUBMIT: Final = int(MessageCode.CMD_SUBMIT)
_RET_SUBMIT: Final = int(MessageCode.RET_SUBMIT)
_RET_UNLINK: Final = int(MessageCode.RET_UNLINK)

_START: Final = Submit.span_of("message", "seqnum")
"""The first fields of a SUBMIT, the only ones that differ between like requests."""

_TAIL: Final = Submit.span_of("devid", "setup")
"""The rest of a SUBMIT."""

_REPLY: Final = SubmitReply.struct_of("message", "seqnum", "status", "actual_length")
"""The fields that matter; a RET_UNLINK has its status in the same place."""


class _NonsenseError(Exception):
    """A message that no server may send."""


class Transfer:
    """One request in flight. `status` is None until it is done, then 0 or a negative errno value of Linux."""

    __slots__ = ("actual", "buffer", "endpoint", "length", "seqnum", "status")

    def __init__(self, seqnum: int, endpoint: int, length: int, buffer: memoryview | None) -> None:
        self.seqnum = seqnum
        self.endpoint = endpoint
        self.length = length
        self.buffer = buffer
        """Where IN data goes; None for an OUT request."""
        self.actual = 0
        """Bytes that moved, once the request is done."""
        self.status: int | None = None


class Pipeline:
    """The socket of an imported device; `devid` names the device in each request."""

    def __init__(self, peer: socket.socket, devid: int) -> None:
        peer.setblocking(False)
        self._socket = peer
        self._devid = devid
        self._error: str | None = None
        self._closed = False
        self._seqnum = 0
        self._pending: dict[int, Transfer] = {}
        self._unlinks: dict[int, Transfer] = {}

        # Held while a message is sent, so that messages are never interleaved.
        self._sending = threading.Lock()
        self._duplex = _poll((peer, select.POLLIN | select.POLLOUT))

        # The leader, of which there is one while `_reading`, owns everything about receiving.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reading = False
        self._waiting = 0
        """Number of threads that wait for the leader to stop."""
        self._sender: socket.socket | None = None
        """Wakes a thread that waits for room to send while another one reads."""
        self._readable = _poll((peer, select.POLLIN))
        self._view = memoryview(bytearray(_RECEIVE_SIZE))
        self._held = 0
        self._filling: Transfer | None = None
        self._filling_status = 0
        self._unfilled = _NOTHING

    @property
    def is_open(self) -> bool:
        """Return whether the device can still be reached, as far as is known without asking."""
        return self._error is None

    def submit(
        self,
        endpoint: int,
        buffer: Buffer,
        setup: bytes = _NO_SETUP,
        flags: int = 0,
        deadline: float | None = None,
    ) -> Transfer:
        """Start one request: to an OUT endpoint it sends `buffer`, from an IN endpoint it fills it.

        The deadline is for sending alone; where it passes first, TransferTimeout and nothing was sent.
        ValueError for more than 16 MiB. Large data goes out, and comes in, without being copied.
        """
        (transfer,) = self.submit_batch([(endpoint, buffer)], deadline, setup, flags)
        return transfer

    def submit_batch(
        self,
        requests: Sequence[tuple[int, Buffer]],
        deadline: float | None = None,
        setup: bytes = _NO_SETUP,
        flags: int = 0,
    ) -> list[Transfer]:
        """Start a request for each endpoint and buffer, in order, with one send: all, or none in time."""
        transfers: list[Transfer] = []
        parts: list[Buffer] = []
        remaining = remaining_until(deadline)
        if not self._sending.acquire(timeout=-1 if remaining is None else remaining):
            raise timed_out(requests[0][0])
        try:
            try:
                self._check_open()
                for endpoint, buffer in requests:
                    view = bytes_of(buffer)
                    length = len(view)
                    tail = _tail(self._devid, endpoint, length, setup, flags)
                    seqnum = self._seqnum = self._seqnum % _LAST_SEQNUM + 1
                    parts += _START.pack(_CMD_SUBMIT, seqnum), tail
                    if endpoint & 0x80:
                        transfers.append(Transfer(seqnum, endpoint, length, view))
                    else:
                        transfers.append(Transfer(seqnum, endpoint, length, None))
                        parts.append(view)
                for transfer in transfers:
                    self._pending[transfer.seqnum] = transfer
                # One request may be large, and is not copied.
                if not self._transmit(parts if len(requests) == 1 else [b"".join(parts)], deadline):
                    for transfer in transfers:
                        del self._pending[transfer.seqnum]
                    raise timed_out(requests[0][0])
            finally:
                self._sending.release()
        except (TransferTimeout, DeviceGone, ValueError):
            raise
        except BaseException:
            # Such as Ctrl-C: the buffers go back to the caller, so nothing may be written to them later.
            with contextlib.suppress(DeviceGone):
                for transfer in transfers:
                    self.withdraw(transfer)
            raise
        return transfers

    def wait_until(self, transfer: Transfer, deadline: float | None) -> bool:
        """Read, or let another thread read, until a request is done; False at the deadline."""
        expired = False
        while transfer.status is None:
            with self._lock:
                if transfer.status is not None:
                    break
                self._check_open()
                if expired:
                    return False
                remaining = remaining_until(deadline)
                expired = remaining == 0
                if self._reading:
                    self._waiting += 1
                    try:
                        self._changed.wait(remaining)
                    finally:
                        self._waiting -= 1
                    continue
                self._reading = True
            self._lead(self._readable, remaining)
        return True

    def withdraw(self, transfer: Transfer) -> None:
        """UNLINK a request and wait until it is over; its status says whether it was done before that."""
        deadline = time.monotonic() + ANSWER_GRACE
        if not self._sending.acquire(timeout=ANSWER_GRACE):
            raise self._abandon("the server stopped reading")
        try:
            if transfer.status is not None:
                return
            self._check_open()
            seqnum = self._seqnum = self._seqnum % _LAST_SEQNUM + 1
            self._unlinks[seqnum] = transfer
            sent = self._transmit([bytes(Unlink(seqnum, self._devid, transfer.seqnum))], deadline)
        finally:
            self._sending.release()
        if not sent or not self.wait_until(transfer, deadline):
            raise self._abandon(f"the server did not answer UNLINK within {ANSWER_GRACE:g} s")

    def close(self) -> None:
        """Let go of the device and wait, for a moment at most, until the server has noticed.

        Without the wait, the next import could reach the server before it knows that this one is over.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting += 1
        self._abandon("the connection was closed", socket.SHUT_WR)
        deadline = time.monotonic() + CLOSE_GRACE
        with self._lock:
            if not self._changed.wait_for(lambda: not self._reading, CLOSE_GRACE):
                self._shut(socket.SHUT_RDWR)  # wakes the leader, which sees the end of the stream
                self._changed.wait_for(lambda: not self._reading, CLOSE_GRACE)
            self._reading = True
        try:
            while self._readable.poll(_milliseconds(remaining_until(deadline))):
                if not self._socket.recv(_RECEIVE_SIZE):
                    break
        except OSError:
            pass  # a connection that broke is over, too
        finally:
            # A sender on its way out may still look at the socket.
            with contextlib.ExitStack() as stack:
                if self._sending.acquire(timeout=CLOSE_GRACE):
                    stack.callback(self._sending.release)
                self._socket.close()

    # Sending

    def _transmit(self, parts: list[Buffer], deadline: float | None) -> bool:
        """Send whole messages; False where the deadline came before the first byte could go.

        Once a byte is out the rest must follow, or the server would take the next message for data.
        """
        started = False
        try:
            while parts:
                try:
                    sent = self._socket.sendmsg(parts)
                except BlockingIOError:
                    if not self._wait_for_room(deadline):
                        if not started:
                            return False
                        raise self._abandon("the server stopped reading in the middle of a message") from None
                else:
                    parts = _unsent(parts, sent)
                    if parts and not started and deadline is not None:
                        deadline = max(deadline, time.monotonic()) + ANSWER_GRACE
                    started = True
                self._check_open()
        except DeviceGone:
            raise
        except OSError as error:
            raise self._abandon(f"the connection broke: {error}") from error
        except BaseException:
            if started:
                self._abandon("a message was cut short")
            raise
        return True

    def _wait_for_room(self, deadline: float | None) -> bool:
        """Wait until more can be sent; False at the deadline.

        The server may itself be waiting for us to read: this thread reads meanwhile where no other does, and
        one that stops wakes it.
        """
        remaining = remaining_until(deadline)
        if remaining == 0:
            return False
        with self._lock:
            leading = not self._reading
            self._reading = True
        if leading:
            self._lead(self._duplex, remaining)
        else:
            self._wait_beside_leader(remaining)
        return True

    def _wait_beside_leader(self, seconds: float | None) -> None:
        """Wait until more can be sent, or until the thread that reads stops doing so."""
        woken, waker = socket.socketpair()
        with woken, waker:
            with self._lock:
                if not self._reading or self._error is not None:
                    return
                self._sender = waker
                self._waiting += 1
            try:
                _poll((self._socket, select.POLLOUT), (woken, select.POLLIN)).poll(_milliseconds(seconds))
            finally:
                with self._lock:
                    self._sender = None
                    self._waiting -= 1

    # Receiving

    def _lead(self, poll: select.poll, seconds: float | None) -> None:
        """Read what comes within the time, or until more can be sent where `poll` looks for that, too."""
        try:
            for _, events in poll.poll(_milliseconds(seconds)):
                if events & ~select.POLLOUT:
                    self._receive()
        finally:
            with self._lock:
                self._reading = False
                if self._waiting:
                    self._wake_others()

    def _wake_others(self) -> None:
        """Notify the threads that wait beside the leader. Call with `_lock` held."""
        self._changed.notify_all()
        if self._sender is not None:
            self._sender.send(b"\0")
            self._sender = None

    def _receive(self) -> None:
        """Take in what is there and settle the requests that it answers. Only the leader calls this."""
        try:
            if self._filling is not None:
                count = self._socket.recv_into(self._unfilled)
                self._fill(self._filling, count)
            else:
                count = self._socket.recv_into(self._view[self._held :] if self._held else self._view)
                self._parse(self._held + count)
            if not count:
                self._abandon("the server closed the connection")
        except BlockingIOError:
            pass
        except OSError as error:
            self._abandon(f"the connection broke: {error}")
        except _NonsenseError as error:
            self._abandon(f"the server does not keep to the protocol: {error}")
        except BaseException:
            self._abandon("reading was interrupted in the middle of a message")
            raise

    def _fill(self, transfer: Transfer, count: int) -> None:
        """Account for IN data that was received directly into the buffer of a request."""
        self._unfilled = self._unfilled[count:]
        if not self._unfilled:
            transfer.status = self._filling_status
            self._filling, self._unfilled = None, _NOTHING

    def _parse(self, end: int) -> None:
        """Settle the whole messages in the first `end` bytes; keep what is there of one more header."""
        view = self._view
        start = 0
        while end - start >= HEADER_SIZE:
            message, seqnum, status, actual = _REPLY.unpack_from(view, start)
            start += HEADER_SIZE
            if message == _RET_UNLINK:
                self._settle_unlink(seqnum)
                continue
            if message != _RET_SUBMIT:
                raise _NonsenseError(f"message {message} where a reply belongs")
            transfer = self._pending.pop(seqnum, None)
            if transfer is None:
                raise _NonsenseError(f"a reply to request {seqnum}, which is not in flight")
            if not 0 <= actual <= transfer.length:
                raise _NonsenseError(f"{actual} bytes moved by a request of {transfer.length}")
            transfer.actual = actual
            buffer = transfer.buffer
            if buffer is not None and actual:
                stop = start + actual
                if stop > end:
                    here = end - start
                    buffer[:here] = view[start:end]
                    self._filling, self._filling_status = transfer, status
                    self._unfilled = buffer[here:actual]
                    start = end
                    break
                buffer[:actual] = view[start:stop]
                start = stop
            transfer.status = status
        self._held = end - start
        if self._held:
            view[: self._held] = view[start:end]

    def _settle_unlink(self, seqnum: int) -> None:
        transfer = self._unlinks.pop(seqnum, None)
        if transfer is None:
            raise _NonsenseError(f"a reply to UNLINK {seqnum}, which is not in flight")
        # Some servers say 0 both for "already done" and for "taken back"; whether a reply came decides.
        if self._pending.pop(transfer.seqnum, None) is not None:
            transfer.status = UrbStatus.UNLINKED

    def _check_open(self) -> None:
        if self._error is not None:
            raise DeviceGone(f"the device is gone: {self._error}")

    def _abandon(self, reason: str, how: int = socket.SHUT_RDWR) -> DeviceGone:
        """End the connection for all threads; the first reason stays. Return the error to raise."""
        with self._lock:
            if self._error is None:
                self._error = reason
            self._wake_others()
            self._shut(how)
        return DeviceGone(f"the device is gone: {self._error}")

    def _shut(self, how: int) -> None:
        with contextlib.suppress(OSError):  # the peer may have ended it before us
            self._socket.shutdown(how)


@functools.lru_cache(256)
def _tail(devid: int, endpoint: int, length: int, setup: bytes = _NO_SETUP, flags: int = 0) -> bytes:
    """Return a SUBMIT without its first 8 bytes: of like requests it is the same."""
    if length > MAX_TRANSFER:
        raise ValueError(f"a request moves {MAX_TRANSFER} bytes at most, not {length}")
    if len(setup) != len(_NO_SETUP):
        raise ValueError(f"a SETUP packet has {len(_NO_SETUP)} bytes, not {len(setup)}")
    direction = 1 if endpoint & 0x80 else 0
    return _TAIL.pack(devid, direction, endpoint & 0x0F, flags, length, NO_ISO_PACKETS, setup)


def bytes_of(buffer: Buffer) -> memoryview:
    """Return a view of a buffer as single bytes."""
    view = memoryview(buffer)
    # A view of nothing cannot be cast, and one of single bytes need not be.
    return view if view.format == "B" or not view.nbytes else view.cast("B")


def deadline_after(timeout: float | None) -> float | None:
    """Return the time that is `timeout` seconds from now; None stays None."""
    return None if timeout is None else time.monotonic() + timeout


def remaining_until(deadline: float | None) -> float | None:
    """Return the seconds until a deadline, 0 where it has passed."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def timed_out(endpoint: int, transferred: int = 0) -> TransferTimeout:
    """Return the error for transfers that were not done in time; `transferred` is in bytes."""
    return TransferTimeout(f"{activity(endpoint)}: timed out after {transferred} bytes", transferred)


def activity(endpoint: int) -> str:
    """Name what a transfer at an endpoint does, for messages."""
    return f"{'reading from' if endpoint & 0x80 else 'writing to'} endpoint {endpoint:#04x}"


def _poll(*looked_at: tuple[socket.socket, int]) -> select.poll:
    poll = select.poll()
    for peer, events in looked_at:
        poll.register(peer, events)
    return poll


def _unsent(parts: list[Buffer], sent: int) -> list[Buffer]:
    """Return what is left of `parts` after their first `sent` bytes."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds * 1000)
