"""Engines by the kind that a board names, and the one without a model: a buffer as both input and output.

A host writes the buffer, starts an inference, which changes nothing, and reads the buffer back: a test of a
sensor or a link. Source: "Inference engines", table of engines, row "none".
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

from aisrv.inference.engine import Fallback, InferenceEngine, Runners
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import InPlaceModel, LogSink, ModelBytes
from aisrv.inference.parameters import ParameterSource
from aisrv.inference.timings import DeviceModel
from aisrv.protocol.engine_kind import NO_MODEL, EngineKind
from aisrv.protocol.memory_map import ModelMemory

BUFFER_BYTES: Final = 1024


class BufferEngine(InferenceEngine):
    """One input tensor and one output tensor that are the same bytes, zeros at first; no operators."""

    def __init__(
        self,
        *,
        arena_bytes: int,
        external_bytes: int,
        buffer_bytes: int = BUFFER_BYTES,
        log: LogSink = lambda _text: None,
    ) -> None:
        from aisrv.inference.process.inline import inline

        super().__init__(inline, arena_bytes=arena_bytes, external_bytes=external_bytes, log=log)
        self._buffer = memoryview(bytearray(buffer_bytes))

    @property
    def is_ready(self) -> bool:
        return True

    @property
    def input_count(self) -> int:
        return 1

    @property
    def output_count(self) -> int:
        return 1

    def input(self, number: int) -> memoryview:
        """Return the buffer; IndexError for any number but 0."""
        return self._tensor("input", number)

    def output(self, number: int) -> memoryview:
        return self._tensor("output", number)

    async def load_model(
        self, model: ModelBytes, memory: ModelMemory, in_place: InPlaceModel | None = None
    ) -> NoReturn:
        """Refuse with a ModelError; the buffer stays as it is."""
        if in_place is not None:
            in_place.close()
        raise ModelError(
            f"a model of {len(model):,} bytes for the {memory.value}: this engine takes none, "
            "its one buffer is both input and output"
        )

    async def unload_model(self) -> None: ...

    async def invoke(self) -> None: ...

    async def print_profiler_summary(self) -> str:
        return "The engine runs no model.\n"

    def _tensor(self, kind: str, number: int) -> memoryview:
        if number != 0:
            raise IndexError(f"no {kind} {number}: there is one buffer")
        return self._buffer[:]


def create_engine(
    kind: EngineKind,
    runners: Runners,
    *,
    arena_bytes: int,
    external_bytes: int,
    device: DeviceModel | None = None,
    parameters: ParameterSource | None = None,
    fallback: EngineKind | None = None,
    log: LogSink = lambda _text: None,
    make: Callable[..., InferenceEngine] = InferenceEngine,
) -> InferenceEngine:
    """Create an engine of a kind, without a model; one that takes models by `make`.

    Its models run on a runner of `runners`, those that its interpreter has no code for on one of the kind
    `fallback`, if given. The other parameters are those of InferenceEngine.
    """
    if kind.name == NO_MODEL:
        return BufferEngine(arena_bytes=arena_bytes, external_bytes=external_bytes, log=log)
    return make(
        partial(runners, kind=kind),
        arena_bytes=arena_bytes,
        external_bytes=external_bytes,
        device=device,
        parameters=parameters,
        fallback=None if fallback is None else Fallback(fallback, partial(runners, kind=fallback)),
        log=log,
    )
