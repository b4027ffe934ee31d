"""`aisrv attach`: devices in the foreground, plugged into this machine's kernel."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import trio

from aisrv.attach.spidev.cuse import CuseError, serve_cuse
from aisrv.attach.usbip.vhci import Attached, Vhci, VhciError, attached
from aisrv.board import Board, UsbProtocol
from aisrv.cli.options.board import board_options
from aisrv.cli.options.devices import devices_option, number_boards
from aisrv.cli.options.logging import start_logging, verbose_option
from aisrv.cli.options.protocol import MODEL_MEMORY, make_protocol_board, protocol_option
from aisrv.cli.options.spi import SpiOptions, spi_options
from aisrv.cli.options.usb import PortOptions, port_options
from aisrv.cli.serving import WireOptions, first_error, running_devices
from aisrv.device.device import ModelRefused
from aisrv.sensors.image.frame import SourceError
from aisrv.xcore.traps import XcoreError
from flash_server.errors import FlashError
from phy.usb.taps.fault_plan import Fault

FIRST_DEVID: Final = 0x10001
"""Bus 1, address 1, as USB/IP numbers devices; the kernel gives the number back with each request."""


@asynccontextmanager
async def attach_devices(
    boards: Sequence[Board],
    models: Sequence[Path],
    memory: str,
    options: WireOptions | None = None,
    vhci: Vhci | None = None,
    *,
    spidev: bool = False,
) -> AsyncIterator[list[Attached]]:
    """Run a device for each board, load the models into each, plug all of them into the kernel.

    With `spidev` the SPI port of the first is /dev/spidev0.0, and so on. Raises VhciError, CuseError,
    ModelRefused, OSError where a file cannot be had, XcoreError for a board with more than a node has.
    """
    vhci = vhci or Vhci()
    vhci.check()
    async with (
        running_devices(boards, models, memory, options) as ports,
        trio.open_nursery() as nursery,
        AsyncExitStack() as plugs,
    ):
        if spidev:
            for name, slave in ports.spi.items():
                await nursery.start(serve_cuse, slave, f"spidev{name}")
        yield [
            await plugs.enter_async_context(attached(port, FIRST_DEVID + number, vhci))
            for number, port in enumerate(ports.usb)
        ]
        nursery.cancel_scope.cancel()


async def run_attached(
    boards: Sequence[Board],
    models: Sequence[Path],
    memory: str,
    options: WireOptions,
    vhci: Vhci,
    *,
    spidev: bool = False,
) -> None:
    """Keep devices plugged in until SIGINT or SIGTERM, or until the kernel has detached all of them."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            attach_devices(boards, models, memory, options, vhci, spidev=spidev) as plugged,
            trio.open_nursery() as ends,
        ):
            numbers = ", ".join(str(each.port) for each in plugged)
            print(f"aisrv: attached to vhci_hcd port {numbers}", flush=True)

            async def until_signal() -> None:
                async for _ in signals:
                    ends.cancel_scope.cancel()

            ends.start_soon(until_signal)
            for each in plugged:
                await each.detached.wait()
                click.echo(f"aisrv: vhci_hcd port {each.port} is detached", err=True)
            ends.cancel_scope.cancel()


@click.command()
@board_options
@protocol_option
@devices_option
@port_options
@spi_options
@click.option("--spidev", is_flag=True, help="Make /dev/spidev0.0, too; needs the kernel's module cuse.")
@verbose_option
def attach(
    models: tuple[Path, ...],
    model_memory: str | None,
    protocol: UsbProtocol,
    devices: int,
    pcap: Path | None,
    faults: tuple[Fault, ...],
    fault_seed: int,
    vcd: Path | None,
    strict_spi: bool,
    spidev: bool,
    verbose: int,
    **board: Any,  # noqa: ANN401 - the board's options, as make_board takes them
) -> None:
    """Run a virtual device, or several, and plug it into this machine's kernel until Ctrl-C.

    Needs Linux, root and the kernel's module vhci_hcd. One line on standard output says when the device is
    attached, and to which port; `lsusb` shows it a moment later.

    \b
    Examples:
      sudo modprobe vhci-hcd
      sudo aisrv attach
      sudo aisrv attach --model person.tflite --serial LAB-7
      sudo aisrv attach --devices 4 --serial LAB-
      sudo modprobe cuse && sudo aisrv attach --spidev
    """
    start_logging(verbose)
    try:
        trio.run(
            lambda: run_attached(
                number_boards(make_protocol_board(protocol, len(models), **board), devices),
                models,
                model_memory or MODEL_MEMORY[protocol],
                WireOptions(PortOptions(pcap, faults, fault_seed), SpiOptions(vcd, strict_spi)),
                Vhci(),
                spidev=spidev,
            )
        )
    except* (VhciError, CuseError, ModelRefused, OSError, XcoreError, FlashError, SourceError) as errors:
        raise click.ClickException(first_error(errors)) from None
