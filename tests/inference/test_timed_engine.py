"""Loads and runs in device time: their ticks, with threads and neighbors on the tile."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from aisrv import digits
from aisrv.addons.kernels.relocatable.fetches import fetch_counters
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, Memory
from aisrv.addons.kernels.relocatable.runtime import LoadMode, Runtime
from aisrv.board import Board, EngineSpec, FlashSpec
from aisrv.device.device import Device
from aisrv.inference.errors import InvokeError
from aisrv.model.relocatable.container import Image, offset
from aisrv.model.relocatable.stored import StoredHeader, stored
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import set_command
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.memories import FlashPath
from aisrv.protocol.memory_map import ModelMemory
from aisrv.values.settings.size import Size
from aisrv.xcore.timed.device_costs import LOAD_TICKS
from flash_server.chip.part import MX25R3235F
from flash_server.chip.storage import FileStorage
from flash_server.image import DataPartition, EngineImage, Generation
from tests.support.benches.device_time import UsbHost, on_virtual_time, ticks, timed_device
from tests.support.benches.flash_sectors import SECTOR, overwrite
from tests.support.models.relocatable import digits_image

T = TypeVar("T")
BOOT_BYTES = Size(64 * 1024)
LINE = Fraction(2_272 + 32 * 142, 6)
"""Ticks to read a line of 32 bytes through the flash server."""
Run = Callable[[bytes], Awaitable[int]]


@pytest.mark.parametrize(
    ("threads", "neighbors", "slot"),
    [(1, 0, 5), (1, 4, 5), (1, 5, 6), (5, 0, 5), (5, 1, 6), (3, 4, 7)],
)
def test_a_run_takes_the_slots_of_its_threads_and_neighbors(threads: int, neighbors: int, slot: int) -> None:
    async def main() -> tuple[int, int]:
        board = Board()
        board = replace(board, engines=(replace(board.engines[0], threads=threads),))
        async with timed_device(digits.model_bytes(), board) as device:
            engine = device.engines[0].inference
            assert engine.total is not None
            tile = device.node.tiles[board.engines[0].tile]
            taken: list[int] = []

            async def run() -> None:
                begin = ticks(device)
                await engine.invoke()
                taken.append(ticks(device) - begin)

            device.node.runtime.timeline.running[tile.number] += neighbors  # type: ignore[attr-defined]
            tile.start(run, name="run")
            await trio.sleep(1)
            return taken[0], engine.total.ticks

    taken, predicted = on_virtual_time(main)
    assert taken == math.ceil(predicted * slot / 5)


def test_a_load_takes_its_time_for_each_operator() -> None:
    async def main() -> list[int]:
        async with timed_device(board=Board(spi=None)) as device:
            engine = device.engines[0].inference
            taken = []

            async def load() -> None:
                begin = ticks(device)
                await engine.load_model(digits.model_bytes(), ModelMemory.ARENA)
                taken.append(ticks(device) - begin)

            device.node.tiles[0].start(load, name="load")
            await trio.sleep(1)
            return [*taken, len(engine.operator_times)]

    taken, operators = on_virtual_time(main)
    assert taken == LOAD_TICKS * operators


def in_place(
    path: Path, use: Callable[[Device, Run], Awaitable[T]], flash_path: FlashPath | None = None
) -> T:
    """Use a device whose engine runs the digits' image in its flash, and a run that tells its ticks."""
    pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")
    engine = EngineImage(xip=stored(digits_image()))
    data = DataPartition((engine,), Generation.FAST, swapped=False, alignment=SECTOR).build()
    with FileStorage(path, MX25R3235F.size) as storage:
        storage.write(BOOT_BYTES, data)
    flash = FlashSpec(MX25R3235F, path=path, boot_bytes=BOOT_BYTES)
    spec = EngineSpec(kind=EngineKind("relocatable"))
    board = Board(engines=(spec,), flashes=(flash,), spi=None, flash_path=flash_path)

    async def main() -> T:
        async with timed_device(board=board) as device:
            assert await set_command(device.local[0], Command.SET_MODEL_EXT_FLASH) == Status.OKAY
            engine = device.engines[0].inference

            async def run(inputs: bytes) -> int:
                taken: list[int] = []
                engine.input(0)[:] = inputs

                async def once() -> None:
                    begin = ticks(device)
                    await engine.invoke()
                    taken.append(ticks(device) - begin)

                device.node.tiles[spec.tile].start(once, name="run")
                await trio.sleep(10)
                return taken[0]

            return await use(device, run)

    return on_virtual_time(main)


def fetched_lines() -> int:
    """Lines that a run on zeros fetches from a flash that begins with the same segment."""
    segment = stored(digits_image())
    flash = Memory(FLASH_BASE, len(segment))
    flash.write(FLASH_BASE, segment)
    runtime = Runtime(flash=flash)
    obj = FLASH_BASE + StoredHeader.SIZE
    info = runtime.rt_get_info(obj)
    handle = runtime.load_and_create(obj, 0, 0, LoadMode.XIP)
    assert runtime.init(handle, info.weights, runtime.malloc(info.acts_sz))
    with fetch_counters(runtime, handle) as counters:
        assert runtime.invoke(handle) == 1
    return counters.misses


@pytest.mark.parametrize(("path", "line"), [(None, LINE), (FlashPath.FAST, Fraction(32 * 21, 10))])
def test_a_run_in_place_takes_the_lines_that_it_fetches(
    tmp_path: Path, path: FlashPath | None, line: Fraction
) -> None:
    async def use(device: Device, run: Run) -> tuple[int, int]:
        total = device.engines[0].inference.total
        assert total is not None
        return await run(bytes(64)), total.ticks

    taken, predicted = in_place(tmp_path / "chip.bin", use, path)
    assert taken == math.ceil(predicted + fetched_lines() * line)


def test_later_runs_in_place_take_what_the_first_fetched(tmp_path: Path) -> None:
    async def use(_device: Device, run: Run) -> list[int]:
        return [await run(bytes(64)), await run(digits.test_images()[0].image), await run(bytes(64))]

    first, *later = in_place(tmp_path / "chip.bin", use)
    assert later == [first, first]


def test_code_that_was_overwritten_in_flash_is_counted_anew(tmp_path: Path) -> None:
    code = offset(Image.from_bytes(digits_image()).header.run) - 1
    address = BOOT_BYTES + SECTOR + StoredHeader.SIZE + code

    async def use(device: Device, run: Run) -> tuple[int, int]:
        total = device.engines[0].inference.total
        assert total is not None
        await run(bytes(64))
        await overwrite(device.flashes[0], address, b"\x01\x20\x70\x47")  # movs r0, #1; bx lr
        return await run(bytes(64)), total.ticks

    taken, predicted = in_place(tmp_path / "chip.bin", use)
    assert taken == math.ceil(predicted + LINE)


def test_a_run_in_place_is_told_with_its_fetches_as_time_in_flash(tmp_path: Path) -> None:
    async def use(device: Device, _run: Run) -> tuple[Fraction, Fraction, int]:
        total, account = device.engines[0].inference.total, device.time_account
        assert total is not None
        assert account is not None
        host = UsbHost(device)
        await host.set(Command.START_INFER, b"")
        await host.read(Command.GET_ID)
        (row,) = (row for row in account.rows if row.command == "START_INFER")
        return row.spent.flash, row.spent.inference, total.ticks

    flash, inference, predicted = in_place(tmp_path / "chip.bin", use)
    assert flash == fetched_lines() * LINE
    assert inference == Fraction(predicted)


def test_a_run_without_a_model_takes_no_time() -> None:
    async def main() -> int:
        async with timed_device() as device:
            begin = ticks(device)
            with pytest.raises(InvokeError, match="no model is loaded"):
                await device.engines[0].inference.invoke()
            return ticks(device) - begin

    assert on_virtual_time(main) == 0
