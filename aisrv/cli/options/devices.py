"""The options of `run`, `exec` and `attach` about devices: their models, their protocol and their number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from aisrv.board import Board, BoardError, UsbProtocol
from aisrv.cli.options.board import BoardOptions
from aisrv.cli.options.protocol import MODEL_MEMORY, make_protocol_board
from aisrv.protocol.commands import Command
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import enum_option, option, option_group
from aisrv.xcore.runtime import OnTrap

MOST_DEVICES: Final = 1000
"""Devices of one process; hosts take a list of somewhat more for a fault of the server."""

DEFAULT_PREFIX: Final = "AISRV-"
"""Prefix of the number in the serial numbers of several devices."""

MODEL_COMMANDS: Final[Mapping[str, Command]] = {
    "arena": Command.SET_MODEL_ARENA,
    "ext": Command.SET_MODEL_EXT,
}
"""Commands that load a model, by the memory that it goes to."""

ON_TRAP: Final[Mapping[str, OnTrap]] = {"halt": "halt", "stop": "raise"}
"""Effect of a trap, as nodes name it."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The models of each device, its USB protocol, and the number of devices."""

    models: Sequence[Path] = option(
        "--model",
        default=(),
        multiple=True,
        type=FILE,
        help="Model to load at start; the second goes to engine 1, and so on.",
    )
    model_memory: str | None = option(
        "--model-memory",
        type=click.Choice(list(MODEL_COMMANDS)),
        help="Memory that the models are loaded to. [default: arena; with --protocol ioserver: ext]",
    )
    protocol: UsbProtocol = enum_option(
        "--protocol",
        default=UsbProtocol.AISRV,
        show_default=True,
        help="What the device speaks; with ioserver, models are numbered in the order of --model.",
    )
    count: int = option(
        "--devices",
        type=click.IntRange(1, MOST_DEVICES),
        default=1,
        show_default=True,
        help="Number of devices, as 1-1, 1-2 and so on; --serial is then the prefix of their serial numbers.",
    )
    on_trap_text: str = option(
        "--on-trap",
        type=click.Choice(list(ON_TRAP)),
        default="halt",
        show_default=True,
        help="What a trap does: halt its core, as silicon does, or stop the process.",
    )

    @property
    def on_trap(self) -> OnTrap:
        return ON_TRAP[self.on_trap_text]

    @property
    def command(self) -> Command:
        return MODEL_COMMANDS[self.model_memory or MODEL_MEMORY[self.protocol]]


device_options = option_group("devices", DeviceOptions, "Device options")


def make_boards(board: BoardOptions, devices: DeviceOptions) -> list[Board]:
    """Build the board of each device. Raises click.UsageError for an impossible one."""
    return number_boards(make_protocol_board(devices.protocol, len(devices.models), board), devices.count)


def number_boards(board: Board, count: int) -> list[Board]:
    """Return a board for each device, with a serial number: the board's as a prefix, then 1 and up.

    A single device keeps the board's number. Serial numbers that grow too long are a usage error, and so is a
    flash chip in a file, which is one device's.
    """
    if count == 1:
        return [board]
    if any(flash.path is not None for flash in board.flashes):
        raise click.UsageError(f"--flash is the chip of one device, not of {count}")
    prefix = DEFAULT_PREFIX if board.serial is None else board.serial
    try:
        return [replace(board, serial=f"{prefix}{number}") for number in range(1, count + 1)]
    except BoardError as error:
        raise click.UsageError(str(error)) from None
