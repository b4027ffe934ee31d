"""The command `aisrv-host`: its options, its subcommands, and what its exit codes mean.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the device reported an error, or nothing has run; or `diff` found a difference |
| 2 | wrong usage: an option, an address, a file that does not fit, a command that SPI or Jacdac lacks |
| 3 | the device was not found, is in use, may not be opened, or went away |
| 4 | a transfer was not done in time |
| 5 | a transfer failed, or brought nonsense |
| 130 | interrupted by Ctrl-C |
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import click

from aisrv.protocol.commands import ProtocolError
from aisrv.terminal.command_group import examples
from aisrv.terminal.json_errors import JsonGroup, json_wanted
from aisrv.terminal.option_group import option_group
from aisrv.values import addons
from aisrv.values.version import __version__
from host_tools.commands.bench import bench
from host_tools.commands.diff import diff
from host_tools.commands.gpio import gpio
from host_tools.commands.inspect import info, list_command, log, profile, timings
from host_tools.commands.network import infer, load, upgrade
from host_tools.commands.raw import raw, reset
from host_tools.commands.sensor import acquire, frame, i2c, stream
from host_tools.commands.settings import HostSettings
from host_tools.commands.tensors import read, write
from host_tools.distribution import ALONE, is_alone
from host_tools.errors import (
    BadAddressError,
    CommandError,
    DeviceAccessDenied,
    DeviceBusy,
    DeviceGone,
    DeviceNotFound,
    HostError,
    NotRunError,
    TensorError,
    TransferTimeout,
    UnsupportedCommand,
)

NAME: Final = "aisrv-host"

EXIT_CODES: Final[dict[type[Exception], int]] = {
    CommandError: 1,
    BadAddressError: 2,
    TensorError: 2,
    UnsupportedCommand: 2,
    NotRunError: 1,
    ProtocolError: 2,
    DeviceNotFound: 3,
    DeviceAccessDenied: 3,
    DeviceBusy: 3,
    DeviceGone: 3,
    TransferTimeout: 4,
    HostError: 5,
}
"""The exit code of each error; the first kind that fits counts."""


class HostGroup(JsonGroup):
    """The command, with its exit codes."""

    exit_codes = EXIT_CODES

    def error_details(self, error: Exception) -> Mapping[str, object]:
        """Return the command that failed, and what the device said of it."""
        if not isinstance(error, CommandError):
            return {}
        return {
            "command": error.command,
            "engine": error.engine,
            "tensor": error.tensor,
            "status": [bit.name for bit in error.status],
            "log": error.log.splitlines(),
        }


@click.group(
    NAME,
    cls=HostGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "aisrv-host list",
        "aisrv-host info",
        "aisrv-host load person.tflite",
        "aisrv-host infer photo.png --model person.tflite --labels labels.txt",
        "aisrv-host --device virtual infer photo.png --model person.tflite",
        "aisrv-host --device spi:0.0 infer photo.png --model person.tflite",
        "AISRV_DEVICE=usbip:localhost:3240 aisrv-host timings",
    )
    + "\n\n\b\nExit codes: 0 done, 1 the device reported an error, 2 wrong usage, 3 no device,\n"
    "4 not done in time, 5 a transfer failed, 130 interrupted." + (f"\n\n{ALONE}" if is_alone() else ""),
)
@option_group("settings", HostSettings)
@click.version_option(__version__, prog_name=NAME)
@click.pass_context
def main(context: click.Context, settings: HostSettings) -> None:
    """Talk to an XCORE AI server: load networks, run them, read their outputs and timings."""
    context.obj = replace(settings, as_json=json_wanted(context))


for _command in (
    list_command,
    info,
    load,
    infer,
    read,
    write,
    timings,
    profile,
    log,
    gpio,
    acquire,
    stream,
    frame,
    i2c,
    raw,
    reset,
    bench,
    diff,
    upgrade,
    *map(addons.load, addons.offered("host_commands").values()),
):
    main.add_command(_command)
