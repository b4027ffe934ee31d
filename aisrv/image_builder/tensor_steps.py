"""Steps of operators that follow from their tensors, whatever a backend would be given for them.

Their inputs may broadcast, or only move. The graph has checked shapes, types and quantizations.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from aisrv.image_builder.dimensions import Dimension, broadcast_dimensions, merged, packed, row_steps
from aisrv.image_builder.parameters import (
    LARGEST_DIFFERENCE,
    Places,
    Step,
    broadcast_add,
    broadcast_mul,
    check_shift,
)
from aisrv.image_builder.structures import Copy, Mean, Pad
from aisrv.kernels.graph.graph import GraphOperator
from aisrv.kernels.graph.operators.reductions import mean_multiplier
from aisrv.kernels.graph.tensors import GraphTensor
from aisrv.kernels.params import ElementwiseAddParams, FusedActivation, MulParams
from aisrv.model import TensorType
from aisrv.model.relocatable.errors import BuildError

_QUANTIZED: Final = (TensorType.INT8, TensorType.UINT8)


def _copy(operator: GraphOperator, places: Places) -> Step:
    source, output = operator.inputs[0].buffer, operator.outputs[0].buffer
    return Step("copy", Copy(places.buffer(source), places.buffer(output), len(output)), 0)


def _add(operator: GraphOperator, places: Places) -> Step:
    one, two, output = _int8(*operator.inputs, *operator.outputs)
    params = ElementwiseAddParams(
        input1=one.elements,
        input1_quant=one.quantization,
        input2=two.elements,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=_activation(operator),
    )
    return broadcast_add(params, places, broadcast_dimensions(one.shape, two.shape, output.shape))


def _mul(operator: GraphOperator, places: Places) -> Step:
    one, two, output = _int8(*operator.inputs, *operator.outputs)
    params = MulParams(
        input1=one.elements,
        input1_quant=one.quantization,
        input2=two.elements,
        input2_quant=two.quantization,
        output=output.elements,
        output_quant=output.quantization,
        activation=_activation(operator),
    )
    return broadcast_mul(params, places, broadcast_dimensions(one.shape, two.shape, output.shape))


def _pad(operator: GraphOperator, places: Places) -> Step:
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
    parameters = Pad(
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
    return Step("pad", parameters, 0)


def _mean(operator: GraphOperator, places: Places) -> Step:
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
    parameters = Mean(
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
    return Step("mean", parameters, 0)


TENSOR_STEPS: Final[Mapping[str, Callable[[GraphOperator, Places], Step]]] = {
    "RESHAPE": _copy,
    "SQUEEZE": _copy,
    "EXPAND_DIMS": _copy,
    "ADD": _add,
    "MUL": _mul,
    "PAD": _pad,
    "MEAN": _mean,
}


def _int8(*tensors: GraphTensor) -> tuple[GraphTensor, ...]:
    for each in tensors:
        if each.tensor.type is not TensorType.INT8:
            raise BuildError(f"{each} is {each.tensor.type.name}, there are C kernels for INT8")
    return tensors


def _activation(operator: GraphOperator) -> FusedActivation:
    return FusedActivation(operator.operator.options.activation.value)
