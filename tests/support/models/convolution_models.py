"""Models of one convolution each, of random weights, and what they are made of."""

import numpy as np
from tflite import BuiltinOperator, Padding

from aisrv.model.values import Quantization, Tensor
from tests.support.models.one_operator import constant, single, tensor


def weights(random: np.random.Generator, shape: tuple[int, ...], *, is_per_channel: bool = True) -> Tensor:
    count = shape[0] if is_per_channel else 1
    quantization = Quantization.per_channel(random.uniform(0.001, 0.02, count), 0)
    return constant("weights", random.integers(-127, 128, shape), np.int8, quantization)


def biases(random: np.random.Generator, count: int) -> list[Tensor]:
    """A bias in two of three cases."""
    values = random.integers(-5000, 5000, count)
    unit = Quantization.per_tensor(1.0, 0)
    return [constant("bias", values, np.int32, unit)] if random.integers(3) else []


def transposed(
    random: np.random.Generator,
    inputs: tuple[int, int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    padding: int,
    filters: int,
    *,
    scale: float = 0.1,
    zero: int = 3,
    out_scale: float = 0.3,
    out: tuple[int, int] | None = None,
    activation: int = 0,
) -> bytes:
    height, width = out or tuple(
        size * stride if padding == Padding.SAME else (size - 1) * stride + tap
        for size, tap, stride in zip(inputs[:2], taps, strides, strict=True)
    )
    shape = (2, height, width, filters)
    return single(
        BuiltinOperator.TRANSPOSE_CONV,
        [
            constant("shape", shape),
            weights(random, (filters, *taps, inputs[2])),
            tensor("in", (2, *inputs), scale, zero),
            *biases(random, filters),
        ],
        [tensor("out", shape, out_scale, -zero // 2)],
        {
            "padding": padding,
            "stride_h": strides[0],
            "stride_w": strides[1],
            "fused_activation_function": activation,
        },
    )
