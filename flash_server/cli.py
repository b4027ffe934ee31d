"""The command `aisrv-flash`: its subcommands, and what its exit codes mean.

| exit code | meaning |
|---|---|
| 0 | done; images are the same |
| 1 | failed: an unsound image, files that do not fit, a chip that refuses; or images differ |
| 2 | wrong usage: an option, or a file that is missing or makes no sense |
| 130 | interrupted by Ctrl-C |
"""

from dataclasses import replace
from typing import Final

import click

from aisrv import __version__
from aisrv.relocatable.errors import RelocatableError
from aisrv.terminal.command_group import examples
from aisrv.terminal.json_errors import JsonGroup, json_wanted
from aisrv.terminal.option_group import option_group
from flash_server.commands.boot import boot, boot_image
from flash_server.commands.chip import read, write
from flash_server.commands.inspect import diff, inspect, verify
from flash_server.commands.options import FlashSettings
from flash_server.commands.pack import pack, params, unpack
from flash_server.commands.reloc import reloc
from flash_server.errors import FlashError
from flash_server.files import InputError

NAME: Final = "aisrv-flash"

EXIT_CODES: Final[dict[type[Exception], int]] = {InputError: 2, FlashError: 1, RelocatableError: 1}
"""The exit code of each error; the first kind that fits counts."""


class FlashGroup(JsonGroup):
    """The command, with its exit codes."""

    exit_codes = EXIT_CODES


@click.group(
    NAME,
    cls=FlashGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "aisrv-flash pack --engine model=person.tflite,parameters=person.params --output flash.bin",
        "aisrv-flash inspect flash.bin",
        "aisrv-flash verify flash.bin --engine model=person.tflite",
        "aisrv-flash write flash.bin --chip board.flash",
        "aisrv-flash read --chip board.flash --output copy.bin",
    )
    + "\n\n\b\nExit codes: 0 done and the same, 1 failed or different, 2 wrong usage, 130 interrupted.",
)
@option_group("settings", FlashSettings)
@click.version_option(__version__, prog_name=NAME)
@click.pass_context
def main(context: click.Context, settings: FlashSettings) -> None:
    """Create, check and install flash images for an XCORE AI server."""
    context.obj = replace(settings, as_json=json_wanted(context))


for _command in (pack, inspect, unpack, verify, diff, write, read, params, boot_image, boot, reloc):
    main.add_command(_command)
