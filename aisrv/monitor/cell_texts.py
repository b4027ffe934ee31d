"""Texts of the cells of the status view."""

from collections.abc import Sequence
from typing import Final

from rich.filesize import decimal
from rich.text import Text

from aisrv.engine.gpio import Levels
from aisrv.monitor.values import CoreState, CoreStatus, DeviceStatus, EngineStatus, Peer, Rates, Score
from aisrv.protocol.commands import Status

LED_ON: Final = "●"
LED_OFF: Final = "○"
ASCII_LED_ON: Final = "*"
ASCII_LED_OFF: Final = "."
NOTHING: Final = "-"
LONGEST_LABEL: Final = 20
"""Longest shown name of a class, in characters."""

STATE_STYLES: Final = {
    CoreState.SET_ASIDE: "dim",
    CoreState.WAITING: "",
    CoreState.RUNNING: "green",
    CoreState.HALTED: "bold red",
}


def waits_for(core: CoreStatus) -> str:
    """Name the cores that could wake a core, else the resource it waits on, else its state."""
    if core.state is CoreState.WAITING:
        return _names(core.peers) or core.waits_on or NOTHING
    return f"halted in {core.trap}" if core.trap else str(core.state.value)


def _names(peers: Sequence[Peer]) -> str:
    """Name cores, those of each tile together."""
    by_tile: dict[int, list[str]] = {}
    for peer in peers:
        by_tile.setdefault(peer.tile, []).append(f"{peer.name} (halted)" if peer.is_halted else peer.name)
    return " or ".join(f"{', '.join(names)} of tile {tile}" for tile, names in by_tile.items())


def scores(top: Sequence[Score]) -> Text:
    """Write scores as `class: value`, the largest first."""
    texts = [f"{score.label[:LONGEST_LABEL] or score.index}: {score.value}" for score in top] or [NOTHING]
    return Text("  ").join(Text(text, "" if place else "bold") for place, text in enumerate(texts))


def errors(bits: Status) -> str:
    names = [str(bit.name).removeprefix("ERROR_") for bit in Status if bit in bits]
    return " ".join(names) or NOTHING


def error_cell(bits: Status) -> Text:
    """Name the error bits, in red if there are any."""
    return Text(errors(bits), style="red" if bits else "")


def model(engine: EngineStatus) -> str:
    """Describe the size of an engine's model, and its fallback."""
    if engine.model_bytes is None:
        return NOTHING
    return f"{engine.model_bytes:,} B" + (f" on {engine.fallback}" if engine.fallback else "")


def leds(levels: Levels, ascii_only: bool) -> Text:
    on, off = (ASCII_LED_ON, ASCII_LED_OFF) if ascii_only else (LED_ON, LED_OFF)
    return Text("").join(Text(on, style="green") if level else Text(off, style="dim") for level in levels)


def byte_rate(rate: float) -> str:
    return f"{decimal(round(rate))}/s"


def command_rate(rates: Rates) -> Text:
    """Write commands a second, in green if there are any."""
    return Text(f"{rates.commands:,.0f}/s", style="green" if round(rates.commands) else "")


def trouble(status: DeviceStatus) -> str:
    """Describe the trouble of a device in a few words; empty if there is none."""
    halted = sum(core.state is CoreState.HALTED for tile in status.tiles for core in tile.cores)
    bits = Status.OKAY
    for engine in status.engines:
        bits |= engine.errors
    told = [f"{halted} cores halted" if halted > 1 else "1 core halted"] if halted else []
    told += ["deadlock"] if status.deadlock else []
    told += [errors(bits)] if bits else []
    return ", ".join(told)
