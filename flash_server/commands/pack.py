"""Conversion of files to an image and back: pack, unpack, params."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE, FOLDER, NEW_FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.terminal.progress import progress_bar
from aisrv.values.settings.size_option import SIZE
from flash_server.commands.drawing import describe, summary
from flash_server.commands.options import (
    NIBBLES,
    FlashSettings,
    ReadingOptions,
    engine_option,
    pass_settings,
    reading_options,
)
from flash_server.errors import LayoutError
from flash_server.files import InputError, map_file, write_file
from flash_server.image import Part
from flash_server.image.image_file import EngineFiles, Image
from flash_server.image.nibbles import ORDERS
from flash_server.image.pack_options import GENERATIONS, MISSING, PackOptions
from flash_server.image.packager import check_models
from flash_server.image.packager import pack as pack_files
from flash_server.image.packager import unpack as unpack_image


@dataclass(frozen=True, slots=True)
class PackSettings:
    """Settings of packing; None leaves a setting to the TOML file, or to its default."""

    config_file: Path | None = option("--config", type=FILE, help="A TOML file with engines and settings.")
    generation: str | None = option(
        "--generation",
        type=click.Choice(list(GENERATIONS)),
        help="Generation of the image, which decides how it begins. [default: fast]",
    )
    nibbles: str | None = option(
        "--nibbles",
        type=NIBBLES,
        help="How bytes are stored. [default: swapped for fast, otherwise normal]",
    )
    size: int | None = option(
        "--size", type=SIZE, metavar="SIZE", help="The data partition's size, as 4194304, 4096K or 4M."
    )
    align: int | None = option(
        "--align", type=SIZE, metavar="SIZE", help="Parts begin at multiples of this. [default: 1]"
    )
    fill: bool | None = option("--fill/--no-fill", help="Pad the image with FF up to --size. [default: no]")
    missing: str | None = option(
        "--missing",
        type=click.Choice(list(MISSING)),
        help="A missing part has offset 0, or one with nothing behind it. "
        "[default: placed for fast, else zero]",
    )

    def over(self, settings: Mapping[str, Any]) -> PackOptions:
        """Return the settings of a file with those of the options, which win."""
        given = {
            "generation": GENERATIONS[self.generation] if self.generation else None,
            "swapped": ORDERS[self.nibbles] if self.nibbles else None,
            "size": self.size,
            "alignment": self.align,
            "fill": self.fill,
            "placed": MISSING[self.missing] if self.missing else None,
        }
        chosen = {**settings, **{name: value for name, value in given.items() if value is not None}}
        return replace(PackOptions(), **chosen)


@click.command(
    short_help="Make an image of files.",
    epilog=examples(
        "aisrv-flash pack --engine model=person.tflite,parameters=person.params --output flash.bin",
        "aisrv-flash pack --engine model=a.tflite --engine model=b.tflite --size 4M --fill --output f.bin",
        "aisrv-flash pack --config board.toml --generation 1.2 --missing placed --output flash.bin",
    ),
)
@engine_option
@option_group("packing", PackSettings)
@click.option("--force", is_flag=True, help="Also pack models that are not .tflite files.")
@click.option("--output", required=True, type=NEW_FILE, metavar="FILE", help="File for the image.")
@pass_settings
def pack(
    settings: FlashSettings,
    engines: tuple[EngineFiles, ...],
    packing: PackSettings,
    force: bool,
    output: Path,
) -> None:
    """Create an image of the data partition. Options override what a TOML file says.

    Behind the headers come the parts of each engine in turn: model, parameters, operators, execute-in-place
    data. The fast generation, with the defaults, is what XMOS's generate_flash writes; for generation 1.2
    that takes --missing placed.
    """
    settings_of_file: Mapping[str, Any] = {}
    if packing.config_file:
        from flash_server.image.pack_config import read_config

        config = read_config(packing.config_file)
        if config.engines and engines:
            raise click.UsageError(f"{packing.config_file} has engines: give no --engine beside it")
        engines = config.engines or engines
        settings_of_file = config.settings
    options = packing.over(settings_of_file)
    if not engines:
        raise click.UsageError("nothing to pack: give --engine or --config")
    if options.fill and options.size is None:
        raise click.UsageError("--fill pads up to --size: give one")
    if not force:
        try:
            check_models(engines)
        except InputError as error:
            raise InputError(f"{error}; --force packs it all the same") from error
    total = options.size if options.fill and options.size else _total(engines)
    with progress_bar("packing", total) as progress:
        partition = pack_files(engines, output, options, progress)
    if not output.is_file():
        return
    image = Image.open(output, len(engines), partition.stored.swapped)
    _warn_if_ambiguous(image)
    settings.answer(describe(image), lambda: click.echo(f"{output}: {summary(image.map)}"))


@click.command(
    short_help="Take an image apart.",
    epilog=examples(
        "aisrv-flash unpack flash.bin --output parts",
        "aisrv-flash unpack flash.bin --trim --output parts",
        "aisrv-flash pack --config parts/image.toml --output flash.bin",
    ),
)
@click.argument("image_file", metavar="FILE", type=FILE)
@reading_options
@click.option("--trim", is_flag=True, help="Drop FF at the end of parts whose size is not stored.")
@click.option(
    "--output",
    required=True,
    type=FOLDER,
    metavar="DIR",
    help="A directory.",
)
@pass_settings
def unpack(
    settings: FlashSettings,
    image_file: Path,
    reading: ReadingOptions,
    trim: bool,
    output: Path,
) -> None:
    """Write every part to a file, engine0.model and so on, and image.toml, which packs the same image again.

    Only a model's size is stored: other parts come with what is behind them, up to the next part.
    """
    image = reading.open(image_file)
    with progress_bar("unpacking", image.map.size) as progress:
        written = unpack_image(image, output, trim=trim, progress=progress)
    settings.answer(
        {"files": [str(path) for path in written]}, lambda: click.echo("\n".join(map(str, written)))
    )


@click.command(
    short_help="Extract the first blob of a .params file.",
    epilog=examples("aisrv-flash params person.params --output person.bin"),
)
@click.argument("params_file", metavar="FILE.params", type=FILE)
@click.option("--output", required=True, type=NEW_FILE, metavar="FILE", help="File for the blob.")
@pass_settings
def params(settings: FlashSettings, params_file: Path, output: Path) -> None:
    """Extract the first blob of a flexbuffer, as a raw parameters file for `pack`."""
    from flash_server.image.params_file import first_blob

    try:
        blob = first_blob(bytes(map_file(params_file)))
    except InputError as error:
        raise InputError(f"{params_file}: {error}") from error
    write_file(output, [blob], len(blob))
    data = {"file": str(output), "size": len(blob)}
    settings.answer(data, lambda: click.echo(f"{output}: {len(blob)} bytes"))


def _warn_if_ambiguous(image: Image) -> None:
    """Warn if a server, which has nothing but the image, would take it for something else."""
    try:
        found = Image.open(image.path).map
    except LayoutError as error:
        click.echo(f"aisrv-flash: warning: {error}", err=True)
        return
    if found.detected != image.map.detected:
        click.echo(
            f"aisrv-flash: warning: {image.path} looks like {found.detected}, not {image.map.detected}; "
            "the later generations can be told apart for certain",
            err=True,
        )
    elif found.headers != image.map.headers:
        click.echo(
            f"aisrv-flash: warning: {image.path} looks like {len(found.headers)} engines, not "
            f"{len(image.map.headers)}: what follows the headers looks like headers",
            err=True,
        )


def _total(engines: tuple[EngineFiles, ...]) -> int:
    paths = [files[part] for files in engines for part in Part]
    return sum(path.stat().st_size for path in paths if path is not None and path.is_file())
