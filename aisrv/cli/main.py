"""The `aisrv` command: run a virtual device, show it at work, run a program against it.

Each subcommand is a library function in `aisrv.cli` with a thin command in front, loaded when it is
used: `aisrv --help` imports neither Trio nor an interpreter.

Exit codes: 0 done; 1 the device could not be built or started, or a model was refused; 2 wrong usage; and for
`aisrv exec` those of the program, as a shell gives them; 130 after Ctrl-C.
"""

from typing import Final

import click

from aisrv.terminal.command_group import LazyGroup
from aisrv.terminal.json_errors import JsonErrors
from aisrv.values.addons import load, offer, offered, others
from aisrv.values.version import __version__

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "attach": (
        "aisrv.cli.attach:attach",
        "Run a virtual device and plug it into this machine's kernel.",
    ),
    "backends": ("aisrv.cli.backends:backends", "List the engines and kernel backends."),
    "boards": ("aisrv.cli.boards:boards", "List the boards, or draw one."),
    "completion": (
        "aisrv.cli.completion:completion",
        "Print the script that completes these commands in a shell.",
    ),
    "demo": ("aisrv.cli.demo:demo", "Classify handwritten digits on a virtual device."),
    "doctor": (
        "aisrv.cli.doctor:doctor",
        "Check what works on this machine, and name the commands that help.",
    ),
    "exec": (
        "aisrv.cli.exec:exec_",
        "Run a program that finds a virtual device where it looks for USB.",
    ),
    "run": ("aisrv.cli.run:run", "Run a virtual device and serve it over USB/IP."),
    "trace": ("aisrv.cli.trace:trace", "Say what a trace of devices has in it."),
}
"""Module and function of each subcommand of the core, and its line in the help."""

ALL: Final = dict(sorted((COMMANDS | offered("commands")).items()))
"""Those and the ones of add-ons."""


class AisrvGroup(JsonErrors, LazyGroup):
    """The command."""

    places = ALL
    former_places = offered("former_commands")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a subcommand, that of another package too."""
        if cmd_name not in self.places and (place := offer("commands", cmd_name)) is not None:
            command: click.Command = load(place[0])
            return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands, those of other packages at the end."""
        super().format_commands(ctx, formatter)
        if rows := [(name, line) for each in others() for name, (_, line) in each.commands.items()]:
            with formatter.section("Commands of other packages"):
                formatter.write_dl(rows)


@click.group("aisrv", cls=AisrvGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aisrv")
def main() -> None:
    """Run a virtual XMOS XCORE AI server: it behaves on every wire like the real device, without the chip.

    \b
    Examples:
      aisrv demo                          see a network run on handwritten digits
      aisrv run                           serve a device at usbip:127.0.0.1:3240
      aisrv run --model net.tflite        with a model loaded already
      aisrv exec -- python tool.py        run a pyusb program against a device of its own
      aisrv profile net.tflite            what a model would take on the device
      aisrv model show net.tflite         what is in it, and which engines run it
      aisrv evaluate net.tflite photos/   how right it is on a data set, and where not
      aisrv sweep sweep.toml              the smallest board that is fast and right enough
      aisrv boards camera                 what is on a board, as a drawing
      aisrv firmware run main.c           run firmware in C, without a chip
      sudo aisrv attach                   plug a device into this machine's kernel

    The host tool `aisrv-host` talks to the device; see `aisrv-host --help`.
    """
