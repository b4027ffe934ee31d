"""`aisrv run`: devices in the foreground, served over USB/IP."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import trio

import aisrv.inference.placement
import aisrv.inference.process.isolation
import aisrv.inference.timings.estimation  # noqa: F401 - all three before a device runs, not with its first model
from aisrv.board import Board
from aisrv.cli.one_line_errors import one_line_errors
from aisrv.cli.options.added import AddedOptions, added_options, changed_boards, show_hints
from aisrv.cli.options.board import BoardOptions, board_options
from aisrv.cli.options.devices import DeviceOptions, device_options, make_boards
from aisrv.cli.options.dump import dump_tensors
from aisrv.cli.options.logging import loop_watches, start_logging
from aisrv.cli.options.spi import SpiOptions, check_spi_options, spi_options
from aisrv.cli.options.status import StatusOptions, show, status_options
from aisrv.cli.options.usb import UsbOptions, usb_options
from aisrv.cli.serving import DeviceSet, Listening, Service, serve_devices, short_pauses, with_traps
from aisrv.listeners.stream_server import LOOPBACK
from aisrv.protocol import usbip
from aisrv.terminal.command_group import INTERRUPTED
from aisrv.terminal.option_group import GroupedCommand, option, option_group
from aisrv.terminal.require_linux import require_linux
from aisrv.values.addons import offer
from aisrv.values.heeded_signals import heeded

_PIECE: Final = 4096


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Addresses of the servers, and what ends them besides a signal; None is the board's own port."""

    host: str = option(
        "--host", default=LOOPBACK, show_default=True, help="Address that USB/IP hosts reach it at."
    )
    port: int | None = option(
        "--port",
        type=click.IntRange(0, 65535),
        help=f"TCP port; 0 takes any that is free. [default: the board's, or {usbip.PORT}]",
    )
    socket: Path | None = option(
        "--socket",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Unix socket of this name for USB/IP in place of a TCP port, for --device usbip:unix:PATH.",
    )
    spi_port: int | None = option(
        "--spi-port",
        type=click.IntRange(0, 65535),
        help="TCP port of the SPI slave, for --device spi:0.0@HOST:PORT; 0 takes any that is free.",
    )
    spi_host: str = option("--spi-host", default=LOOPBACK, show_default=True, help="Address for --spi-port.")
    flash_port: int | None = option(
        "--flash-port",
        type=click.IntRange(0, 65535),
        help="TCP port of a programmer for the flash chip (serprog), for aisrv-flash and flashrom.",
    )
    flash_host: str = option(
        "--flash-host", default=LOOPBACK, show_default=True, help="Address for --flash-port."
    )
    until_eof: bool = option(
        "--until-eof",
        default=False,
        is_flag=True,
        help="End when standard input ends, as well as by SIGINT and SIGTERM.",
    )

    def listening(self, board: Board) -> Listening:
        """Return the ports that were given, or else those of the board."""
        usb, spi, flash = self.port, self.spi_port, self.flash_port
        if usb is None:
            usb = usbip.PORT if board.usb_port is None else board.usb_port
        if spi is None and board.spi is not None:
            spi = board.spi.port
        if flash is None and board.flashes:
            flash = board.flashes[0].port
        return Listening(self.host, usb, spi, flash, self.spi_host, self.flash_host, self.socket)


async def run_until_signal(
    devices: DeviceSet, listening: Listening, *, until_eof: bool, hint: str | None = None
) -> int:
    """Serve devices until SIGINT or SIGTERM, or with `until_eof` until standard input ends.

    The ready line goes to standard output, the hint then to standard error. Returns the exit code.
    """
    code = 0
    with ExitStack() as pauses, trio.open_signal_receiver(*heeded(signal.SIGINT, signal.SIGTERM)) as signals:
        async with serve_devices(devices, listening) as service, trio.open_nursery() as ends:
            pauses.enter_context(short_pauses())
            print(f"aisrv: ready at {service}", flush=True)
            if hint is not None:
                print(f"aisrv: {hint}", file=sys.stderr, flush=True)
            show_hints(service.added)
            for line in next_commands(service):
                print(f"aisrv: try {line}", file=sys.stderr, flush=True)

            async def until_signal() -> None:
                nonlocal code
                async for number in signals:
                    code = INTERRUPTED if number == signal.SIGINT else 0
                    ends.cancel_scope.cancel()

            async def until_input_ends() -> None:
                await read_to_end(sys.stdin.fileno())
                ends.cancel_scope.cancel()

            ends.start_soon(show, service.ports.monitored)
            ends.start_soon(until_signal)
            if until_eof:
                ends.start_soon(until_input_ends)
        return with_traps(code, service.ports.devices)


def next_commands(service: Service) -> Iterator[str]:
    """Yield commands to type next: for the USB side, unless it is the user's, and for what add-ons serve."""
    if service.ports.devices[0].board.usb_task is None:
        yield f"aisrv-host --device usbip:{service.usbip} info"
    for place, _ in service.added:
        scheme = place.partition(":")[0]
        if offer("schemes", scheme) is not None:
            yield f"aisrv-host --device {place} {scheme} watch"


def engine_names(board: Board) -> str:
    """Name the kinds of a board's engines, each once, in the order of the engines."""
    return ", ".join(dict.fromkeys(str(engine.kind) for engine in board.engines))


async def read_to_end(file: int) -> None:
    with suppress(PermissionError):  # files and /dev/null never make a reader wait, and cannot be waited for
        while True:
            await trio.lowlevel.wait_readable(file)
            if not os.read(file, _PIECE):
                return
    while os.read(file, _PIECE):
        await trio.lowlevel.checkpoint()


@click.command(cls=GroupedCommand)
@require_linux("run")
@option_group("server", ServerOptions)
@board_options
@device_options
@usb_options
@spi_options
@status_options
@added_options("run")
def run(
    server: ServerOptions,
    board: BoardOptions,
    devices: DeviceOptions,
    usb: UsbOptions,
    spi: SpiOptions,
    status: StatusOptions,
    added: Sequence[AddedOptions],
) -> None:
    """Run a virtual device, or several, and serve it over USB/IP until Ctrl-C.

    One line on standard output says when it is ready, and where. Without --engine, a line on
    standard error says what runs the models. Exit code 0 after SIGTERM, but 1 if a core trapped, 130 after
    Ctrl-C.

    \b
    Examples:
      aisrv run
      aisrv run --port 0 --model person.tflite
      aisrv run --board chained --model first.tflite --model second.tflite
      aisrv run --engines 2 --arena 256K --external 32M --serial LAB-7
      aisrv run --devices 4 --serial LAB-
      aisrv run --protocol ioserver --model first.tflite --model second.tflite
      aisrv run --pcap usb.pcapng --fault stall:in:3
      aisrv run --socket /tmp/device            (aisrv-host --device usbip:unix:/tmp/device info)
      aisrv run --spi-port 3241 --vcd spi.vcd
      aisrv run --graph word.txt --graph-io 4=wav:speech.wav --graph-io 8=gpio:word --model word.tflite
      aisrv run --status --gpio-vcd leds.vcd
      aisrv run --trace run.pftrace --trace-ring 64M  (then aisrv trace summary run.pftrace)
      aisrv run --web --model person.tflite     (prints the address of a page to look at)
      aisrv run --engine kernels --dump-tensors tensors
      aisrv run --jacdac --model gesture.tflite
      aisrv run --flash chip.bin --flash-port 3242 --boot-from-flash arena
      sudo usbip attach -r 127.0.0.1 -b 1-1     (on Linux, to plug it into the kernel)
    """
    start_logging(status.verbose)
    with one_line_errors():
        boards = changed_boards(make_boards(board, devices), added)
        status.check()
        check_spi_options(spi, boards[0], ("--spi-port", server.spi_port))
        if status.tensor_folder is not None:
            boards = dump_tensors(boards, status.tensor_folder)
        if server.flash_port is not None and not boards[0].flashes:
            raise click.UsageError("--flash-port needs a chip: give --flash FILE")
        if server.socket is not None and server.port is not None:
            raise click.UsageError("--socket takes the place of --port: give one of them")
        listening = server.listening(boards[0])
        hint = None if board.engine_kind else f"engine {engine_names(boards[0])}; --engine KIND takes another"
        running = DeviceSet(
            boards, devices.models, devices.command, usb, spi, status, status, devices.on_trap, added
        )
        code = trio.run(
            lambda: run_until_signal(running, listening, until_eof=server.until_eof, hint=hint),
            instruments=loop_watches(status.verbose),
        )
    sys.exit(code)
