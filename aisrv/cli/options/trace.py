"""The options of `run`, `exec` and `attach` that record a trace, and what probes send."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio

from aisrv.attach.usbip.server import BusPlace
from aisrv.board import Board
from aisrv.cli.options.spi import spidev_name
from aisrv.device.device import Device
from aisrv.terminal.file_types import NEW_FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.values.settings.size_option import SIZE
from aisrv.xcore.trace import Tracer, fan_out
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort

if TYPE_CHECKING:
    from aisrv.monitor.trace.recording import TraceRecording

DETAILS: Final = ("commands", "waits", "runs", "tokens")
"""How much a trace has, each with what those before it have."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """A trace of what cores, buses and LEDs do, and a recording of the probes."""

    trace: Path | None = option(
        "--trace",
        type=NEW_FILE,
        help="Record what cores do and wait for, USB, SPI and LEDs in this file, for ui.perfetto.dev and "
        "aisrv trace summary.",
    )
    trace_level: str = option(
        "--trace-level",
        type=click.Choice(DETAILS),
        default="runs",
        show_default=True,
        help="How much it has, each with what those before have: commands; what cores wait for; runs of "
        "tokens between them; all verbs.",
    )
    trace_ring: int | None = option(
        "--trace-ring",
        type=SIZE,
        help="Keep only the last of it, so many bytes as 64M, and write them at the end.",
    )
    trace_limit: int | None = option(
        "--trace-limit", type=SIZE, help="End the trace at so many bytes as 1G. [default: no limit]"
    )

    xscope: Path | None = option(
        "--xscope",
        type=NEW_FILE,
        help="Record what the first device's tasks send on probes of xscope in this file: VCD if its name "
        "ends in .vcd, else lines of JSON.",
    )

    def check(self) -> None:
        """Raise click.UsageError for options that do not go together."""
        if self.trace is None and (self.trace_ring is not None or self.trace_limit is not None):
            raise click.UsageError("--trace-ring and --trace-limit are for --trace FILE")
        if self.trace_ring is not None and self.trace_limit is not None:
            raise click.UsageError("--trace-ring keeps the end, --trace-limit the beginning: give one")


trace_options = option_group("trace", TraceOptions)


@contextmanager
def open_trace(options: TraceOptions, *, in_ticks: bool) -> "Iterator[TraceRecording | None]":
    """Record a trace of devices within the block, in a Trio task; None if none is wanted. Raises OSError.

    Its unit of time is a tick, for devices that all take the chip's time, or a nanosecond.
    """
    if options.trace is None:
        yield None
        return
    from aisrv.monitor.trace.detail import Detail
    from aisrv.monitor.trace.recording import TICK_NS, TraceRecording
    from aisrv.monitor.trace.sinks import FileSink, RingSink

    if options.trace_ring is None:
        sink: FileSink | RingSink = FileSink(options.trace, options.trace_limit)
    else:
        sink = RingSink(options.trace, options.trace_ring)
    unit_ns = TICK_NS if in_ticks else 1
    with TraceRecording(sink, Detail[options.trace_level.upper()], unit_ns=unit_ns) as recording:
        yield recording


@asynccontextmanager
async def keep_written(recording: "TraceRecording | None") -> AsyncIterator[None]:
    """Write a trace out within the block as it comes, so that little is lost if the process is killed."""
    if recording is None:
        yield
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recording.keep_flushed)
        yield
        nursery.cancel_scope.cancel()


@contextmanager
def recorded_probes(tracers: Sequence[Tracer], path: Path | None, devices: int) -> Iterator[Sequence[Tracer]]:
    """Record the probes of the first of so many devices in a file, too; None leaves their `tracers` alone.

    Raises OSError.
    """
    if path is None:
        yield tracers
        return
    from aisrv.monitor.xscope_recording import open_xscope

    with open_xscope(path) as recording:
        first = fan_out([*tracers[:1], recording.tracer]) or recording.tracer
        yield [first, *(tracers[1:] or [Tracer() for _ in range(devices - 1)])]


def tracers_of(recording: "TraceRecording | None", boards: Sequence[Board]) -> Sequence[Tracer]:
    """Return a tracer for the device of each board; none without a recording."""
    if recording is None:
        return ()
    names = [str(BusPlace.of(number)) for number in range(len(boards))]
    return [
        recording.tracer(
            name if board.serial is None else f"{name} ({board.serial})", device_time=board.device_time
        )
        for name, board in zip(names, boards, strict=True)
    ]


def trace_ports(
    recording: "TraceRecording | None",
    devices: Sequence[Device],
    usb: Sequence[HostPort],
    spi: Mapping[str, SpiPort],
) -> tuple[Sequence[HostPort], Mapping[str, SpiPort]]:
    """Record LEDs and transfers of devices from now on; the ports that are returned count.

    `usb` are the ports of the devices in their order, `spi` those by name.
    """
    if recording is None:
        return usb, spi
    traced = dict(spi)
    for number, device in enumerate(devices):
        recording.add_outputs(number, device)
        name = spidev_name(number)
        if name in spi:
            traced[name] = recording.traced_spi(number, name, spi[name])
    pairs = enumerate(zip(devices, usb, strict=True))
    return [recording.traced_usb(n, port, device.board.protocol) for n, (device, port) in pairs], traced
