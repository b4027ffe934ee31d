"""The SPI bus: messages of masters, and the chip's side of chip select, clock and data lines.

A message is a list of transfers that are clocked one after the other, of which each may let chip select go
high at its end. Several masters take turns, a message at a time. The slave's task takes messages one by one
and answers each at once, since a slave cannot stretch the clock. No I/O. Source: "XCORE AI server: numbers
and wire behavior", section SPI.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import trio
from msgspec import Struct

from aisrv.xcore.traced import traced_wait
from aisrv.xcore.waiter import Waiter

LARGEST_MESSAGE: Final = 1024 * 1024
"""Bytes that a message may clock, far more than Linux takes by default (bufsiz, 4096)."""


NOBODY: Final = 0xFF
"""Byte that a master reads where no slave drives the line."""


class SpiError(ValueError):
    """A message that breaks a bound; the text says which."""


class Timing(Struct, frozen=True):
    """Timing of a master's signals, in nanoseconds; None if unknown."""

    cs_setup: int | None = None
    """Chip select low to the first clock edge."""
    cs_hold: int | None = None
    """Last clock edge to chip select high."""
    cs_idle: int | None = None
    """Chip select high before."""


UNSTATED: Final = Timing()


class SpiTransfer(Struct, frozen=True):
    """Bytes clocked in one go, 8 bits each, most significant bit first, in SPI mode 0."""

    mosi: bytes
    deselect: bool = True
    """Whether chip select goes high at the end; the next transfer then starts a new transaction."""
    clock_hz: int | None = None
    """Clock rate; None if the master does not say."""
    timing: Timing = UNSTATED


class SpiPort(Protocol):
    """The master's side of a slave, which attachments drive: `SpiBus`, or a port that wraps one."""

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Clock the transfers; return the bytes on MISO, as many for each as went out.

        Chip select goes low if it is not low already. Raises SpiError past `LARGEST_MESSAGE` bytes. A
        cancelled message was clocked whole or not at all.
        """

    async def release(self) -> None:
        """Let chip select go high if a message left it low, as a master does that goes away."""


class PendingMessage(NamedTuple):
    """A message that waits for its answer."""

    transfers: Sequence[SpiTransfer]
    master: Waiter[list[bytes]]


def _nobody(transfers: Sequence[SpiTransfer]) -> list[bytes]:
    """Return the ones that a master reads if no slave drives the line."""
    return [bytes((NOBODY,)) * len(transfer.mosi) for transfer in transfers]


class SpiBus:
    """One slave on its bus."""

    def __init__(self) -> None:
        self.name: Final = "SPI bus"
        """Name for reports."""
        self._pending: deque[PendingMessage] = deque()
        self._slave: Waiter[None] = Waiter()
        self._selected = False  # once all that is pending is done
        self._has_failed = False
        self.clocked = 0
        """Bytes that were clocked so far, as many each way."""
        self.next_out: Callable[[], int] = lambda: NOBODY
        """Returns the byte that the slave has on MISO while the next one comes in, for who clocks bits."""

    # The master's side.

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Clock the transfers; see `SpiPort.message`. Raises SpiError for too many bytes."""
        return await self.pass_on(transfers)

    async def pass_on(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Give the slave a message whose bytes take their time elsewhere. Raises SpiError for too many."""
        size = sum(len(each.mosi) for each in transfers)
        if size > LARGEST_MESSAGE:
            raise SpiError(f"a message of {size} bytes, {LARGEST_MESSAGE} are allowed")
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._has_failed:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return _nobody(transfers)
        message = PendingMessage(transfers, Waiter())
        self._pending.append(message)
        if transfers:
            self._selected = not transfers[-1].deselect
        self._slave.wake(None)
        return await message.master.wait(lambda: self._pending.remove(message))

    async def transfer(self, mosi: bytes) -> bytes:
        """Clock `mosi` in one transaction, chip select low to high; return the bytes on MISO."""
        return (await self.message((SpiTransfer(mosi),)))[0]

    async def release(self) -> None:
        """Let chip select go high; see `SpiPort.release`."""
        if self._selected:
            await self.message((SpiTransfer(b""),))
        else:
            await trio.lowlevel.checkpoint()

    # The slave's side.

    def fail(self) -> None:
        """Leave the bus for good: nobody drives MISO from now on."""
        self._has_failed = True
        while self._pending:
            message = self._pending.popleft()
            message.master.wake(_nobody(message.transfers))

    async def next_message(self) -> PendingMessage:
        """Wait for a message; `answer` must follow without any wait in between."""
        while not self._pending:
            await traced_wait(self._slave.wait(), "next_message", self)
        return self._pending.popleft()

    def answer(self, message: PendingMessage, miso: list[bytes]) -> None:
        """End a message with the bytes on MISO."""
        self.clocked += sum(map(len, miso))
        message.master.wake(miso)


class SpiRelayPort(SpiPort):
    """Passes messages on to the slave behind `inner`, one at a time, in the order in which they come.

    An extension overrides `_relay_message` and `_relay_release`, which run one at a time.
    """

    def __init__(self, inner: SpiPort) -> None:
        self._inner = inner
        self._turn = trio.Lock()

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        await self._take_turn()
        try:
            return await self._relay_message(transfers)
        finally:
            self._turn.release()

    async def release(self) -> None:
        await self._take_turn()
        try:
            await self._relay_release()
        finally:
            self._turn.release()

    async def _relay_message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Pass a message to the slave and return its answer."""
        return await self._inner.message(transfers)

    async def _relay_release(self) -> None:
        await self._inner.release()

    async def _take_turn(self) -> None:
        try:
            self._turn.acquire_nowait()  # no checkpoint: the port behind has one
        except trio.WouldBlock:
            await self._turn.acquire()


class SpiTapPoint(SpiPort):
    """Passes messages straight on, but while a tap is in: it is put in and taken out while masters go on."""

    def __init__(self, inner: SpiPort) -> None:
        self._inner: Final = inner
        self._top = inner

    def put(self, tap: Callable[[SpiPort], SpiPort]) -> None:
        """Put a tap in, the only one; it gets the port behind it."""
        self._top = tap(self._inner)

    def take_out(self) -> None:
        """Take the tap out; messages that it has go on by it."""
        self._top = self._inner

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        return await self._top.message(transfers)

    async def release(self) -> None:
        await self._top.release()
