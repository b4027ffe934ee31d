"""The options of `run`, `exec` and `attach` for USB ports: captures and faults."""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from aisrv.attach.usbip.server import BusPlace
from aisrv.terminal.file_types import NEW_FILE
from aisrv.terminal.option_group import option, option_group
from phy.usb.bus import HostPort

if TYPE_CHECKING:
    from phy.usb.taps.capture import CaptureFile
    from phy.usb.taps.fault_plan import Fault


class FaultSpec(click.ParamType["Fault"]):
    """A fault in its text form."""

    name = "spec"

    def convert(
        self, value: "str | Fault", param: click.Parameter | None, ctx: click.Context | None
    ) -> "Fault":
        from phy.usb.taps.fault_plan import Fault, FaultError

        if isinstance(value, Fault):
            return value
        try:
            return Fault.parse(value)
        except FaultError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True, slots=True)
class UsbOptions:
    """A capture of the USB traffic, and the faults to inject into it."""

    pcap: Path | None = option(
        "--pcap",
        type=NEW_FILE,
        help="Write the USB traffic to this file, for Wireshark.",
    )
    faults: "tuple[Fault, ...]" = option(
        "--fault",
        default=(),
        multiple=True,
        type=FaultSpec(),
        help="Inject a fault into transfers of each device: stall:in:3, drop:out:p=0.01; repeatable.",
    )
    fault_seed: int = option(
        "--fault-seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of the faults that come at random.",
    )


usb_options = option_group("usb", UsbOptions, "USB options")


@asynccontextmanager
async def wrap_usb_ports(buses: Sequence[HostPort], options: UsbOptions) -> AsyncIterator[list[HostPort]]:
    """Wrap USB ports within the block, the capture nearest to the host. Raises OSError."""
    async with trio.open_nursery() as nursery:
        with ExitStack() as files:
            ports = list(buses)
            if options.faults:
                from phy.usb.taps.fault_plan import FaultPlan
                from phy.usb.taps.faults import FaultyPort

                for number, port in enumerate(ports):
                    plan = FaultPlan(options.faults, options.fault_seed)
                    ports[number] = FaultyPort(port, plan, nursery, str(BusPlace.of(number)))
            if options.pcap is not None:
                from phy.usb.taps.capture import CaptureFile

                capture = files.enter_context(CaptureFile(options.pcap))
                ports = [_captured(port, capture, number) for number, port in enumerate(ports)]
            yield ports
            nursery.cancel_scope.cancel()


def _captured(port: HostPort, capture: "CaptureFile", number: int) -> HostPort:
    from phy.usb.taps.capture import CapturedPort

    place = BusPlace.of(number)
    strings, serial = port.descriptors.strings, port.descriptors.device.serial_string
    description = f"serial number {strings[serial - 1]}" if serial else ""
    sink = capture.interface(str(place), description, bus=place.bus, device=place.port)
    return CapturedPort(port, sink)
