"""XMOS's build of TensorFlow Lite Micro as the interpreter: for models of its converter, and plain ones.

The library is the one of PyPI's `xmos-ai-tools`, called through its C functions (`inference_engine.h` of
lib_tflite_micro): that package's Python class ignores the outcome of a load, and reads tensors that are not
there afterwards. Source: "Inference engines", section Bindings.
"""

import ctypes
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import MissingPackageError, TensorLayout
from aisrv.inference.interpreters.xcore_config import ALIGNMENT, new_config, with_config
from aisrv.inference.parameters import LOADS, parameter_bytes, parameter_loads
from aisrv.model import Model
from aisrv.model.errors import LoadResult
from aisrv.model.reader import read_model

PACKAGE: Final = "xmos_ai_tools"
LIBRARY: Final = Path("xinterpreters", "libs", "linux", "xtflm_python.so")

_POINTERS: Final = 2
"""Size of the structures in the arena with a host's pointers, relative to the device's."""
_SLACK: Final = 1 << 16
_ERROR_BYTES: Final = 1 << 13
"""Room for the library's last message, which has at most 1024 bytes."""

_LOAD_FAILURES: Final = {
    1: "it was made for another version of the schema, or of XMOS's library",
    2: "its tensors cannot be allocated",
    3: "it has too many inputs",
    4: "it has too many outputs",
}


class XcoreInterpreter:
    """One model in XMOS's library.

    A model that loads parameters from flash has one input more than in its file: all the parameters.
    """

    def __init__(self) -> None:
        """Create one without a model. Raises MissingPackageError."""
        self._package = _find_package()
        self._library = _open(self._package / LIBRARY)

    def prepare(self) -> None:
        """Read the library's versions, and import what models with parameters need."""
        import_module("flatbuffers.flexbuffers")
        new_config(self._package)

    def load(self, model: bytes, arena_bytes: int) -> TensorLayout:
        """Load a model file. Raises ModelError.

        The library's structures are larger than the device's, so its arena is, too: the caller compares the
        device's need with `arena_bytes`.
        """
        parsed = read_model(model)
        _check_kernels(parsed)
        _check_subgraphs(parsed)
        parameters = parameter_bytes(parameter_loads(parsed))
        data = with_config(model, parsed, self._package)
        self._model = _aligned(data)
        # The library begins its arena behind the model's size, whether or not the model is there.
        size = len(data) + _POINTERS * arena_bytes + _SLACK
        self._engine = ctypes.c_void_p(self._library.new_interpreter(size, ALIGNMENT))
        self._parameters = _bytes(parameters)
        result = self._library.inference_engine_load_model(
            self._engine, len(data), self._model, self._parameters
        )
        if result:
            raise self._load_failure(result)
        inputs = tuple(tensor.nbytes for tensor in parsed.input_tensors)
        outputs = tuple(tensor.nbytes for tensor in parsed.output_tensors)
        self._inputs = [_bytes(size) for size in inputs]
        self._outputs = [_bytes(size) for size in outputs]
        return TensorLayout(inputs + ((parameters,) if parameters else ()), outputs)

    def set_input(self, number: int, data: memoryview) -> None:
        """Copy the bytes of one input in, or those of the parameters."""
        if number == len(self._inputs):
            memoryview(self._parameters).cast("B")[:] = data
            return
        buffer = self._inputs[number]
        memoryview(buffer).cast("B")[: len(data)] = data
        self._library.set_input_tensor(self._engine, number, buffer, len(data))

    def invoke(self) -> None:
        """Run the model once; RuntimeError with the library's text."""
        status = self._library.invoke(self._engine)
        if status:
            raise RuntimeError(f"the library's status is {status}{self._last_message()}")

    def get_input(self, number: int, into: memoryview) -> None:
        if number == len(self._inputs):
            return
        buffer = self._inputs[number]
        self._library.get_input_tensor(self._engine, number, buffer, len(into))
        into[:] = memoryview(buffer).cast("B")[: len(into)]

    def get_output(self, number: int, into: memoryview) -> None:
        buffer = self._outputs[number]
        self._library.get_output_tensor(self._engine, number, buffer, len(into))
        into[:] = memoryview(buffer).cast("B")[: len(into)]

    def _load_failure(self, result: int) -> ModelError:
        reason = _LOAD_FAILURES.get(result, f"the library's load result is {result}")
        known = LoadResult(result) if result in _LOAD_FAILURES else LoadResult.OTHER
        return ModelError(f"XMOS's library cannot load it: {reason}{self._last_message()}", known)

    def _last_message(self) -> str:
        ctypes.CDLL(None).fflush(None)  # what it printed is in C's buffers, which die with the process
        text = ctypes.create_string_buffer(_ERROR_BYTES)
        self._library.get_error(self._engine, text)
        message = " ".join(text.value.decode(errors="replace").split())
        return f": {message}" if message else ""


def _find_package() -> Path:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError("xmos-ai-tools", "xcore")
    return Path(found.submodule_search_locations[0])


def _open(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    engine, address, size = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    signatures = {
        "new_interpreter": (engine, [size, size]),
        "inference_engine_load_model": (ctypes.c_int, [engine, ctypes.c_uint32, address, address]),
        "set_input_tensor": (ctypes.c_int, [engine, size, address, ctypes.c_int]),
        "get_input_tensor": (ctypes.c_int, [engine, size, address, ctypes.c_int]),
        "get_output_tensor": (ctypes.c_int, [engine, size, address, ctypes.c_int]),
        "invoke": (ctypes.c_int, [engine]),
        "get_error": (size, [engine, ctypes.c_char_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _bytes(size: int) -> "ctypes.Array[ctypes.c_char]":
    return (ctypes.c_char * max(size, 1))()


def _aligned(data: bytes) -> "ctypes.Array[ctypes.c_char]":
    """Copy bytes to memory that begins at a multiple of ALIGNMENT, as kernels expect of a model."""
    memory = (ctypes.c_char * (len(data) + ALIGNMENT))()
    start = -ctypes.addressof(memory) % ALIGNMENT
    aligned = (ctypes.c_char * len(data)).from_buffer(memory, start)
    memoryview(aligned).cast("B")[:] = data
    return aligned


def _check_kernels(model: Model) -> None:
    """Refuse what the library computes wrongly without a word."""
    for operator in model.operators:
        if operator.name == "FULLY_CONNECTED" and len(operator.inputs) > 1 and operator.inputs[1] >= 0:
            weights = model.tensors[operator.inputs[1]].quantization
            if weights is not None and len(set(weights.scales)) > 1:
                raise ModelError(
                    f"operator {operator.index} (FULLY_CONNECTED) has a scale for each channel, of which "
                    "XMOS's kernel takes the first for all"
                )


def _check_subgraphs(model: Model) -> None:
    """Refuse loads of parameters that are not in operator order: those of branches and loops."""
    others = model.other_subgraphs
    operators = [*model.operators, *(each for subgraph in others for each in subgraph.operators)]
    loads = LOADS & {operator.name for operator in operators}
    if others and loads:
        raise ModelError(
            f"the model has {len(others) + 1} subgraphs and {', '.join(sorted(loads))}: "
            "it is not known in advance which parameters a run loads"
        )
