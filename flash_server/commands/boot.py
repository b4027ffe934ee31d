"""`aisrv-flash boot-image` and `boot`: server images for the boot partition, and a view of what boots."""

from pathlib import Path

import click
from msgspec.structs import asdict

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.progress import progress_bar
from flash_server.boot.boot_image import Slot, build_boot_image, parse_boot_image
from flash_server.commands.chip import TargetOptions, target_options
from flash_server.commands.options import FlashSettings, pass_settings
from flash_server.errors import FlashError
from flash_server.files import map_file, write_file


@click.command(
    "boot-image",
    short_help="Make a boot image of a server image.",
    epilog=examples(
        "aisrv-flash boot-image firmware.bin --version 7 --output firmware.boot",
        "aisrv-host --device spi:0.0 upgrade firmware.boot",
    ),
)
@click.argument("payload_file", metavar="FILE", type=FILE)
@click.option(
    "--version", type=int, required=True, metavar="N", help="Version of the image; the newest boots."
)
@click.option("--output", required=True, type=NEW_FILE, metavar="FILE", help="File for the boot image.")
@pass_settings
def boot_image(settings: FlashSettings, payload_file: Path, version: int, output: Path) -> None:
    """Create a boot image from a server image: a header with version, length and CRC, then the file."""
    image = build_boot_image(version, bytes(map_file(payload_file)))
    write_file(output, [image], len(image))
    answer = {"file": str(output), "version": version, "size": len(image)}
    settings.answer(answer, lambda: click.echo(f"{output}: version {version}, {len(image)} bytes"))


@click.command(
    short_help="Show or write what a chip boots.",
    epilog=examples(
        "aisrv-flash boot --chip board.flash",
        "aisrv-flash boot --chip board.flash --factory firmware.boot",
        "aisrv-flash boot --device localhost:4242 --upgrade firmware.boot",
    ),
)
@target_options
@click.option("--factory", type=FILE, metavar="FILE", help="Write this boot image to the factory slot.")
@click.option("--upgrade", type=FILE, metavar="FILE", help="Write this boot image to the upgrade slot.")
@pass_settings
def boot(settings: FlashSettings, target: TargetOptions, factory: Path | None, upgrade: Path | None) -> None:
    """Show which server image a chip would boot at its next reset, after writing one or both of its slots."""
    from flash_server.boot.boot_image import report_of, slot_start

    images = {Slot.FACTORY: factory, Slot.UPGRADE: upgrade}
    written = {slot: bytes(map_file(path)) for slot, path in images.items() if path is not None}
    for image in written.values():
        parse_boot_image(image)
    boot_size = target.boot_size
    with target.open(writing=bool(written)) as chip:
        found = chip.identify()
        if boot_size > found.size:
            raise FlashError(f"a boot partition of {boot_size} bytes: {found.name} has {found.size}")
        for slot, image in written.items():
            start = slot_start(boot_size, found.sector_size, slot, len(image))
            with progress_bar(f"writing {slot.name.lower()}", len(image)) as progress:
                chip.write(start, image, progress)
        with progress_bar("reading", boot_size) as progress:
            report = report_of(chip.read(0, boot_size, progress), found.sector_size)
    answer = {"part": found.name, "boot": {**asdict(report), "text": str(report)}}
    when = "at the next reset: " if written and report.slot is not None else ""
    settings.answer(answer, lambda: click.echo(f"{target}: {when}{report}"))
