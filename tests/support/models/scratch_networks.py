"""Networks whose operators ask TFLM for scratch memory: each function returns a `.tflite` file for a seed.

Most are an operator between two ADDs, so that the plan has something to put around the scratch.
"""

import random
from collections.abc import Callable
from typing import Final

import numpy as np
from flatbuffers import flexbuffers
from tflite import BuiltinOperator

from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator, constant_tensor

_UNIT: Final = Quantization.per_tensor(1.0, 0)


def _activation(name: str, shape: tuple[int, ...], kind: TensorType = TensorType.INT8) -> Tensor:
    return Tensor(name, shape, kind, _UNIT if kind in (TensorType.INT8, TensorType.INT16) else None)


def _shape(chance: random.Random, dimensions: int) -> tuple[int, ...]:
    return (1, *(chance.randint(1, 12) for _ in range(dimensions - 1)))


def _surrounded(
    chance: random.Random,
    data: Tensor,
    result: Tensor,
    operator: NetworkOperator,
    *others: Tensor,
) -> bytes:
    """The operator between tensors that live around it: `data` is computed, `result` is used again."""
    add = BuiltinOperator.ADD
    source = Tensor("source", data.shape, data.type, data.quantization)
    end = Tensor("end", result.shape, result.type, result.quantization)
    outputs = chance.choice([("end",), ("end", result.name), ("end", data.name)])
    return bytes(
        Network(
            (source, data, *others, result, end),
            (
                NetworkOperator(add, ("source", "source"), (data.name,)),
                operator,
                NetworkOperator(add, (result.name, result.name), ("end",)),
            ),
            ("source",),
            outputs,
        )
    )


def reduction(code: int, *kinds: TensorType) -> Callable[[random.Random], bytes]:
    """MEAN and the like, over random axes."""

    def make(chance: random.Random) -> bytes:
        shape = _shape(chance, chance.randint(2, 4))
        axes = sorted(chance.sample(range(len(shape)), chance.randint(1, min(2, len(shape)))))
        reduced = tuple(1 if place in axes else size for place, size in enumerate(shape))
        kind = chance.choice(kinds)
        operator = NetworkOperator(code, ("data", "axes"), ("result",), {"keep_dims": True})
        return _surrounded(
            chance,
            _activation("data", shape, kind),
            _activation("result", reduced, kind),
            operator,
            constant_tensor("axes", np.array(axes, np.int32)),
        )

    return make


def all_of(chance: random.Random) -> bytes:
    """REDUCE_ALL, of bools."""
    shape = _shape(chance, 3)
    return bytes(
        Network(
            (
                Tensor("data", shape, TensorType.BOOL),
                constant_tensor("axes", np.array([1], np.int32)),
                Tensor("result", (1, 1, shape[2]), TensorType.BOOL),
            ),
            (
                NetworkOperator(
                    BuiltinOperator.REDUCE_ALL, ("data", "axes"), ("result",), {"keep_dims": True}
                ),
            ),
            ("data",),
            ("result",),
        )
    )


def add_n(chance: random.Random) -> bytes:
    """ADD_N of 2 to 9 equal or different inputs."""
    shape = _shape(chance, 2)
    inputs = tuple(chance.choice(("data", "source")) for _ in range(chance.randint(2, 9)))
    kind = chance.choice([TensorType.INT8, TensorType.FLOAT32])
    operator = NetworkOperator(BuiltinOperator.ADD_N, inputs, ("result",))
    return _surrounded(chance, _activation("data", shape, kind), _activation("result", shape, kind), operator)


def mirror_pad(chance: random.Random) -> bytes:
    """MIRROR_PAD by one on every side."""
    shape = tuple(size + 2 for size in _shape(chance, chance.randint(1, 4)))
    pads = np.ones((len(shape), 2), np.int32)
    operator = NetworkOperator(BuiltinOperator.MIRROR_PAD, ("data", "pads"), ("result",))
    return _surrounded(
        chance,
        _activation("data", shape),
        _activation("result", tuple(size + 2 for size in shape)),
        operator,
        constant_tensor("pads", pads),
    )


def svdf(chance: random.Random) -> bytes:
    """SVDF of int8 or float32 data, with rank 1 or 2."""
    batch, size, rank, memory = 1, chance.randint(1, 20), chance.randint(1, 2), chance.randint(1, 8)
    filters = rank * chance.randint(1, 20)
    integer = chance.random() < 0.5
    data, weights, state = (
        (TensorType.INT8, np.int8, TensorType.INT16)
        if integer
        else (TensorType.FLOAT32, np.float32, TensorType.FLOAT32)
    )
    times = np.int16 if integer else np.float32
    bias = np.int32 if integer else np.float32
    operator = NetworkOperator(
        BuiltinOperator.SVDF, ("data", "features", "times", "bias", "state"), ("result",), {"rank": rank}
    )
    state_tensor = Tensor("state", (batch, memory * filters), state, _UNIT, is_variable=True)
    return _surrounded(
        chance,
        _activation("data", (batch, size), data),
        _activation("result", (batch, filters // rank), data),
        operator,
        constant_tensor("features", np.ones((filters, size), weights), _UNIT),
        constant_tensor("times", np.ones((filters, memory), times), _UNIT),
        constant_tensor("bias", np.zeros(filters // rank, bias), _UNIT),
        state_tensor,
    )


def transpose_conv(chance: random.Random) -> bytes:
    """TRANSPOSE_CONV of int8, of int16 with a bias of 16 or 64 bits or none, or of float32."""
    height, width, channels, filters = (chance.randint(1, 6) for _ in range(4))
    kind = chance.choice([TensorType.INT8, TensorType.INT16, TensorType.FLOAT32])
    result = (1, 2 * height, 2 * width, filters)
    weights = np.float32 if kind is TensorType.FLOAT32 else np.int8
    scales = None if kind is TensorType.FLOAT32 else Quantization.per_channel([1.0] * filters, 0)
    bias = {
        TensorType.INT8: ("<i4",),
        TensorType.INT16: ("<i2", "<i8"),
        TensorType.FLOAT32: ("<f4",),
    }[kind]
    others = [
        constant_tensor("shape", np.array(result, np.int32)),
        constant_tensor("weights", np.ones((filters, 2, 2, channels), weights), scales),
        constant_tensor("bias", np.zeros(filters, chance.choice(bias)), scales),
    ]
    operator = NetworkOperator(
        BuiltinOperator.TRANSPOSE_CONV,
        ("shape", "weights", "data", "bias"),
        ("result",),
        {"padding": 1, "stride_w": 2, "stride_h": 2},
    )
    return _surrounded(
        chance,
        _activation("data", (1, height, width, channels), kind),
        _activation("result", result, kind),
        operator,
        *others,
    )


def fully_connected_of_4_bits(chance: random.Random) -> bytes:
    """FULLY_CONNECTED with weights of 4 bits, which the host gives."""
    size, units = chance.randint(1, 30), chance.randint(1, 30)
    return bytes(
        Network(
            (
                _activation("data", (1, size)),
                Tensor("weights", (units, size), TensorType.INT4, _UNIT),
                _activation("result", (1, units)),
            ),
            (NetworkOperator(BuiltinOperator.FULLY_CONNECTED, ("data", "weights", ""), ("result",)),),
            ("data", "weights"),
            ("result",),
        )
    )


def convolution_of_4_bits(chance: random.Random) -> bytes:
    """CONV_2D with weights of 4 bits, which the host gives."""
    height, width, channels, filters = (chance.randint(1, 8) for _ in range(4))
    return bytes(
        Network(
            (
                _activation("data", (1, height, width, channels)),
                Tensor("weights", (filters, 1, 1, channels), TensorType.INT4, _UNIT),
                _activation("result", (1, height, width, filters)),
            ),
            (
                NetworkOperator(
                    BuiltinOperator.CONV_2D,
                    ("data", "weights", ""),
                    ("result",),
                    {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1},
                ),
            ),
            ("data", "weights"),
            ("result",),
        )
    )


def detection(chance: random.Random) -> bytes:
    """TFLite_Detection_PostProcess; `num_classes` and `max_detections` on both sides of each other."""
    boxes, classes, detections = chance.randint(1, 30), chance.randint(1, 6), chance.randint(1, 12)
    options = {
        "max_detections": detections,
        "max_classes_per_detection": 1,
        "num_classes": classes,
        "nms_score_threshold": 0.5,
        "nms_iou_threshold": 0.5,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    }
    single = TensorType.FLOAT32
    return bytes(
        Network(
            (
                Tensor("boxes", (1, boxes, 4), single),
                Tensor("scores", (1, boxes, classes + 1), single),
                constant_tensor("anchors", np.ones((boxes, 4), np.float32)),
                Tensor("places", (1, detections, 4), single),
                Tensor("classes", (1, detections), single),
                Tensor("probabilities", (1, detections), single),
                Tensor("count", (1,), single),
            ),
            (
                NetworkOperator(
                    BuiltinOperator.CUSTOM,
                    ("boxes", "scores", "anchors"),
                    ("places", "classes", "probabilities", "count"),
                    custom_code="TFLite_Detection_PostProcess",
                    custom_options=bytes(flexbuffers.Dumps(options)),
                ),
            ),
            ("boxes", "scores"),
            ("places", "classes", "probabilities", "count"),
        )
    )


def rfft(chance: random.Random) -> bytes:
    """SignalRfft of int16, int32 or float32 samples."""
    kind = chance.choice([TensorType.INT16, TensorType.INT32, TensorType.FLOAT32])
    length = chance.choice([64, 128, 256])
    samples = chance.randint(1, length)
    return bytes(
        Network(
            (Tensor("data", (1, samples), kind), Tensor("result", (1, length + 2), kind)),
            (
                NetworkOperator(
                    BuiltinOperator.CUSTOM,
                    ("data",),
                    ("result",),
                    custom_code="SignalRfft",
                    custom_options=bytes(flexbuffers.Dumps({"T": int(kind), "fft_length": length})),
                ),
            ),
            ("data",),
            ("result",),
        )
    )


NETWORKS: Final[dict[str, Callable[[random.Random], bytes]]] = {
    "ADD_N": add_n,
    "CONV_2D": convolution_of_4_bits,
    "FULLY_CONNECTED": fully_connected_of_4_bits,
    "MEAN": reduction(BuiltinOperator.MEAN, TensorType.INT8, TensorType.INT16, TensorType.FLOAT32),
    "MIRROR_PAD": mirror_pad,
    "REDUCE_ALL": all_of,
    "REDUCE_MAX": reduction(BuiltinOperator.REDUCE_MAX, TensorType.INT8, TensorType.FLOAT32),
    "REDUCE_MIN": reduction(BuiltinOperator.REDUCE_MIN, TensorType.INT8, TensorType.FLOAT32),
    "SUM": reduction(BuiltinOperator.SUM, TensorType.INT8, TensorType.INT16, TensorType.FLOAT32),
    "SVDF": svdf,
    "SignalRfft": rfft,
    "TFLite_Detection_PostProcess": detection,
    "TRANSPOSE_CONV": transpose_conv,
}
"""Makers of networks by the operator that they are about."""


def network(operator: str, seed: int) -> bytes:
    """The network of an operator for a seed."""
    return NETWORKS[operator](random.Random(f"{operator} {seed}"))
