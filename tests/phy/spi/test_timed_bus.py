"""SPI in device time: what a message takes, when a read is sampled and a write acts. Acceptance 5."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from fractions import Fraction

import pytest
import trio

from aisrv.protocol.commands import Command, Status
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.timed.runtime import TimedRuntime
from phy.spi.bus import LARGEST_MESSAGE, SpiError, SpiTransfer
from phy.spi.shared_memory import SharedMemory
from phy.spi.slave import spi_slave
from phy.spi.timed_bus import TimedSpiBus
from tests.support.benches.device_time import on_virtual_time

STATUS = bytes((Command.GET_STATUS,)) + bytes(6)
SAMPLED = 30 + 3 * 80
"""Ticks at which a read at 10 MHz is answered; it takes 40 and seven bytes."""


class Bench:
    """A slave without a buffer: a write is BUSY for ever."""

    def __init__(self, node: Node) -> None:
        assert isinstance(node.runtime, TimedRuntime)
        self.node = node
        self.bus = TimedSpiBus(node.runtime)
        self.memory = SharedMemory()
        channel = node.channel(node.tiles[1], node.tiles[1])
        node.tiles[1].start(spi_slave, self.bus, self.memory, channel.a)

    @property
    def ticks(self) -> int:
        return self.node.clock.ticks()

    async def message(self, *transfers: SpiTransfer) -> Sequence[bytes]:
        return await self.bus.message(transfers)


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with open_node(classes=TIMED) as node:
        yield Bench(node)
        node.stop()


@pytest.mark.parametrize("clock_hz", [1_000, 3_000_000, 10_000_000, 25_000_000, 50_000_000, None])
def test_a_block_takes_its_bytes(clock_hz: int | None) -> None:
    async def main() -> int:
        async with bench() as each:
            data = bytes((Command.SET_INPUT_TENSOR,)) + bytes(512)
            await each.message(SpiTransfer(data, clock_hz=clock_hz))
            return each.ticks

    expected = 40 + 513 * 8 * Fraction(100_000_000, clock_hz or 10_000_000)
    assert on_virtual_time(main) == math.ceil(expected)


@pytest.mark.parametrize(("changed_at", "seen"), [(SAMPLED, Status.BUSY), (SAMPLED + 1, Status.OKAY)])
def test_a_read_is_answered_as_of_its_third_byte(changed_at: int, seen: Status) -> None:
    async def main() -> tuple[bytes, int]:
        async with bench() as each, trio.open_nursery() as nursery:

            async def change() -> None:
                await trio.sleep_until(each.node.clock.deadline(changed_at))
                each.memory.status = Status.BUSY

            nursery.start_soon(change)
            (miso,) = await each.message(SpiTransfer(STATUS))
            return miso, each.ticks

    miso, ticks = on_virtual_time(main)
    assert miso == bytes(3) + bytes((seen, 0, 0, 0))
    assert ticks == 40 + 7 * 80


def test_a_write_acts_when_chip_select_rises() -> None:
    async def main() -> tuple[Status, Status]:
        async with bench() as each, trio.open_nursery() as nursery:
            nursery.start_soon(each.message, SpiTransfer(bytes((Command.START_INFER,))))
            await trio.sleep_until(each.node.clock.deadline(40 + 80 - 1))
            before = each.memory.status
            await trio.sleep_until(each.node.clock.deadline(40 + 80 + 1))
            return before, each.memory.status

    assert on_virtual_time(main) == (Status.OKAY, Status.BUSY)


def test_chip_select_that_stays_low_takes_no_time_of_its_own() -> None:
    async def main() -> tuple[bytes, list[int]]:
        async with bench() as each:
            ends = []
            first = await each.message(SpiTransfer(STATUS[:2], deselect=False))
            ends.append(each.ticks)
            second = await each.message(SpiTransfer(STATUS[2:]), SpiTransfer(STATUS))
            ends.append(each.ticks)
            return b"".join((*first, *second)), ends

    miso, ends = on_virtual_time(main)
    assert miso == bytes(14)
    assert ends == [30 + 160, 30 + 560 + 10 + 600]


def test_masters_take_turns() -> None:
    async def main() -> list[int]:
        ends = []
        async with bench() as each, trio.open_nursery() as nursery:

            async def read() -> None:
                await each.message(SpiTransfer(STATUS))
                ends.append(each.ticks)

            nursery.start_soon(read)
            nursery.start_soon(read)
        return ends

    assert on_virtual_time(main) == [600, 1200]


def test_a_cancelled_message_is_clocked_whole_or_not_at_all() -> None:
    async def main() -> list[Status]:
        found = []
        async with bench() as each:
            for wait in (100, 30 + 80 * 3 + 1):  # before and after the slave has the first bytes
                with trio.move_on_after(wait * 1e-8):
                    await each.message(SpiTransfer(bytes((Command.SET_INPUT_TENSOR,)) + bytes(100)))
                found.append(each.memory.status)
        return found

    assert on_virtual_time(main) == [Status.OKAY, Status.BUSY]


def test_a_message_that_is_too_long_takes_no_time() -> None:
    async def main() -> int:
        async with bench() as each:
            with pytest.raises(SpiError, match="1048577 bytes"):
                await each.message(SpiTransfer(bytes(LARGEST_MESSAGE + 1)))
            assert await each.message() == []
            return each.ticks

    assert on_virtual_time(main) == 0


def test_a_release_takes_chip_select_alone() -> None:
    async def main() -> list[int]:
        async with bench() as each:
            ends = []
            for deselect in (False, True):
                await each.message(SpiTransfer(b"\0", deselect=deselect))
                await each.bus.release()
                ends.append(each.ticks)
            return ends

    assert on_virtual_time(main) == [30 + 80 + 10, 2 * (30 + 80 + 10)]


def test_a_read_sees_what_a_core_does_at_its_tick() -> None:
    async def main() -> bytes:
        async with bench() as each:
            each.memory.status = Status.BUSY
            timeline = timeline_of(each.node.runtime)
            assert timeline is not None

            async def finish() -> None:
                await timeline.wait_until(timeline.clock_at(SAMPLED))
                each.memory.status = Status.OKAY

            each.node.tiles[1].start(finish, name="finish")
            return (await each.message(SpiTransfer(STATUS)))[0]

    assert on_virtual_time(main) == bytes(7)
