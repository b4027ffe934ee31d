"""The memory of a graph as SVG: a bar for each bank, with its used part magnified if it is small."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from aisrv.addons.graph.compiler.compile import Compiled
from aisrv.addons.graph.compiler.memory_plan import BankUse, Block

LEFT: Final = 20
WIDTH: Final = 620
_HEIGHT: Final = 18
_LABEL: Final = 16
_GAP: Final = 14
_SMALL: Final = 0.5
"""Largest used part of a bank that is magnified."""
_LETTER: Final = 6.2

_STATIC: Final = "#a9c7ea"
_WORKING: Final = "#f4c98b"
_FREE: Final = "#f2f2f2"
_COLORS: Final = {"static": _STATIC, "working": _WORKING, "free": _FREE}


def draw_memory(compiled: Compiled, top: int) -> tuple[list[str], int]:
    """Draw each used bank with a legend; also return the bottom of it all."""
    parts: list[str] = []
    y = top
    for use in compiled.memory:
        if use.used:
            blocks = [block for block in compiled.blocks if block.vid == use.bank.vid]
            parts += _bank(use, blocks, y)
            y += _LABEL + _HEIGHT + _GAP
            if _is_small(use):
                y += _HEIGHT + _GAP
    if parts:
        parts += _legend(y)
        y += _HEIGHT
    return parts, y + LEFT


def _is_small(use: BankUse) -> bool:
    return use.used <= _SMALL * use.bank.size


def _bank(use: BankUse, blocks: Iterable[Block], y: int) -> Iterator[str]:
    size = max(use.bank.size, use.used, 1)
    yield (
        f'<text x="{LEFT}" y="{y + 11}">VID {use.bank.vid}: {use.used:,} of {use.bank.size:,} bytes used '
        f"({100 * use.used / size:.1f} %), {use.static:,} static and {use.working:,} working</text>"
    )
    y += _LABEL
    yield f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{_HEIGHT}" fill="{_FREE}" stroke="#999"/>'
    if not _is_small(use):
        yield from _blocks(blocks, WIDTH / size, y)
        return
    start = 0
    for count, color in ((use.static, _STATIC), (use.working, _WORKING)):
        yield _piece(start, count, WIDTH / size, y, color, "")
        start += count
    below = y + _HEIGHT + _GAP
    end = LEFT + WIDTH * use.used / size
    yield (
        f'<path d="M{LEFT},{y + _HEIGHT} L{LEFT},{below} L{LEFT + WIDTH},{below} L{end:.1f},{y + _HEIGHT} z"'
        ' fill="#eee"/>'
    )
    yield from _blocks(blocks, WIDTH / use.used, below)


def _blocks(blocks: Iterable[Block], scale: float, y: int) -> Iterator[str]:
    for block in blocks:
        title = f"{block.what}: {block.size:,} bytes from {block.start:,}"
        yield _piece(block.start, block.size, scale, y, _WORKING if block.is_working else _STATIC, title)
        name = block.what.partition(",")[0]
        if len(name) * _LETTER <= block.size * scale:
            middle = LEFT + (block.start + block.size / 2) * scale
            yield (
                f'<text x="{middle:.1f}" y="{y + 13}" text-anchor="middle" pointer-events="none">'
                f"{escape(name)}</text>"
            )


def _piece(start: int, size: int, scale: float, y: int, color: str, title: str) -> str:
    told = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{LEFT + start * scale:.1f}" y="{y}" width="{size * scale:.1f}" height="{_HEIGHT}"'
        f' fill="{color}" stroke="#555" stroke-width="0.5">{told}</rect>'
    )


def _legend(y: int) -> Iterator[str]:
    for place, (name, color) in enumerate(_COLORS.items()):
        x = LEFT + 90 * place
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}" stroke="#999"/>'
        yield f'<text x="{x + 18}" y="{y + 10}">{name}</text>'
