"""`aisrv run`: devices in the foreground, served over USB/IP."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import trio

from aisrv.attach.spi_link import SpiLinkServer
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board, UsbProtocol
from aisrv.cli.options.board import board_options
from aisrv.cli.options.devices import devices_option, number_boards
from aisrv.cli.options.dump import dump_option, dump_tensors
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.cli.options.protocol import MODEL_MEMORY, make_protocol_board, protocol_option
from aisrv.cli.options.spi import SpiOptions, spi_options
from aisrv.cli.options.status import StatusOptions, show, status_options
from aisrv.cli.options.usb import PortOptions, port_options
from aisrv.cli.serving import Ports, WireOptions, first_error, running_devices
from aisrv.device.device import ModelRefused
from aisrv.protocol import usbip
from aisrv.sensors.image.frame import SourceError
from aisrv.xcore.traps import XcoreError
from flash_server.errors import FlashError
from phy.usb.taps.fault_plan import Fault


@dataclass(frozen=True, slots=True)
class Served:
    """Running devices and where their servers listen, as `HOST:PORT`."""

    ports: Ports
    usbip: str
    spi: str | None
    """The SPI link server, where it was asked for."""
    flash: str | None
    """The serprog server of the flash chip, where it was asked for."""

    def __str__(self) -> str:
        places = [f"usbip:{self.usbip}"]
        if self.spi is not None:
            places += [f"spi:{name}@{self.spi}" for name in self.ports.spi]
        if self.flash is not None:
            places.append(f"serprog:{self.flash}")
        return ", ".join(places)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen: TCP ports, of which 0 is any that is free and None none at all."""

    host: str = "127.0.0.1"
    usbip: int = 0
    spi: int | None = None
    flash: int | None = None


def _listening(board: Board, host: str, usb: int | None, spi: int | None, flash: int | None) -> Listening:
    """Take the ports that were given, and where there are none those of the board."""
    if usb is None:
        usb = usbip.PORT if board.usb_port is None else board.usb_port
    if spi is None and board.spi is not None:
        spi = board.spi.port
    if flash is None and board.flashes:
        flash = board.flashes[0].port
    return Listening(host, usb, spi, flash)


@asynccontextmanager
async def serve_devices(
    boards: Sequence[Board],
    listening: Listening,
    models: Sequence[Path],
    memory: str,
    options: WireOptions | None = None,
) -> AsyncIterator[Served]:
    """Run a device for each board, load the models into each, serve all of them over one USB/IP server.

    Hosts know the devices as 1-1, 1-2 and so on, their SPI ports as 0.0, 1.0 and so on. Raises ModelRefused,
    OSError or StorageError where an address or a file cannot be had, XcoreError for a board with more than a
    node has.
    """
    async with running_devices(boards, models, memory, options) as ports, trio.open_nursery() as nursery:

        async def listen(serve: Callable[..., Awaitable[Any]], port: int) -> str:
            address, bound = await nursery.start(serve, listening.host, port)
            return f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}"

        usbip = await listen(UsbipServer(export_all(ports.usb)).serve, listening.usbip)
        spi = flash = None
        if listening.spi is not None:
            spi = await listen(SpiLinkServer(ports.spi).serve, listening.spi)
        if listening.flash is not None:
            from aisrv.attach.serprog import SerprogServer

            chip, loader = ports.flashes[0]
            flash = await listen(SerprogServer(chip, loader.reload).serve, listening.flash)
        yield Served(ports, usbip, spi, flash)
        nursery.cancel_scope.cancel()


async def run_devices(
    boards: Sequence[Board],
    listening: Listening,
    models: Sequence[Path],
    memory: str,
    options: WireOptions,
    *,
    until_eof: bool,
) -> None:
    """Serve devices until SIGINT or SIGTERM, or with `until_eof` until standard input ends."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            serve_devices(boards, listening, models, memory, options) as served,
            trio.open_nursery() as ends,
        ):
            print(f"aisrv: ready at {served}", flush=True)

            async def until_signal() -> None:
                async for _ in signals:
                    ends.cancel_scope.cancel()

            async def until_input_ends() -> None:
                while True:
                    await trio.lowlevel.wait_readable(sys.stdin.fileno())
                    if not os.read(sys.stdin.fileno(), 4096):
                        ends.cancel_scope.cancel()

            ends.start_soon(show, served.ports.watched)
            ends.start_soon(until_signal)
            if until_eof:
                ends.start_soon(until_input_ends)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"TCP port; 0 takes any that is free. [default: the board's, or {usbip.PORT}]",
)
@click.option(
    "--spi-port",
    type=click.IntRange(0, 65535),
    help="TCP port of the SPI slave, for --device spi:0.0@HOST:PORT; 0 takes any that is free.",
)
@click.option(
    "--flash-port",
    type=click.IntRange(0, 65535),
    help="TCP port of a programmer for the flash chip (serprog), for aisrv-flash and flashrom.",
)
@board_options
@protocol_option
@devices_option
@port_options
@spi_options
@status_options
@dump_option
@click.option("--until-eof", is_flag=True, help="End when standard input ends, besides SIGINT and SIGTERM.")
@verbose_option
def run(
    host: str,
    port: int | None,
    spi_port: int | None,
    flash_port: int | None,
    models: tuple[Path, ...],
    model_memory: str | None,
    protocol: UsbProtocol,
    devices: int,
    pcap: Path | None,
    faults: tuple[Fault, ...],
    fault_seed: int,
    vcd: Path | None,
    strict_spi: bool,
    status: bool,
    gpio_vcd: Path | None,
    dump_folder: Path | None,
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
      aisrv run --spi-port 3241 --vcd spi.vcd
      aisrv run --status --gpio-vcd leds.vcd
      aisrv run --engine kernels --dump-tensors tensors
      aisrv run --flash chip.bin --flash-port 3242 --boot-from-flash arena
      sudo usbip attach -r 127.0.0.1 -b 1-1     (on Linux, to plug it into the kernel)
    """
    start_logging(verbose)
    boards = number_boards(make_protocol_board(protocol, len(models), **board), devices)
    if dump_folder is not None:
        boards = dump_tensors(boards, dump_folder)
    if flash_port is not None and not boards[0].flashes:
        raise click.UsageError("--flash-port needs a chip: give --flash FILE")
    listening = _listening(boards[0], host, port, spi_port, flash_port)
    try:
        trio.run(
            lambda: run_devices(
                boards,
                listening,
                models,
                model_memory or MODEL_MEMORY[protocol],
                WireOptions(
                    PortOptions(pcap, faults, fault_seed),
                    SpiOptions(vcd, strict_spi),
                    StatusOptions(status, gpio_vcd),
                ),
                until_eof=until_eof,
            )
        )
    except* (ModelRefused, OSError, XcoreError, FlashError, SourceError) as errors:
        raise click.ClickException(first_error(errors)) from None
