"""Steps of operators that follow from their tensors, whatever a backend would be given for them.

Their inputs may broadcast, or only move. The network has checked shapes, types and quantizations.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from aisrv.addons.kernels.images.dimensions import Dimension, broadcast_dimensions, merged, packed, row_steps
from aisrv.addons.kernels.images.parameters import (
    LARGEST_DIFFERENCE,
    Places,
    Step,
    add,
    check_shift,
    mul,
)
from aisrv.addons.kernels.images.structures import Parameters
from aisrv.addons.kernels.network.network import PreparedOperator
from aisrv.addons.kernels.network.operators.reductions import mean_multiplier
from aisrv.addons.kernels.network.tensors import NetworkTensor
from aisrv.addons.kernels.params import ElementwiseAddParams, ElementwiseParams, FusedActivation, MulParams
from aisrv.model import TensorType
from aisrv.model.relocatable.errors import BuildError

_QUANTIZED: Final = (TensorType.INT8, TensorType.UINT8)


def _copy(operator: PreparedOperator, places: Places) -> Step:
    source, output = operator.inputs[0].buffer, operator.outputs[0].buffer
    return _step("copy", input=places.buffer(source), output=places.buffer(output), length=len(output))


def _elementwise(
    step: Callable[..., Step], kind: type[ElementwiseParams], operator: PreparedOperator, places: Places
) -> Step:
    one, two, output = _int8(*operator.inputs, *operator.outputs)
    params = kind(
        input1=one.elements,
        input1_quant=one.quantization,
        input2=two.elements,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=FusedActivation(operator.operator.options.activation.value),
    )
    return step(params, places, broadcast_dimensions(one.shape, two.shape, output.shape))


def _pad(operator: PreparedOperator, places: Places) -> Step:
    (source, amounts, *value), (output,) = operator.inputs, operator.outputs
    if value:
        raise BuildError(f"fills with {value[0]}, there is a C kernel that fills with zeros")
    size = source.array.itemsize
    to = row_steps(output.shape, size)
    bytes_of = (*source.shape, size)
    found = merged(bytes_of, (*row_steps(source.shape, size), 1), (*to, 1))
    is_run = bool(found) and found[-1][1:] == (1, 1)
    outer, run = (found[:-1], found[-1].extent) if is_run else (found, 1)
    before = amounts.array.reshape(-1, 2)[:, 0].tolist()
    is_quantized = source.tensor.type in _QUANTIZED
    return _step(
        "pad",
        input=places.buffer(source.buffer),
        output=places.buffer(output.buffer),
        dimensions=places.constant(packed(outer)),
        rank=len(outer),
        copies=math.prod(dimension.extent for dimension in outer),
        run=run,
        first=sum(count * step for count, step in zip(before, to, strict=True)),
        length=len(output.buffer),
        fill=output.quantization.zero_point if is_quantized else 0,
    )


def _mean(operator: PreparedOperator, places: Places) -> Step:
    source, output = _int8(operator.inputs[0], *operator.outputs)
    rank = len(source.shape)
    axes = {axis % rank for axis in operator.inputs[1].array.ravel().tolist()}
    all_of_it = [
        Dimension(extent, step, 0) for extent, step in zip(source.shape, row_steps(source.shape), strict=True)
    ]
    kept = [dimension for axis, dimension in enumerate(all_of_it) if axis not in axes]
    reduced = [dimension for axis, dimension in enumerate(all_of_it) if axis in axes]
    count = math.prod(dimension.extent for dimension in reduced)
    multiplier = mean_multiplier(source, output)
    check_shift("the sum", count * LARGEST_DIFFERENCE, multiplier)
    return _step(
        "mean",
        input=places.buffer(source.buffer),
        output=places.buffer(output.buffer),
        kept=places.constant(packed(kept)),
        reduced=places.constant(packed(reduced)),
        kept_rank=len(kept),
        reduced_rank=len(reduced),
        length=len(output.buffer),
        count=count,
        in_zero=source.quantization.zero_point,
        out_zero=output.quantization.zero_point,
        mantissa=multiplier.mantissa,
        shift=multiplier.shift,
    )


TENSOR_STEPS: Final[Mapping[str, Callable[[PreparedOperator, Places], Step]]] = {
    "RESHAPE": _copy,
    "SQUEEZE": _copy,
    "EXPAND_DIMS": _copy,
    "ADD": partial(_elementwise, add, ElementwiseAddParams),
    "MUL": partial(_elementwise, mul, MulParams),
    "PAD": _pad,
    "MEAN": _mean,
}


def _int8(*tensors: NetworkTensor) -> tuple[NetworkTensor, ...]:
    for each in tensors:
        if each.tensor.type is not TensorType.INT8:
            raise BuildError(f"{each} is {each.tensor.type.name}, there are C kernels for INT8")
    return tensors


def _step(kernel: str, **values: int) -> Step:
    """Return the step of a kernel whose structure has its name."""
    return Step(kernel, Parameters.of(kernel, **values), 0)
