"""TensorFlow Lite as the interpreter: the reference kernels on one thread.

On int8 models `tflite-runtime` with the reference resolver equals TensorFlow Lite Micro bit for bit, which
the default resolver with XNNPACK does not ("Inference engines", table of engines). Where there is no
`tflite-runtime`, from Python 3.12 on, `ai-edge-litert` takes its place; its FULLY_CONNECTED differs by a few
steps of the last bit.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from aisrv.inference.interpreter import TensorLayout

try:
    from tflite_runtime.interpreter import Interpreter, OpResolverType
except ModuleNotFoundError:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType


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


class TfliteInterpreter:
    """One model in `tflite-runtime`, or `ai-edge-litert`. Inputs keep their values when it runs."""

    def load(self, model: bytes) -> TensorLayout:
        """Load a model file and allocate its tensors; ValueError or RuntimeError with the library's text."""
        self._interpreter = Interpreter(
            model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        self._interpreter.allocate_tensors()
        self._inputs = [_Tensor.of(details) for details in self._interpreter.get_input_details()]
        self._outputs = [_Tensor.of(details) for details in self._interpreter.get_output_details()]
        return TensorLayout(
            tuple(tensor.nbytes for tensor in self._inputs), tuple(tensor.nbytes for tensor in self._outputs)
        )

    def set_input(self, number: int, data: memoryview) -> None:
        """Copy the bytes of one input in."""
        tensor = self._inputs[number]
        value = np.frombuffer(data, tensor.dtype).reshape(tensor.shape)
        self._interpreter.set_tensor(tensor.number, value)

    def invoke(self) -> None:
        """Run the model once; RuntimeError with the library's text."""
        self._interpreter.invoke()

    def get_output(self, number: int, into: memoryview) -> None:
        """Copy the bytes of one output out; ValueError where its size is not the one at `load`."""
        tensor = self._outputs[number]
        value = self._interpreter.get_tensor(tensor.number)
        if value.nbytes != len(into):
            raise ValueError(f"output {number} now has {value.nbytes} bytes, it was loaded with {len(into)}")
        np.frombuffer(into, tensor.dtype).reshape(tensor.shape)[...] = value
