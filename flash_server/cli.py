"""The command `aisrv-flash`: its subcommands, and what its exit codes mean.

| exit code | meaning |
|---|---|
| 0 | done; images are the same |
| 1 | failed: an unsound image, files that do not fit, a chip that refuses; or images differ |
| 2 | wrong usage: an option, or a file that is missing or makes no sense |
| 130 | interrupted by Ctrl-C |
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from aisrv.model.relocatable.errors import RelocatableError
from aisrv.terminal.command_group import examples
from aisrv.terminal.json_errors import JsonGroup, json_wanted
from aisrv.terminal.option_group import option_group
from aisrv.values.version import __version__
from flash_server.commands.boot import boot, boot_image
from flash_server.commands.chip import read, write
from flash_server.commands.inspect import diff, inspect, verify
from flash_server.commands.options import FlashSettings
from flash_server.commands.pack import pack, params, unpack
from flash_server.errors import FlashError
from flash_server.files import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

NAME: Final = "aisrv-flash"

GROUP: Final = "flash_server.commands"
"""Entry points of commands that need more than flash images, such as `reloc`."""

EXIT_CODES: Final[dict[type[Exception], int]] = {InputError: 2, FlashError: 1, RelocatableError: 1}
"""Exit code of each error; the first kind that fits counts."""


class FlashGroup(JsonGroup):
    """The command, with its exit codes; further commands are the entry points of GROUP."""

    exit_codes = EXIT_CODES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_registered().names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, an entry point's loaded at its first use; None for an unknown name."""
        if cmd_name not in self.commands and cmd_name in (found := _registered()).names:
            self.add_command(found[cmd_name].load(), cmd_name)
        return super().get_command(ctx, cmd_name)


def _registered() -> "EntryPoints":
    from importlib.metadata import entry_points  # which the other commands do not need

    return entry_points(group=GROUP)


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


for _command in (pack, inspect, unpack, verify, diff, write, read, params, boot_image, boot):
    main.add_command(_command)
