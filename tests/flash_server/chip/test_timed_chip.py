"""A flash chip in device time: what reads, programs and erasures take."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from aisrv.xcore.node import open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timed.runtime import TimedRuntime
from flash_server.chip.part import CLOCK_HZ, MX25R6435F, WIDTH
from flash_server.chip.storage import MemoryStorage
from flash_server.chip.timed_chip import TimedChip
from tests.support.benches.device_time import on_virtual_time

PART = MX25R6435F


def ticks_of(verbs: Callable[[TimedChip], Awaitable[object]]) -> int:
    """Ticks of verbs on a core of 600 MHz, whose reads take 3,001 clocks and 10 a byte."""

    async def main() -> int:
        async with open_node(classes=TIMED) as node:
            assert isinstance(node.runtime, TimedRuntime)
            storage = MemoryStorage(PART.size)
            chip = TimedChip(
                PART,
                storage,
                node.runtime,
                lambda size: 3001 + 10 * size,
                clock_hz=CLOCK_HZ,
                width=WIDTH,
            )
            ends = []

            async def firmware() -> None:
                await verbs(chip)
                ends.append(node.clock.ticks())

            node.tiles[0].start(firmware, name="firmware")
            await trio.sleep(100)
            node.stop()
        return ends[0]

    return on_virtual_time(main)


@pytest.mark.parametrize(("size", "ticks"), [(1, 502), (100, 667)])
def test_a_read_takes_what_it_does_through_the_server(size: int, ticks: int) -> None:
    assert ticks_of(lambda chip: chip.read(0, size)) == ticks


def test_an_erasure_takes_the_chip_s_own_time() -> None:
    async def erase(chip: TimedChip) -> None:
        await chip.write_enable()
        await chip.erase_sector(0)

    clocks = 8 + 32  # write enable, and sector erase with its address
    expected = round((clocks / CLOCK_HZ + PART.erases[0].seconds) * 1e8)
    assert abs(ticks_of(erase) - expected) <= 1


def test_a_page_takes_its_clocks_and_the_chip_s_time() -> None:
    async def program(chip: TimedChip) -> None:
        await chip.write_enable()
        await chip.program_page(0, bytes(256))

    quick, slow = ticks_of(program), round(PART.page_program_seconds * 1e8)
    assert 0 < quick - slow < 256 * 8 * 100e6 / CLOCK_HZ
