"""A plan as text: a picture of characters, the peak, and the buffers that make it."""

from typing import Final

from aisrv.analysis.arena_drawing import describe_buffer
from aisrv.kernels.graph.plan import summarize
from aisrv.model import Model
from aisrv.model.arena_plan import Allocation, ArenaPlan

ROWS: Final = 24
"""Lines of the picture, each a share of the arena."""


def to_text(model: Model, plan: ArenaPlan, rows: int = ROWS) -> str:
    """Draw a plan: operators from left to right, offsets upwards, in each field a tensor."""
    summary = summarize(plan)
    lines = [*_grid(model, plan, rows), ""]
    lines.append(f"peak         {summary.head:,} bytes")
    lines.append(f"lower bound  {summary.lower_bound:,} bytes, at {step_name(model, summary.fullest_step)}")
    lines += [f"             {describe_buffer(model, each)}" for each in summary.fullest]
    lines.append("at the peak")
    lines += [f"             {describe_buffer(model, each)}" for each in summary.highest]
    return "\n".join(lines) + "\n"


def step_name(model: Model, step: int) -> str:
    """Name a step as in Allocation."""
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
    """The lines whose middle a buffer covers, one line where it covers none."""
    first = (2 * rows * allocation.offset + head) // (2 * head)
    last = (2 * rows * (allocation.offset + allocation.size) + head) // (2 * head)
    return range(min(first, rows - 1), max(last, min(first, rows - 1) + 1))
