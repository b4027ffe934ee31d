"""Jobs of a Model Runner for its engine, and their results, as values. No I/O.

The bus never waits for an engine: `done` of a job is called with the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from aisrv.protocol.tensor_descriptions import TensorDescriptions


@dataclass(frozen=True, slots=True)
class ModelState:
    """The model of an engine, and the engine's room for one."""

    model_bytes: int = 0
    """0 without a model."""
    arena_used: int = 0
    """Bytes of the tensor arena that the model uses."""
    room: int = 0
    """Bytes of the largest model that the engine takes."""
    tensors: TensorDescriptions = field(default_factory=TensorDescriptions)

    @property
    def is_loaded(self) -> bool:
        return bool(self.tensors.inputs or self.tensors.outputs)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How loading a model ended."""

    state: ModelState
    error: str = ""
    """Reason of a failure; empty on success."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How an inference ended."""

    output: bytes = b""
    """Output tensor 0."""
    microseconds: int = 0
    """Sum of the engine's timings."""
    error: str = ""
    """Reason of a failure; empty on success."""


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Set the model, and store it if the engine has flash; an empty one removes it."""

    model: bytes
    done: Callable[[LoadResult], None]


@dataclass(frozen=True, slots=True)
class BootJob:
    """Load the model in flash."""

    done: Callable[[LoadResult], None]


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run the model on an input tensor."""

    tensor: bytes
    done: Callable[[RunResult], None]
    is_wanted: Callable[[], bool]
    """Called before the run; if it returns False the run is skipped and `done` is not called."""


Job = LoadJob | BootJob | RunJob
Submit = Callable[[Job], None]
"""Queues a job for the engine; jobs run in order."""
