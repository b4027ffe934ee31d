"""Random models of one operator with int16 activations, or with weights of 4 bits."""

import math
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding, TensorType
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models.one_operator import constant, packed_int4, single, tensor

Data = npt.NDArray[Any]
Drawn = tuple[bytes, tuple[Data, ...]]
"""A model, and data for its inputs."""


class Draw:
    """Random models, the same for one seed: activations of one type, weights of one type."""

    def __init__(
        self, seed: int, activations: TensorType = TensorType.INT16, weights: TensorType = TensorType.INT8
    ) -> None:
        self.random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._activations = activations
        self._weights = weights

    def data(self, shape: tuple[int, ...]) -> Data:
        """Activations, of which one in ten is an extreme."""
        dtype = np.int16 if self._activations is TensorType.INT16 else np.int8
        ends = np.iinfo(dtype)
        values = self._numbers.integers(ends.min, ends.max + 1, shape)
        extremes = self._numbers.choice([ends.min, ends.max], shape)
        return np.where(self._numbers.random(shape) < 0.1, extremes, values).astype(dtype)

    def activation(self, name: str, shape: tuple[int, ...], scale: float) -> Tensor:
        """A tensor that is given or computed."""
        zero = 0 if self._activations is TensorType.INT16 else self.random.randint(-128, 127)
        return tensor(name, shape, scale, zero, self._activations)

    def scale(self, low: float, high: float) -> float:
        """A scale between two powers of two."""
        return float32(2.0 ** self.random.uniform(low, high))

    def fused(self) -> int:
        return self.random.randint(0, 3)

    def layer(self, shape: tuple[int, ...], dimension: int, source: float, additions: int) -> list[Tensor]:
        """Weights and perhaps a bias; the second entry of the result may be missing."""
        channels = shape[dimension]
        # TFLM refuses FULLY_CONNECTED of 4 bits with a scale for each output.
        one_scale = self._weights is TensorType.INT4 and len(shape) == 2
        per_channel = not one_scale and self.random.random() < 0.7
        scales = [self.scale(-12, -5) for _ in range(channels if per_channel else 1)]
        quant = (
            Quantization.per_channel(scales, dimension)
            if per_channel and channels > 1
            else Quantization.per_tensor(scales[0], 0)
        )
        ends = (-8, 8) if self._weights is TensorType.INT4 else (-127, 128)
        values = self._numbers.integers(*ends, shape).astype(np.int8)
        weights = (
            packed_int4("weights", values, quant)
            if self._weights is TensorType.INT4
            else constant("weights", values, np.int8, quant)
        )
        tensors = [weights]
        kind = self.random.choice(self._biases())
        if kind is not None:
            products = tuple(float32(source * scale) for scale in quant.scales)
            bias_quant = Quantization(products, (0,) * len(products), 0)
            reach = 8 * additions * ends[1] * (1 if self._activations is TensorType.INT8 else 256)
            tensors.append(
                constant("bias", self._numbers.integers(-reach, reach, channels), kind, bias_quant)
            )
        return tensors

    def _biases(self) -> tuple[Any, ...]:
        wide = self._activations is TensorType.INT16
        return (None, np.int32, np.int64) if wide else (None, np.int32, np.int32)

    def convolution(self, depthwise: bool = False) -> Drawn:
        """CONV_2D or DEPTHWISE_CONV_2D."""
        pick = self.random.randint
        padding = self.random.choice((Padding.SAME, Padding.VALID))
        taps, strides, dilations = (
            (pick(1, 3), pick(1, 3)),
            (pick(1, 3), pick(1, 2)),
            (pick(1, 2), pick(1, 2)),
        )
        sizes = [
            (1 if padding is Padding.SAME else (t - 1) * d + 1) + pick(0, 5)
            for t, d in zip(taps, dilations, strict=True)
        ]
        outputs = [
            window(*each, padding).outputs for each in zip(sizes, taps, strides, dilations, strict=True)
        ]
        channels, multiplier, batch = pick(1, 5), pick(1, 3), pick(1, 2)
        out_channels = channels * multiplier if depthwise else pick(1, 5)
        shape = (1, *taps, out_channels) if depthwise else (out_channels, *taps, channels)
        source, additions = self.scale(-12, -6), math.prod(taps) * (1 if depthwise else channels)
        layer = self.layer(shape, 3 if depthwise else 0, source, additions)
        while depthwise and layer[-1].type is TensorType.INT32 and self._activations is TensorType.INT16:
            layer = self.layer(shape, 3, source, additions)  # TFLM reads it as int64
        options = {
            "padding": padding.value,
            "stride_h": strides[0],
            "stride_w": strides[1],
            "dilation_h_factor": dilations[0],
            "dilation_w_factor": dilations[1],
            "fused_activation_function": self.fused(),
        } | ({"depth_multiplier": multiplier} if depthwise else {})
        model = single(
            BuiltinOperator.DEPTHWISE_CONV_2D if depthwise else BuiltinOperator.CONV_2D,
            [self.activation("in", (batch, *sizes, channels), source), *layer],
            [self.activation("out", (batch, *outputs, out_channels), self.scale(-11, -6))],
            options,
        )
        return model, (self.data((batch, *sizes, channels)),)

    def fully_connected(self) -> Drawn:
        """FULLY_CONNECTED."""
        batch, inputs, outputs = (self.random.randint(1, top) for top in (4, 40, 12))
        source = self.scale(-12, -6)
        model = single(
            BuiltinOperator.FULLY_CONNECTED,
            [
                self.activation("in", (batch, inputs), source),
                *self.layer((outputs, inputs), 0, source, inputs),
            ],
            [self.activation("out", (batch, outputs), self.scale(-11, -6))],
            {"fused_activation_function": self.fused()},
        )
        return model, (self.data((batch, inputs)),)

    def elementwise(self, code: int) -> Drawn:
        """ADD, SUB or MUL, of inputs of one shape, or of one that broadcasts."""
        pick = self.random.randint
        whole = (pick(1, 3), pick(1, 4), pick(1, 4), pick(1, 5))
        part = self.random.choice((whole, whole[-1:], (1, *whole[1:]), (whole[0], 1, 1, whole[3])))
        shapes = self.random.choice(((whole, part), (part, whole)))
        first, second = self.scale(-12, -4), self.scale(-12, -4)
        # Of MUL, the largest product fits; of ADD, the larger scale may be cut.
        scale = first * second * 2.0**15 if code == BuiltinOperator.MUL else max(first, second)
        model = single(
            code,
            [self.activation("one", shapes[0], first), self.activation("two", shapes[1], second)],
            [self.activation("out", whole, float32(scale * 2.0 ** self.random.uniform(-3, 2)))],
            {"fused_activation_function": self.fused()},
        )
        return model, (self.data(shapes[0]), self.data(shapes[1]))

    def grouped_convolution(self) -> Drawn:
        """CONV_2D of groups of channels."""
        pick = self.random.randint
        groups, channels, filters, taps = pick(2, 3), pick(1, 3), pick(1, 3), pick(1, 3)
        source, shape = self.scale(-12, -6), (2, 5, 4, groups * channels)
        layer = self.layer((groups * filters, taps, taps, channels), 0, source, taps * taps * channels)
        model = single(
            BuiltinOperator.CONV_2D,
            [self.activation("in", shape, source), *layer],
            [self.activation("out", (2, 5, 4, groups * filters), self.scale(-11, -6))],
            _WINDOWS | {"fused_activation_function": self.fused()},
        )
        return model, (self.data(shape),)

    def transposed_convolution(self) -> Drawn:
        """TRANSPOSE_CONV, whose bias has 64 bits, or 16 in the file."""
        pick = self.random.randint
        channels, filters, taps, stride = pick(1, 4), pick(1, 4), pick(1, 3), pick(1, 2)
        source, shape, out = self.scale(-12, -6), (2, 4, 3, channels), (2, 4 * stride, 3 * stride, filters)
        weights, *bias = self.layer((filters, taps, taps, channels), 0, source, taps * taps * channels)
        kind = self.random.choice((np.int16, np.int64))
        ends = (-(1 << 15), 1 << 15) if kind is np.int16 else (-(1 << 24), 1 << 24)
        values = self._numbers.integers(*ends, filters)
        given = [constant("bias", values, kind, each.quantization) for each in bias]
        model = single(
            BuiltinOperator.TRANSPOSE_CONV,
            [constant("shape", out), weights, self.activation("in", shape, source), *given],
            [self.activation("out", out, self.scale(-11, -6))],
            {
                "padding": 0,
                "stride_h": stride,
                "stride_w": stride,
                "fused_activation_function": self.fused(),
            },
        )
        return model, (self.data(shape),)

    def reduction(self, code: int) -> Drawn:
        """MEAN or SUM, of some dimensions."""
        shape = tuple(self.random.randint(1, 5) for _ in range(4))
        axes = self.random.sample(range(4), self.random.randint(1, 3))
        out = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        model = single(
            code,
            [self.activation("in", shape, self.scale(-12, -6)), constant("axes", axes)],
            [self.activation("out", out, self.scale(-12, -6))],
            {"keep_dims": 1},
        )
        return model, (self.data(shape),)

    def sigmoid(self, code: int) -> Drawn:
        """LOGISTIC or TANH of all values, of any scale and of those that their tables have."""
        scale = self.random.choice((self.scale(-16, 3), 2.0**-12, 2.0**-11))
        shape = (1 << 16,)
        model = single(
            code,
            [self.activation("in", shape, scale)],
            [tensor("out", shape, 1 / 32768, 0, TensorType.INT16)],
        )
        return model, (np.arange(-(1 << 15), 1 << 15).astype(np.int16),)

    def softmax(self) -> Drawn:
        """SOFTMAX, from flat to sharp."""
        shape = (self.random.randint(1, 4), self.random.randint(1, 40))
        model = single(
            BuiltinOperator.SOFTMAX,
            [self.activation("in", shape, self.scale(-20, -8))],
            [tensor("out", shape, 1 / 32768, 0, TensorType.INT16)],
            {"beta": self.random.choice((1.0, 0.5, float32(1.7)))},
        )
        return model, (self.data(shape),)

    def leaky_relu(self) -> Drawn:
        """LEAKY_RELU; its slope may be negative."""
        shape = (self.random.randint(1, 60),)
        model = single(
            BuiltinOperator.LEAKY_RELU,
            [self.activation("in", shape, self.scale(-12, -6))],
            [self.activation("out", shape, self.scale(-12, -6))],
            {"alpha": float32(self.random.choice((0.01, 0.3, 1.0, 1.5, -0.25)))},
        )
        return model, (self.data(shape),)

    def pool(self, code: int) -> Drawn:
        """AVERAGE_POOL_2D or MAX_POOL_2D."""
        pick = self.random.randint
        padding = self.random.choice((Padding.SAME, Padding.VALID))
        taps, strides = (pick(1, 4), pick(1, 4)), (pick(1, 3), pick(1, 3))
        sizes = [(1 if padding is Padding.SAME else tap) + pick(0, 5) for tap in taps]
        outputs = [window(*each, 1, padding).outputs for each in zip(sizes, taps, strides, strict=True)]
        channels, scale = pick(1, 4), self.scale(-12, -6)
        model = single(
            code,
            [self.activation("in", (1, *sizes, channels), scale)],
            [self.activation("out", (1, *outputs, channels), scale)],
            {
                "padding": padding.value,
                "stride_h": strides[0],
                "stride_w": strides[1],
                "filter_height": taps[0],
                "filter_width": taps[1],
                "fused_activation_function": self.fused(),
            },
        )
        return model, (self.data((1, *sizes, channels)),)


def requantizing(draw: Draw, source: TensorType, target: TensorType) -> Drawn:
    """QUANTIZE or DEQUANTIZE from one type to another."""
    shape = (draw.random.randint(1, 50),)
    code = BuiltinOperator.DEQUANTIZE if target is TensorType.FLOAT32 else BuiltinOperator.QUANTIZE

    def end(name: str, kind: TensorType) -> Tensor:
        zero = draw.random.randint(-128, 127) if kind is TensorType.INT8 else 0
        low = -24 if kind is TensorType.INT32 else -12
        made = tensor(name, shape, draw.scale(low, -6), zero, kind)
        if kind is TensorType.INT32:
            zero = draw.random.randint(-1000, 1000) if source is kind else 0
            return replace(made, quantization=Quantization.per_tensor(draw.scale(low, -6), zero))
        return made

    data = Draw(draw.random.randint(0, 1 << 32), source).data(shape)
    if source is TensorType.INT32:
        data = np.random.default_rng(draw.random.randint(0, 1 << 32)).integers(-(1 << 31), 1 << 31, shape)
        data = (data >> draw.random.choice((0, 8, 16))).astype(np.int32)
    given = end("in", source)
    if source is TensorType.FLOAT32:
        # Whole steps, ties and what lies between them; and what no int16 holds.
        out = end("out", target)
        assert out.quantization is not None
        data = (data.astype(np.float32) * np.float32(out.quantization.scale) * 300).astype(np.float32)
        return single(code, [given], [out]), (data,)
    return single(code, [given], [end("out", target)]), (data,)


def softmax_from_int8(seed: int) -> Drawn:
    """SOFTMAX of int8 with an output of int16."""
    draw = Draw(seed, TensorType.INT8)
    shape = (draw.random.randint(1, 4), draw.random.randint(1, 40))
    model = single(
        BuiltinOperator.SOFTMAX,
        [draw.activation("in", shape, draw.scale(-20, 4))],
        [tensor("out", shape, 2.0**-16, -(1 << 15), TensorType.INT16)],
        {"beta": draw.random.choice((1.0, 0.5, float32(1.7)))},
    )
    return model, (draw.data(shape),)


LAYERS: Final[Mapping[str, Callable[[Draw], Drawn]]] = MappingProxyType(
    {
        "CONV_2D": Draw.convolution,
        "DEPTHWISE_CONV_2D": lambda draw: draw.convolution(depthwise=True),
        "FULLY_CONNECTED": Draw.fully_connected,
    }
)
"""Operators with weights."""

OPERATORS: Final[Mapping[str, Callable[[Draw], Drawn]]] = MappingProxyType(
    {
        **LAYERS,
        "ADD": lambda draw: draw.elementwise(BuiltinOperator.ADD),
        "MUL": lambda draw: draw.elementwise(BuiltinOperator.MUL),
        "SOFTMAX": Draw.softmax,
        "LEAKY_RELU": Draw.leaky_relu,
        "AVERAGE_POOL_2D": lambda draw: draw.pool(BuiltinOperator.AVERAGE_POOL_2D),
        "MAX_POOL_2D": lambda draw: draw.pool(BuiltinOperator.MAX_POOL_2D),
        "CONV_2D of groups": Draw.grouped_convolution,
        "TRANSPOSE_CONV": Draw.transposed_convolution,
        "SUB": lambda draw: draw.elementwise(BuiltinOperator.SUB),
        "MEAN": lambda draw: draw.reduction(BuiltinOperator.MEAN),
        "SUM": lambda draw: draw.reduction(BuiltinOperator.SUM),
        "LOGISTIC": lambda draw: draw.sigmoid(BuiltinOperator.LOGISTIC),
        "TANH": lambda draw: draw.sigmoid(BuiltinOperator.TANH),
    }
)
"""Operators that compute with int16 activations."""


# Networks of several operators, one bit pattern for each seed.

_WINDOWS: Final = {"padding": 0, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}


def int16_network(seed: int = 0) -> bytes:
    """Floats [1, 6, 5, 3] to 4 probabilities as floats, through all operators of int16, with a skip."""
    draw = Draw(seed)

    def halfwords(name: str, *shape: int, scale: float = 2.0**-10) -> Tensor:
        return tensor(name, shape, scale, 0, TensorType.INT16)

    def layer(name: str, shape: tuple[int, ...], dimension: int) -> list[Tensor]:
        weights, *bias = draw.layer(shape, dimension, 2.0**-10, math.prod(shape))
        bias = [each for each in bias if each.type is TensorType.INT64]
        return [replace(each, name=f"{name} {each.name}") for each in (weights, *bias)]

    conv, depthwise = layer("conv", (4, 3, 3, 3), 0), layer("depthwise", (1, 3, 3, 4), 3)
    dense = layer("dense", (4, 4), 0)
    gain = constant("gain", [9000, -3000, 100, 32767], np.int16, Quantization.per_tensor(2.0**-12, 0))
    tensors = (
        tensor("picture", (1, 6, 5, 3), kind=TensorType.FLOAT32),
        halfwords("quantized", 1, 6, 5, 3),
        *conv,
        halfwords("first", 1, 6, 5, 4),
        halfwords("leaky", 1, 6, 5, 4),
        *depthwise,
        halfwords("second", 1, 6, 5, 4),
        halfwords("sum", 1, 6, 5, 4, scale=2.0**-9),
        gain,
        halfwords("product", 1, 6, 5, 4, scale=2.0**-8),
        halfwords("largest", 1, 3, 2, 4, scale=2.0**-8),
        halfwords("mean", 1, 1, 1, 4, scale=2.0**-8),
        constant("flat", [1, 4]),
        halfwords("row", 1, 4, scale=2.0**-8),
        *dense,
        halfwords("scores", 1, 4, scale=2.0**-12),
        halfwords("probabilities", 1, 4, scale=2.0**-15),
        tensor("result", (1, 4), kind=TensorType.FLOAT32),
    )
    pool = {"padding": 1, "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    everything = {"padding": 1, "stride_h": 1, "stride_w": 1, "filter_height": 3, "filter_width": 2}
    operators = (
        NetworkOperator(BuiltinOperator.QUANTIZE, ("picture",), ("quantized",)),
        NetworkOperator(BuiltinOperator.CONV_2D, ("quantized", *_names(conv)), ("first",), _WINDOWS),
        NetworkOperator(BuiltinOperator.LEAKY_RELU, ("first",), ("leaky",), {"alpha": 0.25}),
        NetworkOperator(
            BuiltinOperator.DEPTHWISE_CONV_2D,
            ("leaky", *_names(depthwise)),
            ("second",),
            _WINDOWS | {"depth_multiplier": 1},
        ),
        NetworkOperator(BuiltinOperator.ADD, ("first", "second"), ("sum",)),
        NetworkOperator(BuiltinOperator.MUL, ("sum", "gain"), ("product",)),
        NetworkOperator(BuiltinOperator.MAX_POOL_2D, ("product",), ("largest",), pool),
        NetworkOperator(BuiltinOperator.AVERAGE_POOL_2D, ("largest",), ("mean",), everything),
        NetworkOperator(BuiltinOperator.RESHAPE, ("mean", "flat"), ("row",)),
        NetworkOperator(BuiltinOperator.FULLY_CONNECTED, ("row", *_names(dense)), ("scores",)),
        NetworkOperator(BuiltinOperator.SOFTMAX, ("scores",), ("probabilities",), {"beta": 1.0}),
        NetworkOperator(BuiltinOperator.DEQUANTIZE, ("probabilities",), ("result",)),
    )
    return bytes(Network(tensors, operators, ("picture",), ("result",)))


def int4_network(seed: int = 0) -> bytes:
    """Int8 [1, 6, 5, 3] to 5 probabilities, through three layers with weights of 4 bits."""
    draw = Draw(seed, TensorType.INT8, TensorType.INT4)

    def layer(name: str, shape: tuple[int, ...], dimension: int) -> list[Tensor]:
        layers = draw.layer(shape, dimension, 2.0**-6, math.prod(shape))
        return [replace(each, name=f"{name} {each.name}") for each in layers]

    conv, depthwise = layer("conv", (4, 3, 3, 3), 0), layer("depthwise", (1, 3, 3, 4), 3)
    dense = [
        replace(each, quantization=Quantization.per_tensor(scale, 0))
        for each, scale in zip(layer("dense", (5, 120), 0), (2.0**-5, 2.0**-11), strict=False)
    ]
    tensors = (
        tensor("picture", (1, 6, 5, 3), 2.0**-6, 3),
        *conv,
        tensor("first", (1, 6, 5, 4), 2.0**-6, -5),
        *depthwise,
        tensor("second", (1, 6, 5, 4), 2.0**-6, 7),
        *dense,
        tensor("scores", (1, 5), 2.0**-2, 1),
        tensor("probabilities", (1, 5), 2.0**-8, -128),
    )
    operators = (
        NetworkOperator(BuiltinOperator.CONV_2D, ("picture", *_names(conv)), ("first",), _WINDOWS),
        NetworkOperator(
            BuiltinOperator.DEPTHWISE_CONV_2D,
            ("first", *_names(depthwise)),
            ("second",),
            _WINDOWS | {"depth_multiplier": 1},
        ),
        NetworkOperator(BuiltinOperator.FULLY_CONNECTED, ("second", *_names(dense)), ("scores",)),
        NetworkOperator(BuiltinOperator.SOFTMAX, ("scores",), ("probabilities",), {"beta": 1.0}),
    )
    return bytes(Network(tensors, operators, ("picture",), ("probabilities",)))


def _names(tensors: list[Tensor]) -> tuple[str, ...]:
    return tuple(each.name for each in tensors)
