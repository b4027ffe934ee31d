"""Views of the state of devices: all of it if the terminal has room, else the most important parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.text import Text

from aisrv.monitor import cell_texts
from aisrv.monitor.compact_rendering import CompactDevice, DevicesTable, kept_in
from aisrv.monitor.fitting_table import Column, FittingTable
from aisrv.monitor.values import DeviceStatus, EngineStatus, Rates

RenderResult = Iterator[RenderableType | Segment]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device with the rates at its ports, by their order in the status; print it with rich."""

    status: DeviceStatus
    rates: tuple[Rates, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.sections(options.ascii_only)

    def sections(self, ascii_only: bool) -> Iterator[RenderableType]:
        heading = [Text(f"Device {self.status.name}", style="bold")]
        if self.status.deadlock:
            heading.append(Text(f"deadlock: {self.status.deadlock}", style="bold red"))
        yield Group(*heading, _cores(self.status))
        yield _engines(self.status.engines, ascii_only)
        yield _ports(self)
        if ignored := self.status.ignored_packets:
            yield Text(f"{ignored:,} packets over USB were no command and ignored", style="yellow")
        if late := self.status.late:
            yield Text(
                f"late {late:,} times in device time, by {self.status.latest_ms:,.1f} ms at most",
                style="yellow",
            )
        for part in self.status.parts.values():
            yield Group(*part.draw(ascii_only))


@dataclass(frozen=True, slots=True)
class DevicesView:
    """Devices one below the other, in the most detailed form that fits."""

    devices: tuple[DeviceView, ...]
    hidden: int = 0
    """Number of devices without a view."""
    sandbox: str = ""
    """Sandbox of the workers of models; not shown if empty."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = console.size.height - 1  # a line is the cursor's
        for form in self._forms(options.ascii_only):
            lines = console.render_lines(form, options, pad=False)
            if len(lines) <= room:
                break
        for line in lines:
            yield from line
            yield Segment.line()

    def _forms(self, ascii_only: bool) -> Iterator[RenderableType]:
        below = [Text(f"{self.hidden:,} more devices are not shown")] if self.hidden else []
        below += kept_in(self.sandbox)
        sections = [part for view in self.devices for part in view.sections(ascii_only)] + below
        yield Group(*sections[:1], *(part for section in sections[1:] for part in (Text(), section)))
        yield Group(*self.devices, *below)
        yield Group(*(CompactDevice(view.status, view.rates) for view in self.devices), *below)
        yield self.table()

    def table(self) -> DevicesTable:
        """Return the same devices with a line for each."""
        devices = tuple((view.status, view.rates) for view in self.devices)
        return DevicesTable(devices, self.hidden, self.sandbox)


def _cores(status: DeviceStatus) -> FittingTable:
    table = FittingTable(
        Column("tile"),
        Column("core", rank=2),
        Column("task", cut_to=10),
        Column("call", least=15, rank=1),
        Column("waits for", cut_to=12),
    )
    for tile in status.tiles:
        for core in tile.cores:
            cells = core.name, core.verb, cell_texts.waits_for(core)
            style = cell_texts.STATE_STYLES[core.state]
            table.add_row(str(tile.number), str(core.number), *cells, style=style)
    return table


def _engines(engines: Sequence[EngineStatus], ascii_only: bool) -> FittingTable:
    table = FittingTable(
        Column("engine"),
        Column("tile", rank=5),
        Column("model", right=True, least=11, rank=3),
        Column("inferences", right=True, rank=2),
        Column("last classes", least=24, cut_to=12, rank=1),
        Column("LEDs", rank=4),
        Column("errors", cut_to=8),
    )
    for engine in engines:
        table.add_row(
            str(engine.number),
            str(engine.tile),
            cell_texts.model(engine),
            f"{engine.inferences:,}",
            cell_texts.scores(engine.top),
            cell_texts.leds(engine.leds, ascii_only),
            cell_texts.error_cell(engine.errors),
        )
    return table


def _ports(view: DeviceView) -> FittingTable:
    table = FittingTable(
        Column("port"),
        Column("to device", right=True, least=11, rank=2),
        Column("from device", right=True, least=11, rank=2),
        Column("commands", right=True, least=9),
        Column("all commands", right=True, rank=1),
    )
    for port, rates in zip(view.status.ports, view.rates, strict=True):
        table.add_row(
            port.name,
            cell_texts.byte_rate(rates.to_device),
            cell_texts.byte_rate(rates.from_device),
            cell_texts.command_rate(rates),
            f"{port.total.commands:,}",
        )
    return table
