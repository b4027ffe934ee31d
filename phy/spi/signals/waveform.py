"""Pictures of SPI transactions: reads a VCD file that `signals.vcd` wrote and draws a transaction as SVG.

python -m phy.spi.signals.waveform spi.vcd --number 3 > transaction.svg
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from io import BufferedIOBase
from itertools import islice, pairwise
from typing import Final

import click
from vcd.reader import TokenKind, tokenize

from phy.spi.signals.vcd import SIGNALS

Changes = tuple[tuple[int, int], ...]
"""Times of a line's changes, in nanoseconds, and the new level; the first is the level before."""

LEFT: Final = 52
"""Width of the names, in pixels."""
CELL: Final = 11
"""Width of the shortest clock period, in pixels."""
MARGIN: Final = 30
"""Time before and after chip select, in pixels."""
HIGH: Final = 20
"""Pixels between the levels."""
ROWS: Final = {"CS": 30, "CLK": 30, "MOSI": 48, "MISO": 48}
"""Height of each line with its labels, in pixels."""
WIDEST: Final = 20_000
"""Largest width of a picture, in pixels."""

BLACK, GRAY, BLUE = "#222222", "#999999", "#1a5fb4"


@dataclass(frozen=True, slots=True)
class Waveform:
    """One transaction: from `start`, where chip select goes low, to `end`, where it goes high."""

    start: int
    end: int
    lines: dict[str, Changes]

    def level(self, line: str, when: int) -> int:
        changes = self.lines[line]
        return changes[max(0, bisect_right(changes, (when, 1)) - 1)][1]

    @property
    def edges(self) -> list[int]:
        """Times of the clock's rising edges."""
        return [when for when, level in self.lines["CLK"][1:] if level]

    def data(self, line: str) -> list[tuple[int, int, int]]:
        """Return the bytes on MOSI or MISO: the rising edges of first and last bit, and the value."""
        edges = self.edges
        found = []
        for at in range(0, len(edges) - 7, 8):
            value = 0
            for when in edges[at : at + 8]:
                value = value << 1 | self.level(line, when)
            found.append((edges[at], edges[at + 7], value))
        return found


def read_transactions(file: BufferedIOBase) -> Iterator[Waveform]:
    """Read the transactions of a VCD file; one that the end of the file cuts off is left out."""
    names: dict[str, str] = {}
    levels = dict(SIGNALS)
    lines: dict[str, list[tuple[int, int]]] = {}
    now = start = 0
    for token in tokenize(file):
        if token.kind is TokenKind.VAR:
            names[token.var.id_code] = token.var.reference
        elif token.kind is TokenKind.CHANGE_TIME:
            now = token.time_change
        elif token.kind is TokenKind.CHANGE_SCALAR:
            name, level = names[token.scalar_change.id_code], int(token.scalar_change.value)
            if name == "CS" and not level:
                start = now
                lines = {line: [(start, before)] for line, before in levels.items()}
            levels[name] = level
            if lines:
                lines[name].append((now, level))
            if name == "CS" and level and lines:
                yield Waveform(start, now, {line: tuple(changes) for line, changes in lines.items()})
                lines = {}


def svg(waveform: Waveform, title: str = "") -> str:
    """Draw a transaction with its bytes in hexadecimal. Raises ValueError for one that is too long."""
    edges = waveform.edges
    shortest = min(
        (after - before for before, after in pairwise(edges)), default=waveform.end - waveform.start
    )
    width = LEFT + 2 * MARGIN + (waveform.end - waveform.start) * CELL / shortest
    if width > WIDEST:
        raise ValueError(f"a transaction of {len(edges) // 8} bytes is too long for a picture")

    def x(when: int) -> float:
        return round(LEFT + MARGIN + (when - waveform.start) * CELL / shortest, 1)

    top = 34 if title else 12
    parts = [_text(LEFT, 20, title, anchor="start", weight="bold")] if title else []
    for line, height in ROWS.items():
        low = top + HIGH
        top += height
        parts.append(_text(LEFT - 10, low - 5, line, anchor="end"))
        parts.append(_path(waveform.lines[line], low, x, width - 6))
        if line in ("MOSI", "MISO"):
            for first, last, value in waveform.data(line):
                middle = (x(first) + x(last)) / 2
                left, right = x(first) - CELL / 2 + 1, x(last) + CELL / 2 - 1
                parts.append(f'<path d="M{left:.1f} {low + 4}H{right:.1f}" stroke="{GRAY}"/>')
                parts.append(_text(middle, low + 17, f"{value:02x}", color=BLUE))
    left, right = x(waveform.start), x(waveform.start) + 8 * CELL
    parts.append(
        f'<path d="M{left:.1f} {top + 2}v8M{left:.1f} {top + 6}H{right:.1f}m0 -4v8" stroke="{GRAY}"/>'
    )
    parts.append(_text(right + 6, top + 10, f"{8 * shortest} ns", anchor="start", color=GRAY))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top + 18}" '
        f'viewBox="0 0 {width:.0f} {top + 18}" font-family="monospace" font-size="12" fill="none">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _path(changes: Changes, low: int, x: Callable[[int], float], right: float) -> str:
    (_, level), *rest = changes
    steps = [f"M{LEFT} {low - level * HIGH}"]
    for when, to in rest:
        if to != level:
            steps.append(f"H{x(when)}V{low - to * HIGH}")
            level = to
    steps.append(f"H{right:.0f}")
    return f'<path d="{"".join(steps)}" stroke="{BLACK}" stroke-width="1.3"/>'


def _text(
    x: float, y: int, text: str, *, anchor: str = "middle", color: str = BLACK, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{color}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--number", default=0, show_default=True, help="Which transaction, from 0.")
@click.option("--title", default="", help="Text above the picture.")
def main(file: BufferedIOBase, number: int, title: str) -> None:
    """Draw a transaction of FILE, a recording by --vcd, as SVG on standard output."""
    waveform = next(islice(read_transactions(file), number, None), None)
    if waveform is None:
        raise click.ClickException(f"the file has no transaction {number}")
    try:
        click.echo(svg(waveform, title), nl=False)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
