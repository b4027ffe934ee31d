"""The plan of the tensor arena's head: places of tensors, by TFLM's planner.

TensorFlow Lite Micro places buffers greedily (`greedy_memory_planner.cc`, `micro_allocation_info.cc`);
source: "The INT8 kernel engine", section Arena plan. With the scratch of TFLM's kernels (`arena_scratch`) the
plan equals TFLM's to the byte in all that the tests measure, subgraphs included (`control_flow`). Not planned
is what TFLM decompresses.
"""

import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from aisrv.model.arena_space import ArenaSpace
from aisrv.model.control_flow import Life, Walk, all_tensors, starts, subgraphs
from aisrv.model.errors import ModelFileError
from aisrv.model.values import Model, Tensor, TensorType

ALIGNMENT: Final = 16
"""Bytes to which TFLM rounds up buffers of the arena."""

OFFLINE_PLAN: Final = "OfflineMemoryAllocation"
"""Name of the metadata in which a model brings offsets of its own."""
_OFFLINE_HEADER: Final = struct.Struct(
    "<3I"
)  # version, subgraph, number of tensors; an int32 for each follows
_PLANNED_ONLINE: Final = -1
_VAR_HANDLE: Final = "VAR_HANDLE"
_NEVER: Final = Life(-1, -1)


class Allocation(Struct, frozen=True):
    """A tensor's place in the arena: `size` bytes at `offset`, alive from step `first` to `last` inclusive.

    Step 0 is before the first operator, step k + 1 is operator k; -1 is before anything was written. In a
    model with subgraphs, steps and tensors are those of `control_flow`. Scratch buffers are numbered behind
    the tensors.
    """

    tensor: int
    size: int
    first: int
    last: int
    offset: int


class ArenaPlan(Struct, frozen=True):
    """Places of all tensors in the arena, in tensor order, and the bytes they take together."""

    allocations: tuple[Allocation, ...]
    head: int

    @property
    def lower_bound(self) -> int:
        """Bytes alive in the fullest step: no plan can do with less."""
        steps = [0] * (max((a.last for a in self.allocations), default=-1) + 2)
        for allocation in self.allocations:
            if allocation.last >= 0:
                steps[max(allocation.first, 0)] += allocation.size
                steps[allocation.last + 1] -= allocation.size
        alive = fullest = 0
        for change in steps:
            alive += change
            fullest = max(fullest, alive)
        return fullest


class Scratch(NamedTuple):
    """Memory that an operator needs while it runs."""

    operator: int
    size: int
    subgraph: int = 0


class BufferRequest(NamedTuple):
    """A buffer to be placed, see Allocation; its offline offset is -1 if the planner chooses."""

    tensor: int
    size: int
    first: int
    last: int
    offline: int


def plan_arena(model: Model, scratch: Sequence[Scratch] = ()) -> ArenaPlan:
    """Plan the head of the arena as TFLM does. Raises ModelFileError if the model's own plan is broken."""
    requests = arena_requests(model, scratch)
    offline = [request for request in requests if request.offline != _PLANNED_ONLINE]
    # Sorting is stable, so reversing first puts the later of two equals before the earlier, as TFLM does.
    online = [request for request in reversed(requests) if request.offline == _PLANNED_ONLINE]
    online.sort(key=lambda request: -request.size)

    space = ArenaSpace([(request.first, request.last) for request in requests])
    placed = []
    for tensor, size, first, last, fixed in [*offline, *online]:
        offset = space.place(size, first, last, None if fixed == _PLANNED_ONLINE else fixed)
        placed.append(Allocation(tensor, size, first, last, offset))
    head = max((allocation.offset + allocation.size for allocation in placed), default=0)
    return ArenaPlan(tuple(sorted(placed, key=lambda allocation: allocation.tensor)), head)


def arena_requests(model: Model, scratch: Sequence[Scratch] = ()) -> list[BufferRequest]:
    """Return all buffers of the arena, tensors first. Raises ModelFileError as `plan_arena`."""
    walk, all_of_them = Walk(model), all_tensors(model)
    first, last = walk.first, walk.last
    offline = _offline_offsets(model, len(all_of_them))
    # The handle of a variable lies with the operator that makes it.
    handles = {
        start + index
        for start, subgraph in zip(starts(subgraphs(model)), subgraphs(model), strict=False)
        for operator in subgraph.operators
        if operator.name == _VAR_HANDLE
        for index in operator.outputs
    }
    tensors = [
        BufferRequest(
            t.index, round_up(_arena_bytes(t), ALIGNMENT), first[t.index], last[t.index], offline[t.index]
        )
        for t in all_of_them
        if t.nbytes and not t.is_constant and not t.is_variable and t.index not in handles
    ]
    return tensors + [
        BufferRequest(
            number,
            round_up(size, ALIGNMENT),
            *walk.operators.get((subgraph, operator), _NEVER),
            _PLANNED_ONLINE,
        )
        for number, (operator, size, subgraph) in enumerate(scratch, start=len(all_of_them))
    ]


def _arena_bytes(tensor: Tensor) -> int:
    """Return a tensor's bytes in the arena: TFLM packs elements of 4 bits in files only."""
    return math.prod(tensor.shape) if tensor.type is TensorType.INT4 else tensor.nbytes


def _offline_offsets(model: Model, count: int) -> tuple[int, ...]:
    """Return the offset that the model itself sets for each of its tensors, -1 for none."""
    data = next((metadata.data for metadata in model.metadata if metadata.name == OFFLINE_PLAN), None)
    if data is None:
        return (_PLANNED_ONLINE,) * count
    if len(data) < _OFFLINE_HEADER.size:
        raise ModelFileError(f"the offline memory plan has {len(data)} bytes, fewer than its header")
    _, _, planned = _OFFLINE_HEADER.unpack_from(data)
    if planned < count or len(data) < _OFFLINE_HEADER.size + 4 * count:
        raise ModelFileError(
            f"the offline memory plan has {planned} offsets in {len(data)} bytes for {count} tensors"
        )
    offsets: tuple[int, ...] = struct.unpack_from(f"<{count}i", data, _OFFLINE_HEADER.size)
    if min(offsets, default=0) < _PLANNED_ONLINE:
        raise ModelFileError(f"the offline memory plan has the offset {min(offsets)}")
    return offsets


def round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
