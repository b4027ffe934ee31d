"""Random models of one layer each, whose sums leave 32 bits, before or after they are scaled."""

import random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import float32
from aisrv.model import TensorType
from aisrv.model.values import Quantization, Tensor
from tests.support.models.one_operator import constant, single, tensor

CODES: Final = {
    "CONV_2D": BuiltinOperator.CONV_2D,
    "DEPTHWISE_CONV_2D": BuiltinOperator.DEPTHWISE_CONV_2D,
    "FULLY_CONNECTED": BuiltinOperator.FULLY_CONNECTED,
}

_INPUTS: Final = 6
_WINDOW: Final = {
    "padding": 1,
    "stride_h": 1,
    "stride_w": 1,
    "dilation_h_factor": 1,
    "dilation_w_factor": 1,
}


def wrapping_layer(name: str, kind: TensorType, seed: int) -> tuple[bytes, npt.NDArray[Any]]:
    """A layer of six inputs, and data for it; biases lie at the ends of 32 bits, or of 46 beside int16."""
    chance, numbers = random.Random(seed), np.random.default_rng(seed)
    is_int16, depthwise = kind is TensorType.INT16, name == "DEPTHWISE_CONV_2D"
    outputs = _INPUTS if depthwise else chance.randint(1, 20)

    def scale(low: float, high: float) -> float:
        return float32(2.0 ** chance.uniform(low, high))

    def zero() -> int:
        return 0 if is_int16 else chance.randint(-128, 127)

    scales = tuple(scale(-8, -2) for _ in range(1 if name == "FULLY_CONNECTED" else outputs))
    source = scale(-10, -5) if is_int16 else scale(-8, 2)
    shape, inputs = {
        "CONV_2D": ((outputs, 1, 1, _INPUTS), (1, 2, 2, _INPUTS)),
        "DEPTHWISE_CONV_2D": ((1, 1, 1, outputs), (1, 2, 2, _INPUTS)),
        "FULLY_CONNECTED": ((outputs, _INPUTS), (3, _INPUTS)),
    }[name]
    quant = Quantization(scales, (0,) * len(scales), 3 if depthwise else 0)
    # TFLM compares it with the product of the two other scales.
    bias_quant = Quantization.per_tensor(float32(source * scales[0]), 0)
    bias = _bias(chance, outputs, bias_quant, is_wide=is_int16 and (depthwise or chance.random() < 0.5))
    ends = np.iinfo(np.int16 if is_int16 else np.int8)
    model = single(
        CODES[name],
        [
            tensor("in", inputs, source, zero(), kind),
            constant("weights", numbers.integers(-127, 128, shape), np.int8, quant),
            bias,
        ],
        [tensor("out", (*inputs[:-1], outputs), scale(-14, -8) if is_int16 else scale(-14, 0), zero(), kind)],
        ({"depth_multiplier": 1} if depthwise else {}) | (_WINDOW if len(inputs) == 4 else {}),
    )
    return model, numbers.integers(ends.min, ends.max + 1, inputs).astype(ends.dtype)


def _bias(chance: random.Random, count: int, quant: Quantization, *, is_wide: bool) -> Tensor:
    """A bias, half of it near an end."""
    end = 1 << (46 if is_wide else 31)
    values = [
        chance.choice((end - 1, 1 - end)) - chance.randint(0, 9999)
        if chance.random() < 0.5
        else chance.randint(1 - end, end - 1)
        for _ in range(count)
    ]
    values = [max(1 - end, value) for value in values]
    return constant("bias", values, np.int64 if is_wide else np.int32, quant)
