"""Images to and from a chip: write, read. The chip is in a file, or on a running device."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.terminal.progress import progress_bar
from aisrv.values.settings.size_option import SIZE
from flash_server.chip.part import FlashPart, part_named
from flash_server.commands.options import FlashSettings, pass_settings
from flash_server.errors import FlashError
from flash_server.files import Progress, ignore, map_file, write_file
from flash_server.image.image_file import Image

BOOT_SIZE: Final = 0x100000
"""The boot partition's usual size: the data partition begins behind it."""


class Target(Protocol):
    """A chip for the commands; addresses count from the start of the chip."""

    def identify(self) -> FlashPart: ...

    def read(self, address: int, size: int, progress: Progress = ignore) -> bytes: ...

    def write(self, address: int, data: bytes, progress: Progress = ignore) -> None:
        """Write the bytes from an address on, and verify."""


_offset_option = click.option(
    "--offset", type=SIZE, default=0, metavar="SIZE", help="Offset in the data partition to start at."
)


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Choice of a chip, and the end of its boot partition."""

    chip: Path | None = option("--chip", type=NEW_FILE, metavar="FILE", help="A chip's file.")
    part: str | None = option(
        "--part", metavar="PART", help="The chip's part. [default: the one of the file's size]"
    )
    device: str | None = option(
        "--device", metavar="HOST:PORT", help="A running device: its flash programmer's address."
    )
    boot_size: int = option(
        "--boot-size",
        type=SIZE,
        default=BOOT_SIZE,
        metavar="SIZE",
        help="Size of the boot partition; the data partition follows it. [default: 1M]",
    )

    def __str__(self) -> str:
        return str(self.chip or self.device)

    def open(self, *, writing: bool) -> AbstractContextManager[Target]:
        """Open the chip: a file, or a running device's."""
        chip, part, device = self.chip, self.part, self.device
        if device is not None and chip is None:
            if part is not None:
                raise click.UsageError("--part is for --chip: a device tells its part")
            from flash_server.chip.programmer import Programmer

            return Programmer.connect(device)
        from flash_server.chip.chip_file import ChipFile

        if chip is None or device is not None:
            raise click.UsageError("give --chip FILE or --device HOST:PORT")
        if not writing and not chip.exists():
            raise click.UsageError(f"{chip}: no such file")
        return ChipFile(chip, part_named(part) if part else None, writing=writing)


target_options = option_group("target", TargetOptions)


@click.command(
    short_help="Write an image to a chip.",
    epilog=examples(
        "aisrv-flash write flash.bin --chip board.flash",
        "aisrv-flash write flash.bin --chip board.flash --part MX25R3235F",
        "aisrv-flash write flash.bin --device localhost:4242",
    ),
)
@click.argument("image_file", metavar="FILE", type=FILE)
@target_options
@_offset_option
@click.option("--raw", is_flag=True, help="Write any bytes; otherwise the file must be a sound image.")
@pass_settings
def write(
    settings: FlashSettings,
    image_file: Path,
    target: TargetOptions,
    offset: int,
    raw: bool,
) -> None:
    """Write a file to the data partition, and verify it. A chip's file that is missing is made.

    What lies beside it on the chip stays as it is.
    """
    data = bytes(map_file(image_file) if raw else Image.open(image_file).data)
    start = target.boot_size + offset
    with target.open(writing=True) as chip:
        found = chip.identify()
        if start + len(data) > found.size:
            raise FlashError(
                f"{image_file}: {len(data)} bytes from {start:#x} on end past {found.name}, which ends at "
                f"{found.size:#x}"
            )
        with progress_bar("writing", len(data)) as progress:
            chip.write(start, data, progress)
    answer = {"part": found.name, "address": start, "size": len(data)}
    settings.answer(
        answer,
        lambda: click.echo(f"{target}: {len(data)} bytes written to {start:#x} of {found.name}"),
    )


@click.command(
    short_help="Read the data partition of a chip.",
    epilog=examples(
        "aisrv-flash read --chip board.flash --output copy.bin",
        "aisrv-flash read --device localhost:4242 --size 64K --output copy.bin",
    ),
)
@target_options
@_offset_option
@click.option("--size", type=SIZE, metavar="SIZE", help="Number of bytes. [default: up to the chip's end]")
@click.option("--output", required=True, type=NEW_FILE, metavar="FILE", help="File for the bytes.")
@pass_settings
def read(
    settings: FlashSettings,
    target: TargetOptions,
    offset: int,
    size: int | None,
    output: Path,
) -> None:
    """Read the data partition, or some of it, into a file."""
    start = target.boot_size + offset
    with target.open(writing=False) as chip:
        found = chip.identify()
        count = max(0, found.size - start) if size is None else size
        if start + count > found.size or not count:
            raise FlashError(
                f"{count} bytes from {start:#x} on: {found.name} ends at {found.size:#x}; see --size"
            )
        with progress_bar("reading", count) as progress:
            data = chip.read(start, count, progress)
    write_file(output, [data], len(data))
    answer = {"file": str(output), "part": found.name, "address": start, "size": count}
    settings.answer(answer, lambda: click.echo(f"{output}: {count} bytes from {start:#x} of {found.name}"))
