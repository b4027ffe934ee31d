"""Models for the tests of operators: one operator each, and what TensorFlow Lite Micro makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator, constant_tensor

UNIT: Final = Quantization.per_tensor(1.0, 0)
PROBABILITIES: Final = Quantization.per_tensor(1 / 256, -128)


def tensor(
    name: str,
    shape: Sequence[int],
    scale: float = 1.0,
    zero_point: int = 0,
    kind: TensorType = TensorType.INT8,
) -> Tensor:
    """A tensor that is computed or given."""
    quantized = kind in (TensorType.INT8, TensorType.UINT8, TensorType.INT16)
    return Tensor(name, tuple(shape), kind, Quantization.per_tensor(scale, zero_point) if quantized else None)


def constant(
    name: str, values: Any, dtype: Any = np.int32, quantization: Quantization | None = None
) -> Tensor:
    """A constant of the values."""
    return constant_tensor(name, np.array(values, dtype), quantization)


def packed_int4(name: str, values: npt.NDArray[np.int8], quantization: Quantization) -> Tensor:
    """A constant of 4 bits an element, the first in the lower half of a byte."""
    halves = np.append(values.ravel(), np.zeros(values.size % 2, np.int8)).astype(np.uint8) & 15
    data = (halves[0::2] | halves[1::2] << 4).tobytes()
    return Tensor(name, values.shape, TensorType.INT4, quantization, data)


def single(
    code: int,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    options: Mapping[str, int | float | Sequence[int]] | None = None,
) -> bytes:
    """A model of one operator; its inputs are those that are neither constants nor variables."""
    operator = NetworkOperator(
        code, tuple(each.name for each in inputs), tuple(each.name for each in outputs), options or {}
    )
    given = tuple(each.name for each in inputs if each.data is None and not each.is_variable)
    tensors = {each.name: each for each in (*inputs, *outputs)}
    return bytes(Network(tuple(tensors.values()), (operator,), given, operator.outputs))


def tflm(model: bytes, *inputs: npt.NDArray[Any], outputs: int = 1) -> list[bytes]:
    """Run a model once in TensorFlow Lite Micro: the bytes of its outputs."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=1 << 22)
    for number, data in enumerate(inputs):
        interpreter.set_input(data, number)
    interpreter.invoke()
    return [interpreter.get_output(number).tobytes() for number in range(outputs)]


def tflm_tensors(model: bytes, inputs: Sequence[npt.NDArray[Any]], wanted: Sequence[int]) -> dict[int, bytes]:
    """Run a model once in TensorFlow Lite Micro with all tensors preserved: the bytes of those wanted."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_bytes(
        model,
        arena_size=1 << 24,
        intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
    )
    for number, data in enumerate(inputs):
        interpreter.set_input(data, number)
    interpreter.invoke()
    return {index: interpreter.GetTensor(index, 0)["tensor_data"].tobytes() for index in wanted}


def random_int8(shape: Sequence[int], seed: int = 0) -> npt.NDArray[np.int8]:
    """Random values, the same at every call."""
    return np.random.default_rng(seed).integers(-128, 128, tuple(shape), dtype=np.int8)
