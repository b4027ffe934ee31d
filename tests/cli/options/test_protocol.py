"""The board that `--protocol` makes of the other options."""

import click
import pytest

from aisrv.board import UsbProtocol
from aisrv.cli.options.board import BoardOptions
from aisrv.cli.options.protocol import make_protocol_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline

KIB = 1024


def engines(models: int, options: BoardOptions | None = None) -> list[tuple[int, int]]:
    """Tile and KiB of arena of each engine of an ioserver board."""
    board = make_protocol_board(UsbProtocol.IOSERVER, models, options or BoardOptions())
    assert board.protocol is UsbProtocol.IOSERVER
    return [(engine.tile, engine.arena_bytes // KIB) for engine in board.engines]


@pytest.mark.parametrize("models", [0, 1, 3])
def test_the_number_of_models_does_not_change_an_aisrv_board(models: int) -> None:
    board = make_protocol_board(UsbProtocol.AISRV, models, BoardOptions())
    assert (board.protocol, len(board.engines)) == (UsbProtocol.AISRV, 1)


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (1, [(0, 448)]),
        (2, [(0, 448), (1, 448)]),
        (3, [(0, 224), (1, 224), (0, 224)]),
        (5, [(0, 149), (1, 149), (0, 149), (1, 149), (0, 149)]),
    ],
)
def test_each_model_gets_an_engine_and_a_share_of_its_tile(
    models: int, expected: list[tuple[int, int]]
) -> None:
    assert engines(models) == expected


def test_one_tile_is_shared_by_all() -> None:
    assert engines(2, BoardOptions(tiles=1)) == [(0, 224), (0, 224)]


def test_what_the_options_say_holds() -> None:
    assert engines(1, BoardOptions(engines=2)) == [(0, 448), (1, 448)]
    assert engines(3, BoardOptions(arena=100 * KIB)) == [(0, 100), (1, 100), (0, 100)]
    assert engines(2, BoardOptions("two-engines", arena=0)) == [(0, 0), (1, 0)]


def test_no_model_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="give --model FILE"):
        engines(0)


def test_arenas_that_do_not_fit_are_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="the arenas on tile 0 need"):
        engines(3, BoardOptions(arena=300 * KIB))


async def test_eleven_models_fit() -> None:
    board = make_protocol_board(UsbProtocol.IOSERVER, 11, BoardOptions())
    async with open_device(board, runner=inline) as device:
        assert len(device.engines) == 11
