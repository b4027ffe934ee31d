"""The options of `run`, `exec` and `attach` that stand before a device: captures and faults."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import trio

from aisrv.attach.usbip.server import BUS_DEVICES
from phy.usb.bus import HostPort
from phy.usb.taps.capture import CapturedPort, CaptureFile
from phy.usb.taps.fault_plan import Fault, FaultError, FaultPlan
from phy.usb.taps.faults import FaultyPort

F = TypeVar("F", bound=Callable[..., Any])


class FaultSpec(click.ParamType[Fault]):
    """A fault in its text form."""

    name = "spec"

    def convert(self, value: str | Fault, param: click.Parameter | None, ctx: click.Context | None) -> Fault:
        """Read the text."""
        if isinstance(value, Fault):
            return value
        try:
            return Fault.parse(value)
        except FaultError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True, slots=True)
class PortOptions:
    """What the options said."""

    pcap: Path | None = None
    faults: tuple[Fault, ...] = ()
    fault_seed: int = 0


_OPTIONS: Final = (
    click.option(
        "--pcap",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the USB traffic to this file, for Wireshark.",
    ),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        type=FaultSpec(),
        help="Spoil transfers of each device, such as stall:in:3 or drop:out:p=0.01; repeatable.",
    ),
    click.option(
        "--fault-seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of the faults that come at random.",
    ),
)


def port_options(function: F) -> F:
    """Add the options to a command; their values make a `PortOptions`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@asynccontextmanager
async def stand_before(buses: Sequence[HostPort], options: PortOptions) -> AsyncIterator[list[HostPort]]:
    """Give the ports that attachments drive in place of devices, for as long as the block lasts.

    The capture is nearest to the host and shows the faults as it sees them. Raises OSError where the file of
    the capture cannot be made.
    """
    async with trio.open_nursery() as nursery:
        with ExitStack() as files:
            ports = list(buses)
            if options.faults:
                for number, port in enumerate(ports):
                    plan = FaultPlan(options.faults, options.fault_seed)
                    ports[number] = FaultyPort(port, plan, nursery, _busid(number))
            if options.pcap is not None:
                capture = files.enter_context(CaptureFile(options.pcap))
                ports = [_captured(port, capture, number) for number, port in enumerate(ports)]
            yield ports
            nursery.cancel_scope.cancel()


def _captured(port: HostPort, capture: CaptureFile, number: int) -> HostPort:
    bus, device = divmod(number, BUS_DEVICES)
    strings, serial = port.descriptors.strings, port.descriptors.device.serial_string
    description = f"serial number {strings[serial - 1]}" if serial else ""
    sink = capture.interface(_busid(number), description, bus=bus + 1, device=device + 1)
    return CapturedPort(port, sink)


def _busid(number: int) -> str:
    """Return the name that USB/IP hosts know a device by."""
    bus, device = divmod(number, BUS_DEVICES)
    return f"{bus + 1}-{device + 1}"
