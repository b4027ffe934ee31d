"""Scratch memory of TFLM's kernels: bytes of the arena while an operator runs.

Sources: TensorFlow Lite Micro, `tensorflow/lite/micro/kernels/` (`reduce_common.cc`, `transpose_conv.cc`,
`svdf_common.cc`, `unidirectional_sequence_lstm.cc`, `detection_postprocess.cc`, `add_n.cc`, `mirror_pad.cc`,
`conv_common.cc`, `depthwise_conv_common.cc`, `fully_connected.cc`) and `signal/micro/kernels/rfft.cc`: all of
its reference kernels that ask for any. Memory to decompress tensors (the operator DECODE, the metadata
COMPRESSION_METADATA) is not counted.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from aisrv.model.arena_plan import Scratch
from aisrv.model.control_flow import subgraphs
from aisrv.model.custom_options import CustomOptions
from aisrv.model.errors import ModelFileError
from aisrv.model.values import Model, Operator, Subgraph, Tensor, TensorType

DEVICE_POINTER: Final = 4
"""Bytes of a pointer on the device. TFLM on a 64-bit host has 8; ADD_N keeps a pointer to each input."""

_WORD: Final = 4
_QUANTIZED: Final = frozenset({TensorType.INT8, TensorType.INT16})


class _Incomplete(Exception):
    """An operator lacks a tensor or a dimension that its kernel needs; no interpreter loads it."""


class _Operands:
    """An operator with the tensors that it works on."""

    def __init__(self, model: Model | Subgraph, operator: Operator, pointer: int) -> None:
        self._tensors = model.tensors
        self._operator = operator
        self.pointer: Final = pointer

    @property
    def inputs(self) -> int:
        return len(self._operator.inputs)

    def input(self, place: int) -> Tensor:
        return self._tensor(self._operator.inputs, place)

    def output(self, place: int) -> Tensor:
        return self._tensor(self._operator.outputs, place)

    def option(self, name: str) -> int:
        """Read a number among a custom operator's options; 0 if it is missing, as in TFLM."""
        where = f"operator {self._operator.index} ({self._operator.name})"
        try:
            value = CustomOptions.from_bytes(self._operator.custom_options).integer(name) or 0
        except ValueError as error:
            raise ModelFileError(f"{where}: its options cannot be read: {error}") from None
        if value < 0:
            raise ModelFileError(f"{where} has {name} {value}, which cannot be negative")
        return value

    def _tensor(self, numbers: tuple[int, ...], place: int) -> Tensor:
        if place >= len(numbers) or numbers[place] < 0:
            raise _Incomplete
        return self._tensors[numbers[place]]


def tflm_scratch(model: Model, *, pointer: int = DEVICE_POINTER) -> list[Scratch]:
    """List the scratch of TFLM's kernels for a `pointer` size in bytes. Raises ModelFileError."""
    return [
        Scratch(operator.index, size, number)
        for number, subgraph in enumerate(subgraphs(model))
        for operator in subgraph.operators
        for size in operator_scratch(subgraph, operator, pointer=pointer)
    ]


def operator_scratch(
    model: Model | Subgraph, operator: Operator, *, pointer: int = DEVICE_POINTER
) -> list[int]:
    """List the sizes in bytes of one operator's scratch, as `tflm_scratch`."""
    sizes = (_CUSTOM if operator.is_custom else _BUILTIN).get(operator.name)
    if sizes is None:
        return []
    try:
        return [size for size in sizes(_Operands(model, operator, pointer)) if size]
    except _Incomplete:
        return []


def _elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape)


def _dimension(tensor: Tensor, place: int) -> int:
    if place >= len(tensor.shape):
        raise _Incomplete
    return tensor.shape[place]


def _unpacked_weights(operands: _Operands) -> Iterator[int]:
    """Weights of 4 bits, as bytes."""
    weights = operands.input(1)
    if weights.type is TensorType.INT4:
        yield _elements(weights)


def _reduction(operands: _Operands) -> Iterator[int]:
    """An index and the resolved axes."""
    yield _WORD * len(operands.input(0).shape)
    yield _WORD * _elements(operands.input(1))


def _sums(operands: _Operands) -> Iterator[int]:
    """An index, the resolved axes, and sums of integers."""
    if operands.input(0).type in _QUANTIZED:
        yield _WORD * _elements(operands.output(0))
    yield from _reduction(operands)


def _transpose_conv(operands: _Operands) -> Iterator[int]:
    """Sums in int32, of int16 data in int64; and a bias of int16 in int64."""
    data = operands.input(2)
    if data.type is TensorType.INT8:
        yield _WORD * _elements(operands.output(0))
    elif data.type is TensorType.INT16:
        yield 2 * _WORD * _elements(operands.output(0))
        if operands.inputs > 3 and operands.input(3).type is TensorType.INT16:
            yield 2 * _WORD * _elements(operands.input(3))


def _svdf(operands: _Operands) -> Iterator[int]:
    """Sums for each filter, and of quantized data for each unit."""
    data = operands.input(0)
    yield _WORD * _dimension(data, 0) * _dimension(operands.input(1), 0)
    if data.type is not TensorType.FLOAT32:
        yield _WORD * _elements(operands.output(0))


def _lstm(operands: _Operands) -> Iterator[int]:
    """Four gates, each of the size of the cell state."""
    yield from [operands.input(19).nbytes] * 4


def _pointers(operands: _Operands) -> Iterator[int]:
    yield operands.pointer * operands.inputs


def _mirror_pad(operands: _Operands) -> Iterator[int]:
    """Strides of output and input."""
    yield from [_WORD * len(operands.input(0).shape)] * 2


def _detection(operands: _Operands) -> Iterator[int]:
    boxes = _dimension(operands.input(0), 1)
    predictions = operands.input(1)
    detections = operands.option("max_detections")
    yield boxes  # active candidates
    yield _WORD * boxes * 4  # decoded boxes
    yield _WORD * _dimension(predictions, 1) * _dimension(predictions, 2)  # scores
    yield _WORD * boxes  # scores of a class
    yield _WORD * boxes  # scores that are kept
    yield _WORD * boxes * detections  # scores after the suppression
    yield _WORD * boxes * detections  # sorted values
    yield _WORD * boxes  # indices that are kept
    yield _WORD * boxes * detections  # sorted indices
    yield _WORD * boxes * max(operands.option("num_classes"), detections)  # room to sort in
    yield _WORD * boxes * min(boxes, detections)  # selected


def _rfft(operands: _Operands) -> Iterator[int]:
    """A block of samples, padded to the length of the transform."""
    data = operands.input(0)
    yield operands.option("fft_length") * data.type.bits // 8


_Sizes: TypeAlias = Callable[[_Operands], Iterator[int]]

_BUILTIN: Final[Mapping[str, _Sizes]] = MappingProxyType(
    {
        "ADD_N": _pointers,
        "CONV_2D": _unpacked_weights,
        "DEPTHWISE_CONV_2D": _unpacked_weights,
        "FULLY_CONNECTED": _unpacked_weights,
        "MEAN": _sums,
        "MIRROR_PAD": _mirror_pad,
        "REDUCE_ALL": _reduction,
        "REDUCE_MAX": _reduction,
        "REDUCE_MIN": _reduction,
        "SUM": _sums,
        "SVDF": _svdf,
        "TRANSPOSE_CONV": _transpose_conv,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    }
)
_CUSTOM: Final[Mapping[str, _Sizes]] = MappingProxyType(
    {"SignalRfft": _rfft, "TFLite_Detection_PostProcess": _detection}
)
