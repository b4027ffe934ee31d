"""Operators as values for tests: parameters with their code, run by a backend or by TensorFlow Lite Micro."""

import math
import random
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.addons.kernels.backend import KernelBackend, float32_kernels, int16_kernels
from aisrv.addons.kernels.params import (
    Conv2dParams,
    DepthwiseConv2dParams,
    ElementwiseAddParams,
    FullyConnectedParams,
    FusedActivation,
    MulParams,
    PerChannelQuantParam,
    PoolParams,
    QuantParam,
    SoftmaxParams,
)
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding
from tests.support.models.operator_models import operator_model

METHODS: Final = {
    BuiltinOperator.CONV_2D: "conv2d",
    BuiltinOperator.DEPTHWISE_CONV_2D: "depthwise_conv2d",
    BuiltinOperator.FULLY_CONNECTED: "fully_connected",
    BuiltinOperator.AVERAGE_POOL_2D: "avg_pool",
    BuiltinOperator.MAX_POOL_2D: "max_pool",
    BuiltinOperator.SOFTMAX: "softmax",
    BuiltinOperator.ADD: "add",
    BuiltinOperator.MUL: "mul",
}
"""The backend's method for each operator."""

FLOAT32_METHODS: Final = METHODS | {
    BuiltinOperator.SUB: "sub",
    BuiltinOperator.MEAN: "mean",
    BuiltinOperator.LOGISTIC: "logistic",
    BuiltinOperator.TANH: "tanh",
}
"""The same of kernels of float32."""

ARENA_BYTES: Final = 1 << 18

ACTIVATIONS: Final = (
    FusedActivation.NONE,
    FusedActivation.RELU,
    FusedActivation.RELU6,
    FusedActivation.RELU_N1_TO_1,
)


@dataclass(frozen=True)
class Case:
    """One operator: its code in a file, and its parameters."""

    code: int
    params: Any

    def run(self, backend: KernelBackend) -> list[Any]:
        """The output of a backend, prepared and invoked once, into a buffer of its own."""
        form = self.params.output.format
        output = memoryview(array(form, [0x55] * len(self.params.output)))
        kernels = {"h": int16_kernels, "f": float32_kernels}.get(form, lambda same: same)(backend)
        getattr(kernels, FLOAT32_METHODS[self.code])(replace(self.params, output=output))()
        return output.tolist()

    def run_tflm(self) -> list[Any]:
        """The output of TensorFlow Lite Micro for a model of this operator alone."""
        from tflite_micro.python.tflite_micro import runtime

        model = operator_model(self.code, self.params)
        interpreter = runtime.Interpreter.from_bytes(bytes(model), arena_size=ARENA_BYTES)
        shapes = {tensor.name: tensor.shape for tensor in model.tensors}
        for index, name in enumerate(model.inputs):
            buffer = getattr(self.params, name)
            data = np.frombuffer(buffer, buffer.format).reshape(shapes[name])
            interpreter.set_input(data, index)
        interpreter.invoke()
        found: list[Any] = interpreter.get_output(0).ravel().tolist()
        return found


def values(numbers: Iterable[int]) -> memoryview:
    """A writable buffer of signed bytes."""
    return memoryview(array("b", numbers))


def words(numbers: Iterable[int]) -> memoryview:
    """A read-only buffer of signed words."""
    return memoryview(array("i", numbers)).toreadonly()


# Random operators: shapes are small, so that plain loops are fast; sums mostly land inside of int8.


class Draw:
    """Random parameters, the same for one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def data(self, count: int) -> memoryview:
        """Bytes with more extremes than chance would have."""
        chance, bits = self.random.random, self.random.getrandbits
        return values((-128, 127)[bits(1)] if chance() < 0.1 else bits(8) - 128 for _ in range(count))

    def quant(self) -> QuantParam:
        """A scale from 2**-9 to 2**0 and a zero point, often at an end."""
        zero_point = self.random.choice((-128, 0, 127, self.random.randint(-128, 127)))
        return QuantParam(float32(2.0 ** self.random.uniform(-9, 0)), zero_point)

    def activation(self) -> FusedActivation:
        return self.random.choice(ACTIVATIONS)

    def factor(self, additions: int) -> float:
        """A real multiplier for sums of so many products: in range, or at times far too small or large."""
        if self.random.random() < 0.1:
            return math.exp2(self.random.choice((-40, -33, -32, -31.5, -20, 0, 0.7, 3)))
        return math.exp2(self.random.uniform(-9, -4)) / math.sqrt(additions)

    def convolution(self, depthwise: bool) -> Case:
        """CONV_2D or DEPTHWISE_CONV_2D, within (mostly) 200 outputs of up to 50 products each."""
        pick = self.random.randint
        padding = self.random.choice((Padding.SAME, Padding.VALID))
        taps, strides, dilations = (
            (pick(1, 4), pick(1, 4)),
            (pick(1, 3), pick(1, 3)),
            (pick(1, 3), pick(1, 3)),
        )
        smallest = [
            1 if padding is Padding.SAME else (t - 1) * d + 1 for t, d in zip(taps, dilations, strict=True)
        ]
        sizes = [low + pick(0, 5) for low in smallest]
        channels, multiplier = pick(1, 3), pick(1, 3)
        out_channels = channels * multiplier if depthwise else pick(1, 3)
        weights_shape = (1, *taps, out_channels) if depthwise else (out_channels, *taps, channels)
        outputs = [
            window(size, tap, stride, dilation, padding).outputs
            for size, tap, stride, dilation in zip(sizes, taps, strides, dilations, strict=True)
        ]
        batch = pick(1, 2)
        input_quant, output_quant = self.quant(), self.quant()
        per_channel, weights_quant = self._weights_quant(
            input_quant, output_quant, out_channels, math.prod(taps) * channels, 3 if depthwise else 0
        )
        common: dict[str, Any] = {
            "input": self.data(batch * math.prod(sizes) * channels),
            "input_shape": (batch, *sizes, channels),
            "input_quant": input_quant,
            "weights": self.data(math.prod(weights_shape)).toreadonly(),
            "weights_shape": weights_shape,
            "weights_quant": weights_quant,
            "weights_per_channel_quant": per_channel,
            "bias": self._bias(out_channels),
            "output": values([0] * (batch * math.prod(outputs) * out_channels)),
            "output_shape": (batch, *outputs, out_channels),
            "output_quant": output_quant,
            "stride_h": strides[0],
            "stride_w": strides[1],
            "dilation_h_factor": dilations[0],
            "dilation_w_factor": dilations[1],
            "padding": padding,
            "activation": self.activation(),
        }
        if depthwise:
            code = BuiltinOperator.DEPTHWISE_CONV_2D
            return Case(code, DepthwiseConv2dParams(**common, depth_multiplier=multiplier))
        return Case(BuiltinOperator.CONV_2D, Conv2dParams(**common))

    def fully_connected(self) -> Case:
        """FULLY_CONNECTED; per tensor with a zero point of the weights, or per channel without."""
        batch, inputs, outputs = (self.random.randint(1, top) for top in (4, 30, 20))
        input_quant, output_quant = self.quant(), self.quant()
        per_channel, weights_quant = self._weights_quant(input_quant, output_quant, outputs, inputs, 0)
        if per_channel is None:
            weights_quant = replace(weights_quant, zero_point=self.random.choice((0, -128, 5, 127)))
        return Case(
            BuiltinOperator.FULLY_CONNECTED,
            FullyConnectedParams(
                self.data(batch * inputs),
                input_quant,
                self.data(outputs * inputs).toreadonly(),
                (outputs, inputs),
                weights_quant,
                per_channel,
                self._bias(outputs),
                values([0] * (batch * outputs)),
                outputs,
                output_quant,
                self.activation(),
            ),
        )

    def pool(self, code: int) -> Case:
        """AVERAGE_POOL_2D or MAX_POOL_2D."""
        pick = self.random.randint
        padding = self.random.choice((Padding.SAME, Padding.VALID))
        taps, strides = (pick(1, 5), pick(1, 5)), (pick(1, 3), pick(1, 3))
        sizes = [(1 if padding is Padding.SAME else tap) + pick(0, 6) for tap in taps]
        outputs = [window(*each, 1, padding).outputs for each in zip(sizes, taps, strides, strict=True)]
        batch, channels, quant = pick(1, 2), pick(1, 4), self.quant()
        return Case(
            code,
            PoolParams(
                self.data(batch * math.prod(sizes) * channels),
                (batch, sizes[0], sizes[1], channels),
                quant,
                values([0] * (batch * math.prod(outputs) * channels)),
                (batch, outputs[0], outputs[1], channels),
                quant,
                stride_h=strides[0],
                stride_w=strides[1],
                filter_h=taps[0],
                filter_w=taps[1],
                padding=padding,
                activation=self.activation(),
            ),
        )

    def softmax(self) -> Case:
        """SOFTMAX over rows of up to 40 classes, from flat to sharp."""
        batch, classes = self.random.randint(1, 4), self.random.randint(1, 40)
        scale = float32(2.0 ** self.random.uniform(-20, 4))
        return Case(
            BuiltinOperator.SOFTMAX,
            SoftmaxParams(
                self.data(batch * classes),
                (batch, classes),
                QuantParam(scale, self.random.randint(-128, 127)),
                values([0] * (batch * classes)),
                QuantParam(1 / 256, -128),
                beta=self.random.choice((1.0, 0.5, float32(1.7))),
            ),
        )

    def add(self) -> Case:
        """ADD."""
        count = self.random.randint(1, 60)
        quants = self.quant(), self.quant(), self.quant()
        return Case(
            BuiltinOperator.ADD,
            ElementwiseAddParams(
                self.data(count),
                quants[0],
                self.data(count),
                quants[1],
                values([0] * count),
                replace(quants[2], scale=float32(self._near(quants[0].scale + quants[1].scale))),
                self.activation(),
            ),
        )

    def mul(self) -> Case:
        """MUL of two inputs of one length, or of one with a channel's values on either side."""
        channels, rows = self.random.randint(1, 8), self.random.randint(1, 8)
        lengths = self.random.choice(
            ((rows * channels, rows * channels), (rows * channels, channels), (channels, rows * channels))
        )
        quants = self.quant(), self.quant(), self.quant()
        return Case(
            BuiltinOperator.MUL,
            MulParams(
                self.data(lengths[0]),
                quants[0],
                self.data(lengths[1]),
                quants[1],
                values([0] * max(lengths)),
                replace(quants[2], scale=float32(self._near(60 * quants[0].scale * quants[1].scale))),
                self.activation(),
            ),
        )

    def case(self, code: int) -> Case:
        """Any of the operators, by its code."""
        match code:
            case BuiltinOperator.CONV_2D | BuiltinOperator.DEPTHWISE_CONV_2D:
                return self.convolution(code == BuiltinOperator.DEPTHWISE_CONV_2D)
            case BuiltinOperator.AVERAGE_POOL_2D | BuiltinOperator.MAX_POOL_2D:
                return self.pool(code)
        case: Case = getattr(self, METHODS[code])()
        return case

    def wide(self, code: int) -> Case:
        """About 2,000 outputs of few, small products, with factors that make ties of their sums frequent."""
        if code in (BuiltinOperator.ADD, BuiltinOperator.MUL):
            return self._wide_elementwise(code)
        narrow = self.case(code)
        unit, activation = QuantParam(1.0, self.random.randint(-20, 20)), FusedActivation.NONE
        scales = tuple(float32(math.exp2(-self.random.uniform(1.5, 4))) for _ in range(8))
        weights = values(self.random.randint(-3, 3) or 1 for _ in range(16)).toreadonly()
        common: dict[str, Any] = {
            "input": self.data(512),
            "input_quant": unit,
            "output": values([0] * 2048),
            "output_quant": unit,
            "activation": activation,
            "bias": words(self.random.randint(-50, 50) for _ in range(8)),
        }
        if code == BuiltinOperator.FULLY_CONNECTED:
            per_channel = PerChannelQuantParam(scales, (0,) * 8, 0)
            shape: dict[str, Any] = {"weights": weights, "weights_shape": (8, 2), "output_depth": 8}
            shape["weights_per_channel_quant"] = per_channel
            return Case(code, replace(narrow.params, **common, **shape))
        depthwise = code == BuiltinOperator.DEPTHWISE_CONV_2D
        shape = {
            "input_shape": (1, 16, 16, 2),
            "output_shape": (1, 16, 16, 8),
            "weights": weights[:8] if depthwise else weights,
            "weights_shape": (1, 1, 1, 8) if depthwise else (8, 1, 1, 2),
            "weights_per_channel_quant": PerChannelQuantParam(scales, (0,) * 8, 3 if depthwise else 0),
            "stride_w": 1,
            "stride_h": 1,
        }
        if depthwise:
            shape["depth_multiplier"] = 4
        return Case(code, replace(narrow.params, **common, **shape))

    def _wide_elementwise(self, code: int) -> Case:
        if code == BuiltinOperator.ADD:
            # A quarter of each sum, exactly, or so little less that only the rounding of products hides it.
            quants = (QuantParam(0.25, 4),) * 2
            scale = self.random.choice((1.0, 1 + 2.0**-23))
        else:
            quants = self.quant(), self.quant()
            scale = quants[0].scale * quants[1].scale * math.exp2(self.random.uniform(7, 8))
        params = (ElementwiseAddParams if code == BuiltinOperator.ADD else MulParams)(
            self.data(2000),
            quants[0],
            self.data(2000),
            quants[1],
            values([0] * 2000),
            QuantParam(float32(scale), 3),
            FusedActivation.NONE,
        )
        return Case(code, params)

    def _near(self, scale: float) -> float:
        return scale * math.exp2(self.random.uniform(-2, 2))

    def _bias(self, channels: int) -> memoryview | None:
        if self.random.random() < 0.25:
            return None
        return words(self.random.randint(-20_000, 20_000) for _ in range(channels))

    def _weights_quant(
        self, source: QuantParam, target: QuantParam, channels: int, additions: int, dimension: int
    ) -> tuple[PerChannelQuantParam | None, QuantParam]:
        def scale() -> float:
            return float32(self.factor(additions) * target.scale / source.scale)

        if self.random.random() < 0.25:
            return None, QuantParam(scale(), 0)
        scales = tuple(scale() for _ in range(channels))
        return PerChannelQuantParam(scales, (0,) * channels, dimension), QuantParam(scales[0], 0)
