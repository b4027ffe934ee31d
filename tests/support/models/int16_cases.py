"""Random layers of int16 activations as parameters: of all forms, biases and factors.

A fifth of the inputs are extremes, a tenth of the weights -128.
"""

import math
from array import array
from typing import Any

import numpy as np
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.addons.kernels.params import (
    Bias,
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
from tests.support.models.operators import ACTIVATIONS, METHODS, Case


def halves(count: int, chance: np.random.Generator) -> memoryview:
    """So many inputs, a fifth of them extremes."""
    numbers = chance.integers(-(1 << 15), 1 << 15, count)
    at_ends = chance.random(count) < 0.2
    numbers[at_ends] = chance.choice([-(1 << 15), (1 << 15) - 1], at_ends.sum())
    return memoryview(array("h", numbers.tolist()))


def weights(count: int, chance: np.random.Generator) -> memoryview:
    """So many weights, a tenth of them -128."""
    numbers = chance.integers(-128, 128, count)
    numbers[chance.random(count) < 0.1] = -128
    return memoryview(array("b", numbers.tolist())).toreadonly()


class Int16Draw:
    """Random layers, the same for one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)

    def pick(self, low: int, high: int) -> int:
        return int(self.chance.integers(low, high + 1))

    def activation(self) -> FusedActivation:
        return ACTIVATIONS[self.pick(0, len(ACTIVATIONS) - 1)]

    def bias(self, channels: int, *, depthwise: bool = False) -> Bias | None:
        """None, of 32 bits (not of depthwise layers) or of 64; now and then as large as it may be."""
        kind = self.pick(0, 3)
        kind = 2 if depthwise and kind == 1 else kind
        if kind == 0:
            return None
        form, ends = ("i", (1 << 31) - 1) if kind == 1 else ("q", (1 << 46) - 1)
        large = self.chance.random() < 0.15
        most = ends if large else 1 << self.pick(8, 30)
        return memoryview(array(form, self.chance.integers(-most, most, channels).tolist())).toreadonly()

    def scales(self, additions: int, channels: int) -> tuple[float, ...]:
        """Factors for sums of so many products: mostly in range, at times far too small or large."""
        if self.chance.random() < 0.15:
            exponents = self.chance.choice([-40, -33, -20, -17.1, -16, -9, 0, 0.7, 3, 6.9], channels)
        else:
            exponents = self.chance.uniform(-12, -5, channels) - math.log2(additions) / 2
        return tuple(float32(math.exp2(each)) for each in exponents)

    def convolution(self, *, depthwise: bool, large: bool = False) -> Case:
        """CONV_2D or DEPTHWISE_CONV_2D."""
        pick, most = self.pick, 1 if large else 0
        padding = Padding.SAME if pick(0, 1) else Padding.VALID
        taps = pick(1, 4 + most), pick(1, 4 + most)
        strides, dilations = (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2))
        sizes = [
            pick(1, 8) + (0 if padding is Padding.SAME else (tap - 1) * dilation)
            for tap, dilation in zip(taps, dilations, strict=True)
        ]
        outputs = [
            window(size, tap, stride, dilation, padding).outputs
            for size, tap, stride, dilation in zip(sizes, taps, strides, dilations, strict=True)
        ]
        batch, channels, multiplier = pick(1, 2), pick(1, 24 if depthwise else 40), pick(1, 3)
        if large:
            channels *= 4
        out_channels = channels * multiplier if depthwise else pick(1, 90)
        shape = (1, *taps, out_channels) if depthwise else (out_channels, *taps, channels)
        additions = math.prod(taps) * (1 if depthwise else channels)
        scales = self.scales(additions, out_channels)
        per_channel = PerChannelQuantParam(scales, (0,) * out_channels, 3 if depthwise else 0)
        common: dict[str, Any] = {
            "input": halves(batch * math.prod(sizes) * channels, self.chance),
            "input_shape": (batch, *sizes, channels),
            "input_quant": QuantParam(1.0, 0),
            "weights": weights(math.prod(shape), self.chance),
            "weights_shape": shape,
            "weights_quant": QuantParam(scales[0], 0),
            "weights_per_channel_quant": per_channel if pick(0, 3) else None,
            "bias": self.bias(out_channels, depthwise=depthwise),
            "output": memoryview(array("h", [0] * (batch * math.prod(outputs) * out_channels))),
            "output_shape": (batch, *outputs, out_channels),
            "output_quant": QuantParam(1.0, 0),
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
        """FULLY_CONNECTED, at times of more inputs than sums of 32 bits take."""
        batch, inputs, outputs = self.pick(1, 7), 1 << self.pick(0, 11), self.pick(1, 70)
        inputs += self.pick(0, inputs)
        scales = self.scales(inputs, outputs)
        per_channel = PerChannelQuantParam(scales, (0,) * outputs, 0) if self.pick(0, 2) else None
        zero = 0 if per_channel else int(self.chance.choice([0, 0, -128, 5, 127]))
        params = FullyConnectedParams(
            halves(batch * inputs, self.chance),
            QuantParam(1.0, 0),
            weights(outputs * inputs, self.chance),
            (outputs, inputs),
            QuantParam(scales[0], zero),
            per_channel,
            self.bias(outputs),
            memoryview(array("h", [0] * (batch * outputs))),
            outputs,
            QuantParam(1.0, 0),
            self.activation(),
        )
        return Case(BuiltinOperator.FULLY_CONNECTED, params)

    def pool(self, code: int) -> Case:
        """AVERAGE_POOL_2D or MAX_POOL_2D, of up to 324 taps."""
        pick, most = self.pick, 18 if self.pick(0, 5) == 0 else 5
        padding = Padding.SAME if pick(0, 1) else Padding.VALID
        taps, strides = (pick(1, most), pick(1, most)), (pick(1, 3), pick(1, 3))
        sizes = [(1 if padding is Padding.SAME else tap) + pick(0, 6) for tap in taps]
        outputs = [window(*each, 1, padding).outputs for each in zip(sizes, taps, strides, strict=True)]
        batch, channels = pick(1, 2), pick(1, 40)
        quant = QuantParam(float32(2.0 ** self.chance.uniform(-14, -9)), 0)
        params = PoolParams(
            halves(batch * math.prod(sizes) * channels, self.chance),
            (batch, sizes[0], sizes[1], channels),
            quant,
            memoryview(array("h", [0] * (batch * math.prod(outputs) * channels))),
            (batch, outputs[0], outputs[1], channels),
            quant,
            stride_h=strides[0],
            stride_w=strides[1],
            filter_h=taps[0],
            filter_w=taps[1],
            padding=padding,
            activation=self.activation(),
        )
        return Case(code, params)

    def quant(self) -> QuantParam:
        return QuantParam(float32(2.0 ** self.chance.uniform(-15, -5)), 0)

    def add(self) -> Case:
        """ADD; at times with an output so fine that its words wrap."""
        count, one, two = self.pick(1, 90), self.quant(), self.quant()
        scale = (one.scale + two.scale) * 2.0 ** self.chance.choice([-40, -18, -1, 0, 0, 0.3, 1, 9])
        data = halves(count, self.chance), halves(count, self.chance)
        params = ElementwiseAddParams(
            data[0],
            one,
            data[1],
            two,
            memoryview(array("h", [0] * count)),
            QuantParam(float32(scale), 0),
            self.activation(),
        )
        return Case(BuiltinOperator.ADD, params)

    def mul(self) -> Case:
        """MUL of two inputs of one length, or of one that repeats."""
        channels, rows = self.pick(1, 20), self.pick(1, 8)
        whole = rows * channels
        lengths = ((whole, whole), (whole, channels), (channels, whole))[self.pick(0, 2)]
        one, two = self.quant(), self.quant()
        scale = one.scale * two.scale * 2.0 ** self.chance.choice([-3, 0, 13, 14, 15, 16.5, 17, 34])
        params = MulParams(
            halves(lengths[0], self.chance),
            one,
            halves(lengths[1], self.chance),
            two,
            memoryview(array("h", [0] * whole)),
            QuantParam(float32(scale), 0),
            self.activation(),
        )
        return Case(BuiltinOperator.MUL, params)

    def softmax(self) -> Case:
        """SOFTMAX over rows, from flat to sharp."""
        rows, classes = self.pick(1, 4), self.pick(1, 40)
        params = SoftmaxParams(
            halves(rows * classes, self.chance),
            (rows, classes),
            QuantParam(float32(2.0 ** self.chance.uniform(-20, 0)), 0),
            memoryview(array("h", [0] * (rows * classes))),
            QuantParam(2.0**-15, 0),
            beta=float32(self.chance.choice([1.0, 0.5, 1.7])),
        )
        return Case(BuiltinOperator.SOFTMAX, params)

    def case(self, code: int) -> Case:
        """Any of the operators, by its code."""
        match code:
            case BuiltinOperator.CONV_2D:
                return self.convolution(depthwise=False, large=self.pick(0, 9) == 0)
            case BuiltinOperator.DEPTHWISE_CONV_2D:
                return self.convolution(depthwise=True)
            case BuiltinOperator.FULLY_CONNECTED:
                return self.fully_connected()
            case BuiltinOperator.AVERAGE_POOL_2D | BuiltinOperator.MAX_POOL_2D:
                return self.pool(code)
        case: Case = getattr(self, METHODS[code])()
        return case
