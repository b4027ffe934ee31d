"""The output of the commands: the table and map of an image, and differences.

Everything is for people and goes through rich, which is imported at first use. Programs read `--json`.
"""

import sys
from typing import TYPE_CHECKING, Final

from flash_server.image import ImageMap, Part
from flash_server.image.image_file import Image
from flash_server.image.nibbles import order_name

if TYPE_CHECKING:
    from rich.console import Console

PARTS: Final = {Part.MODEL: "M", Part.PARAMETERS: "P", Part.OPERATORS: "O", Part.XIP: "X"}

HEADERS: Final = "H"
FREE: Final = "·"

MAP_WIDTH: Final = 64
MAP_ROWS: Final = 8

_PLAIN_WIDTH: Final = 120
_COLORS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red")

Cell = tuple[str, int | None]


def describe(image: Image) -> dict[str, object]:
    """Return all about an image, for JSON: bytes and offsets are from the start of the image."""
    found = image.map
    return {
        "file": str(image.path),
        "size": found.size,
        "generation": found.detected.generation.value,
        "nibbles": order_name(swapped=found.detected.swapped),
        "headers_end": found.headers_end,
        "engines": [
            {part.label: _describe_part(image, engine, part) for part in Part}
            for engine in range(len(found.headers))
        ],
    }


def _describe_part(image: Image, engine: int, part: Part) -> dict[str, int] | None:
    segment = image.map.parts[engine][part]
    if segment is None:
        return None
    return {
        "offset": image.map.headers[engine][part],
        "data": segment.start,
        "size": segment.size,
        "used": image.used(engine, part),
    }


def extents(image: Image) -> list[tuple[int, int, Cell]]:
    """Return the used ranges in order of addresses: start, end, letter. The rest is free."""
    found = image.map
    extents: list[tuple[int, int, Cell]] = [(0, found.headers_end, (HEADERS, None))]
    for engine, header in enumerate(found.headers):
        for part in Part:
            segment = found.parts[engine][part]
            if segment:
                end = segment.start + image.used(engine, part)
                extents.append((header[part], end, (PARTS[part], engine)))
    return sorted(extents, key=lambda one: one[:2])


def map_cells(parts: list[tuple[int, int, Cell]], size: int, count: int) -> list[Cell]:
    """Divide the image in `count` equal cells, each with what takes most of it."""
    cells: list[Cell] = []
    for index in range(count):
        start, end = index * size / count, (index + 1) * size / count
        taken: dict[Cell, float] = {}
        for low, high, cell in parts:
            overlap = min(end, high) - max(start, low)
            if overlap > 0:
                taken[cell] = taken.get(cell, 0.0) + overlap
        free = (end - start) - sum(taken.values())
        best = max(taken, key=lambda cell: taken[cell], default=(FREE, None))
        cells.append(best if taken.get(best, 0.0) >= free else (FREE, None))
    return cells


def show_image(image: Image) -> None:
    from rich import box
    from rich.table import Table

    found = image.map
    engines = len(found.headers)
    console = new_console()
    console.print(
        f"{image.path}: generation {found.detected}, {engines} engine{'s' * (engines != 1)}, "
        f"{found.size} bytes"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading, justify in (("engine", "right"), ("part", "left"), ("offset", "right"), ("bytes", "right")):
        table.add_column(heading, justify="right" if justify == "right" else "left")
    table.add_column("without FF at the end", justify="right")
    table.add_column("%", justify="right")
    for engine in range(engines):
        for part in Part:
            segment = found.parts[engine][part]
            if segment is None:
                table.add_row(str(engine), part.label, "-", "absent", "", "")
                continue
            used = image.used(engine, part)
            table.add_row(
                str(engine),
                part.label,
                f"{found.headers[engine][part]:#x}",
                str(segment.size),
                str(used),
                f"{100 * used / found.size:.1f}",
            )
    console.print(table)
    _show_map(image, console)


def _show_map(image: Image, console: "Console") -> None:
    legend = f"{HEADERS} headers, M model, P parameters, O operators, X execute in place, {FREE} FF"
    show_map(extents(image), image.map.size, legend, console)


def show_map(taken: list[tuple[int, int, Cell]], size: int, legend: str, console: "Console") -> None:
    """Print a map in proportion of `size` bytes: start, end and letter of what is taken."""
    from rich.text import Text

    rows = max(1, min(MAP_ROWS, size // MAP_WIDTH))
    cells = map_cells(taken, size, rows * MAP_WIDTH)
    console.print()
    for row in range(rows):
        line = Text(f"{row * size // rows:#010x} ")
        for letter, engine in cells[row * MAP_WIDTH : (row + 1) * MAP_WIDTH]:
            line.append(letter, "" if engine is None else _COLORS[engine % len(_COLORS)])
        console.print(line)
    console.print(f"\n{legend}; a cell is {size / (rows * MAP_WIDTH):.0f} bytes")


def summary(found: ImageMap) -> str:
    """Describe an image in a few words."""
    engines = len(found.headers)
    return f"{found.detected}, {engines} engine{'s' * (engines != 1)}, {found.size} bytes"


def new_console() -> "Console":
    """Return a console that cuts no name in a pipe."""
    from rich.console import Console

    # A pipe has no width.
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width, soft_wrap=True)
