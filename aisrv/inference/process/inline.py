"""An interpreter in this process, for devices on virtual time.

A clock that jumps over idle time would jump over a worker's answer: a worker process is the outside world.
Nothing protects this process here: a model that crashes an interpreter crashes the device with it.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import (
    Interpreter,
    LogSink,
    ModelBytes,
    check_kind_of_model,
    check_runs_models,
    create_interpreter,
    describe,
    run_once,
)
from aisrv.inference.process.tensor_memory import TensorMemory
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind, default_kind

T = TypeVar("T")


class InlineInterpreter(TensorMemory):
    """One model in this process; the calls are those of `IsolatedInterpreter`, each with one checkpoint.

    The checkpoint comes first: a call that is cancelled has done nothing.
    """

    def __init__(self, kind: EngineKind | None = None) -> None:
        """Create one without a model, of the default kind where none is given.

        Raises EngineKindError for a kind without an interpreter.
        """
        super().__init__()
        self._kind = kind or default_kind()
        check_runs_models(self._kind)
        self._interpreter: Interpreter | None = None
        self._model = b""
        self._arena_bytes = 0

    async def compute(self, function: Callable[[], T]) -> T:
        """Call it here and now: no other task runs meanwhile."""
        await trio.lowlevel.checkpoint()
        return function()

    async def load(self, model: ModelBytes, arena_bytes: int) -> None:
        """Load a model; ModelError with the reason, and nothing is left."""
        await trio.lowlevel.checkpoint()
        self._release()
        try:
            interpreter = create_interpreter(self._kind)
            check_kind_of_model(self._kind, model)
            layout = interpreter.load(bytes(model), arena_bytes)
        except Exception as error:
            result = error.load_result if isinstance(error, ModelError) else LoadResult.OTHER
            raise ModelError(f"loading the model: {describe(error)}", result) from error
        self._place(layout, memoryview(bytearray(layout.nbytes)))
        self._interpreter = interpreter
        self._model = bytes(model)
        self._arena_bytes = arena_bytes

    async def invoke(self) -> None:
        """Run the model once on the inputs as they are; InvokeError with the reason."""
        await trio.lowlevel.checkpoint()
        if self._interpreter is None:
            raise InvokeError("no model is loaded")
        try:
            run_once(self._interpreter, self._inputs, self._outputs)
        except Exception as error:
            raise InvokeError(f"running the model: {describe(error)}") from error

    async def reset_variables(self) -> None:
        """Load the model into a new interpreter, whose variables have their first values."""
        await trio.lowlevel.checkpoint()
        if self._interpreter is not None:
            self._interpreter = create_interpreter(self._kind)
            self._interpreter.load(self._model, self._arena_bytes)

    async def close(self) -> None:
        """Forget the model. Views of its tensors stay readable."""
        self._release()
        await trio.lowlevel.checkpoint()

    def _release(self) -> None:
        self._interpreter = None
        self._model = b""
        self._forget()


def inline(_log: LogSink, *, kind: EngineKind | None = None) -> InlineInterpreter:
    """Create a runner for `InferenceEngine` in this process; what an interpreter prints is not captured."""
    return InlineInterpreter(kind)
