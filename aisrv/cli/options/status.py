"""The options of `run` that show what devices do: on the terminal, in files and in the log."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct
from msgspec.structs import replace

from aisrv.attach.usbip.server import BusPlace
from aisrv.cli.options.spi import spidev_name
from aisrv.cli.options.trace import TraceOptions
from aisrv.device.device import Device
from aisrv.terminal.file_types import FOLDER, NEW_FILE
from aisrv.terminal.option_group import option, option_group
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort

if TYPE_CHECKING:
    from aisrv.monitor.snapshot import DeviceMonitor

_NO_CURSOR: Final = ("", "dumb", "unknown")
"""Values of TERM of terminals on which nothing can be drawn twice."""


def _check_terminal(_context: click.Context, _parameter: click.Parameter, wanted: bool) -> bool:
    if wanted and not (sys.stdout.isatty() and os.environ.get("TERM", "") not in _NO_CURSOR):
        raise click.UsageError(
            "--status needs a terminal, and standard output is not one that it can draw on"
        )
    return wanted


@dataclass(frozen=True, slots=True)
class StatusOptions(TraceOptions):
    """Views of devices: on the terminal, files of LEDs and tensors, a trace, the log."""

    status: bool = option(
        "--status",
        default=False,
        is_flag=True,
        callback=_check_terminal,
        help="Show on the terminal what cores, engines, LEDs and ports do, as much as fits; of more "
        "than four devices a line each.",
    )
    json: bool = option(
        "--json",
        default=False,
        is_flag=True,
        help="Print what --status shows as lines of JSON, one a second while something changes.",
    )
    gpio_vcd: Path | None = option(
        "--gpio-vcd",
        type=NEW_FILE,
        help="Record the LEDs of the first device's engines in this file, for GTKWave and sigrok.",
    )
    tensor_folder: Path | None = option(
        "--dump-tensors",
        type=FOLDER,
        help="Write every tensor of every run below this folder, as .npy files; needs --engine kernels.",
    )
    verbose: int = option(
        "-v", "--verbose", default=0, count=True, help="Log to standard error; twice for every detail."
    )


status_options = option_group("status", StatusOptions)


class MonitoredPorts(Struct, frozen=True):
    """The ports that hosts drive, and the monitors of the devices behind them."""

    usb: Sequence[HostPort]
    spi: Mapping[str, SpiPort]
    monitors: Sequence["DeviceMonitor"] = ()
    """A monitor for each device; none unless the status is wanted."""
    json: bool = False
    """Whether lines of JSON are printed in place of a drawing."""


@contextmanager
def watch_devices(
    devices: Sequence[Device], usb: Sequence[HostPort], spi: Mapping[str, SpiPort], options: StatusOptions
) -> Iterator[MonitoredPorts]:
    """Watch devices as the options say, for as long as the block lasts. Raises OSError.

    `usb` are the ports of the devices in their order, `spi` those by name. With the status, the ports of the
    result count.
    """
    watched = options.status or options.json
    ports = _count(devices, usb, spi) if watched else MonitoredPorts(usb, spi)
    ports = replace(ports, json=options.json)
    if options.gpio_vcd is None:
        yield ports
        return
    from aisrv.monitor.gpio_vcd import GpioVcd

    begin = devices[0].node.clock.deadline(0)
    with GpioVcd(options.gpio_vcd, [engine.gpio for engine in devices[0].engines], begin):
        yield ports


def _count(devices: Sequence[Device], usb: Sequence[HostPort], spi: Mapping[str, SpiPort]) -> MonitoredPorts:
    from aisrv.monitor.command_stream import FRAMINGS
    from aisrv.monitor.counting import CountedSpiPort, CountedUsbPort
    from aisrv.monitor.snapshot import DeviceMonitor

    pairs = zip(usb, devices, strict=True)
    counted_usb = [CountedUsbPort(port, FRAMINGS[device.board.protocol]) for port, device in pairs]
    counted_spi = {name: CountedSpiPort(port) for name, port in spi.items()}
    monitors = []
    for number, (device, port) in enumerate(zip(devices, counted_usb, strict=True)):
        busid, spidev = str(BusPlace.of(number)), spidev_name(number)
        attachments: dict[str, CountedUsbPort | CountedSpiPort] = {f"usb {busid}": port}
        if spidev in counted_spi:
            attachments[f"spi {spidev}"] = counted_spi[spidev]
        monitors.append(DeviceMonitor(_title(busid, device.board.serial), device, attachments))
    return MonitoredPorts(counted_usb, counted_spi, monitors)


def _title(busid: str, serial: str | None) -> str:
    return busid if serial is None else f"{busid}, serial number {serial}"


async def show(ports: MonitoredPorts) -> None:
    """Draw the status until cancelled, if it is wanted; call it once the ready line is out."""
    if ports.json:
        from aisrv.monitor.json_lines import print_status

        await print_status(ports.monitors)
    elif ports.monitors:
        from aisrv.monitor.live_view import show_status

        await show_status(ports.monitors)
