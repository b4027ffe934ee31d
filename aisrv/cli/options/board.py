"""The options of `run`, `exec` and `attach` that describe the board and its models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from aisrv.board import (
    BOOT_MEMORIES,
    DEFAULT_BOOT,
    DEFAULT_SPI,
    ENGINE_KINDS,
    Board,
    BoardError,
    EngineSpec,
    FlashSpec,
)
from aisrv.board.catalog import BOARDS, find_board
from aisrv.board.toml_settings import parse_size
from aisrv.protocol.commands import Command
from flash_server.chip.part import MX25R6435F, PARTS

F = TypeVar("F", bound=Callable[..., Any])


class Size(click.ParamType[int]):
    """A number of bytes, with K or M for KiB or MiB."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_OPTIONS = (
    click.option(
        "--board",
        "board_name",
        default="single",
        show_default=True,
        metavar="NAME|FILE",
        help=f"Board to start from: {', '.join(BOARDS)}, or FILE.toml or FILE.xn; see `aisrv boards`.",
    ),
    click.option(
        "--engines", type=click.IntRange(1, 255), help="Number of engines, one tile after the other."
    ),
    click.option(
        "--engine",
        "engine_kind",
        metavar="KIND",
        help=(
            f"Interpreter of each engine: {', '.join(ENGINE_KINDS)}, kernels:BACKEND, or module:class. "
            "[default: tflite]"
        ),
    ),
    click.option("--tiles", type=click.IntRange(1, 2), help="Tiles of the node. [default: 2]"),
    click.option("--usb-tile", type=click.IntRange(0, 1), help="Tile of the USB layer. [default: 1]"),
    click.option("--arena", type=Size(), help="Tensor arena of each engine, such as 448K."),
    click.option("--external", type=Size(), help="External memory of each engine, such as 16M."),
    click.option("--threads", type=click.IntRange(1, 5), help="Interpreter threads of the modeled device."),
    click.option("--clock", type=int, help="Core clock in MHz. [default: 600]"),
    click.option("--serial", help="USB serial number; hardware has none."),
    click.option(
        "--spi/--no-spi", default=None, help="An SPI port, which takes two cores. [default: the board's]"
    ),
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
        type=click.Choice(list(BOOT_MEMORIES)),
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
    engine_kind: str | None = None,
    spi: bool | None = None,
    flash: Path | None = None,
    flash_part: str = MX25R6435F.name,
    boot_size: int | None = None,
    boot_from_flash: str | None = None,
) -> Board:
    """Build the board that the options describe; a board that cannot be is a usage error."""
    try:
        base = find_board(board_name)
        flashes = _flashes(base, flash, flash_part, boot_size)
        if not flashes and (boot_size is not None or boot_from_flash is not None):
            raise click.UsageError("--boot-size and --boot-from-flash need a chip: give --flash FILE")
        tile_count = tiles or base.tiles
        specs: Sequence[EngineSpec] = base.engines
        if engines is not None:
            # Spread over the tiles, so that two default arenas find room.
            one = replace(base.engines[0], chain_to=None, sensor=None)
            specs = [replace(one, tile=number % tile_count) for number in range(engines)]
        boot = None if boot_from_flash is None else BOOT_MEMORIES[boot_from_flash]
        changes = {
            "arena_bytes": arena,
            "external_bytes": external,
            "threads": threads,
            "boot": boot,
            "kind": engine_kind,
        }
        given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        port = (base.spi or DEFAULT_SPI) if spi else None if spi is False else base.spi
        last = tile_count - 1
        return replace(
            base,
            engines=tuple(replace(spec, **given) for spec in specs),
            tiles=tile_count,
            usb_tile=min(base.usb_tile, last) if usb_tile is None else usb_tile,
            core_clock_mhz=base.core_clock_mhz if clock is None else clock,
            spi=None if port is None else replace(port, tile=min(port.tile, last)),
            flashes=tuple(replace(chip, tile=min(chip.tile, last)) for chip in flashes),
            sensor=None if base.sensor is None else replace(base.sensor, tile=min(base.sensor.tile, last)),
            ports=tuple(each for each in base.ports if each.tile <= last),
            serial=base.serial if serial is None else serial,
        )
    except BoardError as error:
        raise click.UsageError(str(error)) from None


def _flashes(base: Board, path: Path | None, part: str, boot_size: int | None) -> tuple[FlashSpec, ...]:
    """Return the chip of the options, or else those of the board, with the boot partition of the options."""
    if path is not None:
        return (
            FlashSpec(PARTS[part], path=path, boot_bytes=DEFAULT_BOOT if boot_size is None else boot_size),
        )
    if boot_size is None:
        return base.flashes
    return tuple(replace(chip, boot_bytes=boot_size) for chip in base.flashes)
