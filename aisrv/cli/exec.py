"""`aisrv exec`: run a program against a private device."""

import logging
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from aisrv.attach.preload.server import Preload, PreloadError, serve_preload
from aisrv.board import Board, UsbProtocol
from aisrv.cli.options.board import board_options
from aisrv.cli.options.devices import devices_option, number_boards
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.cli.options.protocol import MODEL_MEMORY, make_protocol_board, protocol_option
from aisrv.cli.options.spi import SpiOptions, spi_options
from aisrv.cli.options.usb import PortOptions, port_options
from aisrv.cli.run import Listening, serve_devices
from aisrv.cli.serving import WireOptions, first_error
from aisrv.device.device import ModelRefused
from aisrv.sensors.image.frame import SourceError
from aisrv.xcore.traps import XcoreError
from flash_server.errors import FlashError
from host_tools.standins.launcher import environment, run_program
from phy.usb.taps.fault_plan import Fault

logger = logging.getLogger(__name__)


async def exec_program(
    argv: Sequence[str], boards: Sequence[Board], models: Sequence[Path], memory: str, options: WireOptions
) -> int:
    """Run a program that finds the devices where it looks for them; returns its exit code as shells do."""
    async with (
        serve_devices(boards, Listening(spi=0), models, memory, options) as served,
        trio.open_nursery() as nursery,
    ):
        variables = environment(served.usbip, spi_address=served.spi)
        slaves = list(served.ports.spi.values())
        try:
            preload: Preload = await nursery.start(partial(serve_preload, spi=slaves), served.ports.usb)
        except PreloadError as error:
            level = logging.INFO if is_python(argv[0]) else logging.WARNING
            logger.log(
                level, "%s; without it only Python programs on pyusb and spidev find the device", error
            )
        else:
            variables = preload.environment(variables)
        code = await run_program(argv, variables)
        nursery.cancel_scope.cancel()
    return code


def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter, by its name, or a script for one, by its first line."""
    if Path(program).name.startswith("python"):
        return True
    path = shutil.which(program)
    if path is None:
        return False
    try:
        with Path(path).open("rb") as file:
            first = file.readline(256)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


@click.command("exec", context_settings={"ignore_unknown_options": True})
@board_options
@protocol_option
@devices_option
@port_options
@spi_options
@verbose_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(
    models: tuple[Path, ...],
    model_memory: str | None,
    protocol: UsbProtocol,
    devices: int,
    pcap: Path | None,
    faults: tuple[Fault, ...],
    fault_seed: int,
    vcd: Path | None,
    strict_spi: bool,
    verbose: int,
    program: tuple[str, ...],
    **board: Any,  # noqa: ANN401 - the board's options, as make_board takes them
) -> None:
    """Run PROGRAM against a private virtual device, or several, and end with its exit code.

    The program finds the device as if it were plugged in, unmodified, on USB and on SPI (/dev/spidev0.0). A
    Python program on pyusb and spidev always does, any other program on libusb or spidev where the package
    umockdev is installed, unless it is static or setuid.

    \b
    Examples:
      aisrv exec -- python tool.py
      aisrv exec -- lsusb -v -d 20b1:a15e
      aisrv exec --model person.tflite -- python -m pytest tests/hardware
      aisrv exec --engines 2 -- python tool.py --verbose
      aisrv exec --devices 3 --serial LAB- -- python tool.py
      aisrv exec --fault nak:in:p=0.1:2s --pcap usb.pcapng -- python tool.py
      aisrv exec --protocol ioserver --model person.tflite -- python io_server_tool.py

    Exit code: the program's; 126 where it cannot be executed, 127 where it does not exist, 128 + n where
    signal n ended it.
    """
    start_logging(verbose)
    code = 1
    try:
        boards = number_boards(make_protocol_board(protocol, len(models), **board), devices)
        options = WireOptions(PortOptions(pcap, faults, fault_seed), SpiOptions(vcd, strict_spi))
        memory = model_memory or MODEL_MEMORY[protocol]
        code = trio.run(exec_program, program, boards, models, memory, options)
    except* (ModelRefused, OSError, XcoreError, FlashError, SourceError) as errors:
        raise click.ClickException(first_error(errors)) from None
    sys.exit(code)
