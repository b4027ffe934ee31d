"""The interface of interpreters, and the table of them.

The module is imported by every worker process: it must stay light.
"""

import mmap
import struct
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self, cast

import aisrv
from aisrv.inference.errors import InferenceError, ModelError
from aisrv.protocol.engine_kind import KINDS, NO_MODEL, RELOCATABLE, EngineKind, EngineKindError, find_kind
from aisrv.values.addons import load
from aisrv.values.extras import install_command

ALIGNMENT: Final = 64
"""Bytes to which the start of a tensor is rounded up in memory that holds several."""

_IMAGE_MAGIC: Final = b"NBIN"
_COUNTS: Final = struct.Struct("<2I")
_WARM_UP_MODEL: Final = Path("digits", "digits.tflite")
_WARM_UP_ARENA: Final = 1 << 18


ModelBytes = bytes | bytearray | memoryview
"""A model's file in memory, unchanged from now on."""


class InPlaceModel(Protocol):
    """A model that runs in its storage: memory that changes as the storage does."""

    @property
    def descriptor(self) -> int:
        """File in memory that holds it, of whole pages."""

    @property
    def memory(self) -> mmap.mmap:
        """Mapping of that file."""

    @property
    def offset(self) -> int:
        """Offset of the model in it, in bytes."""

    @property
    def changes(self) -> int:
        """Number of changes of the storage there."""

    def close(self) -> None:
        """End the use of the storage."""


LogSink = Callable[[str], None]
"""Takes text for a debug log: one line or several."""


class TensorLayout(NamedTuple):
    """Sizes in bytes of a loaded model's inputs and outputs, in the order of its main subgraph."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of memory for all tensors: the inputs, then the outputs, each at a multiple of ALIGNMENT."""
        return sum(map(_aligned, self.inputs + self.outputs))

    def views(self, memory: memoryview) -> tuple[list[memoryview], list[memoryview]]:
        """Cut `nbytes` bytes of memory into inputs and outputs."""
        sizes = self.inputs + self.outputs
        starts = accumulate(map(_aligned, sizes), initial=0)
        views = [memory[start : start + size] for start, size in zip(starts, sizes, strict=False)]
        return views[: len(self.inputs)], views[len(self.inputs) :]

    def __bytes__(self) -> bytes:
        """Pack the two counts as u32 and the sizes as u64, little-endian."""
        sizes = self.inputs + self.outputs
        return _COUNTS.pack(len(self.inputs), len(self.outputs)) + struct.pack(f"<{len(sizes)}Q", *sizes)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Unpack `data` that `__bytes__` packed. Raises ValueError."""
        try:
            inputs, outputs = _COUNTS.unpack_from(data)
            sizes: tuple[int, ...] = struct.unpack(f"<{inputs + outputs}Q", data[_COUNTS.size :])
        except struct.error as error:
            raise ValueError(f"{len(data)} bytes are not a tensor layout: {error}") from None
        return cls(sizes[:inputs], sizes[inputs:])


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Confinement(Enum):
    """Moment at which a worker enters its sandbox; an interpreter may have an attribute `confinement`."""

    BEFORE_LOAD = "before the model is loaded"
    """The rule: what is imported late, or read from files, must be so when the interpreter is created."""
    AFTER_LOAD = "when the model is loaded"
    """Later, for interpreters that compile what a model needs, and read models with code of their own."""
    EMULATOR = "before the model is loaded, with threads and executable memory"
    """The rule for emulators, which make code as they run and stop it from a thread."""
    EMULATOR_AFTER_LOAD = "when the model is loaded, with threads and executable memory"
    """Later, for backends of kernels that may need either."""
    NONE = "never"
    """Never, for an interpreter of the user's own that needs files, threads or devices."""


def confinement_of(interpreter: object) -> Confinement:
    """Return the moment at which the worker of an interpreter enters its sandbox."""
    confinement: Confinement = getattr(interpreter, "confinement", Confinement.BEFORE_LOAD)
    return confinement


def prepare(interpreter: object) -> None:
    """Have an interpreter do all that needs files, if it has a method `prepare`."""
    method = getattr(interpreter, "prepare", None)
    if method is not None:
        method()


class Interpreter(Protocol):
    """One model in one interpreter. Calls are synchronous; any of them may raise any error of the binding.

    An interpreter is created with the options of its kind by name, loads once, and is then invoked any number
    of times: all inputs are set before each `invoke`, and all tensors are read after it. `number` is that of
    an input or output tensor; `data` and `into` are all of its bytes.
    """

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        """Load a model file and allocate its tensors, in an arena of `arena_bytes` if it has one."""

    def set_input(self, number: int, data: memoryview) -> None:
        """Copy the bytes of one input in."""

    def invoke(self) -> None:
        """Run the model once."""

    def get_input(self, number: int, into: memoryview) -> None:
        """Copy one input out as the run left it; nothing to do if runs leave inputs as they were."""

    def get_output(self, number: int, into: memoryview) -> None:
        """Copy the bytes of one output out."""


INTERPRETERS: Final = {name: kind.interpreter for name, kind in KINDS.items() if kind.interpreter}
"""Interpreters of the product by kind: "module:class", imported by the process that runs one."""


class MissingPackageError(ImportError):
    """A package that an interpreter needs and that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        """Name the package, and the extra of this project that brings it."""
        self.advice = install_command(extra)
        super().__init__(f"{package} is not installed: {self.advice}")


def check_runs_models(kind: EngineKind) -> None:
    """Raise EngineKindError for the kind that runs no model."""
    if kind.name == NO_MODEL:
        raise EngineKindError(f"an engine of kind {kind.name!r} has no interpreter")


def is_shipped(kind: EngineKind) -> bool:
    """Check whether a kind, with its variant, comes with this package."""
    return kind.name in INTERPRETERS and kind.variant.is_shipped


def create_interpreter(kind: EngineKind) -> Interpreter:
    """Create the interpreter of a kind with its options. Raises ImportError or AttributeError for none."""
    found = find_kind(kind.name)
    place = (found and found.interpreter) or kind.name
    return cast("Interpreter", load(place)(**kind.options))


def runs_in_place(kind: EngineKind) -> bool:
    """Check whether an engine runs stored models in place, as those of relocatable images do."""
    return kind.variant.runs_in_place


class InPlaceInterpreter(Interpreter, Protocol):
    """An interpreter that runs models in place."""

    def load_in_place(self, memory: mmap.mmap, offset: int, arena_bytes: int, /) -> TensorLayout:
        """Load a model that begins, and stays, at `offset` bytes of memory, as `load` does."""

    def invoke_counted(self) -> int:
        """Run the model once; return the lines of the cache before its storage that this filled."""

    def forget_code(self) -> None:
        """Read the model's code anew: the memory was changed."""


def check_kind_of_model(kind: EngineKind, model: ModelBytes) -> None:
    """Raise ModelError for a relocatable image on an engine of ours that executes none."""
    if model[:4] == _IMAGE_MAGIC and kind.name != RELOCATABLE and kind.name in INTERPRETERS:
        raise ModelError(f"a relocatable image, on the engine {kind}: use --engine {RELOCATABLE}")


def run_once(interpreter: Interpreter, inputs: Sequence[memoryview], outputs: Sequence[memoryview]) -> None:
    """Set all inputs, invoke, and fill all outputs; where `invoke` raises, they stay as they are.

    Inputs are only read, even where a run overwrites those of the interpreter.
    """
    for number, data in enumerate(inputs):
        interpreter.set_input(number, data)
    interpreter.invoke()
    for number, into in enumerate(outputs):
        interpreter.get_output(number, into)


def run_in_tensors(
    interpreter: Interpreter, inputs: Sequence[memoryview], outputs: Sequence[memoryview]
) -> None:
    """Do as `run_once` in the memory of a device's tensors, whose inputs get what the run leaves of them."""
    run_once(interpreter, inputs, outputs)
    for number, into in enumerate(inputs):
        interpreter.get_input(number, into)


def run_counted_in_tensors(
    interpreter: InPlaceInterpreter, inputs: Sequence[memoryview], outputs: Sequence[memoryview]
) -> int:
    """Do as `run_in_tensors`; return the lines that the run filled of the cache before its storage."""
    for number, data in enumerate(inputs):
        interpreter.set_input(number, data)
    lines = interpreter.invoke_counted()
    for number, into in enumerate(outputs):
        interpreter.get_output(number, into)
    for number, into in enumerate(inputs):
        interpreter.get_input(number, into)
    return lines


def warm_up(interpreter: Interpreter) -> None:
    """Run a model once on an interpreter that is used for nothing else, before the process may open no files.

    Bindings import modules and read what the processor can do when they load or run their first model.
    """
    model = (Path(aisrv.__file__).parent / _WARM_UP_MODEL).read_bytes()
    layout = interpreter.load(model, _WARM_UP_ARENA)
    run_once(interpreter, *layout.views(memoryview(bytearray(layout.nbytes))))


def describe(error: Exception) -> str:
    """Describe an exception: the text of our own, the type and text of a binding's (one is often empty)."""
    text = str(error).strip()
    if isinstance(error, (InferenceError, MissingPackageError)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
