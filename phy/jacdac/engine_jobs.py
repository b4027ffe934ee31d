"""What a Model Runner asks its engine to do, and what comes of it, as values. No I/O.

The bus never waits for an engine: a job is handed over, and its `done` is called when there is an answer.
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
        """Whether there is a model."""
        return bool(self.tensors.inputs or self.tensors.outputs)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How loading a model ended."""

    state: ModelState
    error: str = ""
    """Why it failed; empty where it did not."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How an inference ended."""

    output: bytes = b""
    """Output tensor 0."""
    microseconds: int = 0
    """The sum of the engine's timings."""
    error: str = ""
    """Why it failed; empty where it did not."""


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Set the model; an empty one leaves none. It is then stored where the engine has flash."""

    model: bytes
    done: Callable[[LoadResult], None]


@dataclass(frozen=True, slots=True)
class BootJob:
    """Load the model that the flash has."""

    done: Callable[[LoadResult], None]


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run the model on an input tensor."""

    tensor: bytes
    done: Callable[[RunResult], None]
    is_wanted: Callable[[], bool]
    """Asked when its turn has come; a run that nobody wants any more is left out, and `done` not called."""


Job = LoadJob | BootJob | RunJob
Submit = Callable[[Job], None]
"""Hands a job to the engine; jobs are done in order."""
