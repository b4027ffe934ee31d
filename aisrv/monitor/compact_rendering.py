"""Views of devices in few lines: each in a handful, or in one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from aisrv.monitor import cell_texts
from aisrv.monitor.fitting_table import Column, FittingTable
from aisrv.monitor.values import CoreState, DeviceStatus, Rates, TileStatus


@dataclass(frozen=True, slots=True)
class CompactDevice:
    """A device in few lines: cores by tile, halted ones, a line for each engine and each port."""

    status: DeviceStatus
    rates: tuple[Rates, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        status, ascii_only = self.status, options.ascii_only
        yield Text(f"Device {status.name}", style="bold")
        for line in self._lines():
            line.no_wrap, line.overflow = True, "crop" if ascii_only else "ellipsis"
            yield line
        engines = FittingTable(
            Column("engine"),
            Column("inferences", right=True, rank=2),
            Column("last class", least=12, cut_to=8, rank=1),
            Column("LEDs", rank=3),
            Column("errors", cut_to=8),
        )
        for engine in status.engines:
            classes = cell_texts.scores(engine.top[:1])
            leds = cell_texts.leds(engine.leds, ascii_only)
            errors = cell_texts.error_cell(engine.errors)
            engines.add_row(str(engine.number), f"{engine.inferences:,}", classes, leds, errors)
        yield engines
        yield self._ports()

    def _lines(self) -> Iterator[Text]:
        status = self.status
        if status.deadlock:
            yield Text(f"deadlock: {status.deadlock}", style="bold red")
        for tile in status.tiles:
            yield _tile_line(tile)
        for core in (core for tile in status.tiles for core in tile.cores):
            if core.state is CoreState.HALTED:
                yield Text(f"{core.name} halted: {core.trap}", style="bold red")
        if status.ignored_packets:
            yield Text(f"{status.ignored_packets:,} packets over USB ignored", style="yellow")
        if status.late:
            yield Text(f"late {status.late:,} times, by {status.latest_ms:,.1f} ms at most", style="yellow")
        for part in status.parts.values():
            yield from part.lines()

    def _ports(self) -> FittingTable:
        table = FittingTable(
            Column("port"),
            Column("to device", right=True, least=11, rank=1),
            Column("from device", right=True, least=11, rank=1),
            Column("commands", right=True, least=9),
        )
        for port, rates in zip(self.status.ports, self.rates, strict=True):
            bytes_each_way = cell_texts.byte_rate(rates.to_device), cell_texts.byte_rate(rates.from_device)
            table.add_row(port.name, *bytes_each_way, cell_texts.command_rate(rates))
        return table


def _tile_line(tile: TileStatus) -> Text:
    names = [Text(core.name, style=cell_texts.STATE_STYLES[core.state]) for core in tile.cores]
    return Text(f"tile {tile.number}  ", style="dim") + Text("  ").join(names)


@dataclass(frozen=True, slots=True)
class DevicesTable:
    """Many devices, a line for each; those for which the terminal has no room are counted."""

    devices: tuple[tuple[DeviceStatus, tuple[Rates, ...]], ...]
    hidden: int = 0
    """Number of devices without a view."""
    sandbox: str = ""
    """Sandbox of the workers of models; not shown if empty."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        room = max(1, console.size.height - _LINES_ROUND_TABLE)
        table = FittingTable(
            Column("device"),
            Column("models", right=True, rank=4),
            Column("inferences", right=True, rank=3),
            Column("commands/s", right=True, rank=1),
            Column("from device", right=True, rank=5),
            Column("classes", cut_to=8, rank=2),
            Column("state", cut_to=8),
        )
        for status, rates in self.devices[:room]:
            table.add_row(*_device_cells(status, rates))
        yield table
        hidden = self.hidden + max(0, len(self.devices) - room)
        if hidden:
            yield Text(f"{hidden:,} more devices are not shown", no_wrap=True)
        yield from kept_in(self.sandbox)


_LINES_ROUND_TABLE: Final = 4
"""Lines of the table's heading, the text below it, and the cursor."""


def kept_in(sandbox: str) -> list[Text]:
    """Describe the sandbox of the workers of models; empty if there is none."""
    return [Text(f"workers are kept in by {sandbox}", style="dim", no_wrap=True)] if sandbox else []


def _device_cells(status: DeviceStatus, rates: tuple[Rates, ...]) -> tuple[str | Text, ...]:
    loaded = sum(engine.model_bytes is not None for engine in status.engines)
    trouble = cell_texts.trouble(status)
    return (
        status.name.replace(", serial number ", " "),
        f"{loaded} of {len(status.engines)}",
        f"{sum(engine.inferences for engine in status.engines):,}",
        f"{sum(rate.commands for rate in rates):,.0f}",
        cell_texts.byte_rate(sum(rate.from_device for rate in rates)),
        Text("  ").join(cell_texts.scores(engine.top[:1]) for engine in status.engines),
        Text(trouble or "ok", style="red" if trouble else "green"),
    )
