"""TensorFlow Lite Micro as the interpreter: the code that devices run, with an arena of a fixed size.

Differences from a device: it is built for 64 bits, so that its structures take 4 to 10 % more of the arena. A
run overwrites its inputs, as on a device, but nothing tells with what: they are shown as they were written,
and each run starts from that ("Inference engines", section Bindings).
"""

import math
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from aisrv.inference.interpreter import MissingPackageError, TensorLayout, warm_up
from aisrv.model import Model
from aisrv.model.reader import read_model

_BINDING: Final = "tflite_micro.python.tflite_micro._runtime"


def import_binding() -> ModuleType:
    """Load the extension module alone: its package imports training tools, which takes 40 ms."""
    package, *path = _BINDING.split(".")
    found = PathFinder.find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        file = Path(folder, *path).with_suffix(".so")
        spec = spec_from_file_location(_BINDING, file) if file.exists() else None
        if spec is not None and spec.loader is not None:
            module = sys.modules[_BINDING] = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise MissingPackageError("tflite-micro", "tflm")


_runtime: Final = sys.modules.get(_BINDING) or import_binding()


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, details: dict[str, Any]) -> "_Tensor":
        return cls(tuple(map(int, details["shape"])), np.dtype(details["dtype"]))


class TflmInterpreter:
    """One model in `tflite-micro`. Its output on descriptors 1 and 2 says why a model does not load."""

    def prepare(self) -> None:
        """Have the binding do its late imports."""
        warm_up(TflmInterpreter())

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        """Load a model file into an arena; RuntimeError without the reason, which the library prints."""
        parsed = read_model(model)
        self._interpreter = _runtime.InterpreterWrapper(
            model,
            [],
            arena_bytes,
            _resource_variables(parsed),
            _runtime.PythonInterpreterConfig.kAllocationRecording,
            0,
        )
        self._inputs = [
            _Tensor.of(self._interpreter.GetInputTensorDetails(number))
            for number in range(len(parsed.inputs))
        ]
        self._outputs = [
            _Tensor.of(self._interpreter.GetOutputTensorDetails(number))
            for number in range(len(parsed.outputs))
        ]
        return TensorLayout(
            tuple(tensor.nbytes for tensor in self._inputs), tuple(tensor.nbytes for tensor in self._outputs)
        )

    def set_input(self, number: int, data: memoryview) -> None:
        tensor = self._inputs[number]
        value = np.frombuffer(data, tensor.dtype).reshape(tensor.shape)
        self._interpreter.SetInputTensor(value, number)

    def invoke(self) -> None:
        """Run the model once; RuntimeError without the reason, which the library prints."""
        self._interpreter.Invoke()

    def get_input(self, number: int, into: memoryview) -> None:
        """Do nothing: the binding reads inputs only if it preserves all tensors, in another plan."""

    def get_output(self, number: int, into: memoryview) -> None:
        """Copy the bytes of one output out; ValueError if its size differs from that at `load`."""
        value = self._interpreter.GetOutputTensor(number)
        if value.nbytes != len(into):
            raise ValueError(f"output {number} now has {value.nbytes} bytes, it was loaded with {len(into)}")
        tensor = self._outputs[number]
        np.frombuffer(into, tensor.dtype).reshape(tensor.shape)[...] = value


def _resource_variables(model: Model) -> int:
    """Count the variables that operators of any subgraph name."""
    subgraphs = (model.operators, *(subgraph.operators for subgraph in model.other_subgraphs))
    return len(
        {
            operator.options.fields.get("shared_name")
            for operators in subgraphs
            for operator in operators
            if operator.name == "VAR_HANDLE"
        }
    )
