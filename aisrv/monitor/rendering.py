"""Draws the state of devices with rich, for a terminal of any width."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, Group, OverflowMethod, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from aisrv.engine.gpio import Levels
from aisrv.monitor.graph_rendering import draw_graph
from aisrv.monitor.values import CoreState, CoreStatus, DeviceStatus, EngineStatus, Rates, Score
from aisrv.protocol.commands import Status

LED_ON: Final = "●"
LED_OFF: Final = "○"
ASCII_LED_ON: Final = "*"
ASCII_LED_OFF: Final = "."
NOTHING: Final = "-"
LONGEST_LABEL: Final = 20
"""Characters that are shown of a class's name."""

_LEAST_WIDTHS: Final = {"model": 11, "last classes": 24, "to device": 11, "from device": 11, "commands": 9}
"""Characters of columns whose contents change, so that those behind them stay where they are."""

_STATE_STYLES: Final = {
    CoreState.SET_ASIDE: "dim",
    CoreState.WAITING: "",
    CoreState.RUNNING: "green",
    CoreState.HALTED: "bold red",
}


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device with the rates at its ports, by their order in the status; print it with rich."""

    status: DeviceStatus
    rates: tuple[Rates, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Draw: cores, engines, ports."""
        ascii_only = options.ascii_only
        yield Text(f"Device {self.status.name}", style="bold")
        if self.status.deadlock:
            yield Text(f"deadlock: {self.status.deadlock}", style="bold red")
        yield _cores(self.status, ascii_only)
        yield _engines(self.status.engines, ascii_only)
        yield _ports(self, ascii_only)
        if ignored := self.status.ignored_packets:
            yield Text(f"{ignored:,} packets over USB were no command and ignored", style="yellow")
        if self.status.graph is not None:
            yield from draw_graph(self.status.graph, ascii_only)


@dataclass(frozen=True, slots=True)
class DevicesTable:
    """Many devices, a line for each; those that the terminal has no room for are counted."""

    devices: tuple[DeviceView, ...]
    hidden: int = 0
    """Devices of which there is no view."""
    sandbox: str = ""
    """What keeps the workers of models in; nothing is shown where it is empty."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Draw."""
        room = max(1, console.size.height - _LINES_ROUND_TABLE)
        ascii_only = options.ascii_only
        numbers = ("models", "inferences", "commands/s", "from device")
        table = _table(
            "device",
            *numbers,
            "classes",
            "state",
            right=numbers,
            flexible="state",
            ascii_only=ascii_only,
        )
        for view in self.devices[:room]:
            table.add_row(*_device_cells(view))
        yield table
        hidden = self.hidden + max(0, len(self.devices) - room)
        if hidden:
            yield Text(f"{hidden:,} more devices are not shown")
        if self.sandbox:
            yield Text(f"workers are kept in by {self.sandbox}", style="dim")


_LINES_ROUND_TABLE: Final = 4
"""The table's heading, what is said below it, and the line that the cursor is in."""


def _device_cells(view: DeviceView) -> tuple[Text, ...]:
    status = view.status
    loaded = sum(engine.model_bytes is not None for engine in status.engines)
    trouble = _trouble(status)
    return (
        Text(status.name.replace(", serial number ", " ")),
        Text(f"{loaded} of {len(status.engines)}"),
        Text(f"{sum(engine.inferences for engine in status.engines):,}"),
        Text(f"{sum(rates.commands for rates in view.rates):,.0f}"),
        Text(f"{decimal(round(sum(rates.from_device for rates in view.rates)))}/s"),
        Text("  ".join(scores(engine.top[:1]) for engine in status.engines)),
        Text(trouble or "ok", style="red" if trouble else ""),
    )


def _trouble(status: DeviceStatus) -> str:
    """Say what is wrong with a device, in a few words; nothing where all is well."""
    halted = sum(core.state is CoreState.HALTED for tile in status.tiles for core in tile.cores)
    bits = Status.OKAY
    for engine in status.engines:
        bits |= engine.errors
    told = [f"{halted} cores halted" if halted > 1 else "1 core halted"] if halted else []
    told += ["deadlock"] if status.deadlock else []
    told += [errors(bits)] if bits else []
    return ", ".join(told)


@dataclass(frozen=True, slots=True)
class DevicesView:
    """Devices one below the other; `hidden` is the number of those that are not shown."""

    devices: tuple[DeviceView, ...]
    hidden: int = 0
    sandbox: str = ""
    """What keeps the workers of models in; nothing is shown where it is empty."""

    def __rich__(self) -> RenderableType:
        """Draw."""
        hidden = [Text(f"{self.hidden} more devices are not shown")] if self.hidden else []
        sandbox = [Text(f"workers are kept in by {self.sandbox}", style="dim")] if self.sandbox else []
        return Group(*self.devices, *hidden, *sandbox)


def _table(
    *columns: str, right: Sequence[str] = (), flexible: str | None = None, ascii_only: bool = False
) -> Table:
    """Create a table of one line a row, with one column that takes the room that the others leave."""
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=flexible is not None
    )
    cut: OverflowMethod = "crop" if ascii_only else "ellipsis"  # an ellipsis is not an ASCII character
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=True,
            overflow=cut,
            min_width=_LEAST_WIDTHS.get(name),
            ratio=1 if name == flexible else None,
        )
    return table


def _cores(status: DeviceStatus, ascii_only: bool) -> Table:
    table = _table("tile", "core", "task", "waits for", flexible="waits for", ascii_only=ascii_only)
    for tile in status.tiles:
        for core in tile.cores:
            table.add_row(
                str(tile.number),
                str(core.number),
                core.name,
                waits_for(core),
                style=_STATE_STYLES[core.state],
            )
    return table


def _engines(engines: Sequence[EngineStatus], ascii_only: bool) -> Table:
    table = _table(
        "engine",
        "tile",
        "model",
        "inferences",
        "last classes",
        "LEDs",
        "errors",
        right=("model", "inferences"),
        flexible="errors",
        ascii_only=ascii_only,
    )
    for engine in engines:
        table.add_row(
            str(engine.number),
            str(engine.tile),
            _model(engine),
            f"{engine.inferences:,}",
            Text(scores(engine.top)),  # names of classes are not markup
            _leds(engine.leds, ascii_only),
            Text(errors(engine.errors), style="red" if engine.errors else ""),
        )
    return table


def _model(engine: EngineStatus) -> str:
    if engine.model_bytes is None:
        return NOTHING
    return f"{engine.model_bytes:,} B" + (f" on {engine.fallback}" if engine.fallback else "")


def _ports(view: DeviceView, ascii_only: bool) -> Table:
    numbers = ("to device", "from device", "commands", "all commands")
    table = _table("port", *numbers, right=numbers, ascii_only=ascii_only)
    for port, rates in zip(view.status.ports, view.rates, strict=True):
        table.add_row(
            port.name,
            f"{decimal(round(rates.to_device))}/s",
            f"{decimal(round(rates.from_device))}/s",
            f"{rates.commands:,.0f}/s",
            f"{port.total.commands:,}",
        )
    return table


def waits_for(core: CoreStatus) -> str:
    """Describe what a core does, on one line."""
    if core.state is CoreState.HALTED and core.trap:
        return f"{core.state.value} in {core.trap}"
    if core.state is not CoreState.WAITING:
        return str(core.state.value)
    return f"{core.verb} on {core.waits_on}" if core.waits_on else core.verb


def scores(top: Sequence[Score]) -> str:
    """Write scores as `class: value`, the largest first."""
    return "  ".join(f"{_class_name(score)}: {score.value}" for score in top) or NOTHING


def _class_name(score: Score) -> str:
    return score.label[:LONGEST_LABEL] or str(score.index)


def errors(bits: Status) -> str:
    """Name the error bits."""
    names = [str(bit.name).removeprefix("ERROR_") for bit in Status if bit in bits]
    return " ".join(names) or NOTHING


def _leds(levels: Levels, ascii_only: bool) -> Text:
    on, off = (ASCII_LED_ON, ASCII_LED_OFF) if ascii_only else (LED_ON, LED_OFF)
    return Text("").join(Text(on, style="green") if level else Text(off, style="dim") for level in levels)
