"""Two runs tensor by tensor: where in a model two engines, or two files of a model, part."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.against import sqnr_db
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.request import Loaded, Request
from aisrv.addons.evaluate.running.device_run import example_rows
from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.predict.engine_comparison import Tensors
from aisrv.addons.predict.engine_process import run_each_apart
from aisrv.model import Model, Operator
from aisrv.model.dtypes import DTYPES

Floats = npt.NDArray[np.float64]

EXAMPLES: Final = 32
"""Examples that tensors are compared on: each takes a process of both engines."""


class TensorPair(NamedTuple):
    """One tensor of a model and its counterpart: the index in each, and the operator that writes it."""

    operator: Operator
    one: int
    other: int


def pairs(one: Model, other: Model) -> list[TensorPair]:
    """Return the tensors that go together, by name, else by the order of equal operators; EvaluateError.

    `one` and `other` are the models; of the same model each tensor goes with itself.
    """
    if one is other:
        return [
            TensorPair(operator, index, index) for operator in one.operators for index in operator.outputs
        ]
    names = {tensor.name: index for index, tensor in enumerate(other.tensors) if tensor.name}
    written = [(operator, index) for operator in one.operators for index in operator.outputs]
    by_name = [
        TensorPair(operator, index, names[one.tensors[index].name])
        for operator, index in written
        if one.tensors[index].name in names
    ]
    if len(by_name) == len(written):
        return by_name
    kinds = [[operator.name for operator in model.operators] for model in (one, other)]
    if kinds[0] != kinds[1]:
        raise EvaluateError(f"layers do not pair: {len(kinds[0])} and {len(kinds[1])} operators")
    return [
        TensorPair(first, index, second.outputs[place])
        for first, second in zip(one.operators, other.operators, strict=True)
        for place, index in enumerate(first.outputs)
        if place < len(second.outputs)
    ]


def compare_layers(
    request: Request, loaded: Loaded, other_request: Request, other: Loaded, examples: int = EXAMPLES
) -> dict[str, Any]:
    """Return how far each tensor of two runs is apart, summed up over some examples; EvaluateError.

    `loaded` and `other` are the models and data of the two requests, `examples` how many run.
    """
    found = pairs(loaded.model, other.model)
    count = min(examples, len(loaded.data))
    sums: dict[int, _Drift] = {}
    rows = [_tensors(*each, count) for each in ((request, loaded), (other_request, other))]
    for one, second in zip(*rows, strict=True):
        for number, pair in enumerate(found):
            if pair.one in one and pair.other in second:
                values = _values(loaded.model, pair.one, one), _values(other.model, pair.other, second)
                if values[0].shape == values[1].shape:
                    sums.setdefault(number, _Drift()).add(*values)
    return {"examples": count, "tensors": list(_rows(found, sums, loaded.model))}


class _Drift:
    def __init__(self) -> None:
        self.elements = self.differing = 0
        self.largest = self.squares = self.errors = 0.0

    def add(self, one: Floats, other: Floats) -> None:
        distance = np.abs(one - other)
        distance[np.isnan(distance)] = math.inf
        self.elements += one.size
        self.differing += int((distance > 0).sum())
        self.largest = max(self.largest, float(distance.max(initial=0)))
        self.squares += float((one**2).sum())
        self.errors += float((distance**2).sum())


def _rows(found: Sequence[TensorPair], sums: "dict[int, _Drift]", model: Model) -> Iterator[dict[str, Any]]:
    for number, pair in enumerate(found):
        drift = sums.get(number)
        if drift is None:
            continue
        yield {
            "operator": pair.operator.index,
            "name": f"{pair.operator.index} {pair.operator.name}",
            "tensor": model.tensors[pair.one].name,
            "elements": drift.elements,
            "differing": drift.differing,
            "largest": drift.largest,
            "sqnr_db": sqnr_db(drift.squares, drift.errors),
        }


def _values(model: Model, index: int, tensors: Tensors) -> Floats:
    tensor = model.tensors[index]
    elements = np.frombuffer(tensors[index], DTYPES[tensor.type]).astype(np.float64)
    quantization = tensor.quantization
    if quantization is None or quantization.is_per_channel:
        return elements
    return (elements - quantization.zero_point) * quantization.scale


def _tensors(request: Request, loaded: Loaded, count: int) -> list[Tensors]:
    """Return all tensors that an engine shows, of the first examples; of one that fails those of zeros."""
    runs = []
    for _, row, _, failure in example_rows(loaded.data, loaded.preparation, range(count)):
        data = bytes(loaded.preparation.row_bytes) if failure else row
        at, inputs = 0, []
        for spec in loaded.inputs:
            inputs.append(data[at : at + spec.nbytes])
            at += spec.nbytes
        runs.append(inputs)
    try:
        return run_each_apart(request.kind, loaded.file.data, runs)
    except KernelError as error:
        raise EvaluateError(f"--layers: {request.kind}: {error}") from None
