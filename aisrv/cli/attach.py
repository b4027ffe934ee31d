"""`aisrv attach`: devices in the foreground, plugged into this machine's kernel."""

import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

import click
import trio

import aisrv.inference.placement
import aisrv.inference.process.isolation
import aisrv.inference.timings.estimation  # noqa: F401 - all three before a device runs, not with its first model
from aisrv.attach.spidev.cuse import CuseError, serve_cuse
from aisrv.attach.usbip.vhci import Attached, Vhci, VhciError, attached
from aisrv.cli.one_line_errors import one_line_errors
from aisrv.cli.options.added import AddedOptions, Served, added_options, changed_boards, show_hints
from aisrv.cli.options.board import BoardOptions, board_options
from aisrv.cli.options.devices import DeviceOptions, device_options, make_boards
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.cli.options.spi import SpiOptions, check_spi_options, spi_options
from aisrv.cli.options.trace import TraceOptions, trace_options
from aisrv.cli.options.usb import UsbOptions, usb_options
from aisrv.cli.serving import DeviceSet, run_devices, with_traps
from aisrv.device.device import Device
from aisrv.listeners.start_listening import start_listening
from aisrv.terminal.command_group import INTERRUPTED
from aisrv.terminal.option_group import GroupedCommand
from aisrv.terminal.require_linux import require_linux
from aisrv.values.heeded_signals import heeded

FIRST_DEVID: Final = 0x10001
"""Bus 1, address 1, as USB/IP numbers devices; the kernel gives the number back with each request."""


class Plugged(NamedTuple):
    """Devices in the kernel, and the servers of add-ons."""

    devices: list[Attached]
    added: Sequence[Served]
    running: Sequence[Device]

    def __str__(self) -> str:
        ports = f"vhci_hcd port {', '.join(str(each.port) for each in self.devices)}"
        return ", ".join((ports, *(served.place for served in self.added)))


@asynccontextmanager
async def attach_devices(
    devices: DeviceSet, vhci: Vhci | None = None, *, spidev: bool = False
) -> AsyncIterator[Plugged]:
    """Run devices with their models, and plug all of them into the kernel.

    With `spidev` the SPI port of the first is /dev/spidev0.0, and so on. Raises VhciError, CuseError,
    ModelRefused, OSError, XcoreError for a board with more than a node has.
    """
    vhci = vhci or Vhci()
    vhci.check()
    async with (
        run_devices(devices) as ports,
        trio.open_nursery() as nursery,
        AsyncExitStack() as plugs,
    ):
        if spidev:
            for name, slave in ports.spi.items():
                await nursery.start(serve_cuse, slave, f"spidev{name}")
        added = await ports.serve_added(nursery, partial(start_listening, nursery))
        plugged = [
            await plugs.enter_async_context(attached(port, FIRST_DEVID + number, vhci))
            for number, port in enumerate(ports.usb)
        ]
        yield Plugged(plugged, added, ports.devices)
        nursery.cancel_scope.cancel()


async def run_attached(devices: DeviceSet, vhci: Vhci, *, spidev: bool = False) -> int:
    """Keep devices plugged in until SIGINT, SIGTERM, or the kernel's detach; return the exit code."""
    code = 0
    with trio.open_signal_receiver(*heeded(signal.SIGINT, signal.SIGTERM)) as signals:
        async with (
            attach_devices(devices, vhci, spidev=spidev) as plugged,
            trio.open_nursery() as ends,
        ):
            print(f"aisrv: attached to {plugged}", flush=True)
            show_hints(plugged.added)

            async def until_signal() -> None:
                nonlocal code
                async for number in signals:
                    code = INTERRUPTED if number == signal.SIGINT else 0
                    ends.cancel_scope.cancel()

            ends.start_soon(until_signal)
            for each in plugged.devices:
                await each.detached.wait()
                click.echo(f"aisrv: vhci_hcd port {each.port} is detached", err=True)
            ends.cancel_scope.cancel()
        return with_traps(code, plugged.running)


@click.command(cls=GroupedCommand)
@require_linux("attach")
@board_options
@device_options
@usb_options
@spi_options
@trace_options
@added_options("attach")
@click.option("--spidev", is_flag=True, help="Also create /dev/spidev0.0; needs the kernel module cuse.")
@verbose_option
def attach(
    board: BoardOptions,
    devices: DeviceOptions,
    usb: UsbOptions,
    spi: SpiOptions,
    trace: TraceOptions,
    added: Sequence[AddedOptions],
    spidev: bool,
    verbose: int,
) -> None:
    """Run a virtual device, or several, and plug it into this machine's kernel until Ctrl-C.

    Needs Linux, root and the kernel's module vhci_hcd. One line on standard output says when the device is
    attached, and to which port; `lsusb` shows it a moment later. Exit code 0 after SIGTERM, but 1 if a core
    trapped, 130 after Ctrl-C.

    \b
    Examples:
      sudo modprobe vhci-hcd
      sudo aisrv attach
      sudo aisrv attach --model person.tflite --serial LAB-7
      sudo aisrv attach --devices 4 --serial LAB-
      sudo aisrv attach --web
      sudo modprobe cuse && sudo aisrv attach --spidev
    """
    start_logging(verbose)
    with one_line_errors(VhciError, CuseError):
        boards = changed_boards(make_boards(board, devices), added)
        trace.check()
        check_spi_options(spi, boards[0], ("--spidev", spidev or None))
        running = DeviceSet(
            boards,
            devices.models,
            devices.command,
            usb,
            spi,
            trace=trace,
            on_trap=devices.on_trap,
            added=added,
        )
        code = trio.run(lambda: run_attached(running, Vhci(), spidev=spidev))
    sys.exit(code)
