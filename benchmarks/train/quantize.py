"""The digits network as `.tflite` models: trained parameters as they are, or with example images in int8.

The scheme of int8 is TensorFlow Lite's (its "8-bit quantization specification"): activations int8 with one
scale and zero point, weights int8 of -127 to 127 with zero point 0, one scale for each output channel of a
convolution and one for the fully connected layer, biases int32 with the scale of input times weights.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from tflite import ActivationFunctionType, BuiltinOperator, Padding, TensorType

from aisrv.digits import INK, INT8_PAPER, INT8_STEP
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from benchmarks.train.training import CHANNELS, KERNEL, Array, Parameters, forward

RANGE_GRID: Final = 2.0**8
"""Ranges of activations end at multiples of 1/RANGE_GRID, so that rounding errors do not reach the scales."""

IMAGE: Final = "image"
FEATURES: Final = "features"
CLASSES: Final = "classes"

_CONVOLUTION: Final = {
    "padding": Padding.SAME,
    "stride_w": 1,
    "stride_h": 1,
    "fused_activation_function": ActivationFunctionType.RELU,
}
_POOL_2X2: Final = {
    "padding": Padding.VALID,
    "stride_w": 2,
    "stride_h": 2,
    "filter_width": 2,
    "filter_height": 2,
}


_OPERATORS: Final = (
    NetworkOperator(
        BuiltinOperator.CONV_2D, (IMAGE, "conv1_weights", "conv1_bias"), ("conv1",), _CONVOLUTION
    ),
    NetworkOperator(BuiltinOperator.MAX_POOL_2D, ("conv1",), ("pool1",), _POOL_2X2),
    NetworkOperator(
        BuiltinOperator.CONV_2D, ("pool1", "conv2_weights", "conv2_bias"), ("conv2",), _CONVOLUTION
    ),
    NetworkOperator(BuiltinOperator.MAX_POOL_2D, ("conv2",), (FEATURES,), _POOL_2X2),
    NetworkOperator(BuiltinOperator.FULLY_CONNECTED, (FEATURES, "dense_weights", "dense_bias"), ("logits",)),
    NetworkOperator(BuiltinOperator.SOFTMAX, ("logits",), (CLASSES,), {"beta": 1.0}),
)


def in_floats(parameters: Parameters) -> Network:
    """Build the network in float32: images of 0 to 1 in, probabilities out."""
    first, second, third = CHANNELS
    shapes = {
        IMAGE: (1, 8, 8, first),
        "conv1": (1, 8, 8, second),
        "pool1": (1, 4, 4, second),
        "conv2": (1, 4, 4, third),
        FEATURES: (1, 2, 2, third),
        "logits": (1, 10),
        CLASSES: (1, 10),
    }
    constants = {
        "conv1_weights": _kernels(parameters.conv1),
        "conv1_bias": parameters.conv1_bias,
        "conv2_weights": _kernels(parameters.conv2),
        "conv2_bias": parameters.conv2_bias,
        "dense_weights": parameters.dense.T,
        "dense_bias": parameters.dense_bias,
    }
    tensors = (
        *(Tensor(name, shape, TensorType.FLOAT32) for name, shape in shapes.items()),
        *(constant_tensor(name, values.astype(np.float32)) for name, values in constants.items()),
    )
    return Network(tensors, _OPERATORS, (IMAGE,), (CLASSES,), "digits: handwritten digits, 8x8, float32")


def quantize(parameters: Parameters, examples: Array) -> Network:
    """Build the int8 network; `examples`, images [n, 8, 8, 1] of 0 to 1, set its activations' ranges."""
    seen = forward(parameters, examples)
    first, second, third = CHANNELS
    image = Quantization.per_tensor(1 / (INK * INT8_STEP), INT8_PAPER)
    conv1, conv2, logits = (_activations(values) for values in (seen.conv1, seen.conv2, seen.logits))
    tensors = (
        Tensor(IMAGE, (1, 8, 8, first), TensorType.INT8, image),
        *_convolution("conv1", parameters.conv1, parameters.conv1_bias, image),
        Tensor("conv1", (1, 8, 8, second), TensorType.INT8, conv1),
        Tensor("pool1", (1, 4, 4, second), TensorType.INT8, conv1),
        *_convolution("conv2", parameters.conv2, parameters.conv2_bias, conv1),
        Tensor("conv2", (1, 4, 4, third), TensorType.INT8, conv2),
        Tensor(FEATURES, (1, 2, 2, third), TensorType.INT8, conv2),
        *_fully_connected("dense", parameters.dense, parameters.dense_bias, conv2),
        Tensor("logits", (1, 10), TensorType.INT8, logits),
        # TensorFlow Lite fixes the quantization of a softmax's int8 output.
        Tensor(CLASSES, (1, 10), TensorType.INT8, Quantization.per_tensor(1 / 256, -128)),
    )
    return Network(tensors, _OPERATORS, (IMAGE,), (CLASSES,), "digits: handwritten digits, 8x8, int8")


def with_features(model: Network) -> Network:
    """Return the same network with the pooled features as its second output."""
    return replace(model, outputs=(CLASSES, FEATURES))


def _activations(values: Array) -> Quantization:
    """Spread int8's 256 values over the range of the values, which always includes 0."""
    low = min(0.0, np.floor(values.min() * RANGE_GRID) / RANGE_GRID)
    high = max(0.0, np.ceil(values.max() * RANGE_GRID) / RANGE_GRID)
    scale = float(np.float32((high - low) / 255))
    return Quantization.per_tensor(scale, round(-128 - low / scale))


def _kernels(weights: Array) -> Array:
    """Return a convolution's weights as the model has them: channels out, rows, columns, channels in."""
    return weights.T.reshape(weights.shape[1], KERNEL, KERNEL, -1)


def _convolution(name: str, weights: Array, bias: Array, of_input: Quantization) -> tuple[Tensor, Tensor]:
    return _constants(name, _kernels(weights), _scales(weights), bias, of_input)


def _fully_connected(name: str, weights: Array, bias: Array, of_input: Quantization) -> tuple[Tensor, Tensor]:
    return _constants(name, weights.T, _scales(weights).max(keepdims=True), bias, of_input)


def _scales(weights: Array) -> Array:
    """Return for each column the scale that makes its largest weight 127, as float32 has it."""
    largest = np.abs(weights).max(axis=0)
    return np.asarray(np.maximum(largest, 2.0**-12) / 127, np.float32).astype(np.float64)


def _constants(
    name: str, weights: Array, scales: Array, bias: Array, of_input: Quantization
) -> tuple[Tensor, Tensor]:
    """Return a layer's weights, output channels first, and biases; scales: one, or one for each channel."""
    columns = scales.reshape(-1, *(1,) * (weights.ndim - 1))
    integers = np.round(weights / columns).astype(np.int8)
    bias_scales = scales * np.float64(np.float32(of_input.scales[0]))
    bias_integers = np.round(bias / bias_scales).astype(np.int32)
    return (
        constant_tensor(f"{name}_weights", integers, Quantization.per_channel(scales, dimension=0)),
        constant_tensor(f"{name}_bias", bias_integers, Quantization.per_channel(bias_scales, dimension=0)),
    )
