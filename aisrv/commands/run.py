"""`aisrv run`: devices in the foreground, served over USB/IP."""

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
from aisrv.attach.usbip_server import UsbipServer, export_all
from aisrv.board import Board, UsbProtocol
from aisrv.commands.board_options import board_options
from aisrv.commands.logs import start_logging, verbose_option
from aisrv.commands.number_of_devices import devices_option, number_boards
from aisrv.commands.port_options import PortOptions, port_options
from aisrv.commands.protocol_options import MODEL_MEMORY, make_protocol_board, protocol_option
from aisrv.commands.running import first_error, running_devices
from aisrv.device import ModelRefused
from aisrv.xcore.traps import XcoreError
from phy.usb.bus import HostPort
from phy.usb.fault_plan import Fault


@asynccontextmanager
async def serve_devices(
    boards: Sequence[Board],
    host: str,
    port: int,
    models: Sequence[Path],
    memory: str,
    options: PortOptions | None = None,
) -> AsyncIterator[tuple[Sequence[HostPort], str]]:
    """Run a device for each board, load the models into each, serve all of them over one USB/IP server.

    Gives the hosts' side of the devices, which hosts know as 1-1, 1-2 and so on, and `HOST:PORT`. Raises
    ModelRefused, OSError where the address or a file cannot be had, XcoreError for a board with more than a
    node has.
    """
    async with running_devices(boards, models, memory, options) as ports, trio.open_nursery() as nursery:
        server = UsbipServer(export_all(ports))
        address, bound = await nursery.start(server.serve, host, port)
        yield ports, f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}"
        nursery.cancel_scope.cancel()


async def run_devices(
    boards: Sequence[Board],
    host: str,
    port: int,
    models: Sequence[Path],
    memory: str,
    options: PortOptions,
    *,
    until_eof: bool,
) -> None:
    """Serve devices until SIGINT or SIGTERM, or with `until_eof` until standard input ends."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            serve_devices(boards, host, port, models, memory, options) as (_, address),
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
@protocol_option
@devices_option
@port_options
@click.option("--until-eof", is_flag=True, help="End when standard input ends, besides SIGINT and SIGTERM.")
@verbose_option
def run(
    host: str,
    port: int,
    models: tuple[Path, ...],
    model_memory: str | None,
    protocol: UsbProtocol,
    devices: int,
    pcap: Path | None,
    faults: tuple[Fault, ...],
    fault_seed: int,
    until_eof: bool,
    verbose: int,
    **board: Any,  # noqa: ANN401 - the board's options, as make_board takes them
) -> None:
    """Run a virtual device, or several, and serve it over USB/IP until Ctrl-C.

    One line on standard output says when it is ready, and where.

    \b
    Examples:
      aisrv run
      aisrv run --port 0 --model person.tflite
      aisrv run --board chained --model first.tflite --model second.tflite
      aisrv run --engines 2 --arena 256K --external 32M --serial LAB-7
      aisrv run --devices 4 --serial LAB-
      aisrv run --protocol ioserver --model first.tflite --model second.tflite
      aisrv run --pcap usb.pcapng --fault stall:in:3
      sudo usbip attach -r 127.0.0.1 -b 1-1     (on Linux, to plug it into the kernel)
    """
    start_logging(verbose)
    try:
        trio.run(
            lambda: run_devices(
                number_boards(make_protocol_board(protocol, len(models), **board), devices),
                host,
                port,
                models,
                model_memory or MODEL_MEMORY[protocol],
                PortOptions(pcap, faults, fault_seed),
                until_eof=until_eof,
            )
        )
    except* (ModelRefused, OSError, XcoreError) as errors:
        raise click.ClickException(first_error(errors)) from None
