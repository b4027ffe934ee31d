"""Loads and runs in device time: their ticks, with threads and neighbors on the tile."""

import math
from dataclasses import replace

import pytest
import trio

from aisrv import digits
from aisrv.board import Board
from aisrv.inference.errors import InvokeError
from aisrv.protocol.memory_map import ModelMemory
from aisrv.xcore.device_costs import LOAD_TICKS
from tests.support.device_time import on_virtual_time, ticks, timed_device


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


def test_a_run_without_a_model_takes_no_time() -> None:
    async def main() -> int:
        async with timed_device() as device:
            begin = ticks(device)
            with pytest.raises(InvokeError, match="no model is loaded"):
                await device.engines[0].inference.invoke()
            return ticks(device) - begin

    assert on_virtual_time(main) == 0
