"""A graph as SVG: IOs and nodes along the flow, arcs with their formats, and the memory by bank."""

from dataclasses import dataclass
from html import escape
from typing import Final

from aisrv.addons.graph.binary.model import Format
from aisrv.addons.graph.binary.tables import RAW_TYPES
from aisrv.addons.graph.compiler.compile import Compiled
from aisrv.addons.graph.compiler.memory_drawing import LEFT, WIDTH, draw_memory
from aisrv.addons.graph.compiler.network import ArcUse

_WIDTH: Final = 190
_HEIGHT: Final = 40
_GAP_X: Final = 150
_GAP_Y: Final = 26
_MARGIN: Final = 20


@dataclass(frozen=True, slots=True)
class _Box:
    name: str
    note: str
    column: int
    row: int
    kind: str

    @property
    def x(self) -> int:
        return _MARGIN + self.column * (_WIDTH + _GAP_X)

    @property
    def y(self) -> int:
        return _MARGIN + self.row * (_HEIGHT + _GAP_Y)


def draw(compiled: Compiled) -> str:
    boxes = _boxes(compiled)
    width = max([box.x + _WIDTH for box in boxes.values()] + [LEFT + WIDTH]) + _MARGIN
    bottom = max([box.y + _HEIGHT for box in boxes.values()] + [0]) + 2 * _MARGIN
    parts = [_arc(arc, index, boxes, compiled) for index, arc in enumerate(compiled.network.arcs)]
    parts += [_box(box) for box in boxes.values()]
    memory, height = draw_memory(compiled, bottom)
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
                f' width="{width}" height="{height}"'
                ' font-family="sans-serif" font-size="11">'
            ),
            (
                '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
                '<path d="M0,1 L8,4 L0,7 z" fill="#555"/></marker></defs>'
            ),
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *filter(None, parts),
            *memory,
            "</svg>\n",
        ]
    )


def _columns(compiled: Compiled) -> dict[str, int]:
    """Return the column of each box: one more than the farthest that feeds it; a circle is cut at its end."""
    feeds: dict[str, list[str]] = {}
    waits: dict[str, int] = {}
    names = [f"IO {io.hwid}" for io in compiled.network.ios] + [node.name for node in compiled.network.nodes]
    waits = dict.fromkeys(names, 0)
    for arc in compiled.network.arcs:
        if arc.producer in waits and arc.consumer in waits:
            feeds.setdefault(arc.producer, []).append(arc.consumer)
            waits[arc.consumer] += 1
    columns = dict.fromkeys(names, 0)
    ready = [name for name in names if not waits[name]]
    left = dict.fromkeys(name for name in names if waits[name])
    while ready or left:
        if not ready:
            ready.append(next(iter(left)))
            del left[ready[0]]
        name = ready.pop()
        for consumer in feeds.get(name, ()):
            if consumer in left:
                columns[consumer] = max(columns[consumer], columns[name] + 1)
                waits[consumer] -= 1
                if not waits[consumer]:
                    del left[consumer]
                    ready.append(consumer)
    return columns


def _boxes(compiled: Compiled) -> dict[str, _Box]:
    columns = _columns(compiled)
    rows: dict[int, int] = {}
    boxes = {}
    for io in compiled.network.ios:
        name = f"IO {io.hwid}"
        boxes[name] = _placed(name, f"{io.manifest.domain}, {io.manifest.name}", columns[name], rows, "io")
    for node in compiled.network.nodes:
        size = sum(block.size for block in compiled.blocks if block.what.startswith(f"{node.name} segment"))
        boxes[node.name] = _placed(node.name, f"{size} bytes", columns[node.name], rows, "node")
    return boxes


def _placed(name: str, note: str, column: int, rows: dict[int, int], kind: str) -> _Box:
    row = rows.get(column, 0)
    rows[column] = row + 1
    return _Box(name, note, column, row, kind)


def _box(box: _Box) -> str:
    color = "#dce9f7" if box.kind == "node" else "#e8f3dc"
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{color}"'
        f' stroke="#555"/><text x="{box.x + 8}" y="{box.y + 17}" font-weight="bold">{_cut(box.name)}</text>'
        f'<text x="{box.x + 8}" y="{box.y + 31}" fill="#555">{_cut(box.note)}</text>'
    )


def _arc(arc: ArcUse, index: int, boxes: dict[str, _Box], compiled: Compiled) -> str:
    if arc.producer not in boxes or arc.consumer not in boxes:
        return ""
    start, end = boxes[arc.producer], boxes[arc.consumer]
    x1, y1 = start.x + _WIDTH, start.y + _HEIGHT // 2
    x2, y2 = end.x, end.y + _HEIGHT // 2
    formats = compiled.graph.formats
    notes = [_format(formats[arc.producer_format])]
    if arc.consumer_format != arc.producer_format:
        notes.append(_format(formats[arc.consumer_format]))
    middle = (x1 + x2) // 2
    text = escape(f"{index}: {' to '.join(notes)}")
    return (
        f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" fill="none" stroke="#555"'
        f' marker-end="url(#tip)"/><text x="{middle}" y="{(y1 + y2) // 2 - 5}" text-anchor="middle"'
        f' font-size="9">{text}</text>'
    )


def _format(form: Format) -> str:
    raw = RAW_TYPES[form.raw].name
    channels = f" x {form.channels}" if form.channels > 1 else ""
    rate = f", {form.sampling_rate:g} Hz" if form.sampling_rate else ""
    return f"{raw}{channels}, {form.frame_bytes} B{rate}"


def _cut(text: str) -> str:
    return escape(text if len(text) <= 30 else text[:29] + "…")
