"""The option `--devices` of `run` and `exec`: several devices of one kind, told apart by serial number."""

from dataclasses import replace
from typing import Final

import click

from aisrv.board import Board, BoardError

MOST_DEVICES: Final = 1000
"""Devices of one process; hosts take a list of somewhat more for a fault of the server."""

DEFAULT_PREFIX: Final = "AISRV-"
"""Before the number in the serial numbers of several devices."""

devices_option = click.option(
    "--devices",
    type=click.IntRange(1, MOST_DEVICES),
    default=1,
    show_default=True,
    help="Number of devices, as 1-1, 1-2 and so on; --serial is then the prefix of their serial numbers.",
)


def number_boards(board: Board, count: int) -> list[Board]:
    """Give each of several devices its serial number: the board's as a prefix, then 1 and up.

    One device alone keeps what the board has. Serial numbers that grow too long are a usage error, and so is
    a flash chip in a file, which is one device's.
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
