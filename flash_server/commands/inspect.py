"""Views of an image: inspect, verify, diff."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE
from aisrv.terminal.progress import progress_bar
from aisrv.values.settings.size_option import SIZE
from flash_server.commands.chip import BOOT_SIZE
from flash_server.commands.drawing import describe, show_image, summary
from flash_server.commands.options import (
    DIFFERENT,
    FlashSettings,
    ReadingOptions,
    engine_option,
    pass_settings,
    reading_options,
)
from flash_server.files import map_file
from flash_server.image.comparison import ImageDifference
from flash_server.image.comparison import diff as diff_images
from flash_server.image.comparison import verify as verify_image
from flash_server.image.image_file import EngineFiles

if TYPE_CHECKING:
    from flash_server.commands.chip_contents import ChipContents

MODEL_IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of a TensorFlow Lite file."""


_boot_size_option = click.option(
    "--boot-size",
    type=SIZE,
    metavar="SIZE",
    help="The file is a whole chip, with a boot partition of this size. [default: 1M where the file has the "
    "size of a known part and does not begin with an image]",
)


@click.command(
    short_help="Show what is in an image, or on a chip.",
    epilog=examples(
        "aisrv-flash inspect flash.bin",
        "aisrv-flash inspect board.flash",
        "aisrv-flash --json inspect board.flash --boot-size 512K",
    ),
)
@click.argument("image_file", metavar="FILE", type=FILE)
@reading_options
@_boot_size_option
@pass_settings
def inspect(
    settings: FlashSettings, image_file: Path, reading: ReadingOptions, boot_size: int | None
) -> None:
    """Show an image's generation, the parts of each engine, and a map of it in proportion.

    Of a whole chip's file, show the boot slots, the data partition's image, and what is free. Of a model's
    file, which is no image yet, show inputs, outputs and operators.
    """
    data = map_file(image_file)
    if bytes(data[4:8]) == MODEL_IDENTIFIER:
        from flash_server.commands import model_report

        model, size = model_report.read(image_file, data), len(data)
        found = model_report.describe(image_file, model, size) if settings.as_json else None
        settings.answer(found, lambda: model_report.show(image_file, model, size))
        return
    chip = _chip_in(image_file, data, reading, boot_size)
    if chip is not None:
        from flash_server.commands import chip_drawing

        found = chip_drawing.describe_chip(chip) if settings.as_json else None
        settings.answer(found, lambda: chip_drawing.show_chip(chip))
        return
    image = reading.open(image_file)
    settings.answer(describe(image) if settings.as_json else None, lambda: show_image(image))


@click.command(
    short_help="Check an image, or a chip.",
    epilog=examples(
        "aisrv-flash verify flash.bin",
        "aisrv-flash verify board.flash",
        "aisrv-flash verify flash.bin --engine model=person.tflite,parameters=person.params",
    ),
)
@click.argument("image_file", metavar="FILE", type=FILE)
@engine_option
@reading_options
@_boot_size_option
@pass_settings
@click.pass_context
def verify(
    context: click.Context,
    settings: FlashSettings,
    image_file: Path,
    engines: tuple[EngineFiles, ...],
    reading: ReadingOptions,
    boot_size: int | None,
) -> None:
    """Check that an image is sound, and that the given files are what is in it.

    Sound: the preamble is right, every part lies in the image behind the headers, no model runs into what
    follows. Parts without a file are not compared. Of a whole chip's file, the boot images are checked, too.
    Exit code 1 if anything is wrong.
    """
    chip = _chip_in(image_file, map_file(image_file), reading, boot_size)
    if chip is not None:
        from flash_server.commands.chip_drawing import chip_summary

        faults = [ImageDifference(text) for text in chip.faults]
        if chip.image is not None:
            faults += verify_image(chip.image, engines)
        elif engines and not chip.is_damaged:
            faults.append(ImageDifference(f"no image to compare: {chip.no_image}"))
        _report(context, settings, faults, f"{image_file}: sound; {chip_summary(chip)}", str(image_file))
        return
    image = reading.open(image_file)
    with progress_bar("comparing", image.map.size) as progress:
        found = verify_image(image, engines, progress)
    _report(context, settings, found, f"{image_file}: sound; {summary(image.map)}", str(image_file))


@click.command(
    short_help="Compare two images.",
    epilog=examples("aisrv-flash diff old.bin new.bin", "aisrv-flash --json diff old.bin new.bin"),
)
@click.argument("first", metavar="A", type=FILE)
@click.argument("second", metavar="B", type=FILE)
@reading_options
@pass_settings
@click.pass_context
def diff(
    context: click.Context,
    settings: FlashSettings,
    first: Path,
    second: Path,
    reading: ReadingOptions,
) -> None:
    """Show which parts of two images differ, and from which byte. Exit code 1 if any differs.

    Generations, nibble orders and numbers of engines are compared, too; the places of the parts are not.
    """
    found = diff_images(*(reading.open(path) for path in (first, second)))
    _report(context, settings, found, f"{first} and {second} have the same contents")


def _chip_in(
    path: Path, data: memoryview, reading: ReadingOptions, boot_size: int | None
) -> "ChipContents | None":
    """Read a file that is a whole chip; None for any other."""
    from flash_server.commands.chip_contents import ChipContents, is_chip

    if boot_size is None and not is_chip(data):
        return None
    size = BOOT_SIZE if boot_size is None else boot_size
    return ChipContents.read(path, data, size, reading.engine_count, reading.swapped)


def _report(
    context: click.Context, settings: FlashSettings, found: list[ImageDifference], good: str, name: str = ""
) -> None:
    """Print differences, or that there are none, and set the exit code."""
    lines = [f"{name}: {each}" if name else str(each) for each in found]
    data = {
        "same": not found,
        "differences": [
            {**asdict(each), "part": each.part.label if each.part is not None else None} for each in found
        ],
    }
    settings.answer(data, lambda: click.echo("\n".join(lines) if lines else good))
    if found:
        context.exit(DIFFERENT)
