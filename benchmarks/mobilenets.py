"""MobileNet v1 and v2 for pictures of 224 by 224 by 3, int8, with seeded random weights, not trained ones.

Shapes and operators are those of the papers (width 1.0, 1,000 classes), with padding SAME, as files of
TensorFlow's own have it. Weights take as long to multiply whatever they are; scales are chosen so that
activations keep their spread from layer to layer, which random weights would not give by themselves.
"""

import functools
from typing import Final

import numpy as np
from tflite import ActivationFunctionType, BuiltinOperator, Padding, TensorType

from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor

SIZE: Final = 224
CLASSES: Final = 1000

_V1_LAYERS: Final = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Output channels and stride of each pair of a depthwise and a pointwise layer."""
_V2_LAYERS: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, repetitions and first stride of each stage."""

_RELU6: Final = Quantization.per_tensor(6 / 255, -128)
_LINEAR: Final = Quantization.per_tensor(1 / 16, 3)


@functools.cache
def mobilenet_v1() -> bytes:
    """MobileNet v1: 569 million multiply-accumulates."""
    net = _Builder(1)
    last = net.convolution("input", 32, 3, 2)
    for channels, stride in _V1_LAYERS:
        last = net.convolution(net.depthwise(last, stride), channels, 1, 1)
    return net.finish(last)


@functools.cache
def mobilenet_v2() -> bytes:
    """MobileNet v2: 301 million multiply-accumulates."""
    net = _Builder(2)
    last = net.convolution("input", 32, 3, 2)
    for expansion, channels, repetitions, first_stride in _V2_LAYERS:
        for number in range(repetitions):
            stride = first_stride if number == 0 else 1
            wide = last if expansion == 1 else net.convolution(last, expansion * net.channels(last), 1, 1)
            narrow = net.convolution(net.depthwise(wide, stride), channels, 1, 1, linear=True)
            last = net.add(last, narrow) if number else narrow
    return net.finish(net.convolution(last, 1280, 1, 1))


class _Builder:
    """A network that grows by one layer at a time; each method returns the name of the layer's output."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._tensors: dict[str, Tensor] = {}
        self._operators: list[NetworkOperator] = []
        self._activation("input", (1, SIZE, SIZE, 3), _LINEAR)

    def channels(self, name: str) -> int:
        return self._tensors[name].shape[3]

    def convolution(self, source: str, channels: int, taps: int, stride: int, *, linear: bool = False) -> str:
        shape = (channels, taps, taps, self.channels(source))
        return self._layer(BuiltinOperator.CONV_2D, source, shape, channels, stride, linear=linear)

    def depthwise(self, source: str, stride: int) -> str:
        channels = self.channels(source)
        return self._layer(BuiltinOperator.DEPTHWISE_CONV_2D, source, (1, 3, 3, channels), channels, stride)

    def _layer(
        self,
        code: int,
        source: str,
        shape: tuple[int, ...],
        channels: int,
        stride: int,
        *,
        linear: bool = False,
    ) -> str:
        number = len(self._operators)
        dimension = 0 if code == BuiltinOperator.CONV_2D else 3
        _, height, width, _ = self._tensors[source].shape
        output = self._activation(
            f"layer{number}",
            (1, -(-height // stride), -(-width // stride), channels),
            _LINEAR if linear else _RELU6,
        )
        weights = self._weights(f"weights{number}", shape, dimension, source, output)
        bias = self._bias(f"bias{number}", channels, source, weights)
        none, relu6 = ActivationFunctionType.NONE, ActivationFunctionType.RELU6
        options = {
            "padding": Padding.SAME,
            "stride_w": stride,
            "stride_h": stride,
            "fused_activation_function": none if linear else relu6,
        }
        if dimension == 3:
            options["depth_multiplier"] = 1
        self._operators.append(NetworkOperator(code, (source, weights, bias), (output,), options))
        return output

    def add(self, first: str, second: str) -> str:
        number = len(self._operators)
        output = self._activation(f"layer{number}", self._tensors[first].shape, _LINEAR)
        self._operators.append(NetworkOperator(BuiltinOperator.ADD, (first, second), (output,)))
        return output

    def finish(self, last: str) -> bytes:
        _, height, width, channels = self._tensors[last].shape
        pooled = self._activation("pooled", (1, 1, 1, channels), _RELU6)
        options = {"stride_w": 1, "stride_h": 1, "filter_width": width, "filter_height": height}
        options["padding"] = Padding.VALID
        self._operators.append(NetworkOperator(BuiltinOperator.AVERAGE_POOL_2D, (last,), (pooled,), options))
        scores = self._activation("scores", (1, CLASSES), _LINEAR)
        weights = self._weights("weights", (CLASSES, channels), 0, pooled, scores)
        operands = (pooled, weights, self._bias("bias", CLASSES, pooled, weights))
        self._operators.append(NetworkOperator(BuiltinOperator.FULLY_CONNECTED, operands, (scores,)))
        softmax = self._activation("softmax", (1, CLASSES), Quantization.per_tensor(1 / 256, -128))
        self._operators.append(NetworkOperator(BuiltinOperator.SOFTMAX, (scores,), (softmax,), {"beta": 1.0}))
        tensors = tuple(self._tensors.values())
        return bytes(Network(tensors, tuple(self._operators), ("input",), ("softmax",)))

    def _activation(self, name: str, shape: tuple[int, ...], quantization: Quantization) -> str:
        self._tensors[name] = Tensor(name, shape, TensorType.INT8, quantization)
        return name

    def _weights(self, name: str, shape: tuple[int, ...], dimension: int, source: str, output: str) -> str:
        count = 9 if dimension == 3 else int(np.prod(shape[1:]))
        data = np.clip(self._random.normal(0, 40, shape).round(), -127, 127).astype(np.int8)
        # Sums of `count` products spread over the output's range.
        spread = 40 * 60 * np.sqrt(count)
        scales = (
            np.array([_scale(self._tensors, output)]) * 50 / spread / _scale(self._tensors, source)
        ).repeat(shape[dimension]) * self._random.uniform(0.7, 1.4, shape[dimension])
        if len(shape) == 2:
            quantization = Quantization.per_tensor(float(scales[0]), 0)
        else:
            quantization = Quantization.per_channel(scales.astype(np.float32).tolist(), dimension)
        self._tensors[name] = constant_tensor(name, data, quantization)
        return name

    def _bias(self, name: str, channels: int, source: str, weights: str) -> str:
        data = self._random.integers(-2000, 2000, channels).astype(np.int32)
        quantization = self._tensors[weights].quantization
        assert quantization is not None
        # XNNPACK takes no layer whose bias has another scale than its products.
        scales = np.array(quantization.scales, np.float32) * np.float32(_scale(self._tensors, source))
        quantization = Quantization.per_channel(scales.tolist(), 0)
        self._tensors[name] = constant_tensor(name, data, quantization)
        return name


def _scale(tensors: dict[str, Tensor], name: str) -> float:
    quantization = tensors[name].quantization
    assert quantization is not None
    return quantization.scale
