"""A model as SVG: a box an operator, in layers; all that is known of a box or an edge is in its title."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aisrv.addons.predict.model_view.layers import Edge, Layout, lay_out
from aisrv.addons.predict.model_view.view import ModelView, OperatorView, TensorView
from aisrv.addons.predict.template import render
from aisrv.inference.timings import Total

FOLDED_ABOVE: Final = 500
"""Operators from which on chains of them are one box."""
MOST_BOXES: Final = 2_000
"""Boxes of operators at the most: beyond, neighbors in the order of execution are one."""
BOX_WIDTH: Final = 190
BOX_HEIGHT: Final = 44
_GAP: Final = 24
_LAYER: Final = 84
"""From the top of one layer to that of the next."""
_PASSING: Final = 22
_TOP: Final = 64
_SIDE: Final = 24
_MARGIN_STEP: Final = 9
_MARGINS: Final = 8
"""Lanes of edges along the margin."""
_SHOWN: Final = 28
"""Characters of a line in a box."""
_LETTER: Final = 6.2
_LARGE_LETTER: Final = 9.5
"""Width of a letter of the lines above the drawing, at the most on average."""
_TITLE_TENSORS: Final = 40
"""Tensors in the title of a folded box."""

KINDS: Final = {
    "CONV_2D": "matrix",
    "DEPTHWISE_CONV_2D": "matrix",
    "FULLY_CONNECTED": "matrix",
    "TRANSPOSE_CONV": "matrix",
    "BATCH_MATMUL": "matrix",
    "SVDF": "matrix",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "matrix",
    "XC_conv2d_v2": "matrix",
    "AVERAGE_POOL_2D": "pool",
    "MAX_POOL_2D": "pool",
    "MEAN": "pool",
    "XC_maxpool2d": "pool",
    "XC_mean": "pool",
    "RESHAPE": "moving",
    "PAD": "moving",
    "CONCATENATION": "moving",
    "STRIDED_SLICE": "moving",
    "SPLIT": "moving",
    "TRANSPOSE": "moving",
    "XC_pad": "moving",
    "XC_slice": "moving",
    "XC_ld_flash": "moving",
    "XC_ld_weights": "moving",
}
"""Operators by what colors their boxes; all others are of one color."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box: an operator, several folded into one, an input or an output of the model."""

    left: float
    top: float
    name: str
    note: str
    title: str
    kind: str
    share: float = 0.0
    """Of the time of an inference, 0 to 1."""

    @property
    def bar(self) -> float:
        """Width of the bar that shows the share."""
        return self.share * BOX_WIDTH


class Line(NamedTuple):
    """An edge: its path in SVG, and its title."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A model as boxes and edges, in pixels."""

    width: float
    height: float
    title: str
    subtitle: str
    boxes: Sequence[Box]
    lines: Sequence[Line]


class _Part(NamedTuple):
    """What becomes a box."""

    name: str
    note: str
    title: str
    kind: str
    share: float = 0.0


@dataclass(slots=True)
class _Parts:
    """The boxes in order, and the tensors that flow between them."""

    boxes: list[_Part] = field(default_factory=list)
    edges: dict[tuple[int, int, int], None] = field(default_factory=dict)
    """Producer, consumer, and tensor."""
    producers: dict[int, int] = field(default_factory=dict)

    def add(self, part: _Part, reads: Sequence[int], writes: Sequence[int]) -> None:
        """Add a box, which follows those that produce what it reads."""
        number = len(self.boxes)
        self.boxes.append(part)
        for tensor in reads:
            if tensor in self.producers:
                self.edges[self.producers[tensor], number, tensor] = None
        for tensor in writes:
            self.producers[tensor] = number


def to_svg(view: ModelView) -> str:
    """Draw the main subgraph of a model; the file loads nothing and runs no script."""
    return render(
        "aisrv.addons.predict", "model.svg.j2", drawing=draw(view), box_width=BOX_WIDTH, box_height=BOX_HEIGHT
    )


def draw(view: ModelView) -> Drawing:
    """Lay out the main subgraph of a model."""
    parts = _parts(view)
    edges = [(source, target) for source, target, _ in parts.edges]
    layout = lay_out(len(parts.boxes), edges, BOX_WIDTH + _GAP, _PASSING)
    subtitle = _subtitle(view)
    passed = [place for route in layout.routes.values() for place in route or ()]
    left = min([0.0, *(center - BOX_WIDTH / 2 for center in layout.centers), *passed])
    right = max([0.0, *(center + BOX_WIDTH / 2 for center in layout.centers), *passed])
    has_margin = any(route is None for route in layout.routes.values())
    margin = _MARGIN_STEP * (_MARGINS + 1) if has_margin else 0
    texts = max(_LETTER * len(subtitle), _LARGE_LETTER * len(view.name))
    width = round(max(margin + right - left, texts)) + 2 * _SIDE
    shift = (width + margin - right - left) / 2
    boxes = [
        Box(
            round(shift + center - BOX_WIDTH / 2, 1),
            _TOP + _LAYER * layer,
            part.name[:_SHOWN],
            part.note[:_SHOWN],
            part.title,
            part.kind,
            part.share,
        )
        for part, center, layer in zip(parts.boxes, layout.centers, layout.layers, strict=True)
    ]
    lines = [
        Line(_path((source, target), layout, shift, lane), _edge_title(view, parts, source, target, tensor))
        for lane, (source, target, tensor) in enumerate(parts.edges)
    ]
    height = max((box.top for box in boxes), default=_TOP) + BOX_HEIGHT + _SIDE
    return Drawing(width, height, view.name, subtitle, boxes, lines)


def _subtitle(view: ModelView) -> str:
    parts = [f"{len(view.operators):,} operators", f"{_count(view.macs)} multiply-accumulates"]
    if view.total.ticks:
        parts.append(f"one inference takes {view.total}")
    return ", ".join(parts)


def _parts(view: ModelView) -> _Parts:
    parts = _Parts()
    for number, index in enumerate(view.inputs):
        tensor = view.tensors[index]
        part = _Part(f"input {number} {tensor.name}", tensor.spelt, tensor_text(tensor), "end")
        parts.add(part, (), (index,))
    for group in _groups(view):
        reads = [index for operator in group for index in operator.inputs if index >= 0]
        writes = [index for operator in group for index in operator.outputs]
        part = _operator(view, group[0]) if len(group) == 1 else _folded(view, group)
        inside = set(writes) if len(group) > 1 else set[int]()
        parts.add(part, [index for index in reads if index not in inside], writes)
    for number, index in enumerate(view.outputs):
        tensor = view.tensors[index]
        part = _Part(f"output {number} {tensor.name}", tensor.spelt, tensor_text(tensor), "end")
        parts.add(part, (index,), ())
    return parts


def _groups(view: ModelView) -> list[list[OperatorView]]:
    """Return the operators of each box: one, or where they are many a chain."""
    if len(view.operators) <= FOLDED_ABOVE:
        return [[operator] for operator in view.operators]
    groups = list(_chains(view))
    size = -(-len(groups) // MOST_BOXES)
    if size == 1:
        return groups
    return [
        [operator for group in groups[at : at + size] for operator in group]
        for at in range(0, len(groups), size)
    ]


def _chains(view: ModelView) -> Iterator[list[OperatorView]]:
    """Yield neighbors in execution order of which each alone reads what the one before alone writes."""
    readers = Counter(index for operator in view.operators for index in set(operator.inputs) if index >= 0)
    outputs = set(view.outputs)
    produced = {index for operator in view.operators for index in operator.outputs} | set(view.inputs)
    chain: list[OperatorView] = []
    for operator in view.operators:
        flowing = {index for index in operator.inputs if index in produced}
        before = set(chain[-1].outputs) if chain else set[int]()
        follows = bool(flowing) and flowing == before and not before & outputs
        if chain and not (follows and all(readers[index] == 1 for index in before)):
            yield chain
            chain = []
        chain.append(operator)
    if chain:
        yield chain


def _operator(view: ModelView, operator: OperatorView) -> _Part:
    shapes = [view.tensors[index].spelt for index in operator.outputs]
    share = operator.ticks / view.total.ticks if view.total.ticks else 0.0
    name = f"{operator.index} {operator.name}"
    title = "\n".join(operator_text(view, operator))
    return _Part(name, ", ".join(shapes), title, KINDS.get(operator.name, "other"), share)


def _folded(view: ModelView, group: Sequence[OperatorView]) -> _Part:
    total = view.total.scaled(
        sum(each.ticks for each in group), sum(each.low for each in group), sum(each.high for each in group)
    )
    share = total.ticks / view.total.ticks if view.total.ticks else 0.0
    names = Counter(each.name for each in group)
    title = [
        f"operators {group[0].index} to {group[-1].index}",
        ", ".join(f"{count} {name}" for name, count in names.most_common(_TITLE_TENSORS)),
        f"{_count(sum(each.macs for each in group))} multiply-accumulates",
        f"{total.ticks:,} ticks: {_ms(total, total.ticks, total.low, total.high)}",
    ]
    return _Part(
        f"{group[0].index} to {group[-1].index}: {len(group)} operators",
        ", ".join(names),
        "\n".join(title),
        "folded",
        share,
    )


def operator_text(view: ModelView, operator: OperatorView) -> Iterator[str]:
    """Yield what is known of an operator, line by line."""
    yield f"{operator.index} {operator.name}{', custom' if operator.is_custom else ''}"
    for kind, indexes in (("reads", operator.inputs), ("writes", operator.outputs)):
        for index in indexes[:_TITLE_TENSORS]:
            yield f"{kind} {tensor_text(view.tensors[index])}" if index >= 0 else f"{kind} nothing"
        if len(indexes) > _TITLE_TENSORS:
            yield f"{kind} {len(indexes) - _TITLE_TENSORS} more"
    if operator.options:
        yield ", ".join(f"{name} {value}" for name, value in operator.options.items())
    if operator.macs:
        yield f"{_count(operator.macs)} multiply-accumulates"
    band = _ms(view.total, operator.ticks, operator.low, operator.high)
    form = f", {operator.form}" if operator.form else ""
    yield f"{operator.ticks:,} ticks: {band}, {operator.basis}: {operator.source}{form}"


def tensor_text(tensor: TensorView) -> str:
    """Return what is known of a tensor, in a line."""
    parts = [f"{tensor.index} {tensor.name}".rstrip(), tensor.spelt, f"{tensor.nbytes:,} bytes"]
    if tensor.quantization:
        parts.append(tensor.quantization)
    if tensor.place is None:
        parts.append(tensor.kind)
    else:
        place = tensor.place
        parts.append(f"arena {place.offset:,} to {place.offset + place.size:,}")
        parts.append(f"steps {place.first} to {place.last}")
    return ", ".join(parts)


def _ms(total: Total, ticks: int, low: int, high: int) -> str:
    return f"{total.in_ms(ticks):.3f} ms ({total.in_ms(low):.3f} to {total.in_ms(high):.3f})"


def _edge_title(view: ModelView, parts: _Parts, source: int, target: int, tensor: int) -> str:
    return f"{parts.boxes[source].name} to {parts.boxes[target].name}\n{tensor_text(view.tensors[tensor])}"


def _count(number: int) -> str:
    return f"{number:,}"


def _path(edge: Edge, layout: Layout, shift: float, lane: int) -> str:
    """Return an edge's path: through its places in the layers that it passes, or along the left margin."""
    (source, target), route = edge, layout.routes[edge]
    x, y = shift + layout.centers[source], _TOP + _LAYER * layout.layers[source] + BOX_HEIGHT
    end_x, end_y = shift + layout.centers[target], _TOP + _LAYER * layout.layers[target]
    if route is None:
        margin = _SIDE + _MARGIN_STEP * (lane % _MARGINS)
        start, stop = y - BOX_HEIGHT / 2, end_y + BOX_HEIGHT / 2
        return (
            f"M{x - BOX_WIDTH / 2:.1f} {start:.1f}H{margin + 6:.1f}Q{margin} {start:.1f} {margin} "
            f"{start + 6:.1f}V{stop - 6:.1f}Q{margin} {stop:.1f} {margin + 6:.1f} {stop:.1f}"
            f"H{end_x - BOX_WIDTH / 2:.1f}"
        )
    steps = [f"M{x:.1f} {y:.1f}"]
    for number, center in enumerate(route, 1):
        top = _TOP + _LAYER * (layout.layers[source] + number)
        steps.append(_bend(x, y, shift + center, top) + f"V{top + BOX_HEIGHT:.1f}")
        x, y = shift + center, top + BOX_HEIGHT
    return "".join([*steps, _bend(x, y, end_x, end_y)])


def _bend(x: float, y: float, end_x: float, end_y: float) -> str:
    middle = (y + end_y) / 2
    return f"C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}"
