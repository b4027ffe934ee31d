"""The SPI bus in device time: a message takes the clocks of its bytes, and what chip select needs.

Chip select is high for 200 ns before a transaction, and low for 100 ns before the first clock and after the
last one. A read is answered as of its third byte, a write acts when chip select rises. Sources: "Device time
and traces", section 2; "XCORE AI server: numbers and wire behavior", section SPI.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import trio
from msgspec.structs import replace

from aisrv.xcore.timed.device_costs import (
    SPI_CLOCK_HZ,
    SPI_HOLD_TICKS,
    SPI_IDLE_TICKS,
    SPI_SETUP_TICKS,
    spi_byte_ticks,
)
from aisrv.xcore.timed.parking import TimedParking
from aisrv.xcore.timed.runtime import TimedRuntime
from aisrv.xcore.waiter import Waiter
from phy.spi.bus import LARGEST_MESSAGE, SpiBus, SpiError, SpiTransfer
from phy.spi.transaction import FIRST_DATA

_AFTER_CORES: Final = (1 << 16, 0)
"""In place of tile and core: what a core leaves in memory at a tick is there when a byte goes out then."""


class _Piece(NamedTuple):
    """Bytes that the slave gets at once, `ticks` after the message began."""

    transfer: int
    ticks: Fraction
    part: SpiTransfer


def _pieces(transfers: Sequence[SpiTransfer], clocked: int | None) -> Iterator[_Piece]:
    """Cut a message where the slave answers or acts.

    `clocked` is the bytes since chip select fell, None while it is high.
    """
    ticks = Fraction(0)
    for number, transfer in enumerate(transfers):
        if clocked is None:
            ticks += SPI_IDLE_TICKS + SPI_SETUP_TICKS
            clocked = 0
        byte = spi_byte_ticks(transfer.clock_hz or SPI_CLOCK_HZ)
        size = len(transfer.mosi)
        rest = transfer
        if clocked <= FIRST_DATA < clocked + size:
            cut = FIRST_DATA + 1 - clocked
            yield _Piece(
                number,
                ticks + (FIRST_DATA - clocked) * byte,
                replace(transfer, mosi=transfer.mosi[:cut], deselect=False),
            )
            rest = replace(transfer, mosi=transfer.mosi[cut:])
        ticks += size * byte
        clocked += size
        if transfer.deselect:
            ticks += SPI_HOLD_TICKS
            clocked = None
        yield _Piece(number, ticks, rest)


class TimedSpiBus(SpiBus):
    """`SpiBus` in device time. Messages take turns, each for as long as it is on the wires."""

    def __init__(self, runtime: TimedRuntime) -> None:
        super().__init__()
        self._timeline = runtime.timeline
        self._slave: TimedParking[None] = TimedParking(runtime, runtime.timeline)
        self._turn = trio.Lock()
        self._clocked: int | None = None
        self.taken: Final[dict[int, tuple[int, Fraction]]] = {}
        """Messages so far by their first byte: how many, and their ticks while the device was not BUSY."""
        self.busy_clocks: Callable[[], int] = lambda: 0
        """Returns the clocks so far in which the device was BUSY."""

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        size = sum(len(each.mosi) for each in transfers)
        if size > LARGEST_MESSAGE:
            raise SpiError(f"a message of {size} bytes, {LARGEST_MESSAGE} are allowed")
        async with self._turn:
            return await self._clock(transfers)

    async def _clock(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        """Give the slave each piece at its tick; a cancelled message is clocked to its end at once."""
        if not transfers:
            return await self.pass_on(())
        begin = self._timeline.arrival_tick
        busy, first = self.busy_clocks(), self._count(transfers)
        miso = [b""] * len(transfers)
        pieces = list(_pieces(transfers, self._clocked))
        cancelled: BaseException | None = None
        for number, piece in enumerate(pieces):
            if cancelled is None:
                try:
                    await self._wait(begin + math.ceil(piece.ticks))
                except trio.Cancelled as cancellation:
                    if not number:
                        raise
                    cancelled = cancellation
            with trio.CancelScope(shield=True):
                miso[piece.transfer] += (await self.pass_on((piece.part,)))[0]
            self._note(piece.part)
        count, ticks = self.taken[first]
        worked = Fraction((self.busy_clocks() - busy) * 100, self._timeline.core_clock_mhz)
        self.taken[first] = count, ticks - min(worked, pieces[-1].ticks)
        if cancelled is not None:
            raise cancelled
        return miso

    def _count(self, transfers: Sequence[SpiTransfer]) -> int:
        """Count a message; return its first byte."""
        *_, last = _pieces(transfers, self._clocked)
        first = next((each.mosi[0] for each in transfers if each.mosi), 0)
        count, ticks = self.taken.get(first, (0, Fraction(0)))
        self.taken[first] = count + 1, ticks + last.ticks
        return first

    def _note(self, transfer: SpiTransfer) -> None:
        self._clocked = None if transfer.deselect else (self._clocked or 0) + len(transfer.mosi)

    async def _wait(self, tick: int) -> None:
        waiter: Waiter[None] = Waiter()
        turn = self._timeline.at(self._timeline.clock_at(tick), lambda: waiter.wake(None), port=_AFTER_CORES)
        await waiter.wait(turn.call_off)
