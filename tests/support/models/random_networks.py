"""Random networks of int8 or int16, small enough for plain loops: a few operators one after the other.

A recipe is a list of steps by name, and a seed for everything else: shapes, scales, weights and options. A
step that the last tensor does not allow (a pool of a row of classes) is left out. Outputs of a network are
all that its operators write, or, of every second one, what no operator reads.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding, TensorType
from aisrv.model.values import Tensor
from tests.support.models import control_steps, float_steps, layout_steps, value_steps
from tests.support.models.int16_models import Draw
from tests.support.models.network_recipe import DEEPEST, Recipe, quantization
from tests.support.models.one_operator import constant

_LONGEST: Final = 240
"""Elements of a row that FULLY_CONNECTED reads."""


def _windows(
    recipe: Recipe, most_taps: int, most_dilation: int = 1
) -> tuple[dict[str, Any], list[int], tuple[int, int]] | None:
    """Options, output sizes and taps of windows over the last tensor, of four dimensions; None for others."""
    if len(recipe.last.shape) != 4:
        return None
    pick, sizes = recipe.chance.randint, recipe.last.shape[1:3]
    taps = tuple(pick(1, min(most_taps, size)) for size in sizes)
    strides = pick(1, 2), pick(1, 2)
    padding = recipe.chance.choice((Padding.SAME, Padding.VALID))
    dilations = [
        pick(1, most_dilation) if (taps[i] - 1) * most_dilation < size else 1 for i, size in enumerate(sizes)
    ]
    geometry = zip(sizes, taps, strides, dilations, strict=True)
    found = [window(*each, padding).outputs for each in geometry]
    options = {"padding": padding.value, "stride_h": strides[0], "stride_w": strides[1]}
    if most_dilation > 1:
        options |= {"dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1]}
    return options, found, (taps[0], taps[1])


def _convolution(recipe: Recipe, *, depthwise: bool) -> None:
    found = _windows(recipe, 3, 2)
    if found is None:
        return
    options, sizes, taps = found
    source, chance = recipe.last, recipe.chance
    batch, _, _, channels = source.shape
    multiplier = chance.randint(1, 2) if depthwise and channels <= DEEPEST // 2 else 1
    outputs = channels * multiplier if depthwise else chance.randint(1, DEEPEST)
    shape = (1, *taps, outputs) if depthwise else (outputs, *taps, channels)
    options["fused_activation_function"] = chance.randint(0, 3)
    if depthwise:
        options["depth_multiplier"] = multiplier
    additions = math.prod(taps) * (1 if depthwise else channels)
    layer = _layer(recipe, shape, 3 if depthwise else 0, additions, wide_bias=depthwise)
    output = recipe.activation((batch, *sizes, outputs), _layer_scale(source, additions))
    code = BuiltinOperator.DEPTHWISE_CONV_2D if depthwise else BuiltinOperator.CONV_2D
    recipe.apply(code, [source, *layer], output, options)


def _layer(
    recipe: Recipe, shape: tuple[int, ...], dimension: int, additions: int, *, wide_bias: bool
) -> list[Tensor]:
    """Weights and perhaps a bias; a bias of 32 bits beside int16 where the operator takes one."""
    chance = recipe.chance
    if recipe.type is TensorType.FLOAT32:
        return float_steps.layer(recipe, shape, dimension, additions)
    weights = (
        TensorType.INT4 if recipe.type is TensorType.INT8 and chance.random() < 0.25 else TensorType.INT8
    )
    draw = Draw(chance.randint(0, 1 << 32), recipe.type, weights)
    layer = draw.layer(shape, dimension, quantization(recipe.last).scale, additions)
    if wide_bias and recipe.type is TensorType.INT16:
        layer = [each for each in layer if each.type is not TensorType.INT32]
    return [recipe.fixed(each) for each in layer]


def _layer_scale(source: Tensor, additions: int) -> float:
    """A scale at which sums of so many products mostly fit."""
    return quantization(source).scale * 2.0**-8 * 60 * math.sqrt(additions)


def _fully_connected(recipe: Recipe) -> None:
    source = recipe.last
    if source.shape[0] * math.prod(source.shape[1:]) > _LONGEST:
        return
    inputs = math.prod(source.shape[1:])
    if len(source.shape) != 2:
        flat = recipe.like(source, (source.shape[0], inputs))
        recipe.apply(BuiltinOperator.RESHAPE, [source, recipe.fixed(constant("shape", flat.shape))], flat)
        source = flat
    outputs = recipe.chance.randint(1, 12)
    layer = _layer(recipe, (outputs, inputs), 0, inputs, wide_bias=False)
    output = recipe.activation((source.shape[0], outputs), _layer_scale(source, inputs))
    options = {"fused_activation_function": recipe.chance.randint(0, 3)}
    recipe.apply(BuiltinOperator.FULLY_CONNECTED, [source, *layer], output, options)


def _pool(code: int) -> Callable[[Recipe], None]:
    def step(recipe: Recipe) -> None:
        found = _windows(recipe, 4)
        if found is None:
            return
        options, sizes, taps = found
        source = recipe.last
        options |= {"filter_height": taps[0], "filter_width": taps[1]}
        options["fused_activation_function"] = recipe.chance.randint(0, 3)
        recipe.apply(code, [source], recipe.like(source, (source.shape[0], *sizes, source.shape[3])), options)

    return step


def _combination(code: int) -> Callable[[Recipe], None]:
    """The last tensor with an earlier one of its shape, perhaps itself, or with one value a channel."""

    def step(recipe: Recipe) -> None:
        source, chance = recipe.last, recipe.chance
        other = chance.choice([each for each in recipe.past if each.shape == source.shape])
        if chance.random() < 0.3:
            other = recipe.values(source.shape[-1:], recipe.scale(-6, -3))
        scales = quantization(source).scale, quantization(other).scale
        scale = max(scales) if code != BuiltinOperator.MUL else scales[0] * scales[1] * 50
        if code == BuiltinOperator.MUL and recipe.type is TensorType.INT16:
            scale *= 1 << 7
        output = recipe.activation(source.shape, scale)
        options = {"fused_activation_function": chance.randint(0, 3)}
        recipe.apply(code, [source, other], output, options)

    return step


def _single(code: int, scale: float | None = None, zero_point: int | None = None) -> Callable[[Recipe], None]:
    """An operator from value to value, with the quantization that it asks for, or any."""

    def step(recipe: Recipe) -> None:
        source = recipe.last
        made = quantization(source).scale * 2.0 ** recipe.chance.uniform(-1, 1) if scale is None else scale
        options = (
            {"alpha": float32(recipe.chance.uniform(0, 0.5))} if code == BuiltinOperator.LEAKY_RELU else {}
        )
        recipe.apply(code, [source], recipe.activation(source.shape, made, zero_point), options)

    return step


def _quantize(recipe: Recipe) -> None:
    """From one scale to another, at times by way of int32."""
    if recipe.chance.random() < 0.3:
        source = recipe.last
        wide = recipe.whole(source.shape, quantization(source).scale * 2.0 ** recipe.chance.uniform(-12, 0))
        recipe.aside(BuiltinOperator.QUANTIZE, [source], [wide])
        output = recipe.activation(source.shape, quantization(source).scale)
        recipe.apply(BuiltinOperator.QUANTIZE, [wide], output)
        return
    _single(BuiltinOperator.QUANTIZE)(recipe)


def _sigmoid(code: int, scale: float, zero_point: int) -> Callable[[Recipe], None]:
    def step(recipe: Recipe) -> None:
        made = 2.0**-15 if recipe.type is TensorType.INT16 else scale
        recipe.apply(code, [recipe.last], recipe.activation(recipe.last.shape, made, zero_point))

    return step


def _softmax(recipe: Recipe) -> None:
    source = recipe.last
    wide = recipe.type is TensorType.INT16
    output = recipe.activation(source.shape, 2.0**-15 if wide else 2.0**-8, -128)
    recipe.apply(BuiltinOperator.SOFTMAX, [source], output, {"beta": recipe.chance.choice((0.5, 1.0, 2.5))})


def _mean(recipe: Recipe) -> None:
    source = recipe.last
    if len(source.shape) != 4:
        return
    output = recipe.activation((source.shape[0], source.shape[3]), quantization(source).scale)
    axes = recipe.fixed(constant("axes", [1, 2]))
    recipe.apply(BuiltinOperator.MEAN, [source, axes], output, {"keep_dims": 0})


_BOTH: Final[Mapping[str, Callable[[Recipe], None]]] = {
    "CONV_2D": lambda recipe: _convolution(recipe, depthwise=False),
    "DEPTHWISE_CONV_2D": lambda recipe: _convolution(recipe, depthwise=True),
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _pool(BuiltinOperator.AVERAGE_POOL_2D),
    "MAX_POOL_2D": _pool(BuiltinOperator.MAX_POOL_2D),
    "ADD": _combination(BuiltinOperator.ADD),
    "MUL": _combination(BuiltinOperator.MUL),
    "LEAKY_RELU": _single(BuiltinOperator.LEAKY_RELU),
    "QUANTIZE": _quantize,
    "SOFTMAX": _softmax,
    "SUB": _combination(BuiltinOperator.SUB),
    "MEAN": _mean,
    "LOGISTIC": _sigmoid(BuiltinOperator.LOGISTIC, 1 / 256, -128),
    "TANH": _sigmoid(BuiltinOperator.TANH, 1 / 128, 0),
    **layout_steps.BOTH,
    **value_steps.BOTH,
    **control_steps.BOTH,
}

STEPS: Final[Mapping[TensorType, Mapping[str, Callable[[Recipe], None]]]] = MappingProxyType(
    {
        TensorType.INT16: _BOTH,
        TensorType.INT8: {
            **_BOTH,
            "HARD_SWISH": _single(BuiltinOperator.HARD_SWISH),
            "RELU": _single(BuiltinOperator.RELU),
            "RELU6": _single(BuiltinOperator.RELU6),
            "ABS": _single(BuiltinOperator.ABS),
            **layout_steps.OF_INT8,
            **value_steps.OF_INT8,
        },
        TensorType.FLOAT32: {
            **{name: step for name, step in _BOTH.items() if name not in ("QUANTIZE", "DEQUANTIZE")},
            **{name: _single(getattr(BuiltinOperator, name)) for name in float_steps.FUNCTIONS},
            **float_steps.STEPS,
            "RESIZE_BILINEAR": layout_steps.OF_INT8["RESIZE_BILINEAR"],
            "BATCH_MATMUL": value_steps.OF_INT8["BATCH_MATMUL"],
        },
    }
)
"""How operators are drawn, by the type of activations and their names."""

NOT_DRAWN: Final = {
    "VAR_HANDLE": "names its variable, which our writer of models cannot",
    "READ_VARIABLE": "reads what VAR_HANDLE names",
    "ASSIGN_VARIABLE": "writes what VAR_HANDLE names",
    "CALL_ONCE": "has variables assigned in another subgraph",
}
"""Operators that no network has, each with the reason."""


def drawn_operators(activations: TensorType) -> list[str]:
    """The operators that networks of such activations are made of."""
    return sorted(STEPS[activations])


def random_network(
    seed: int, activations: TensorType, steps: Sequence[str]
) -> tuple[bytes, npt.NDArray[Any]]:
    """A network of these steps, and an input for it; a copy of its input where none of them fits."""
    recipe = Recipe(seed, activations)
    for step in steps:
        STEPS[activations][step](recipe)
    if recipe.last is recipe.source:
        shape = recipe.fixed(constant("shape", recipe.source.shape))
        recipe.apply(BuiltinOperator.RESHAPE, [recipe.source, shape], recipe.like(recipe.source))
    if activations is TensorType.FLOAT32:
        data = np.random.default_rng(seed).normal(0, 3, recipe.source.shape).astype(np.float32)
    else:
        data = Draw(seed, activations).data(recipe.source.shape)
    return recipe.network(), data


def drawn_network(seed: int) -> tuple[bytes, npt.NDArray[Any]]:
    """A network whose steps follow from the seed, too; one in three is of int16."""
    chance = random.Random(seed)
    activations = TensorType.INT16 if seed % 3 == 0 else TensorType.INT8
    steps = chance.choices(drawn_operators(activations), k=chance.randint(2, 9))
    return random_network(seed, activations, steps)
