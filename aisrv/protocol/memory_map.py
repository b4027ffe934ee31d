"""The map of an engine's memory: where a model and its tensors are, and what is free.

    arena            [model in ARENA] [head] [free] [tail]
    external memory  [model in EXT] [free]

A model comes first in its memory. What it leaves of the arena is the tensor arena: TensorFlow Lite Micro puts
the tensors' data at its start, its head, and structures of its own at its end, its tail. A value that goes
over the wire as six little-endian words, the answer of GET_MEMORY; the layout is ours, no firmware has it.
"""

import enum
from typing import Annotated, Final

from msgspec import Struct

from aisrv.protocol.commands import AisrvPacket
from aisrv.values.packet import U32, Wire


class ModelMemory(enum.Enum):
    """Memory in which the host puts a model: SET_MODEL_ARENA or SET_MODEL_EXT."""

    ARENA = "arena"
    """The tensor arena."""
    EXT = "external memory"
    """External memory."""


class MemoryRegion(Struct, frozen=True):
    """`size` bytes from `offset` of a memory."""

    memory: ModelMemory
    offset: int
    size: int


_NUMBERS: Final = {None: 0, ModelMemory.ARENA: 1, ModelMemory.EXT: 2}
_MEMORIES: Final = {number: memory for memory, number in _NUMBERS.items()}


def _memory(number: int) -> ModelMemory | None:
    if number not in _MEMORIES:
        raise ValueError(f"it names memory {number}, there are 0 to {len(_MEMORIES) - 1}")
    return _MEMORIES[number]


class MemoryMap(AisrvPacket, name="a memory map"):
    """Sizes in bytes of the two memories, and of what a loaded model takes of them; ValueError otherwise.

    `model_memory` is None where no model is loaded. The tail is an estimate, see `arena_tail`.
    """

    arena_bytes: U32
    external_bytes: U32
    model_memory: Annotated[ModelMemory | None, Wire("I", _memory, _NUMBERS.__getitem__)] = None
    """Memory of the model; None if none is loaded."""
    model_bytes: U32 = 0
    head_bytes: U32 = 0
    """Bytes of the tensors' data."""
    tail_bytes: U32 = 0
    """Bytes of the interpreter's own structures."""

    def __post_init__(self) -> None:
        if self.model_memory is None and (self.model_bytes or self.head_bytes or self.tail_bytes):
            raise ValueError("a memory map without a model has sizes of one")
        for name, region in (("the arena", self.arena_free), ("the external memory", self.external_free)):
            if region.size < 0:
                raise ValueError(f"{name} holds {-region.size:,} bytes more than it has")

    @property
    def model(self) -> MemoryRegion:
        """The model file; no bytes of the arena where no model is loaded."""
        return MemoryRegion(self.model_memory or ModelMemory.ARENA, 0, self.model_bytes)

    @property
    def tensor_arena(self) -> MemoryRegion:
        """Rest of the arena besides the model: head, free bytes and tail."""
        return MemoryRegion(ModelMemory.ARENA, self._start, self.arena_bytes - self._start)

    @property
    def head(self) -> MemoryRegion:
        """Tensors' data."""
        return MemoryRegion(ModelMemory.ARENA, self._start, self.head_bytes)

    @property
    def tail(self) -> MemoryRegion:
        """Structures of the interpreter, and the model's variables."""
        return MemoryRegion(ModelMemory.ARENA, self.arena_bytes - self.tail_bytes, self.tail_bytes)

    @property
    def arena_free(self) -> MemoryRegion:
        """Bytes of the arena between head and tail."""
        start = self._start + self.head_bytes
        return MemoryRegion(ModelMemory.ARENA, start, self.arena_bytes - self.tail_bytes - start)

    @property
    def external_free(self) -> MemoryRegion:
        """Bytes of external memory behind the model, if there is one in it."""
        start = self.model_bytes if self.model_memory is ModelMemory.EXT else 0
        return MemoryRegion(ModelMemory.EXT, start, self.external_bytes - start)

    @property
    def _start(self) -> int:
        return self.model_bytes if self.model_memory is ModelMemory.ARENA else 0

    def regions(self, memory: ModelMemory) -> dict[str, MemoryRegion]:
        """Name the regions of one memory, by rising offset; they fill it without a gap."""
        named = {
            "model": self.model,
            "head": self.head,
            "free": self.arena_free if memory is ModelMemory.ARENA else self.external_free,
            "tail": self.tail,
        }
        return {name: region for name, region in named.items() if region.memory is memory}
