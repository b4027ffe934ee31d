"""TensorFlow Lite as the interpreter, in two packages: the reference kernels on one thread.

On int8 models `tflite-runtime` with the reference resolver equals TensorFlow Lite Micro bit for bit, which
the default resolver with XNNPACK does not ("Inference engines", table of engines). LiteRT, in the package
`ai-edge-litert`, is its successor: it verifies a model's structure before it reads it, and its
FULLY_CONNECTED differs by a few steps of the last bit. Both are imported when an interpreter is made.
"""

import math
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from aisrv.inference.interpreter import MissingPackageError, TensorLayout, warm_up
from aisrv.model.bias_scales import with_sound_dimensions


class _Tensor(NamedTuple):
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, details: dict[str, Any]) -> "_Tensor":
        dtype = np.dtype(details["dtype"])
        if dtype.kind in "OSUV":
            raise ValueError(f"tensor {details['name']!r} has no elements of a fixed size")
        return cls(details["index"], tuple(map(int, details["shape"])), dtype)


class _BoundInterpreter:
    """One model behind the interface that both packages have. Inputs keep their values."""

    def __init__(self, binding: ModuleType) -> None:
        """Create one without a model; `binding` has the classes Interpreter and OpResolverType."""
        self._binding = binding

    def prepare(self) -> None:
        """Have the package do its late imports."""
        warm_up(_BoundInterpreter(self._binding))

    def load(self, model: bytes, _arena_bytes: int, /) -> TensorLayout:
        """Load a model file and allocate its tensors; ValueError or RuntimeError with the library's text.

        Tensors are on the heap, of any size: the caller compares them with an arena.
        """
        self._interpreter = self._binding.Interpreter(
            model_content=with_sound_dimensions(model),
            num_threads=1,
            experimental_op_resolver_type=self._binding.OpResolverType.BUILTIN_REF,
        )
        self._interpreter.allocate_tensors()
        self._inputs = [_Tensor.of(details) for details in self._interpreter.get_input_details()]
        self._outputs = [_Tensor.of(details) for details in self._interpreter.get_output_details()]
        return TensorLayout(
            tuple(tensor.nbytes for tensor in self._inputs), tuple(tensor.nbytes for tensor in self._outputs)
        )

    def set_input(self, number: int, data: memoryview) -> None:
        tensor = self._inputs[number]
        value = np.frombuffer(data, tensor.dtype).reshape(tensor.shape)
        self._interpreter.set_tensor(tensor.number, value)

    def invoke(self) -> None:
        """Run the model once; RuntimeError with the library's text."""
        self._interpreter.invoke()

    def get_input(self, number: int, into: memoryview) -> None:
        """Do nothing: a run leaves its inputs as they were."""

    def get_output(self, number: int, into: memoryview) -> None:
        """Copy the bytes of one output out; ValueError if its size differs from that at `load`."""
        tensor = self._outputs[number]
        value = self._interpreter.get_tensor(tensor.number)
        if value.nbytes != len(into):
            raise ValueError(f"output {number} now has {value.nbytes} bytes, it was loaded with {len(into)}")
        np.frombuffer(into, tensor.dtype).reshape(tensor.shape)[...] = value


class TfliteInterpreter(_BoundInterpreter):
    """One model in `tflite-runtime`, or in `ai-edge-litert` if that is missing: from Python 3.12 on."""

    def __init__(self) -> None:
        """Create one without a model. Raises MissingPackageError."""
        try:
            binding = import_module("tflite_runtime.interpreter")
        except ModuleNotFoundError:
            binding = _litert()
        super().__init__(binding)


class LitertInterpreter(_BoundInterpreter):
    """One model in `ai-edge-litert`."""

    def __init__(self) -> None:
        """Create one without a model. Raises MissingPackageError."""
        super().__init__(_litert())


def _litert() -> ModuleType:
    try:
        return import_module("ai_edge_litert.interpreter")
    except ModuleNotFoundError as error:
        raise MissingPackageError("ai-edge-litert", "litert") from error
