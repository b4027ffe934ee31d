"""`aisrv exec`: run a program against a private device."""

import logging
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import trio

from aisrv.attach.preload.server import Preload, serve_preload
from aisrv.attach.preload.trial import PreloadError
from aisrv.cli.one_line_errors import one_line_errors
from aisrv.cli.options.added import AddedOptions, added_options, changed_boards, show_hints
from aisrv.cli.options.board import BoardOptions, board_options
from aisrv.cli.options.devices import DeviceOptions, device_options, make_boards
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.cli.options.spi import SpiOptions, check_spi_options, spi_options
from aisrv.cli.options.trace import TraceOptions
from aisrv.cli.options.usb import UsbOptions, usb_options
from aisrv.cli.serving import DeviceSet, Listening, serve_devices, with_traps
from aisrv.terminal.option_group import GroupedCommand, option_group
from aisrv.terminal.require_linux import require_linux
from aisrv.values.private_directory import private_sockets
from aisrv.values.regular_file import ANY_SIZE, opened_regular
from host_tools.standins.launcher import environment, run_program

logger = logging.getLogger(__name__)


async def exec_program(argv: Sequence[str], devices: DeviceSet) -> int:
    """Run a program that finds the devices in their usual places; return its exit code as shells do."""
    with private_sockets("usbip", "spi") as (usbip, spi):
        listening = Listening(usbip_socket=Path(usbip), spi_socket=Path(spi))
        return await _exec_served(argv, devices, listening)


async def _exec_served(argv: Sequence[str], devices: DeviceSet, listening: Listening) -> int:
    async with serve_devices(devices, listening) as service, trio.open_nursery() as nursery:
        show_hints(service.added)
        variables = environment(service.usbip, spi_address=service.spi)
        slaves = list(service.ports.spi.values())
        try:
            preload: Preload = await nursery.start(partial(serve_preload, spi=slaves), service.ports.usb)
        except PreloadError as error:
            level = logging.INFO if is_python(argv[0]) else logging.WARNING
            logger.log(
                level, "%s; without it only Python programs on pyusb and spidev find the device", error
            )
        else:
            variables = preload.environment(variables)
        code = with_traps(await run_program(argv, variables), service.ports.devices)
        nursery.cancel_scope.cancel()
    return code


def is_python(program: str) -> bool:
    """Check whether a program is a Python interpreter, by name, or a script for one, by its first line."""
    if Path(program).name.startswith("python"):
        return True
    path = shutil.which(program)
    if path is None:
        return False
    try:
        with opened_regular(path, ANY_SIZE) as file:
            first = file.readline(256)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


@click.command("exec", cls=GroupedCommand, context_settings={"allow_interspersed_args": False})
@require_linux("exec")
@board_options
@device_options
@usb_options
@spi_options
@option_group("observing", TraceOptions)
@added_options("exec")
@verbose_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(
    board: BoardOptions,
    devices: DeviceOptions,
    usb: UsbOptions,
    spi: SpiOptions,
    observing: TraceOptions,
    added: Sequence[AddedOptions],
    verbose: int,
    program: tuple[str, ...],
) -> None:
    """Run PROGRAM against a private virtual device, or several, and end with its exit code.

    The program finds the device as if it were plugged in, unmodified, on USB and on SPI (/dev/spidev0.0). A
    Python program on pyusb and spidev needs nothing else. Any other program on libusb or spidev needs
    the package umockdev, and must be neither static nor setuid.

    \b
    Examples:
      aisrv exec -- python tool.py
      aisrv exec -- lsusb -v -d 20b1:a15e
      aisrv exec --model person.tflite -- python -m pytest tests/hardware
      aisrv exec --engines 2 -- python tool.py --verbose
      aisrv exec --web -- python tool.py
      aisrv exec --device-time --report -- python tool.py
      aisrv exec --trace run.pftrace -- python tool.py
      aisrv exec --devices 3 --serial LAB- -- python tool.py
      aisrv exec --fault nak:in:p=0.1:2s --pcap usb.pcapng -- python tool.py
      aisrv exec --protocol ioserver --model person.tflite -- python io_server_tool.py

    Exit code: the program's; 126 if it cannot be executed, 127 if it does not exist, 128 + n if signal n
    ended it; 1 in place of 0 if a core of a device trapped.
    """
    start_logging(verbose)
    with one_line_errors():
        boards = changed_boards(make_boards(board, devices), added)
        observing.check()
        check_spi_options(spi, boards[0])
        running = DeviceSet(
            boards,
            devices.models,
            devices.command,
            usb,
            spi,
            trace=observing,
            on_trap=devices.on_trap,
            added=added,
        )
        code = trio.run(exec_program, program, running)
    sys.exit(code)
