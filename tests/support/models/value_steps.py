"""Steps of random networks that compute with int8 values, and those that put out another type beside them."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.model import Padding, TensorType
from aisrv.model.values import Quantization, Tensor
from tests.support.models import float_steps
from tests.support.models.int16_models import Draw
from tests.support.models.network_recipe import LARGEST, Recipe, quantization
from tests.support.models.one_operator import constant

Step = Callable[[Recipe], None]

_LARGEST_PRODUCT: Final = 2000
"""Elements of each matrix."""
_GATES: Final = 4
_TANH: Final = 4


def _weights(recipe: Recipe, shape: tuple[int, ...], scale: float, dtype: Any = np.int8) -> Tensor:
    """A constant of random values, not all of them small."""
    random = np.random.default_rng(recipe.chance.randint(0, 1 << 32))
    reach = 127 if dtype is np.int8 else 1000
    values = random.integers(-reach, reach + 1, shape)
    return recipe.fixed(constant("weights", values, dtype, Quantization.per_tensor(float32(scale), 0)))


def _biases(recipe: Recipe, count: int, scale: float) -> Tensor:
    values = [recipe.chance.randint(-3000, 3000) for _ in range(count)]
    return recipe.fixed(constant("bias", values, np.int32, Quantization.per_tensor(float32(scale), 0)))


def _flat(recipe: Recipe, shape: tuple[int, ...]) -> Tensor:
    """The last tensor in another shape."""
    source = recipe.last
    if source.shape != shape:
        fixed = recipe.fixed(constant("shape", shape))
        recipe.apply(BuiltinOperator.RESHAPE, [source, fixed], recipe.like(source, shape))
    return recipe.last


# Layers.


def _transpose_conv(recipe: Recipe) -> None:
    source, pick = recipe.last, recipe.chance.randint
    if len(source.shape) != 4:
        return
    batch, height, width, channels = source.shape
    taps, strides, filters = (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2)), pick(1, 4)
    padding = recipe.chance.choice((Padding.SAME, Padding.VALID))
    sizes = [
        size * stride if padding is Padding.SAME else (size - 1) * stride + max(tap, stride)
        for size, tap, stride in zip((height, width), taps, strides, strict=True)
    ]
    if padding is Padding.VALID and any(tap < stride for tap, stride in zip(taps, strides, strict=True)):
        return
    shape = (batch, *sizes, filters)
    if math.prod(shape) > LARGEST:
        return
    scale, weights = quantization(source).scale, (filters, *taps, channels)
    if recipe.type is TensorType.FLOAT32:
        layer = float_steps.layer(recipe, weights, 0, channels)
    else:
        layer = Draw(pick(0, 1 << 32), recipe.type).layer(weights, 0, scale, channels)
        if recipe.type is TensorType.INT16:
            layer = [each for each in layer if each.type is not TensorType.INT32]
        layer = [recipe.fixed(each) for each in layer]
    output = recipe.activation(shape, scale * 2.0**-8 * 60 * math.sqrt(channels * math.prod(taps)))
    options = {"padding": padding.value, "stride_h": strides[0], "stride_w": strides[1]}
    told = recipe.fixed(constant("shape", shape))
    recipe.apply(BuiltinOperator.TRANSPOSE_CONV, [told, layer[0], source, *layer[1:]], output, options)


def _batch_matmul(recipe: Recipe) -> None:
    """The last tensor by itself, one of the two transposed."""
    source = recipe.last
    rows, columns = source.shape[-2:]
    adjoint = recipe.chance.choice(("adj_x", "adj_y"))
    size, depth = (columns, rows) if adjoint == "adj_x" else (rows, columns)
    shape = (*source.shape[:-2], size, size)
    if math.prod(shape) <= _LARGEST_PRODUCT:
        scale = quantization(source).scale ** 2 * 60 * math.sqrt(depth)
        recipe.apply(
            BuiltinOperator.BATCH_MATMUL, [source, source], recipe.activation(shape, scale), {adjoint: 1}
        )


def _svdf(recipe: Recipe) -> None:
    pick, batch = recipe.chance.randint, recipe.last.shape[0]
    size = math.prod(recipe.last.shape[1:])
    source = _flat(recipe, (batch, size))
    units, rank, memory = pick(1, 5), pick(1, 2), pick(1, 4)
    kind, dtype = recipe.chance.choice(((TensorType.INT8, np.int8), (TensorType.INT16, np.int16)))
    features, times = recipe.scale(-9, -6), recipe.scale(-10, -7)
    # Scales with which no state of 8 bits comes to its bounds.
    state_scale = quantization(source).scale * features * math.sqrt(size) * 300
    state = recipe.variable((batch, memory * units * rank), state_scale, 0, kind)
    inputs = [
        source,
        _weights(recipe, (units * rank, size), features),
        _weights(recipe, (units * rank, memory), times, dtype),
        _biases(recipe, units, state_scale * times),
        state,
    ]
    output = recipe.activation((batch, units), state_scale * times * 200)
    recipe.apply(BuiltinOperator.SVDF, inputs, output, {"rank": rank})


def _lstm(recipe: Recipe) -> None:
    pick, batch = recipe.chance.randint, recipe.last.shape[0]
    steps = recipe.last.shape[1] if len(recipe.last.shape) > 2 else 1
    size = math.prod(recipe.last.shape[1:]) // steps
    source = _flat(recipe, (batch, steps, size))
    units = pick(1, 5)
    weights = [_weights(recipe, (units, size), recipe.scale(-9, -6)) for _ in range(_GATES)]
    recurrent = [_weights(recipe, (units, units), recipe.scale(-9, -6)) for _ in range(_GATES)]
    biases = [_biases(recipe, units, 1.0) for _ in range(_GATES)]
    zero = pick(-20, 20)
    hidden = recipe.variable((batch, units), 2.0**-7, zero, TensorType.INT8)
    cells = recipe.variable((batch, units), 2.0 ** -pick(10, 13), 0, TensorType.INT16)
    inputs = [source, *weights, *recurrent, *[None] * 3, *biases, None, None, hidden, cells, *[None] * 4]
    output = recipe.activation((batch, steps, units), 2.0**-7, zero)
    options = {"fused_activation_function": _TANH, "cell_clip": recipe.chance.choice((0.0, 3.0))}
    recipe.apply(BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM, inputs, output, options)


# Elements and dimensions.


def _squared_difference(recipe: Recipe) -> None:
    source = recipe.last
    other = recipe.chance.choice([each for each in recipe.past if each.shape == source.shape])
    scale = max(quantization(source).scale, quantization(other).scale) ** 2 * 100
    recipe.apply(BuiltinOperator.SQUARED_DIFFERENCE, [source, other], recipe.activation(source.shape, scale))


def _extreme(code: int) -> Step:
    def step(recipe: Recipe) -> None:
        recipe.apply(code, [recipe.last, recipe.alike()], recipe.like(recipe.last))

    return step


def _prelu(recipe: Recipe) -> None:
    source = recipe.last
    shape = recipe.chance.choice((source.shape[-1:], (*[1] * (len(source.shape) - 1), source.shape[-1])))
    slopes = _weights(recipe, shape, recipe.scale(-8, -6))
    scale = quantization(source).scale * 2.0 ** recipe.chance.uniform(-1, 1)
    recipe.apply(BuiltinOperator.PRELU, [source, slopes], recipe.activation(source.shape, scale))


def _sum(recipe: Recipe) -> None:
    source = recipe.last
    axis = recipe.chance.randrange(len(source.shape))
    output = recipe.activation(_reduced(source, axis), quantization(source).scale * source.shape[axis])
    axes = recipe.fixed(constant("axes", [axis]))
    recipe.apply(BuiltinOperator.SUM, [source, axes], output, {"keep_dims": 1})


def _reduce_max(recipe: Recipe) -> None:
    source = recipe.last
    axis = recipe.chance.randrange(len(source.shape))
    axes = recipe.fixed(constant("axes", [axis - recipe.chance.choice((0, len(source.shape)))]))
    output = recipe.like(source, _reduced(source, axis))
    recipe.apply(BuiltinOperator.REDUCE_MAX, [source, axes], output, {"keep_dims": 1})


def _reduced(source: Tensor, axis: int) -> tuple[int, ...]:
    return (*source.shape[:axis], 1, *source.shape[axis + 1 :])


# What puts out another type.


def _shape(recipe: Recipe) -> None:
    output = recipe.plain((len(recipe.last.shape),), TensorType.INT32)
    recipe.aside(BuiltinOperator.SHAPE, [recipe.last], [output])


def _cast(recipe: Recipe) -> None:
    kinds = (TensorType.BOOL, TensorType.INT16, TensorType.INT32, TensorType.FLOAT32)
    kind = recipe.chance.choice(kinds)
    output = recipe.plain(recipe.last.shape, kind)
    recipe.aside(BuiltinOperator.CAST, [recipe.last], [output], {"out_data_type": kind.value})


def _dequantize(recipe: Recipe) -> None:
    output = recipe.plain(recipe.last.shape, TensorType.FLOAT32)
    recipe.aside(BuiltinOperator.DEQUANTIZE, [recipe.last], [output])


def _arg_max(recipe: Recipe) -> None:
    source = recipe.last
    axis = recipe.chance.randrange(len(source.shape))
    output = recipe.plain(source.shape[:axis] + source.shape[axis + 1 :], TensorType.INT32)
    place = recipe.fixed(constant("axis", [axis]))
    options = {"output_type": TensorType.INT32.value}
    recipe.aside(BuiltinOperator.ARG_MAX, [source, place], [output], options)


def _compared(recipe: Recipe, code: int) -> Tensor:
    """The last tensor with another one of its shape; TFLM takes scales below 1 alone."""
    source = recipe.last
    others = [each for each in recipe.past if each.shape == source.shape and quantization(each).scale < 1]
    output = recipe.plain(source.shape, TensorType.BOOL)
    recipe.aside(code, [source, recipe.chance.choice(others)], [output])
    return output


def _comparison(code: int) -> Step:
    def step(recipe: Recipe) -> None:
        if quantization(recipe.last).scale < 1:
            _compared(recipe, code)

    return step


def _logical(code: int, inputs: int) -> Step:
    def step(recipe: Recipe) -> None:
        if quantization(recipe.last).scale < 1:
            choices = (BuiltinOperator.LESS, BuiltinOperator.EQUAL, BuiltinOperator.GREATER_EQUAL)
            given = [_compared(recipe, recipe.chance.choice(choices)) for _ in range(inputs)]
            recipe.aside(code, given, [recipe.plain(recipe.last.shape, TensorType.BOOL)])

    return step


BOTH: Final[Mapping[str, Step]] = MappingProxyType({"TRANSPOSE_CONV": _transpose_conv, "SUM": _sum})
"""Of int8 and int16, by the operators' names."""

OF_INT8: Final[Mapping[str, Step]] = MappingProxyType(
    {
        "BATCH_MATMUL": _batch_matmul,
        "SVDF": _svdf,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
        "SQUARED_DIFFERENCE": _squared_difference,
        "MINIMUM": _extreme(BuiltinOperator.MINIMUM),
        "MAXIMUM": _extreme(BuiltinOperator.MAXIMUM),
        "PRELU": _prelu,
        "REDUCE_MAX": _reduce_max,
        "SHAPE": _shape,
        "CAST": _cast,
        "DEQUANTIZE": _dequantize,
        "ARG_MAX": _arg_max,
        **{
            name: _comparison(getattr(BuiltinOperator, name))
            for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
        },
        "LOGICAL_AND": _logical(BuiltinOperator.LOGICAL_AND, 2),
        "LOGICAL_OR": _logical(BuiltinOperator.LOGICAL_OR, 2),
        "LOGICAL_NOT": _logical(BuiltinOperator.LOGICAL_NOT, 1),
    }
)
"""Of int8, by the operators' names."""
