"""What a board needs of its node, against what real devices take of it."""

from dataclasses import replace

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.board import (
    CHANNEL_ENDS,
    CORES,
    Board,
    BoardError,
    EngineSpec,
    FlashSpec,
    SensorSpec,
    SpiSpec,
    UsbProtocol,
    demand_of,
)
from aisrv.board.catalog import BOARDS
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.sensors.acquire import start_acquisition
from aisrv.sensors.acquire_channel import connect
from aisrv.sensors.image.frame import Encoding, RawFrame, Region
from aisrv.xcore import tile
from aisrv.xcore.node import open_node

Taken = list[tuple[int, int]]
"""Cores and channel ends of each tile."""


def engines(*tiles: int) -> tuple[EngineSpec, ...]:
    return tuple(EngineSpec(tile=tile, arena_bytes=0) for tile in tiles)


def asked(board: Board) -> Taken:
    demand = demand_of(board)
    return [(len(demand.cores(tile)), demand.channel_ends(tile)) for tile in range(board.tiles)]


async def taken(board: Board) -> Taken:
    async with open_device(board, runner=inline) as device:
        return [(tile.cores_in_use, tile.chanends_in_use) for tile in device.node.tiles]


def test_limits_are_those_of_the_substrate() -> None:
    assert (CORES, CHANNEL_ENDS) == (tile.CORES, tile.CHANENDS)


BOARDS_TO_OPEN = {
    **BOARDS,
    "one tile": Board(tiles=1, usb_tile=0, spi=SpiSpec(tile=0)),
    "usb beside the engine": Board(usb_tile=0, spi=None),
    "three in a chain": Board(
        engines=tuple(
            EngineSpec(tile=tile, arena_bytes=0, chain_to=chain)
            for tile, chain in ((0, 1), (1, 2), (0, None))
        )
    ),
    "as many engines as there can be": Board(engines=engines(*[0] * 8, *[1] * 5), spi=None),
    "flash for four engines": Board(engines=engines(0, 1, 0, 1), flashes=(FlashSpec(tile=1),)),
    "two chips": Board(
        engines=(EngineSpec(), EngineSpec(tile=1, flash=1)), flashes=(FlashSpec(), FlashSpec(tile=1))
    ),
    "SPI to engine 1": Board(engines=engines(0, 1), spi=SpiSpec(tile=0, engine=1), flashes=(FlashSpec(),)),
    "ioserver": Board(engines=engines(0, 1), protocol=UsbProtocol.IOSERVER, spi=None),
    "no interpreter": Board(engines=(EngineSpec(kind="none"),)),
}


@pytest.mark.parametrize("name", BOARDS_TO_OPEN)
async def test_a_device_takes_what_the_board_asks(name: str) -> None:
    board = BOARDS_TO_OPEN[name]
    assert await taken(board) == asked(board)


@st.composite
def boards(draw: st.DrawFn) -> Board | None:
    """A board, or None where the draw makes none that can be built."""
    tiles = draw(st.integers(1, 2))
    a_tile = st.integers(0, tiles - 1)
    count = draw(st.integers(1, 10))
    chips = draw(st.lists(a_tile, max_size=3))
    specs = tuple(
        EngineSpec(
            tile=draw(a_tile),
            arena_bytes=0,
            chain_to=draw(st.sampled_from([None, *range(number + 1, count)])),
            flash=draw(st.integers(0, max(0, len(chips) - 1))),
        )
        for number in range(count)
    )
    spi = SpiSpec(draw(a_tile), draw(st.integers(0, count - 1))) if draw(st.booleans()) else None
    try:
        return Board(
            engines=specs,
            tiles=tiles,
            usb_tile=draw(a_tile),
            spi=spi,
            flashes=tuple(FlashSpec(tile=tile) for tile in chips),
        )
    except BoardError:
        return None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(boards())
def test_every_board_that_can_be_opens_with_what_it_asks(board: Board | None) -> None:
    if board is not None:
        assert trio.run(taken, board) == asked(board)


def test_cores_in_the_order_in_which_tasks_get_them() -> None:
    demand = demand_of(BOARDS["camera"])
    assert [task.name for task in demand.cores(1)] == [
        *("XUD", "usb_ep0", "usb_data", "spi_slave", "spi_buffer", "sensor", "acquire")
    ]
    assert [task.name for task in demand.cores(0)] == ["aiengine 0"]


async def test_each_core_runs_the_task_that_it_is_said_to() -> None:
    board = Board(engines=engines(0, 1), flashes=(FlashSpec(tile=1),))
    demand = demand_of(board)
    async with open_device(board, runner=inline) as device:
        await trio.testing.wait_all_tasks_blocked()
        running = [line.split(":")[0].strip() for line in device.node.report().splitlines()]
    cores = [
        f"tile {tile} core {core} ({task.name})"
        for tile in range(2)
        for core, task in enumerate(demand.cores(tile))
        if task.name != "XUD"
    ]
    assert running == cores


class OneFrame:
    """A source of gray."""

    width = height = 2
    encoding = Encoding.BAYER_RGGB

    async def frame(self) -> RawFrame:
        return RawFrame(2, 2, Encoding.BAYER_RGGB, bytes(4))


class NoPath:
    """An image path that nobody takes."""

    def to_tensor(self, frame: RawFrame, region: Region) -> bytes:
        raise NotImplementedError

    def to_grey(self, frame: RawFrame, region: Region) -> bytes:
        raise NotImplementedError


@pytest.mark.parametrize("sensor_tile", [0, 1])
async def test_acquisition_takes_what_a_sensor_asks(sensor_tile: int) -> None:
    specs = tuple(replace(spec, sensor=True) for spec in engines(0, 1, 0))
    board = Board(engines=specs, sensor=SensorSpec(tile=sensor_tile, source="pattern:bars"))
    without = Board(engines=engines(0, 1, 0))
    async with open_node() as node:
        task = node.tiles[sensor_tile]
        ends = [connect(node, node.tiles[spec.tile], task)[1] for spec in specs]
        start_acquisition(node, task, OneFrame(), NoPath(), None, ends)
        took = [(each.cores_in_use, each.chanends_in_use) for each in node.tiles]
        node.stop()
    assert took == [
        (with_cores - cores, with_ends - ends)
        for (with_cores, with_ends), (cores, ends) in zip(asked(board), asked(without), strict=True)
    ]
