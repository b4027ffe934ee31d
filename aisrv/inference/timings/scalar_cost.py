"""Costs that grow with one number, by a law or as an estimate."""

import math
from typing import Final

from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import NO_LINES, Basis, Conditions, Cost, Lines
from aisrv.inference.timings.laws import VECTOR, Scalar
from aisrv.inference.timings.operator_tensors import OperatorTensors

_NO_STEPS: Final = 0.0


def scalar(
    law: Scalar, units: float, node: OperatorTensors, conditions: Conditions, *, steps: float = _NO_STEPS
) -> Cost:
    """Return the cost of `units` by a law; `steps` are those of a reference kernel's innermost loop."""
    return Cost(
        law.fixed + law.per_unit * units,
        law.basis,
        law.band,
        law.source,
        lines=other_lines(node, conditions, steps=steps),
    )


def other_lines(node: OperatorTensors, conditions: Conditions, *, steps: float = _NO_STEPS) -> Lines:
    """Return the lines of external memory of an operator that is no convolution."""
    lines = NO_LINES
    if conditions.external_arena:
        name = node.operator.name
        of_step = laws.ARENA_STEP.get(name, laws.ARENA_OTHER_STEP)
        count = laws.ARENA_OPERATOR + laws.ARENA_MOVED_LINE * node.moved_bytes / VECTOR + of_step * steps
        if name == "SHAPE":
            count = laws.ARENA_SHAPE
        lines = Lines.within(count, laws.ARENA_BAND)
    if conditions.external_parameters:
        constants = sum(each.nbytes for each in node.inputs if each is not None and each.is_constant)
        lines = lines.plus(Lines.within(constants / VECTOR, laws.ESTIMATE_BAND))
    return lines


def carried(law: Scalar, units: float, node: OperatorTensors, conditions: Conditions) -> Cost:
    """Return the cost of `units` by a law of 2022, with a wider band for code of later years."""
    later = law._replace(basis=Basis.CARRIED, band=laws.REFERENCE_BAND)
    return scalar(law if conditions.generation.is_early else later, units, node, conditions)


def moving_bytes(node: OperatorTensors, conditions: Conditions) -> Cost:
    """Estimate the cost of an operator without a published figure."""
    return scalar(laws.MOVE, node.moved_bytes, node, conditions)


def moving_pieces(pieces: int, node: OperatorTensors, conditions: Conditions) -> Cost:
    """Estimate the cost of an operator that copies so many pieces."""
    return scalar(laws.MOVE, node.moved_bytes + laws.COPY / laws.MOVE.per_unit * pieces, node, conditions)


def pieces_of(node: OperatorTensors) -> int:
    """Pieces that lie together in the larger of an operator's first input and output, and make the other."""
    data, output = node.input(0), node.output
    if data is None or output is None:
        return 1
    smaller, larger = sorted((data.shape, output.shape), key=math.prod)
    if len(smaller) != len(larger):
        return 1
    outer = len(smaller)
    while outer and smaller[outer - 1] == larger[outer - 1]:
        outer -= 1
    return math.prod(smaller[: max(outer - 1, 0)])


def steps_of(law: Scalar, count: float, node: OperatorTensors, conditions: Conditions) -> Cost:
    """Return the cost of `count` steps of a reference kernel."""
    return scalar(law, count, node, conditions, steps=count)


def as_estimate(cost: Cost | None, source: str) -> Cost | None:
    """Return the same slots, as an estimate."""
    if cost is None:
        return None
    return Cost(
        cost.slots,
        Basis.ESTIMATE,
        laws.ESTIMATE_BAND,
        source,
        form=cost.form,
        shared=cost.shared,
        image=cost.image,
        layer_slots=cost.layer_slots,
        before=cost.before,
        lines=cost.lines,
    )
