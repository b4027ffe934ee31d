"""What a board needs of its node, against what real devices take of it."""

from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.addons.jacdac.board import Jacdac
from aisrv.board import (
    CHANNEL_ENDS,
    CORES,
    Board,
    BoardError,
    EngineSpec,
    FlashSpec,
    SensorSpec,
    SpiSpec,
    TaskKind,
    UsbProtocol,
    plan_of,
)
from aisrv.board.catalog import BOARDS
from aisrv.device.device import open_device
from aisrv.device.tasks import TASKS
from aisrv.inference.process.inline import inline
from aisrv.protocol.engine_kind import EngineKind
from aisrv.xcore import tile
from aisrv.xcore.channels import routes
from tests.support.amounts import in_ci
from tests.support.benches.boards import engines_on

Taken = list[tuple[int, int]]
"""Cores and channel ends of each tile."""


def asked(board: Board) -> Taken:
    plan = plan_of(board)
    return [(len(plan.cores(tile)), plan.channel_ends(tile)) for tile in range(board.tiles)]


async def taken(board: Board) -> Taken:
    async with open_device(board, runner=inline) as device:
        return [(tile.cores_in_use, tile.chanends_in_use) for tile in device.node.tiles]


def test_limits_are_those_of_the_substrate() -> None:
    assert (CORES, CHANNEL_ENDS) == (tile.CORES, routes.CHANENDS)


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
    "as many engines as there can be": Board(engines=engines_on(*[0] * 8, *[1] * 5), spi=None),
    "flash for four engines": Board(engines=engines_on(0, 1, 0, 1), flashes=(FlashSpec(tile=1),)),
    "two chips": Board(
        engines=(EngineSpec(), EngineSpec(tile=1, flash=1)), flashes=(FlashSpec(), FlashSpec(tile=1))
    ),
    "SPI to engine 1": Board(engines=engines_on(0, 1), spi=SpiSpec(tile=0, engine=1), flashes=(FlashSpec(),)),
    "Jacdac": Board(
        engines=engines_on(0, 1), parts=(Jacdac(tile=0),), flashes=(FlashSpec(), FlashSpec(tile=1))
    ),
    "ioserver": Board(engines=engines_on(0, 1), protocol=UsbProtocol.IOSERVER, spi=None),
    "a sensor beside the engine": Board(sensor=SensorSpec(tile=0, source="pattern:bars")),
    "a sensor for two engines of three": Board(
        engines=tuple(
            replace(spec, sensor=choice)
            for spec, choice in zip(engines_on(0, 1, 0), (True, None, True), strict=True)
        ),
        sensor=SensorSpec(tile=1, source="pattern:bars"),
    ),
    "no interpreter": Board(engines=(EngineSpec(kind=EngineKind("none")),)),
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
        board = Board(
            engines=specs,
            tiles=tiles,
            usb_tile=draw(a_tile),
            spi=spi,
            flashes=tuple(FlashSpec(tile=tile) for tile in chips),
        )
        plan_of(board).check()
    except BoardError:
        return None
    return board


@settings(max_examples=in_ci(60, every_day=20), deadline=None, derandomize=True)
@given(boards())
def test_every_board_that_can_be_opens_with_what_it_asks(board: Board | None) -> None:
    if board is not None:
        assert trio.run(taken, board) == asked(board)


def test_cores_in_the_order_in_which_tasks_get_them() -> None:
    plan = plan_of(BOARDS["camera"])
    assert [task.name for task in plan.cores(1)] == [
        *("XUD", "usb_ep0", "usb_data", "spi_slave", "spi_buffer", "sensor", "acquire")
    ]
    assert [task.name for task in plan.cores(0)] == ["aiengine 0"]


async def test_each_core_runs_the_task_that_it_is_said_to() -> None:
    board = Board(engines=engines_on(0, 1), flashes=(FlashSpec(tile=1),))
    plan = plan_of(board)
    async with open_device(board, runner=inline) as device:
        await trio.testing.wait_all_tasks_blocked()
        running = [line.split(":")[0].strip() for line in device.node.runtime.report().splitlines()]
    cores = [
        f"tile {tile} core {core} ({task.name})"
        for tile in range(2)
        for core, task in enumerate(plan.cores(tile))
        if task.name != "XUD"
    ]
    assert running == cores


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"engines": engines_on(*[0] * 9)},
            (
                "tile 0 needs 9 cores: aiengine 0, aiengine 1, aiengine 2, aiengine 3, aiengine 4, "
                "aiengine 5, aiengine 6, aiengine 7, aiengine 8; it has 8"
            ),
        ),
        (
            {"engines": engines_on(*[1] * 4)},
            (
                "tile 1 needs 9 cores: XUD, usb_ep0, usb_data, spi_slave, spi_buffer, "
                "aiengine 0, aiengine 1, aiengine 2, aiengine 3; it has 8"
            ),
        ),
        (
            {"engines": engines_on(*[1] * 255), "spi": None},
            (
                "tile 1 needs 258 cores: XUD, usb_ep0, usb_data, aiengine 0, aiengine 1, aiengine 2, "
                "aiengine 3, aiengine 4, aiengine 5, aiengine 6, aiengine 7, aiengine 8, and 246 more; "
                "it has 8"
            ),
        ),
        (
            {"engines": engines_on(*[0] * 7), "flashes": (FlashSpec(),)},
            (
                "tile 0 needs 54 channel ends: aiengine 0 5, flash_server 0 16, aiengine 1 3, aiengine 2 3, "
                "aiengine 3 3, aiengine 4 3, aiengine 5 3, aiengine 6 3, program 15; it has 32"
            ),
        ),
    ],
)
async def test_a_board_that_needs_more_than_a_tile_has(settings: dict[str, Any], message: str) -> None:
    board = Board(**settings)
    with pytest.raises(BoardError) as error:
        plan_of(board).check()
    assert str(error.value) == message
    with pytest.raises(BoardError) as error:
        async with open_device(board, runner=inline):
            pass
    assert str(error.value) == message


def test_every_kind_of_task_can_be_started() -> None:
    assert {*TaskKind} - {*TASKS} == {TaskKind.PROGRAM}


@pytest.mark.parametrize("name", BOARDS_TO_OPEN)
def test_tasks_have_names_of_their_own(name: str) -> None:
    names = [task.name for task in plan_of(BOARDS_TO_OPEN[name]).tasks]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", BOARDS_TO_OPEN)
def test_links_join_tasks_of_the_plan(name: str) -> None:
    plan = plan_of(BOARDS_TO_OPEN[name])
    joined = {end.task for link in plan.links for end in (link.a, link.b)}
    assert {task for task in joined if task.kind is not TaskKind.PROGRAM} <= set(plan.tasks)
