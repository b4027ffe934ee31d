"""A small network for gestures: 16 samples of an accelerometer in, one score for each gesture out.

    python examples/gestures/gesture_network.py gesture.tflite

Two fully connected layers, trained here on made-up movements and quantized to int8. The training gives the
same parameters on every machine: it rounds them to a grid far coarser than what the order of sums changes.
"""

import sys
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from tflite import ActivationFunctionType, BuiltinOperator, TensorType

from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor

Array = npt.NDArray[np.float64]

GESTURES: Final = ("still", "shake", "nod", "upside down")
SAMPLES: Final = 16
"""Samples of a window, each of three axes."""
AXES: Final = 3

HIDDEN: Final = 12
EXAMPLES: Final = 150
"""Of each gesture."""
STEPS: Final = 300
LEARNING_RATE: Final = 0.5
GRID: Final = 2.0**8
INPUT: Final = Quantization.per_tensor(1 / 32, 0)
"""4 g either way."""
SCORES: Final = Quantization.per_tensor(1 / 256, -128)


def movement(gesture: str, seconds: Array, phase: float = 0.0, strength: float = 1.5) -> Array:
    """Return accelerations in g at some times: [samples, 3]."""
    still = np.zeros((len(seconds), AXES))
    still[:, 2] = -1.0 if gesture == "upside down" else 1.0
    axis = {"shake": 0, "nod": 1}.get(gesture)
    if axis is not None:
        still[:, axis] += strength * np.sin(2 * np.pi * (5 * seconds + phase))
    return still


def train() -> tuple[Array, Array, Array, Array]:
    """Return weights and biases of the two layers, as multiples of 1/GRID."""
    random = np.random.RandomState(0)
    windows, labels = [], []
    for label, gesture in enumerate(GESTURES):
        for _ in range(EXAMPLES):
            times = np.arange(SAMPLES) * 0.02
            window = movement(gesture, times, random.uniform(), random.uniform(1.0, 2.5))
            windows.append((window + 0.05 * random.standard_normal(window.shape)).ravel())
            labels.append(label)
    x, wanted = np.array(windows), np.eye(len(GESTURES))[labels]
    w1 = random.standard_normal((SAMPLES * AXES, HIDDEN)) * np.sqrt(2 / (SAMPLES * AXES))
    w2 = random.standard_normal((HIDDEN, len(GESTURES))) * np.sqrt(1 / HIDDEN)
    b1, b2 = np.zeros(HIDDEN), np.zeros(len(GESTURES))
    for _ in range(STEPS):
        hidden = np.maximum(x @ w1 + b1, 0)
        powers = np.exp(hidden @ w2 + b2)
        error = (powers / powers.sum(axis=1, keepdims=True) - wanted) / len(x)
        back = (error @ w2.T) * (hidden > 0)
        w2 -= LEARNING_RATE * hidden.T @ error
        b2 -= LEARNING_RATE * error.sum(axis=0)
        w1 -= LEARNING_RATE * x.T @ back
        b1 -= LEARNING_RATE * back.sum(axis=0)
    w1, b1, w2, b2 = (np.round(each * GRID) / GRID for each in (w1, b1, w2, b2))
    return w1, b1, w2, b2


def network() -> bytes:
    """Return the `.tflite` file: int8 [1, 48] in, int8 [1, 4] out."""
    w1, b1, w2, b2 = train()
    hidden = Quantization.per_tensor(1 / 8, -128)  # 0 to 32
    logits = Quantization.per_tensor(1 / 4, 0)  # -32 to 32
    tensors = (
        Tensor("samples", (1, SAMPLES * AXES), TensorType.INT8, INPUT),
        *_layer("hidden", w1, b1, INPUT),
        Tensor("hidden", (1, HIDDEN), TensorType.INT8, hidden),
        *_layer("logits", w2, b2, hidden),
        Tensor("logits", (1, len(GESTURES)), TensorType.INT8, logits),
        Tensor("scores", (1, len(GESTURES)), TensorType.INT8, SCORES),
    )
    operators = (
        _fully_connected("samples", "hidden", ActivationFunctionType.RELU),
        _fully_connected("hidden", "logits", ActivationFunctionType.NONE),
        NetworkOperator(BuiltinOperator.SOFTMAX, ("logits",), ("scores",), {"beta": 1.0}),
    )
    return bytes(Network(tensors, operators, ("samples",), ("scores",), "gestures"))


def _layer(name: str, weights: Array, bias: Array, of_input: Quantization) -> tuple[Tensor, Tensor]:
    scale = float(np.float32(np.abs(weights).max() / 127))
    of_bias = float(np.float32(scale * of_input.scale))
    return (
        constant_tensor(
            f"{name}_weights", np.round(weights.T / scale).astype(np.int8), Quantization.per_tensor(scale, 0)
        ),
        constant_tensor(
            f"{name}_bias", np.round(bias / of_bias).astype(np.int32), Quantization.per_tensor(of_bias, 0)
        ),
    )


def _fully_connected(source: str, target: str, activation: int) -> NetworkOperator:
    inputs = (source, f"{target}_weights", f"{target}_bias")
    options = {"fused_activation_function": activation}
    return NetworkOperator(BuiltinOperator.FULLY_CONNECTED, inputs, (target,), options)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(network())
