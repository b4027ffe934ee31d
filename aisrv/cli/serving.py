"""Devices with their models loaded, and the servers for their hosts."""

import gc
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from msgspec import Struct, field

from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board
from aisrv.cli.options.added import AddedOptions, Listen, Ports, Served
from aisrv.cli.options.spi import SpiOptions, wrap_spi_ports
from aisrv.cli.options.status import MonitoredPorts, StatusOptions, watch_devices
from aisrv.cli.options.trace import (
    TraceOptions,
    keep_written,
    open_trace,
    recorded_probes,
    trace_ports,
    tracers_of,
)
from aisrv.cli.options.usb import UsbOptions, wrap_usb_ports
from aisrv.device.device import Device, ModelRefused, open_devices
from aisrv.inference.process.worker_pool import WorkerPool, open_worker_pool
from aisrv.listeners.failures import first_cause
from aisrv.listeners.start_listening import start_listening
from aisrv.listeners.stream_server import LOOPBACK, StreamServer
from aisrv.protocol.commands import Command
from aisrv.terminal.command_group import os_error_text
from aisrv.values.regular_file import read_regular
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.runtime import OnTrap
from aisrv.xcore.trace import Tracer
from host_tools.transports.server_address import UNIX
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort

if TYPE_CHECKING:
    from flash_server.chip.chip import FlashChip

SWITCH_SECONDS: Final = 0.0005
"""Seconds that a thread that plans a model may keep the interpreter from the event loop; usually 5 ms."""


@contextmanager
def short_pauses() -> Iterator[None]:
    """Shorten the pauses of the event loop by other work: threads that plan models, and the collector.

    Objects that exist when the block begins, modules above all, are left out of garbage collections until its
    end: a full one stops the process for as long as it takes to look at every object.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)


TRAPPED: Final = 1
"""Exit code of a command on devices where nothing failed but a core of one."""


class DeviceSet(Struct, frozen=True):
    """Devices to run: a board for each, the models that all of them load, and the wrappers of their ports."""

    boards: Sequence[Board]
    models: Sequence[Path] = ()
    """Files of the models of engine 0, 1 and so on."""
    command: Command = Command.SET_MODEL_ARENA
    usb: UsbOptions = field(default_factory=UsbOptions)
    spi: SpiOptions = field(default_factory=SpiOptions)
    status: StatusOptions = field(default_factory=StatusOptions)
    trace: TraceOptions = field(default_factory=TraceOptions)
    on_trap: OnTrap = "halt"
    """Whether a trap halts its core, or ends the process."""
    added: Sequence[AddedOptions] = ()
    """The options of add-ons, which start servers of their own."""


class DevicePorts(Struct, frozen=True):
    """The outside of running devices, for attachments to drive."""

    usb: Sequence[HostPort]
    spi: Mapping[str, SpiPort]
    """Ports by bus and chip select, such as `0.0`."""
    flashes: "Sequence[tuple[FlashChip, Callable[[], Awaitable[None]]]]"
    """All flash chips, device by device, each with a function that has its server read it again."""
    monitored: MonitoredPorts
    devices: Sequence[Device]
    added: Sequence[AddedOptions] = ()
    """The options of add-ons, which serve these devices."""

    async def serve_added(self, nursery: trio.Nursery, listen: Listen) -> Sequence[Served]:
        """Start the servers of add-ons. Raises OSError."""
        return [
            served
            for options in self.added
            for served in await options.serve(self.devices, self.usb, nursery, listen)
        ]


class Listening(Struct, frozen=True):
    """TCP ports to listen at, each on an address; 0 is any that is free and None none at all.

    USB/IP and SPI listen at a Unix socket in place of their port if one is given.
    """

    host: str = LOOPBACK
    usbip: int = 0
    spi: int | None = None
    flash: int | None = None
    spi_host: str = LOOPBACK
    flash_host: str = LOOPBACK
    usbip_socket: Path | None = None
    spi_socket: Path | None = None


class Service(Struct, frozen=True):
    """Running devices and the addresses of their servers: `HOST:PORT`, or for USB/IP and SPI `unix:PATH`."""

    ports: DevicePorts
    usbip: str
    spi: str | None
    """Address of the SPI link server, if asked for."""
    flash: str | None
    """Address of the serprog server of the flash chip, if asked for."""
    added: Sequence[Served] = ()
    """Servers of add-ons."""

    def __str__(self) -> str:
        places = [f"usbip:{self.usbip}"]
        if self.spi is not None:
            places += [f"spi:{name}@{self.spi}" for name in self.ports.spi]
        if self.flash is not None:
            places.append(f"serprog:{self.flash}")
        places += [served.place for served in self.added]
        return ", ".join(places)


@asynccontextmanager
async def serve_devices(devices: DeviceSet, listening: Listening) -> AsyncIterator[Service]:
    """Run devices with their models, and serve all of them over one USB/IP server.

    Hosts know the devices as 1-1, 1-2 and so on, their SPI ports as 0.0, 1.0 and so on. Raises as
    `run_devices`.
    """
    async with run_devices(devices) as ports, trio.open_nursery() as nursery:
        listen = partial(start_listening, nursery)

        async def listen_at(server: StreamServer, path: Path) -> str:
            await nursery.start(server.serve_unix, path)
            return f"{UNIX}{path}"

        server = UsbipServer(export_all(ports.usb))
        if listening.usbip_socket is None:
            usbip = await listen(server.serve, listening.host, listening.usbip)
        else:
            usbip = await listen_at(server, listening.usbip_socket)
        spi = flash = None
        if listening.spi is not None or listening.spi_socket is not None:
            from aisrv.attach.spi_link import SpiLinkServer

            link = SpiLinkServer(ports.spi)
            if listening.spi_socket is not None:
                spi = await listen_at(link, listening.spi_socket)
            elif listening.spi is not None:
                spi = await listen(link.serve, listening.spi_host, listening.spi, "--spi-port")
        if listening.flash is not None:
            from aisrv.attach.serprog import SerprogServer

            flash = await listen(
                SerprogServer(*ports.flashes[0]).serve,
                listening.flash_host,
                listening.flash,
                "--flash-port",
            )
        yield Service(ports, usbip, spi, flash, await ports.serve_added(nursery, listen))
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def run_devices(devices: DeviceSet) -> AsyncIterator[DevicePorts]:
    """Run devices with their models; yield the outside of the devices.

    Raises ModelRefused, OSError or StorageError for addresses and files, XcoreError for a board with more
    than a node has.
    """
    engines = min(len(board.engines) for board in devices.boards)
    if len(devices.models) > engines:
        raise ModelRefused(f"{len(devices.models)} models for {engines} engines")
    async with AsyncExitStack() as stack:
        workers = stack.enter_context(open_worker_pool())
        recording = stack.enter_context(
            open_trace(devices.trace, in_ticks=all(board.device_time for board in devices.boards))
        )
        tracers = tracers_of(recording, devices.boards)
        tracers = stack.enter_context(recorded_probes(tracers, devices.trace.xscope, len(devices.boards)))
        running = await stack.enter_async_context(_load_devices(devices, workers, tracers))
        chips = [
            (chip, partial(device.reload_flash, number))
            for device in running
            for number, chip in enumerate(device.flashes)
        ]
        for number, device in reversed([*enumerate(running)]):
            stack.callback(print_lateness, device, number)
        ports = Ports([device.usb for device in running], [device.spi for device in running])
        added: list[AddedOptions] = []
        for options in devices.added:
            entered, ports = await stack.enter_async_context(options.beside(running, ports))
            added.append(entered)
        begin = running[0].node.clock.deadline(0)
        spi = stack.enter_context(wrap_spi_ports(ports.spi, devices.spi, begin))
        usb = await stack.enter_async_context(wrap_usb_ports(ports.usb, devices.usb))
        traced = trace_ports(recording, running, usb, spi)
        await stack.enter_async_context(keep_written(recording))
        await stack.enter_async_context(report_at_sigquit(running))
        monitored = stack.enter_context(watch_devices(running, *traced, devices.status))
        yield DevicePorts(monitored.usb, monitored.spi, chips, monitored, running, added)


def with_traps(code: int, devices: Sequence[Device]) -> int:
    """Return the exit code of a command on devices: where it is 0 and a core of one trapped, TRAPPED."""
    return code or TRAPPED * any(device.node.runtime.halted for device in devices)


def print_lateness(device: Device, number: int) -> None:
    """Print how often this machine was later than the chip, if it was, to standard error."""
    account = device.time_account
    if account is None or not account.timeline.late:
        return
    name, timeline = device.board.serial or f"device {number}", account.timeline
    latest = timeline.latest / (TICKS_PER_SECOND / 1000)
    text = f"{name} was late {timeline.late:,} times, by {latest:,.1f} ms at most: this machine was slower"
    print(f"aisrv: {text} than the chip", file=sys.stderr, flush=True)


@asynccontextmanager
async def _load_devices(
    devices: DeviceSet, workers: WorkerPool, tracers: Sequence[Tracer]
) -> AsyncIterator[Sequence[Device]]:
    async with open_devices(
        devices.boards,
        runner=workers.isolated,
        on_trap=devices.on_trap,
        tracers=tracers,
    ) as running:
        for engine, path in enumerate(devices.models):
            model = await trio.to_thread.run_sync(read_regular, path)
            for device in running:
                await device.load_model(model, engine=engine, command=devices.command)
        yield running


@asynccontextmanager
async def report_at_sigquit(devices: Sequence[Device]) -> AsyncIterator[None]:
    """Print what all cores of all devices wait for to standard error at SIGQUIT, within the block.

    Outside of the main thread, which alone gets signals, nothing is printed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with trio.open_signal_receiver(signal.SIGQUIT) as signals:

        async def report() -> None:
            async for _ in signals:
                for number, device in enumerate(devices):
                    title = device.board.serial or f"device {number}"
                    print(f"{title}, {device.node.report()}", file=sys.stderr, flush=True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(report)
            yield
            nursery.cancel_scope.cancel()


def first_error(errors: BaseException) -> str:
    """Describe an error, of a group of groups the first."""
    error = first_cause(errors)
    text = os_error_text(error) if isinstance(error, OSError) else str(error)
    return "; ".join((text, *getattr(error, "__notes__", ())))
