"""An interpreter in this process, for devices on virtual time.

A clock that jumps over idle time would jump over a worker's answer: a worker process is the outside world.
Nothing protects this process here: a model that crashes an interpreter crashes the device with it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import (
    InPlaceInterpreter,
    InPlaceModel,
    Interpreter,
    LogSink,
    ModelBytes,
    TensorLayout,
    check_kind_of_model,
    check_runs_models,
    create_interpreter,
    describe,
    run_counted_in_tensors,
    run_in_tensors,
)
from aisrv.inference.process.tensor_memory import TensorMemory
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.xcore.runtime import let_others_run

T = TypeVar("T")


class InlineInterpreter(TensorMemory):
    """One model in this process; the calls are those of `IsolatedInterpreter`, each with one checkpoint.

    The checkpoint comes first: a call that is cancelled has done nothing.
    """

    def __init__(self, kind: EngineKind | None = None) -> None:
        """Create one without a model, of the default kind if none is given. Raises EngineKindError."""
        super().__init__()
        self._kind = kind or default_kind()
        check_runs_models(self._kind)
        self._interpreter: Interpreter | None = None
        self._model: ModelBytes = b""
        self._arena_bytes = 0
        self._in_place: InPlaceModel | None = None
        self._changes = 0  # of the storage, that the interpreter knows of

    async def compute(self, function: Callable[[], T]) -> T:
        """Call a `function` here and now: no other task runs meanwhile."""
        await let_others_run()
        return function()

    async def load(self, model: ModelBytes, arena_bytes: int, in_place: InPlaceModel | None = None) -> None:
        """Load a model, or none if it raises ModelError; it may use an arena of `arena_bytes`."""
        await let_others_run()
        self._release()
        try:
            interpreter = create_interpreter(self._kind)
            check_kind_of_model(self._kind, model)
            layout = _load(interpreter, model, arena_bytes, in_place)
        except Exception as error:
            result = error.load_result if isinstance(error, ModelError) else LoadResult.OTHER
            raise ModelError(f"loading the model: {describe(error)}", result) from error
        self._place(layout, memoryview(bytearray(layout.nbytes)))
        self._interpreter = interpreter
        self._model = model
        self._arena_bytes = arena_bytes
        self._in_place = in_place
        self._changes = 0

    async def invoke(self) -> None:
        """Run the model once on the inputs as they are. Raises InvokeError."""
        await self._run(run_in_tensors)

    async def invoke_counted(self) -> int:
        """Run a model that runs in place; return the lines filled of the cache before its storage."""
        return await self._run(run_counted_in_tensors)

    async def _run(self, run: Callable[[Any, Sequence[memoryview], Sequence[memoryview]], T]) -> T:
        await let_others_run()
        if self._interpreter is None:
            raise InvokeError("no model is loaded")
        if self._in_place is not None and self._changes != self._in_place.changes:
            self._changes = self._in_place.changes
            cast("InPlaceInterpreter", self._interpreter).forget_code()
        try:
            return run(self._interpreter, self._inputs, self._outputs)
        except Exception as error:
            raise InvokeError(f"running the model: {describe(error)}") from error

    async def reset_variables(self) -> None:
        """Load the model into a new interpreter, whose variables have their first values."""
        await let_others_run()
        if self._interpreter is not None:
            self._interpreter = create_interpreter(self._kind)
            _load(self._interpreter, self._model, self._arena_bytes, self._in_place)

    async def close(self) -> None:
        """Unload the model. Views of its tensors stay readable."""
        self._release()
        await let_others_run()

    def _release(self) -> None:
        self._interpreter = None
        self._model = b""
        self._in_place = None
        self._forget()


def _load(
    interpreter: Interpreter, model: ModelBytes, arena_bytes: int, in_place: InPlaceModel | None
) -> TensorLayout:
    if in_place is None:
        return interpreter.load(bytes(model), arena_bytes)
    runs_there = cast("InPlaceInterpreter", interpreter)
    return runs_there.load_in_place(in_place.memory, in_place.offset, arena_bytes)


def inline(_log: LogSink, *, kind: EngineKind | None = None) -> InlineInterpreter:
    """Create a runner for `InferenceEngine` in this process; an interpreter's output is not captured."""
    return InlineInterpreter(kind)
