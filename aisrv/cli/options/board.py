"""The options of `run`, `exec` and `attach` that describe the board."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem
from msgspec import structs

from aisrv.board import (
    BOOT_MEMORIES,
    DEFAULT_SPI,
    Board,
    BoardError,
    EngineSpec,
    FlashSpec,
    plan_of,
)
from aisrv.board.catalog import BOARDS, find_board
from aisrv.cli.options.engine_kind import ENGINE_KIND
from aisrv.device.engine_kinds import check_engine_kinds
from aisrv.protocol.engine_kind import ENGINE_KINDS, KINDS, RANKED, EngineKind
from aisrv.protocol.memories import Memory
from aisrv.terminal.file_types import NEW_FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.values.settings.size_option import SIZE
from flash_server.chip.part import MX25R6435F, PARTS, WIDTHS

FORMS: Final = tuple(kind.form for kind in KINDS.values() if kind.form)


def complete_board(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete a board's name, or leave the word to the shell as that of a file."""
    names = [CompletionItem(name) for name in BOARDS if name.startswith(start)]
    return names or [CompletionItem(start, type="file")]


@dataclass(frozen=True, slots=True)
class BoardOptions:
    """A board to start from, and the changes to it; None changes nothing."""

    name: str = option(
        "--board",
        default="single",
        show_default=True,
        metavar="NAME|FILE",
        shell_complete=complete_board,
        help=f"Board to start from: {', '.join(BOARDS)}, or FILE.toml or FILE.xn; see `aisrv boards`.",
    )
    engines: int | None = option(
        "--engines", type=click.IntRange(1, 255), help="Number of engines, one tile after the other."
    )
    engine_kind: EngineKind | None = option(
        "--engine",
        type=ENGINE_KIND,
        metavar="KIND",
        help=(
            f"Interpreter of each engine: {', '.join((*ENGINE_KINDS, *FORMS))}, or module:class. "
            f"[default: the first of {', '.join(RANKED[:-1])} and {RANKED[-1]} that is installed]"
        ),
    )
    fallback: EngineKind | None = option(
        "--fallback",
        type=ENGINE_KIND,
        metavar="KIND",
        help="What runs models that kernels has no code for, such as tflm. [default: they are refused]",
    )
    kernel_threads: int | None = option(
        "--kernel-threads",
        type=click.IntRange(1, max(1, *(kind.most_threads for kind in KINDS.values()))),
        help="Threads of this host that run each engine of kind kernels, on the backend native. [default: 1]",
    )
    tiles: int | None = option("--tiles", type=click.IntRange(1, 2), help="Tiles of the node. [default: 2]")
    usb_tile: int | None = option(
        "--usb-tile", type=click.IntRange(0, 1), help="Tile of the USB layer. [default: 1]"
    )
    arena: int | None = option("--arena", type=SIZE, help="Tensor arena of each engine, such as 448K.")
    arena_memory: str | None = option(
        "--arena-memory",
        type=click.Choice([memory.value for memory in Memory]),
        help="Where each engine's arena lies: in its tile, or in external memory. [default: internal]",
    )
    external: int | None = option(
        "--external", type=SIZE, help="External memory of each engine, such as 16M."
    )
    threads: int | None = option(
        "--threads", type=click.IntRange(1, 5), help="Interpreter threads of the modeled device."
    )
    clock: int | None = option("--clock", type=int, help="Core clock in MHz. [default: 600]")
    device_time: bool | None = option(
        "--device-time/--no-device-time",
        help="Let everything take the time of the modeled chip. [default: the board's]",
    )
    serial: str | None = option("--serial", help="USB serial number; hardware has none.")
    spi: bool | None = option(
        "--spi/--no-spi", help="Give the board an SPI port, which takes two cores. [default: the board's]"
    )
    flash: Path | None = option(
        "--flash",
        type=NEW_FILE,
        help="File with the contents of a flash chip; created, erased, if it is missing.",
    )
    flash_part: str = option(
        "--flash-part",
        type=click.Choice(sorted(PARTS), case_sensitive=False),
        default=MX25R6435F.name,
        show_default=True,
        help="Flash chip.",
    )
    flash_clock: int | None = option(
        "--flash-clock",
        type=click.IntRange(min=1),
        metavar="MHZ",
        help="Clock of the flash chip. [default: 25]",
    )
    flash_width: str | None = option(
        "--flash-width",
        type=click.Choice([str(width) for width in WIDTHS]),
        help="Lines that carry the data of the flash chip. [default: 4]",
    )
    flash_pace: bool | None = option(
        "--flash-pace/--no-flash-pace",
        help="Make the flash chip as slow as the part. [default: the board's]",
    )
    boot_size: int | None = option(
        "--boot-size", type=SIZE, help="Boot partition of the flash chip. [default: 1M]"
    )
    boot_from_flash: str | None = option(
        "--boot-from-flash",
        type=click.Choice(list(BOOT_MEMORIES)),
        help="Load each engine's model from flash into this memory at start.",
    )


board_options = option_group("board", BoardOptions)


def make_board(options: BoardOptions) -> Board:
    """Build the board of the options. Raises click.UsageError for an impossible one."""
    try:
        base = find_board(options.name)
        flashes = _flashes(base, options)
        if not flashes and (_chip_settings(options) or options.boot_from_flash is not None):
            raise click.UsageError(
                "--boot-size, --boot-from-flash, --flash-clock, --flash-width and --flash-pace need a chip: "
                "give --flash FILE"
            )
        tiles = options.tiles or base.tiles
        last = tiles - 1
        port = (base.spi or DEFAULT_SPI) if options.spi else None if options.spi is False else base.spi
        sensor = base.sensor
        board = replace(
            base,
            engines=_engines(base, tiles, options),
            tiles=tiles,
            usb_tile=min(base.usb_tile, last) if options.usb_tile is None else options.usb_tile,
            core_clock_mhz=base.core_clock_mhz if options.clock is None else options.clock,
            device_time=base.device_time if options.device_time is None else options.device_time,
            spi=None if port is None else structs.replace(port, tile=min(port.tile, last)),
            flashes=tuple(structs.replace(chip, tile=min(chip.tile, last)) for chip in flashes),
            sensor=None if sensor is None else structs.replace(sensor, tile=min(sensor.tile, last)),
            ports=tuple(each for each in base.ports if each.tile <= last),
            parts=tuple(part.within(tiles) for part in base.parts),
            tasks=tuple(structs.replace(task, tile=min(task.tile, last)) for task in base.tasks),
            serial=base.serial if options.serial is None else options.serial,
        )
        plan_of(board).check()
        check_engine_kinds(board)
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    return board


def _engines(base: Board, tiles: int, options: BoardOptions) -> tuple[EngineSpec, ...]:
    """Return the board's engines, or as many of its first as the options say, with the options' settings."""
    engines = base.engines
    if options.engines is not None:
        # Spread over the tiles, so that two default arenas find room.
        one = replace(base.engines[0], chain_to=None, sensor=None)
        engines = tuple(replace(one, tile=number % tiles) for number in range(options.engines))
    boot = options.boot_from_flash
    settings = {
        "arena_bytes": options.arena,
        "arena_memory": None if options.arena_memory is None else Memory(options.arena_memory),
        "external_bytes": options.external,
        "threads": options.threads,
        "boot": None if boot is None else BOOT_MEMORIES[boot],
        "kind": options.engine_kind,
        "fallback": options.fallback,
        "origin": None if options.engine_kind is None else "--engine",
    }
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    changed = tuple(replace(engine, **given) for engine in engines)
    if options.kernel_threads is None:
        return changed
    return tuple(
        replace(engine, kind=_with_threads(engine.kind, number, options.kernel_threads))
        for number, engine in enumerate(changed)
    )


def _with_threads(kind: EngineKind, number: int, threads: int) -> EngineKind:
    variant = kind.variant.on_threads(threads)
    if variant is None:
        raise click.UsageError(
            f"--kernel-threads: engine {number} is of kind {str(kind)!r}; give --engine kernels"
        )
    return kind.with_variant(variant)


def _flashes(base: Board, options: BoardOptions) -> tuple[FlashSpec, ...]:
    """Return the chip of the options, or else those of the board, with the settings of the options."""
    flashes = base.flashes
    if options.flash is not None:
        flashes = (FlashSpec(PARTS[options.flash_part], path=options.flash),)
    settings = _chip_settings(options)
    return tuple(structs.replace(chip, **settings) for chip in flashes)


def _chip_settings(options: BoardOptions) -> dict[str, Any]:
    clock, width = options.flash_clock, options.flash_width
    settings = {
        "boot_bytes": options.boot_size,
        "clock_hz": None if clock is None else clock * 1_000_000,
        "width": None if width is None else int(width),
        "paced": options.flash_pace,
    }
    return {name: value for name, value in settings.items() if value is not None}
