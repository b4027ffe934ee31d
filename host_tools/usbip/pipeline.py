"""The second half of USB/IP: requests in flight to an imported device, any number, from any thread.

There is no background thread. Of the threads that wait for an answer, one (the leader) reads the socket for
all of them, and another takes over when the leader's own answer is there. What a server claims is checked
against what was asked for; nonsense ends the connection with `DeviceGoneError`.

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
from host_tools.usbip.errors import DeviceGoneError, TransferTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Buffer = bytes | bytearray | memoryview

ANSWER_GRACE: Final = 5.0
"""Seconds that a server has for what needs no device: to take the rest of a message, to answer UNLINK."""

CLOSE_GRACE: Final = 1.0
"""Seconds that a server has to let go of the device when the connection is closed."""

_RECEIVE_SIZE: Final = 256 * 1024
_LARGEST_EXCHANGE: Final = 64 * 1024
"""Bytes of all buffers of an exchange that goes out, and comes back, in one piece: copying them is cheap."""

_LAST_SEQNUM: Final = 0xFFFFFFFF
_LEADERLESS_CHECK: Final = 0.1
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


class _Exchange:
    """Requests in flight alone, whose answers are awaited in one piece."""

    __slots__ = ("first", "moved", "requests", "transfers")

    def __init__(self, first: int, requests: list[tuple[int, memoryview]]) -> None:
        self.first = first
        """Sequence number of the first; the others follow it."""
        self.requests = requests
        """Endpoint and buffer of each."""
        self.moved = 0
        """Bytes that the last one moved, once all of them are done."""
        self.transfers: list[Transfer] = []
        """What became of them where their answers were not what was awaited."""


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
        self._exchange: _Exchange | None = None  # what the leader awaits; its requests have no transfers yet

        # Whoever holds this sends, so that messages are never interleaved.
        self._sending = threading.Lock()
        self._writable = _poll(peer, select.POLLOUT)
        self._duplex = _poll(peer, select.POLLIN | select.POLLOUT)

        # The leader, of which there is one while `_reading`, owns everything about receiving.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reading = False
        self._followers = 0
        self._readable = _poll(peer, select.POLLIN)
        self._view = memoryview(bytearray(_RECEIVE_SIZE))
        self._held = 0
        self._filling: Transfer | None = None
        self._filling_status = 0
        self._unfilled = _NOTHING

    @property
    def is_open(self) -> bool:
        """Whether the device can still be reached, as far as is known without asking."""
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

        The deadline is for sending alone; where it passes first, TransferTimeoutError and nothing was sent.
        ValueError for more than 16 MiB. The data goes out, and comes in, without being copied.
        """
        view = bytes_of(buffer)
        tail = _tail(self._devid, endpoint, len(view), setup, flags)
        self._lock_for_sending(endpoint, deadline)
        try:
            transfer = self._register(endpoint, view)
            head = _START.pack(_CMD_SUBMIT, transfer.seqnum) + tail
            parts: list[Buffer] = [head] if endpoint & 0x80 or not view else [head, view]
            if not self._transmit(parts, deadline):
                del self._pending[transfer.seqnum]
                raise TransferTimeoutError(endpoint, 0)
        finally:
            self._sending.release()
        return transfer

    def submit_many(
        self, endpoint: int, buffers: Iterable[Buffer], deadline: float | None = None
    ) -> list[Transfer]:
        """Start a request for each buffer, in order, with one send: the way to move many small ones fast."""
        return self.submit_batch([(endpoint, buffer) for buffer in buffers], deadline)

    def submit_batch(
        self, requests: Sequence[tuple[int, Buffer]], deadline: float | None = None
    ) -> list[Transfer]:
        """Start a request for each endpoint and buffer, in order, with one send."""
        messages: list[tuple[int, memoryview, bytes]] = []
        for endpoint, buffer in requests:
            view = bytes_of(buffer)
            messages.append((endpoint, view, _tail(self._devid, endpoint, len(view))))
        endpoint = requests[0][0] if requests else 0
        parts: list[Buffer] = []
        transfers: list[Transfer] = []
        self._lock_for_sending(endpoint, deadline)
        try:
            for endpoint, view, tail in messages:
                transfer = self._register(endpoint, view)
                transfers.append(transfer)
                parts += (_START.pack(_CMD_SUBMIT, transfer.seqnum), tail)
                if not endpoint & 0x80:
                    parts.append(view)
            if not self._transmit([b"".join(parts)], deadline):
                for transfer in transfers:
                    del self._pending[transfer.seqnum]
                raise TransferTimeoutError(endpoint, 0)
        finally:
            self._sending.release()
        return transfers

    def exchange(
        self, requests: Sequence[tuple[int, Buffer]], deadline: float | None = None
    ) -> int | list[Transfer]:
        """Start requests as `submit_batch` does; return the bytes that the last one moved where all are done.

        That is where nothing else is in flight, all of them end well, and their answers come in one piece:
        one send and one receive then. Anything else returns their transfers, to be waited for.
        """
        views = []
        size = 0
        for endpoint, buffer in requests:
            view = bytes_of(buffer)
            size += len(view)
            views.append((endpoint, view))
        if size > _LARGEST_EXCHANGE or not views or not self._reserve(len(views)):
            return self.submit_batch(views, deadline)
        exchange = _Exchange(self._seqnum + 1, views)
        try:
            try:
                try:
                    self._send_exchange(exchange, deadline)
                finally:
                    self._sending.release()
                if self._readable.poll(_milliseconds(remaining_until(deadline))):
                    self._receive()
            finally:
                if self._exchange is not None:
                    self._make_transfers(exchange)
                self._stop_reading()
        except BaseException:
            # Such as Ctrl-C: the buffers go back to the caller, so nothing may be written to them later.
            with contextlib.suppress(DeviceGoneError):
                for transfer in exchange.transfers:
                    self.withdraw(transfer)
            raise
        return exchange.transfers or exchange.moved

    def wait_until(self, transfer: Transfer, deadline: float | None) -> bool:
        """Read, or let another thread read, until a request is done; False at the deadline."""
        expired = False
        while transfer.status is None:
            with self._changed:
                if transfer.status is not None:
                    break
                if self._error is not None:
                    raise DeviceGoneError(self._error)
                if expired:
                    return False
                remaining = remaining_until(deadline)
                expired = remaining == 0
                if self._reading:
                    self._followers += 1
                    try:
                        self._changed.wait(remaining)
                    finally:
                        self._followers -= 1
                    continue
                self._reading = True
            try:
                if self._readable.poll(_milliseconds(remaining)):
                    self._receive()
            finally:
                self._stop_reading()
        return True

    def withdraw(self, transfer: Transfer) -> None:
        """UNLINK a request and wait until it is over; its status says whether it was done before that."""
        deadline = time.monotonic() + ANSWER_GRACE
        if not self._sending.acquire(timeout=ANSWER_GRACE):
            raise self._abandon("the server stopped reading")
        try:
            if transfer.status is not None:
                return
            if self._error is not None:
                raise DeviceGoneError(self._error)
            seqnum = self._next_seqnum()
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
        with self._changed:
            if self._closed:
                return
            self._closed = True
        self._abandon("the connection was closed", socket.SHUT_WR)
        deadline = time.monotonic() + CLOSE_GRACE
        with self._changed:
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

    # Exchanges

    def _reserve(self, count: int) -> bool:
        """Take sending and reading; False where another has them, or anything is in flight."""
        if self._seqnum + count > _LAST_SEQNUM or not self._sending.acquire(blocking=False):
            return False
        with self._lock:  # quicker than the condition
            in_flight = self._pending or self._unlinks or self._held or self._filling
            if not (in_flight or self._reading or self._error):
                self._reading = True
                return True
        self._sending.release()
        return False

    def _send_exchange(self, exchange: _Exchange, deadline: float | None) -> None:
        parts: list[Buffer] = []
        for endpoint, view in exchange.requests:
            self._seqnum += 1
            parts += (_START.pack(_CMD_SUBMIT, self._seqnum), _tail(self._devid, endpoint, len(view)))
            if not endpoint & 0x80:
                parts.append(view)
        self._exchange = exchange
        if not self._transmit([b"".join(parts)], deadline):
            self._exchange = None
            raise TransferTimeoutError(exchange.requests[0][0], 0)

    def _settle_exchange(self, exchange: _Exchange, end: int) -> bool:
        """Take the first `end` bytes for the answers to an exchange; False where they are not just those.

        IN data may have been written even then, where it comes in its turn: it will be written again.
        """
        start = 0
        expected = exchange.first
        actual = 0
        for endpoint, buffer in exchange.requests:
            if end - start < HEADER_SIZE:
                return False
            message, seqnum, status, actual = _REPLY.unpack_from(self._view, start)
            start += HEADER_SIZE
            if message != _RET_SUBMIT or seqnum != expected or status:
                return False
            if not endpoint & 0x80:
                if actual != len(buffer):
                    return False
            elif not 0 <= actual <= min(len(buffer), end - start):
                return False
            else:
                buffer[:actual] = self._view[start : start + actual]
                start += actual
            expected += 1
        exchange.moved = actual
        return start == end

    def _make_transfers(self, exchange: _Exchange) -> None:
        """Turn the requests of an exchange into transfers in flight."""
        self._exchange = None
        for seqnum, (endpoint, view) in enumerate(exchange.requests, exchange.first):
            transfer = Transfer(seqnum, endpoint, len(view), view if endpoint & 0x80 else None)
            self._pending[seqnum] = transfer
            exchange.transfers.append(transfer)

    # Sending

    def _next_seqnum(self) -> int:
        self._seqnum = self._seqnum % _LAST_SEQNUM + 1
        return self._seqnum

    def _register(self, endpoint: int, view: memoryview) -> Transfer:
        if self._error is not None:
            raise DeviceGoneError(self._error)
        seqnum = self._next_seqnum()
        transfer = Transfer(seqnum, endpoint, len(view), view if endpoint & 0x80 else None)
        self._pending[seqnum] = transfer
        return transfer

    def _lock_for_sending(self, endpoint: int, deadline: float | None) -> None:
        remaining = remaining_until(deadline)
        if not self._sending.acquire(timeout=-1 if remaining is None else remaining):
            raise TransferTimeoutError(endpoint, 0)

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
                if self._error is not None:
                    raise DeviceGoneError(self._error)
        except DeviceGoneError:
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

        The server may itself be waiting for us to read, so this thread reads meanwhile where none does.
        """
        remaining = remaining_until(deadline)
        if remaining == 0:
            return False
        with self._changed:
            leading = not self._reading
            self._reading = True
        if not leading:
            # The leader may leave while we wait here, and cannot wake us: look again after a while.
            self._writable.poll(_milliseconds(min(_LEADERLESS_CHECK, remaining or _LEADERLESS_CHECK)))
            return True
        try:
            for _, events in self._duplex.poll(_milliseconds(remaining)):
                if events & ~select.POLLOUT:
                    self._receive()
        finally:
            self._stop_reading()
        return True

    # Receiving

    def _stop_reading(self) -> None:
        with self._lock:
            self._reading = False
            if self._followers or self._closed:
                self._changed.notify_all()

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
        if self._exchange is not None:
            if self._settle_exchange(self._exchange, end):
                self._exchange = None
                return
            self._make_transfers(self._exchange)
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

    def _abandon(self, reason: str, how: int = socket.SHUT_RDWR) -> DeviceGoneError:
        """End the connection for all threads; the first reason stays. Return the error to raise."""
        with self._changed:
            if self._error is None:
                self._error = reason
            self._changed.notify_all()
            self._shut(how)
            return DeviceGoneError(self._error)

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


def _poll(peer: socket.socket, events: int) -> select.poll:
    poll = select.poll()
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
