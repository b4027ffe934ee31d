"""The options of `run`, `exec` and `attach` that describe the board and its models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from aisrv.board import BOARDS, Board, BoardError, EngineSpec
from aisrv.protocol import Command

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"": 1, "K": 1024, "M": 1024 * 1024}


class Size(click.ParamType[int]):
    """A number of bytes, with K or M for KiB or MiB."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        if isinstance(value, int):
            return value
        digits = value.rstrip("KMkm")
        unit = _UNITS.get(value[len(digits) :].upper())
        if unit is None or not digits.isdecimal():
            self.fail(f"{value!r} is no size; write bytes as 458752, 448K or 16M", param, ctx)
        return int(digits) * unit


_OPTIONS = (
    click.option(
        "--board",
        "board_name",
        type=click.Choice(sorted(BOARDS)),
        default="single",
        show_default=True,
        help="Board to start from.",
    ),
    click.option(
        "--engines", type=click.IntRange(1, 255), help="Number of engines, one tile after the other."
    ),
    click.option("--tiles", type=click.IntRange(1, 2), help="Tiles of the node. [default: 2]"),
    click.option("--usb-tile", type=click.IntRange(0, 1), help="Tile of the USB layer. [default: 1]"),
    click.option("--arena", type=Size(), help="Tensor arena of each engine, such as 448K."),
    click.option("--external", type=Size(), help="External memory of each engine, such as 16M."),
    click.option("--threads", type=click.IntRange(1, 5), help="Interpreter threads of the modelled device."),
    click.option("--clock", type=int, help="Core clock in MHz. [default: 600]"),
    click.option("--serial", help="USB serial number; hardware has none."),
    click.option(
        "--model",
        "models",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Model to load at start; the second goes to engine 1, and so on.",
    ),
    click.option(
        "--model-memory",
        type=click.Choice(["arena", "ext"]),
        help="Memory that the models are loaded to. [default: arena; with --protocol ioserver: ext]",
    ),
)

MODEL_COMMANDS = {"arena": Command.SET_MODEL_ARENA, "ext": Command.SET_MODEL_EXT}


def board_options(function: F) -> F:
    """Add the board's options to a command; `make_board` turns their values into a board."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def make_board(
    board_name: str,
    engines: int | None,
    tiles: int | None,
    usb_tile: int | None,
    arena: int | None,
    external: int | None,
    threads: int | None,
    clock: int | None,
    serial: str | None,
) -> Board:
    """Build the board that the options describe; a board that cannot be is a usage error."""
    base = BOARDS[board_name]
    tile_count = tiles or base.tiles
    specs: Sequence[EngineSpec] = base.engines
    if engines is not None:
        # Spread over the tiles, so that two default arenas find room.
        specs = [
            replace(base.engines[0], tile=number % tile_count, chain_to=None) for number in range(engines)
        ]
    changes = {"arena_bytes": arena, "external_bytes": external, "threads": threads}
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        return replace(
            base,
            engines=tuple(replace(spec, **given) for spec in specs),
            tiles=tile_count,
            usb_tile=min(base.usb_tile, tile_count - 1) if usb_tile is None else usb_tile,
            core_clock_mhz=base.core_clock_mhz if clock is None else clock,
            serial=serial,
        )
    except BoardError as error:
        raise click.UsageError(str(error)) from None
