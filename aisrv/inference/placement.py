"""Memory of the device: a model's need of the arena, and the places of model and tensors.

The head of the arena holds the tensors' data (`arena_plan`) and scratch memory (`arena_scratch`), the tail
the interpreter's structures (`arena_tail`), which are an estimate.
"""

from typing import Final

from msgspec import Struct

from aisrv.inference.errors import ModelError
from aisrv.model import LoadResult, Model, ModelFileError
from aisrv.model.arena_plan import plan_arena, round_up
from aisrv.model.arena_scratch import tflm_scratch
from aisrv.model.arena_tail import estimate_tail
from aisrv.model.limits import MAX_INPUTS, MAX_OUTPUTS
from aisrv.protocol.memory_map import MemoryMap, ModelMemory

MODEL_ALIGNMENT: Final = 4
"""Bytes to which a model in the arena is rounded up ("XCORE AI server: numbers and wire behavior",
Memory)."""


class ArenaNeed(Struct, frozen=True):
    """Bytes of tensor arena that a model needs: the planned head and the estimated tail."""

    head: int
    tail: int

    @property
    def total(self) -> int:
        """Smallest tensor arena in which the model loads."""
        return self.head + self.tail


def arena_need(model: Model) -> ArenaNeed:
    """Return the model's need of the tensor arena; ModelError if its own plan of it is broken.

    A relocatable image tells itself: its activations, and the RAM of an instance that runs in place.
    """
    if model.memory is not None:
        return ArenaNeed(*model.memory)
    try:
        head = plan_arena(model, tflm_scratch(model)).head
    except ModelFileError as error:
        raise ModelError.of(error) from error
    return ArenaNeed(head, estimate_tail(model))


def check_tensor_counts(model: Model) -> None:
    """Raise ModelError if the model has more inputs or outputs than the device can number."""
    if len(model.inputs) > MAX_INPUTS:
        raise ModelError(
            f"the model has {len(model.inputs)} inputs, the device takes at most {MAX_INPUTS}",
            LoadResult.TOO_MANY_INPUTS,
        )
    if len(model.outputs) > MAX_OUTPUTS:
        raise ModelError(
            f"the model has {len(model.outputs)} outputs, the device takes at most {MAX_OUTPUTS}",
            LoadResult.TOO_MANY_OUTPUTS,
        )


class MemoryShortage(ModelError):
    """A model, or its tensors, that `memory` is too small for; `needed` and `available` are in bytes."""

    def __init__(
        self,
        what: str,
        memory: ModelMemory,
        needed: int,
        available: int,
        load_result: LoadResult,
        advice: str = "",
    ) -> None:
        self.memory = memory
        self.needed = needed
        self.available = available
        super().__init__(
            f"{what} {needed:,} bytes of the {memory.value}: "
            f"{available:,} available, {self.missing:,} missing{advice}",
            load_result,
        )

    @property
    def missing(self) -> int:
        return self.needed - self.available


def reserved_bytes(model_size: int, memory: ModelMemory) -> int:
    """Return the bytes of `memory` that a model file of `model_size` bytes takes."""
    return round_up(model_size, MODEL_ALIGNMENT) if memory is ModelMemory.ARENA else model_size


def model_shortage(model_size: int, available: int, memory: ModelMemory, advice: str = "") -> MemoryShortage:
    """Return the error for a model file that does not fit the `available` bytes of `memory`."""
    needed = reserved_bytes(model_size, memory)
    return MemoryShortage("the model needs", memory, needed, available, LoadResult.OTHER, advice)


def place_model(
    model_size: int, need: ArenaNeed, arena_size: int, external_size: int, memory: ModelMemory
) -> MemoryMap:
    """Place a model file of `model_size` bytes in `memory` and its tensors in the arena; sizes are in bytes.

    A model in the arena comes first, rounded up to MODEL_ALIGNMENT, and the tensor arena is what remains; a
    model in external memory leaves the arena whole. Raises MemoryShortage, with the advice to use external
    memory if that would do.
    """
    in_arena = memory is ModelMemory.ARENA
    fits_outside = in_arena and model_size <= external_size and need.total <= arena_size
    advice = "; it fits with the model in external memory" if fits_outside else ""
    reserved = reserved_bytes(model_size, memory)
    room = arena_size if in_arena else external_size
    if reserved > room:
        raise model_shortage(model_size, room, memory, advice)
    tensor_arena = arena_size - reserved if in_arena else arena_size
    if need.total > tensor_arena:
        what = f"the tensors (head {need.head:,}, tail about {need.tail:,}) need"
        result = LoadResult.TENSORS_DO_NOT_FIT
        raise MemoryShortage(what, ModelMemory.ARENA, need.total, tensor_arena, result, advice)
    return MemoryMap(arena_size, external_size, memory, reserved, need.head, need.tail)
