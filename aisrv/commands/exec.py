"""`aisrv exec`: run a program against a private device."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import trio

from aisrv.board import Board
from aisrv.commands.board_options import board_options, make_board
from aisrv.commands.logs import start_logging, verbose_option
from aisrv.commands.run import first_error, serve_device
from aisrv.device import ModelRefused
from aisrv.xcore.traps import XcoreError
from host_tools.launcher import environment, run_program


async def exec_program(argv: Sequence[str], board: Board, models: Sequence[Path], memory: str) -> int:
    """Run a program that finds the device where it looks for USB; returns its exit code as a shell would."""
    async with serve_device(board, "127.0.0.1", 0, models, memory) as (_, address):
        return await run_program(argv, environment(address))


@click.command("exec", context_settings={"ignore_unknown_options": True})
@board_options
@verbose_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(
    models: tuple[Path, ...],
    model_memory: str,
    verbose: int,
    program: tuple[str, ...],
    **board: Any,  # noqa: ANN401 - the board's options, as make_board takes them
) -> None:
    """Run PROGRAM against a private virtual device, and end with its exit code.

    A Python program on pyusb finds the device as if it were plugged in, unmodified.

    \b
    Examples:
      aisrv exec -- python tool.py
      aisrv exec --model person.tflite -- python -m pytest tests/hardware
      aisrv exec --engines 2 -- python tool.py --verbose

    Exit code: the program's; 126 where it cannot be executed, 127 where it does not exist, 128 + n where
    signal n ended it.
    """
    start_logging(verbose)
    code = 1
    try:
        code = trio.run(exec_program, program, make_board(**board), models, model_memory)
    except* (ModelRefused, OSError, XcoreError) as errors:
        raise click.ClickException(first_error(errors)) from None
    sys.exit(code)
