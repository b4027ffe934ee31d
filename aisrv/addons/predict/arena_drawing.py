"""A plan of the arena as a picture: operators from left to right, offsets upwards.

As SVG, which names every buffer under the pointer, and as PNG with Pillow, each buffer is a rectangle. As
text, each field names its tensor, and the buffers that make the peak follow.
"""

import io
from dataclasses import dataclass
from typing import Final

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.predict.template import render
from aisrv.model import Model
from aisrv.model.arena_plan import Allocation, ArenaPlan
from aisrv.model.control_flow import flat

ROWS: Final = 24
"""Lines of the text, each a share of the arena."""
HEIGHT: Final = 480
_MARGIN: Final = 70
_TOP: Final = 64
_LEGEND: Final = 34
_NARROWEST: Final = 660
"""Width in pixels that the legend needs."""
_NAMES: Final = 130
_STEP: Final = 36
_FONT: Final = 11
_COLORS: Final = ("#8fb8de", "#f4b393", "#b5d99c", "#d9b8e0", "#f2d98d", "#9fd8cb", "#e3a5b0", "#c3c7cf")
_LONGEST_NAME: Final = 60
"""Characters of a name: converters join the names of all layers that they fuse."""
_WIDEST_IMAGE: Final = 1 << 16
"""Width in pixels beyond which the image alone would take gigabytes."""
_SCRATCH_COLOR: Final = "#dddddd"
_LINE_COLOR: Final = "#444444"
_HEAD_COLOR: Final = "#b00020"
_BOUND_COLOR: Final = "#2255aa"


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Size of a plan, and the buffers that are alive at its fullest step."""

    head: int
    lower_bound: int
    fullest_step: int
    """Step as in Allocation: k + 1 is operator k."""
    fullest: tuple[Allocation, ...]
    """Buffers alive then, largest first."""
    highest: tuple[Allocation, ...]
    """Buffers that end at the head: those that make the peak."""


def summarize(plan: ArenaPlan) -> PlanSummary:
    """Find the fullest step of a plan, the first of equals."""
    last = max((each.last for each in plan.allocations), default=0)
    alive = [
        sum(each.size for each in plan.allocations if each.first <= step <= each.last)
        for step in range(last + 1)
    ]
    step = alive.index(max(alive, default=0)) if alive else 0
    fullest = sorted(
        (each for each in plan.allocations if each.first <= step <= each.last), key=lambda each: -each.size
    )
    highest = tuple(each for each in plan.allocations if each.offset + each.size == plan.head)
    return PlanSummary(plan.head, plan.lower_bound, step, tuple(fullest), highest)


def describe_buffer(model: Model, allocation: Allocation) -> str:
    """Name a buffer: tensor or scratch, size, offset."""
    if allocation.tensor >= len(model.tensors):
        what = f"scratch of operator {allocation.first - 1}"
    else:
        name = model.tensors[allocation.tensor].name
        what = f"tensor {allocation.tensor} {name[:_LONGEST_NAME]}{'…' * (len(name) > _LONGEST_NAME)}"
    return f"{what}: {allocation.size:,} bytes at {allocation.offset:,}"


def to_text(model: Model, plan: ArenaPlan, rows: int = ROWS) -> str:
    """Draw a plan: operators from left to right, offsets upwards, in each field a tensor."""
    summary, model = summarize(plan), flat(model)
    lines = [*_grid(model, plan, rows), ""]
    lines.append(f"peak         {summary.head:,} bytes")
    lines.append(f"lower bound  {summary.lower_bound:,} bytes, at {step_name(model, summary.fullest_step)}")
    lines += [f"             {describe_buffer(model, each)}" for each in summary.fullest]
    lines.append("at the peak")
    lines += [f"             {describe_buffer(model, each)}" for each in summary.highest]
    return "\n".join(lines) + "\n"


def step_name(model: Model, step: int) -> str:
    return "the input" if step < 1 else f"operator {step - 1} ({model.operators[step - 1].name})"


def _grid(model: Model, plan: ArenaPlan, rows: int) -> list[str]:
    width = max(len(str(len(model.tensors))), len(str(len(model.operators))), 2) + 1
    steps = len(model.operators) + 1
    grid = [["."] * steps for _ in range(rows)]
    for each in plan.allocations:
        label = "s" if each.tensor >= len(model.tensors) else str(each.tensor)
        for row in _rows(each, plan.head, rows):
            for step in range(max(each.first, 0), each.last + 1):
                grid[row][step] = label
    lines = [
        f"{plan.head * (row + 1) // rows:>11,} " + "".join(f"{cell:>{width}}" for cell in grid[row])
        for row in reversed(range(rows))
    ]
    numbers = "".join(f"{name:>{width}}" for name in ("in", *range(steps - 1)))
    return [*lines, f"{'operator':>11} {numbers}"]


def _rows(allocation: Allocation, head: int, rows: int) -> range:
    """Return the lines whose middle a buffer covers, at least one line."""
    first = (2 * rows * allocation.offset + head) // (2 * head)
    last = (2 * rows * (allocation.offset + allocation.size) + head) // (2 * head)
    return range(min(first, rows - 1), max(last, min(first, rows - 1) + 1))


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels from the upper left corner, ends not included."""

    left: float
    top: float
    right: float
    bottom: float
    color: str
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn, in pixels."""

    width: int
    height: int
    title: str
    boxes: tuple[Box, ...]
    head: float
    """Height of the line at the head."""
    bound: float
    """Height of the line at the lower bound."""
    steps: tuple[tuple[float, str], ...]
    """Middle and name of each column."""
    offsets: tuple[tuple[float, str], ...]
    """Height and text of each mark on the axis of offsets."""
    legend: tuple[tuple[float, str, str, bool], ...]
    """Left end, color and text of each sign, and whether it is a line."""


def picture(model: Model, plan: ArenaPlan, height: int = HEIGHT) -> Picture:
    model = flat(model)
    scale = height / max(plan.head, 1)
    bottom = _TOP + height
    summary = summarize(plan)
    names = ("input", *(f"{operator.index} {operator.name}" for operator in model.operators))
    boxes = tuple(
        Box(
            _MARGIN + _STEP * max(each.first, 0),
            bottom - scale * (each.offset + each.size),
            _MARGIN + _STEP * (each.last + 1),
            bottom - scale * each.offset,
            _SCRATCH_COLOR if each.tensor >= len(model.tensors) else _COLORS[each.tensor % len(_COLORS)],
            "scratch" if each.tensor >= len(model.tensors) else str(each.tensor),
            describe_buffer(model, each),
        )
        for each in plan.allocations
        if each.last >= 0
    )
    marks = _axis(plan.head)
    return Picture(
        max(2 * _MARGIN + _STEP * len(names), _NARROWEST),
        bottom + _NAMES,
        "Arena: bytes upwards, operators from left to right in the order of execution",
        boxes,
        bottom - scale * plan.head,
        bottom - scale * summary.lower_bound,
        tuple((_MARGIN + _STEP * (number + 0.5), name) for number, name in enumerate(names)),
        tuple((bottom - scale * mark, f"{mark:,}") for mark in marks),
        (
            (_MARGIN, _HEAD_COLOR, f"peak, {plan.head:,} bytes", True),
            (_MARGIN + 150, _BOUND_COLOR, f"lower bound, {summary.lower_bound:,} bytes", True),
            (_MARGIN + 330, _COLORS[0], "tensor, with its number", False),
            (_MARGIN + 510, _SCRATCH_COLOR, "scratch", False),
        ),
    )


def _axis(head: int) -> list[int]:
    """Return four to ten round offsets from 0 on, a power of two apart."""
    step = 1
    while head / step > 8:
        step *= 2
    return list(range(0, head + 1, step))


def to_svg(drawing: Picture) -> str:
    return render(
        __package__,
        "arena.svg.j2",
        drawing=drawing,
        bottom=drawing.height - _NAMES,
        margin=_MARGIN,
        font=_FONT,
        top=_TOP,
        legend=_LEGEND,
        line_color=_LINE_COLOR,
        lines=((drawing.head, _HEAD_COLOR), (drawing.bound, _BOUND_COLOR)),
    )


def to_png(drawing: Picture) -> bytes:
    """Draw as PNG with Pillow. Raises ModuleNotFoundError, NetworkError for more operators than pixels."""
    from PIL import Image, ImageDraw

    if drawing.width > _WIDEST_IMAGE:
        raise NetworkError(f"{len(drawing.steps):,} operators are too many for a PNG: draw an SVG")
    image = Image.new("RGB", (drawing.width, drawing.height), "#ffffff")
    draw = ImageDraw.Draw(image)
    draw.text((_MARGIN, 8), drawing.title, fill="#000000")
    for left, color, text, is_line in drawing.legend:
        half = 1 if is_line else 5
        draw.rectangle((left, _LEGEND - half, left + 16, _LEGEND + half), fill=color)
        draw.text((left + 22, _LEGEND - _FONT // 2 - 1), text, fill="#000000")
    base = drawing.height - _NAMES
    draw.line((_MARGIN, _TOP, _MARGIN, base), fill=_LINE_COLOR)
    draw.line((_MARGIN, base, drawing.width - _MARGIN, base), fill=_LINE_COLOR)
    for height, text in drawing.offsets:
        draw.line((_MARGIN - 4, height, _MARGIN, height), fill=_LINE_COLOR)
        draw.text((_MARGIN - 8, height), text, fill="#000000", anchor="rm")
    for box in drawing.boxes:
        top = min(box.top, box.bottom - 1)
        draw.rectangle((box.left, top, box.right, box.bottom), fill=box.color, outline=_LINE_COLOR)
        draw.text((box.left + 3, box.bottom - _FONT - 3), box.label, fill="#000000")
    right = drawing.width - _MARGIN
    for height, color in ((drawing.head, _HEAD_COLOR), (drawing.bound, _BOUND_COLOR)):
        draw.line((_MARGIN, height, right, height), fill=color)
    bottom = drawing.height - _NAMES
    for middle, name in drawing.steps:
        label = Image.new("RGB", (_NAMES, _FONT + 3), "#ffffff")
        ImageDraw.Draw(label).text((0, 0), name, fill="#000000")
        image.paste(label.rotate(-90, expand=True), (int(middle) - _FONT // 2, bottom + 4))
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()
