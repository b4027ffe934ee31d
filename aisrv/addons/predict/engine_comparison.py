"""Tensors of one model in different engines, and the first one that differs.

Some engines keep all their tensors: `kernels` and `kernels:NAME` by an arena in which none shares memory,
`tflm` by TensorFlow Lite Micro's own means, `tflite` and `litert` by TensorFlow Lite's. These two compute ADD
in place: inputs of an ADD read back as its output, and are left out ("The INT8 kernel engine", section
Oracles and their traps). All others show outputs alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.addon import KERNELS
from aisrv.addons.kernels.backends.registry import default_backend, find_backend
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from aisrv.inference.interpreter import create_interpreter, describe, run_once
from aisrv.model import Model, Operator
from aisrv.model.dtypes import DTYPES
from aisrv.model.reader import read_model
from aisrv.protocol.engine_kind import NO_MODEL, EngineKind
from aisrv.values.extras import import_failure

Tensors = Mapping[int, bytes]
"""Bytes of tensors by their index in the model."""

_ARENA: Final = 256 * 1024 * 1024


class EngineError(NetworkError):
    """An engine that is missing, or does not run the model."""


def run_kernels(data: bytes, inputs: Sequence[bytes], backend: str) -> Tensors:
    """Run a network of kernels once: all outputs of its operators. Raises KernelError."""
    network = load_network(data, find_backend(backend), planner=plan_apart)
    for buffer, value in zip(network.inputs, inputs, strict=True):
        buffer[:] = memoryview(value).cast("b")
    network.invoke()
    return {index: network.tensors[index].buffer.tobytes() for index in _computed(network.model)}


def run_tflm(data: bytes, inputs: Sequence[bytes]) -> Tensors:
    """Run TensorFlow Lite Micro once. Raises EngineError with its text."""
    try:
        from tflite_micro.python.tflite_micro import runtime
    except ImportError as error:
        raise EngineError(import_failure("tflm needs tflite-micro", error, "tflm")) from None
    model = read_model(data)
    try:
        interpreter = runtime.Interpreter.from_bytes(
            data,
            arena_size=_ARENA,
            intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
        )
        for number, value in enumerate(_arrays(model, inputs)):
            interpreter.set_input(value, number)
        interpreter.invoke()
        return {index: interpreter.GetTensor(index, 0)["tensor_data"].tobytes() for index in _computed(model)}
    except RuntimeError as error:
        raise EngineError(f"tflm does not run the model: {error}") from error


def _run_tensorflow(name: str, package: str, module: str) -> Callable[[bytes, Sequence[bytes]], Tensors]:
    """Return a function that runs the reference kernels of a package of TensorFlow Lite once."""

    def run(data: bytes, inputs: Sequence[bytes]) -> Tensors:
        try:
            binding = import_module(module)
        except ModuleNotFoundError:
            raise EngineError(f"{package} is not installed: pip install {package}") from None
        model = read_model(data)
        try:
            interpreter = binding.Interpreter(
                model_content=data,
                num_threads=1,
                experimental_op_resolver_type=binding.OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True,
            )
            interpreter.allocate_tensors()
            for index, value in zip(model.inputs, _arrays(model, inputs), strict=True):
                interpreter.set_tensor(index, value)
            interpreter.invoke()
            overwritten = {
                index for operator in model.operators if operator.name == "ADD" for index in operator.inputs
            }
            return {
                index: interpreter.get_tensor(index).tobytes()
                for index in _computed(model)
                if index not in overwritten
            }
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"{name} does not run the model: {error}") from error

    return run


run_tflite = _run_tensorflow("tflite", "tflite-runtime", "tflite_runtime.interpreter")

run_litert = _run_tensorflow("litert", "ai-edge-litert", "ai_edge_litert.interpreter")


def run_interpreter(kind: EngineKind, data: bytes, inputs: Sequence[bytes]) -> Tensors:
    """Run the interpreter of any kind once, which shows its outputs alone. Raises EngineError."""
    model = read_model(data)
    try:
        interpreter = create_interpreter(kind)
        layout = interpreter.load(data, _ARENA)
        outputs = [bytearray(size) for size in layout.outputs]
        given = [memoryview(each) for each in inputs]
        run_once(interpreter, given, [memoryview(each) for each in outputs])
    # An interpreter of somebody else may fail in any way.
    except Exception as error:
        raise EngineError(f"{kind} does not run the model: {describe(error)}") from error
    if len(layout.inputs) > len(inputs):
        nbytes = layout.inputs[-1]
        raise EngineError(f"the model loads {nbytes:,} bytes of parameters from flash, which are not given")
    return dict(zip(model.outputs, map(bytes, outputs), strict=True))


_WHOLE: Final[Mapping[str, Callable[[bytes, Sequence[bytes]], Tensors]]] = {
    "tflm": run_tflm,
    "tflite": run_tflite,
    "litert": run_litert,
}
"""Engines that show every tensor, besides our kernels."""


def run_engine(kind: EngineKind, data: bytes, inputs: Sequence[bytes]) -> Tensors:
    """Run an engine once. Raises KernelError, ModelFileError. Some engines show outputs alone."""
    if kind.name == KERNELS:
        return run_kernels(data, inputs, kind.options.get("backend") or default_backend())
    if kind.name == NO_MODEL:
        raise EngineError(f"an engine of kind {NO_MODEL!r} runs no model")
    run = _WHOLE.get(kind.name)
    return run_interpreter(kind, data, inputs) if run is None else run(data, inputs)


def _computed(model: Model) -> list[int]:
    """Return the tensors that operators write, of types that can be compared."""
    return [
        index
        for operator in model.operators
        for index in operator.outputs
        if model.tensors[index].type in DTYPES
    ]


def _arrays(model: Model, inputs: Sequence[bytes]) -> list[npt.NDArray[Any]]:
    return [
        np.frombuffer(value, DTYPES[tensor.type]).reshape(tensor.shape)
        for tensor, value in zip(model.input_tensors, inputs, strict=True)
    ]


class TensorDifference(NamedTuple):
    """Distance of two engines in one tensor."""

    elements: int
    differing: int
    largest: float
    """Largest absolute difference; infinite if one of two floats is not a number."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor in two engines; `difference` is None if one of them could not be read."""

    operator: Operator
    tensor: int
    difference: TensorDifference | None


def compare(model: Model, one: Tensors, other: Tensors) -> tuple[Comparison, ...]:
    """Compare the outputs of operators, in execution order."""
    found = []
    for operator in model.operators:
        for index in operator.outputs:
            tensor = model.tensors[index]
            if tensor.type not in DTYPES:
                continue
            difference = None
            if index in one and index in other:
                difference = _difference(one[index], other[index], DTYPES[tensor.type])
            found.append(Comparison(operator, index, difference))
    return tuple(found)


def _difference(one: bytes, other: bytes, dtype: np.dtype[Any]) -> TensorDifference:
    if one == other:
        return TensorDifference(len(one) // dtype.itemsize, 0, 0.0)
    first, second = np.frombuffer(one, dtype), np.frombuffer(other, dtype)
    if first.size != second.size:
        return TensorDifference(max(first.size, second.size), max(first.size, second.size), float("inf"))
    differing = int(np.count_nonzero(first.view(f"V{dtype.itemsize}") != second.view(f"V{dtype.itemsize}")))
    with np.errstate(invalid="ignore", over="ignore"):
        largest = float(np.max(np.abs(first.astype(np.float64) - second.astype(np.float64))))
    return TensorDifference(first.size, differing, largest if largest == largest else float("inf"))
