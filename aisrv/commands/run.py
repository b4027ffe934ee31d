"""`aisrv run`: a device in the foreground, served over USB/IP."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import trio

from aisrv import usbip
from aisrv.attach.usbip_server import UsbipServer, export
from aisrv.board import Board
from aisrv.commands.board_options import MODEL_COMMANDS, board_options, make_board
from aisrv.commands.logs import start_logging, verbose_option
from aisrv.device import Device, ModelRefused, open_device
from aisrv.xcore.traps import XcoreError

BUSID = "1-1"


@asynccontextmanager
async def serve_device(
    board: Board, host: str, port: int, models: Sequence[Path], memory: str
) -> AsyncIterator[tuple[Device, str]]:
    """Run a device, load its models, serve it over USB/IP; gives the device and `HOST:PORT`.

    Raises ModelRefused, OSError where the address or a file cannot be had, XcoreError for a board with more
    than a node has.
    """
    if len(models) > len(board.engines):
        raise ModelRefused(f"{len(models)} models for {len(board.engines)} engines")
    async with open_device(board) as device:
        for engine, path in enumerate(models):
            model = await trio.Path(path).read_bytes()
            await device.load_model(model, engine=engine, command=MODEL_COMMANDS[memory])
        async with trio.open_nursery() as nursery:
            server = UsbipServer([export(device.usb, BUSID)])
            address, bound = await nursery.start(server.serve, host, port)
            yield device, f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}"
            nursery.cancel_scope.cancel()


async def run_device(
    board: Board, host: str, port: int, models: Sequence[Path], memory: str, *, until_eof: bool
) -> None:
    """Serve a device until SIGINT or SIGTERM, or with `until_eof` until standard input ends."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            serve_device(board, host, port, models, memory) as (_, address),
            trio.open_nursery() as ends,
        ):
            print(f"aisrv: ready at usbip:{address}", flush=True)

            async def until_signal() -> None:
                async for _ in signals:
                    ends.cancel_scope.cancel()

            async def until_input_ends() -> None:
                while True:
                    await trio.lowlevel.wait_readable(sys.stdin.fileno())
                    if not os.read(sys.stdin.fileno(), 4096):
                        ends.cancel_scope.cancel()

            ends.start_soon(until_signal)
            if until_eof:
                ends.start_soon(until_input_ends)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=usbip.PORT,
    show_default=True,
    help="TCP port; 0 takes any that is free.",
)
@board_options
@click.option("--until-eof", is_flag=True, help="End when standard input ends, besides SIGINT and SIGTERM.")
@verbose_option
def run(
    host: str,
    port: int,
    models: tuple[Path, ...],
    model_memory: str,
    until_eof: bool,
    verbose: int,
    **board: Any,  # noqa: ANN401 - the board's options, as make_board takes them
) -> None:
    """Run a virtual device and serve it over USB/IP until Ctrl-C.

    One line on standard output says when it is ready, and where.

    \b
    Examples:
      aisrv run
      aisrv run --port 0 --model person.tflite
      aisrv run --board chained --model first.tflite --model second.tflite
      aisrv run --engines 2 --arena 256K --external 32M --serial LAB-7
      sudo usbip attach -r 127.0.0.1 -b 1-1     (on Linux, to plug it into the kernel)
    """
    start_logging(verbose)
    try:
        trio.run(
            lambda: run_device(make_board(**board), host, port, models, model_memory, until_eof=until_eof)
        )
    except* (ModelRefused, OSError, XcoreError) as errors:
        raise click.ClickException(first_error(errors)) from None


def first_error(errors: BaseExceptionGroup[Exception]) -> str:
    """Say what the first error in a group of groups was."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
