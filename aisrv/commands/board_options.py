"""The options of `run`, `exec` and `attach` that describe the board and its models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from aisrv.board import BOARDS, DEFAULT_BOOT, Board, BoardError, EngineSpec, FlashSpec
from aisrv.protocol import Command
from flash_server.part import MX25R6435F, PARTS

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
    click.option("--spi/--no-spi", default=True, help="An SPI port, which takes two cores. [default: yes]"),
    click.option(
        "--flash",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the contents of a flash chip; made, erased, where it is missing.",
    ),
    click.option(
        "--flash-part",
        type=click.Choice(sorted(PARTS), case_sensitive=False),
        default=MX25R6435F.name,
        show_default=True,
        help="Flash chip.",
    ),
    click.option("--boot-size", type=Size(), help="Boot partition of the flash chip. [default: 1M]"),
    click.option(
        "--boot-from-flash",
        type=click.Choice(["arena", "ext"]),
        help="Load each engine's model from flash into this memory at start.",
    ),
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
BOOT_COMMANDS = {"arena": Command.SET_MODEL_ARENA_FLASH, "ext": Command.SET_MODEL_EXT_FLASH}


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
    spi: bool = True,
    flash: Path | None = None,
    flash_part: str = MX25R6435F.name,
    boot_size: int | None = None,
    boot_from_flash: str | None = None,
) -> Board:
    """Build the board that the options describe; a board that cannot be is a usage error."""
    if flash is None and (boot_size is not None or boot_from_flash is not None):
        raise click.UsageError("--boot-size and --boot-from-flash need a chip: give --flash FILE")
    base = BOARDS[board_name]
    tile_count = tiles or base.tiles
    specs: Sequence[EngineSpec] = base.engines
    if engines is not None:
        # Spread over the tiles, so that two default arenas find room.
        specs = [
            replace(base.engines[0], tile=number % tile_count, chain_to=None) for number in range(engines)
        ]
    boot = None if boot_from_flash is None else BOOT_COMMANDS[boot_from_flash]
    changes = {"arena_bytes": arena, "external_bytes": external, "threads": threads, "boot": boot}
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    flashes = base.flashes
    if flash is not None:
        boot_bytes = DEFAULT_BOOT if boot_size is None else boot_size
        flashes = (FlashSpec(PARTS[flash_part], path=flash, boot_bytes=boot_bytes),)
    port = base.spi if spi else None
    try:
        return replace(
            base,
            engines=tuple(replace(spec, **given) for spec in specs),
            tiles=tile_count,
            usb_tile=min(base.usb_tile, tile_count - 1) if usb_tile is None else usb_tile,
            core_clock_mhz=base.core_clock_mhz if clock is None else clock,
            spi=None if port is None else replace(port, tile=min(port.tile, tile_count - 1)),
            flashes=flashes,
            serial=serial,
        )
    except BoardError as error:
        raise click.UsageError(str(error)) from None
