"""`aisrv attach`: devices in the foreground, plugged into this machine's kernel."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import trio

from aisrv.attach.vhci import Attached, Vhci, VhciError, attached
from aisrv.board import Board, UsbProtocol
from aisrv.commands.board_options import board_options
from aisrv.commands.logs import start_logging, verbose_option
from aisrv.commands.number_of_devices import devices_option, number_boards
from aisrv.commands.port_options import PortOptions, port_options
from aisrv.commands.protocol_options import MODEL_MEMORY, make_protocol_board, protocol_option
from aisrv.commands.running import first_error, running_devices
from aisrv.device import ModelRefused
from aisrv.xcore.traps import XcoreError
from phy.usb.fault_plan import Fault

FIRST_DEVID: Final = 0x10001
"""Bus 1, address 1, as USB/IP numbers devices; the kernel gives the number back with each request."""


@asynccontextmanager
async def attach_devices(
    boards: Sequence[Board],
    models: Sequence[Path],
    memory: str,
    options: PortOptions | None = None,
    vhci: Vhci | None = None,
) -> AsyncIterator[list[Attached]]:
    """Run a device for each board, load the models into each, plug all of them into the kernel.

    Raises VhciError, ModelRefused, OSError where a file cannot be had, XcoreError for a board with more than
    a node has.
    """
    vhci = vhci or Vhci()
    vhci.check()
    async with running_devices(boards, models, memory, options) as ports, AsyncExitStack() as plugs:
        yield [
            await plugs.enter_async_context(attached(port, FIRST_DEVID + number, vhci))
            for number, port in enumerate(ports)
        ]


async def run_attached(
    boards: Sequence[Board], models: Sequence[Path], memory: str, options: PortOptions, vhci: Vhci
) -> None:
    """Keep devices plugged in until SIGINT or SIGTERM, or until the kernel has detached all of them."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            attach_devices(boards, models, memory, options, vhci) as plugged,
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
@verbose_option
def attach(
    models: tuple[Path, ...],
    model_memory: str | None,
    protocol: UsbProtocol,
    devices: int,
    pcap: Path | None,
    faults: tuple[Fault, ...],
    fault_seed: int,
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
    """
    start_logging(verbose)
    try:
        trio.run(
            run_attached,
            number_boards(make_protocol_board(protocol, len(models), **board), devices),
            models,
            model_memory or MODEL_MEMORY[protocol],
            PortOptions(pcap, faults, fault_seed),
            Vhci(),
        )
    except* (VhciError, ModelRefused, OSError, XcoreError) as errors:
        raise click.ClickException(first_error(errors)) from None
