"""Answers on their way to a host: gathered while more are coming, sent as far as the socket takes them.

The last expected answer takes all others with it, in the turn of the task that gives it.
"""

import socket
from itertools import islice
from typing import Final, Protocol

import trio

from aisrv.xcore.waiter import Waiter

_GATHER: Final = 512
"""Buffers handed to one system call, which takes 1024 at most."""

GATHERING_TURNS: Final = 3
"""Turns of the other tasks for which answers are held back: a command through an engine takes that many."""


class Work(Protocol):
    """Pending work of a device for a host."""

    awaited: int
    """Bytes of its pending bulk URBs: while there are some, more answers are to come."""


class NoWork:
    """No pending work: no answer is held back for another."""

    awaited = 0


class Sender:
    """Sending side of a connected, non-blocking socket; `run` sends what could not go at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.work: Work = NoWork()
        self._unsent: list[bytes | memoryview] = []
        self._unsent_bytes = 0
        self._holding = False  # within `gather` and `flush`
        self._gathering = False  # so is the reader, which sends what is there when it has waited for more
        self._writer: Waiter[None] = Waiter()
        self._writer_due = False
        self._relief: trio.Event | None = None

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._unsent_bytes

    def put(self, *parts: bytes | memoryview) -> None:
        """Queue a message; it leaves at `flush` if that is due, else at once or with those to come."""
        self._unsent += parts
        self._unsent_bytes += sum(map(len, parts))
        if self._holding or (not self.work.awaited and self._send_at_once()) or self._gathering:
            return
        self._wake_writer()

    async def gather_more(self) -> int:
        """Let the device's tasks take a few turns, as long as there is more to come; return how many."""
        turns = 0
        work = self.work
        self._holding = False
        while turns < GATHERING_TURNS and work.awaited:
            await trio.lowlevel.cancel_shielded_checkpoint()
            turns += 1
        return turns

    def gather(self) -> None:
        """Hold messages back until `flush`, or `gather_more` and the last of them: they leave together."""
        self._holding = self._gathering = True

    def flush(self) -> None:
        """Send what the socket takes now and leave the rest to `run`. Raises OSError."""
        self._holding = self._gathering = False
        if self._unsent and not self._send():
            self._wake_writer()

    async def wait_below(self, limit: int) -> None:
        while self._unsent_bytes > limit:
            self._relief = trio.Event()
            await self._relief.wait()

    async def run(self) -> None:
        """Send until cancelled. Raises OSError if the host is gone."""
        while True:
            await self._wait_for_messages()
            await self.gather_more()
            while not self._send():
                await trio.lowlevel.wait_writable(self._socket)

    async def _wait_for_messages(self) -> None:
        if self._writer_due:
            self._writer_due = False
            return
        await self._writer.wait()

    def _wake_writer(self) -> None:
        if not self._writer.wake(None):
            self._writer_due = True

    def _send_at_once(self) -> bool:
        """Send in any task's turn; return whether that was all."""
        try:
            return self._send()
        except OSError:
            return False  # the host is gone: `run` meets that, too, and says so

    def _send(self) -> bool:
        """Send what the socket takes; return whether that was all."""
        while unsent := self._unsent:
            try:
                if len(unsent) == 1:
                    sent = self._socket.send(unsent[0])
                else:
                    sent = self._socket.sendmsg(unsent if len(unsent) <= _GATHER else unsent[:_GATHER])
            except BlockingIOError:
                return False
            self._unsent_bytes -= sent
            if self._relief is not None:
                self._relief.set()
            if not self._unsent_bytes:
                unsent.clear()
            else:
                _drop(unsent, sent)
        return True


def _drop(buffers: list[bytes | memoryview], size: int) -> None:
    whole = 0
    for each in islice(buffers, _GATHER):
        if size < len(each):
            break
        size -= len(each)
        whole += 1
    del buffers[:whole]
    if size:
        buffers[0] = memoryview(buffers[0])[size:]
