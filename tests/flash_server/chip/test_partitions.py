"""Recognition of what a chip holds: in turns that are short, in time linear in the chip, whatever it holds.

Turns are measured in calls of functions, which do not depend on the machine: 5 ms are 25,000 calls or more.
"""

import sys
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio

from flash_server.boot.boot_image import Slot, build_boot_image, build_boot_partition
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import SECTOR_ERASE, Erase, FlashPart
from flash_server.chip.partitions import divide
from flash_server.chip.storage import MemoryStorage
from flash_server.image.headers import MAX_ENGINES, PREFIX_BYTES, Header
from flash_server.server.service import FlashService

MIB = 1 << 20
CALLS_A_TURN = 2500
"""About 0.5 ms."""


class Turns(trio.abc.Instrument):
    """Counts the calls of each turn that a task has."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def _count(self, _frame: object, event: str, _argument: object) -> None:
        if event in {"call", "c_call"}:
            self.calls[-1] += 1

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self.calls.append(0)
        sys.setprofile(self._count)

    def after_task_step(self, _task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)


def part(size: int) -> FlashPart:
    return FlashPart("part", size, 0xC22810, erases=(Erase(SECTOR_ERASE, 4096, 0.0),))


def turns_of_a_reset(content: bytes, boot_bytes: int = 0) -> tuple[list[int], list[str]]:
    """Read a chip as at reset; the calls of each turn, and what went to the log."""
    storage = MemoryStorage(len(content))
    storage.write(0, content)
    log: list[str] = []
    service = FlashService(divide(FlashChip(part(len(content)), storage), boot_bytes), log.append)
    turns = Turns()

    async def measured(function: Callable[[], Awaitable[None]]) -> None:
        await trio.lowlevel.checkpoint()
        await function()

    trio.run(measured, service.reset, instruments=[turns])
    return turns.calls, log


def headers_of(offset: Callable[[int], int]) -> bytes:
    """Headers of as many engines as there can be, with models at these offsets."""
    return b"".join(bytes(Header(model=offset(engine))) for engine in range(MAX_ENGINES))


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_recognized_in_short_turns(seed: int) -> None:
    calls, log = turns_of_a_reset(Random(seed).randbytes(2 * MIB), MIB)
    assert max(calls) <= CALLS_A_TURN < sum(calls)
    assert any("no version word, and no headers of the design generation" in line for line in log)


@pytest.mark.parametrize(
    "offset",
    [
        lambda engine: PREFIX_BYTES + 4096 * engine,  # all good
        lambda engine: PREFIX_BYTES + 4096 * (engine * 77 % MAX_ENGINES),  # good, in no order
        lambda engine: 0x10000000 + engine,  # all past the end
        lambda engine: PREFIX_BYTES + 4096 * (engine // 2),  # every other one at the place of another
        lambda engine: PREFIX_BYTES + 4 * engine,  # no room for any
    ],
)
def test_most_headers_are_recognized_in_short_turns(offset: Callable[[int], int]) -> None:
    calls, _ = turns_of_a_reset(headers_of(offset).ljust(2 * MIB, b"\0"))
    assert max(calls) <= CALLS_A_TURN < sum(calls)


@pytest.mark.parametrize("slot", Slot)
def test_boot_images_are_checked_in_short_turns_and_time_linear_in_the_chip(slot: Slot) -> None:
    def turns(size: int) -> list[int]:
        image = build_boot_image(1, Random(size).randbytes(size // 2 - 8192))
        boot_bytes = size - 4096
        boot = build_boot_partition(boot_bytes, *(image if each is slot else b"" for each in Slot))
        return turns_of_a_reset(boot.ljust(size, b"\xff"), boot_bytes)[0]

    sizes = [MIB, 2 * MIB, 4 * MIB]
    found = [turns(size) for size in sizes]
    assert max(map(max, found)) <= CALLS_A_TURN
    first, second, third = map(sum, found)
    assert third - second == pytest.approx(2 * (second - first), rel=0.05)


def test_noise_takes_as_long_on_a_chip_of_any_size() -> None:
    noise = Random(1).randbytes(8 * MIB)
    small, large = (sum(turns_of_a_reset(noise[:size])[0]) for size in (MIB, 8 * MIB))
    assert large == pytest.approx(small, rel=0.2)
