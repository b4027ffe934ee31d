"""Memory of the device: what a model's tensors need of the arena, and where model and tensors go.

The head of the arena holds the tensors' data. Its plan is that of TensorFlow Lite Micro, TFLM
(`greedy_memory_planner.cc`, `micro_allocation_info.cc`), to the byte; source: "The INT8 kernel engine",
section Arena plan. The tail holds the interpreter's structures and is an estimate. Only the main subgraph is
planned, and no scratch buffers: TFLM's reference kernels ask for none on int8 models.
"""

import enum
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from aisrv.inference.errors import LoadResult, ModelError
from aisrv.tflite_model import Model, Operator

ALIGNMENT: Final = 16
"""Bytes to which TFLM rounds up buffers of the arena."""
MODEL_ALIGNMENT: Final = 4
"""Bytes to which a model in the arena is rounded up.

Source: "XCORE AI server: numbers and wire behaviour", section Commands, Memory.
"""
MAX_INPUTS: Final = 40
MAX_OUTPUTS: Final = 40
"""Tensors that the device can number ("Inference engines", section Device limits)."""

OFFLINE_PLAN: Final = "OfflineMemoryAllocation"
"""Name of the metadata in which a model brings offsets of its own."""
_OFFLINE_HEADER: Final = struct.Struct(
    "<3I"
)  # version, subgraph, number of tensors; an int32 for each follows
_PLANNED_ONLINE: Final = -1


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor's place in the arena: `size` bytes at `offset`, alive from step `first` to `last` inclusive.

    Step 0 is before the first operator, step k + 1 is operator k; -1 is a tensor that nothing uses.
    """

    tensor: int
    size: int
    first: int
    last: int
    offset: int


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Places of all tensors that live in the arena, in tensor order, and the bytes they take together."""

    allocations: tuple[Allocation, ...]
    head: int

    @property
    def lower_bound(self) -> int:
        """Bytes alive in the fullest step: no plan can do with less."""
        steps = [0] * (max((a.last for a in self.allocations), default=-1) + 2)
        for allocation in self.allocations:
            if allocation.first >= 0:
                steps[allocation.first] += allocation.size
                steps[allocation.last + 1] -= allocation.size
        alive = fullest = 0
        for change in steps:
            alive += change
            fullest = max(fullest, alive)
        return fullest


class _Request(NamedTuple):
    """A buffer to be placed; its offline offset is -1 where the planner chooses."""

    tensor: int
    size: int
    first: int
    last: int
    offline: int


def plan_arena(model: Model) -> ArenaPlan:
    """Plan the head of the arena as TFLM does; raise ModelError where the model's own plan is broken."""
    requests = _requests(model)
    offline = [request for request in requests if request.offline != _PLANNED_ONLINE]
    # Sorting is stable, so reversing first puts the later of two equals before the earlier, as TFLM does.
    online = [request for request in reversed(requests) if request.offline == _PLANNED_ONLINE]
    online.sort(key=lambda request: -request.size)

    placed: list[Allocation] = []  # by rising offset
    offsets: list[int] = []
    for tensor, size, first, last, fixed in [*offline, *online]:
        offset = _first_gap(placed, size, first, last) if fixed == _PLANNED_ONLINE else fixed
        position = bisect_right(offsets, offset)
        offsets.insert(position, offset)
        placed.insert(position, Allocation(tensor, size, first, last, offset))
    head = max((allocation.offset + allocation.size for allocation in placed), default=0)
    return ArenaPlan(tuple(sorted(placed, key=lambda allocation: allocation.tensor)), head)


def _first_gap(placed: list[Allocation], size: int, first: int, last: int) -> int:
    offset = 0
    for other in placed:
        if other.first <= last and first <= other.last:
            if other.offset - offset >= size:
                break
            offset = max(offset, other.offset + other.size)
    return offset


def _requests(model: Model) -> list[_Request]:
    first = [-1] * len(model.tensors)
    last = [-1] * len(model.tensors)
    for tensor in (*model.inputs, *model.outputs):
        first[tensor] = last[tensor] = 0
    for step, operator in enumerate(model.operators, start=1):
        for tensor in operator.outputs:
            first[tensor] = last[tensor] = step
        for tensor in operator.inputs:
            if tensor >= 0:
                last[tensor] = step
    for tensor in model.outputs:
        last[tensor] = len(model.operators)
    offline = _offline_offsets(model)
    return [
        _Request(t.index, _round_up(t.nbytes, ALIGNMENT), first[t.index], last[t.index], offline[t.index])
        for t in model.tensors
        if t.nbytes and not t.is_constant and not t.is_variable
    ]


def _offline_offsets(model: Model) -> tuple[int, ...]:
    """The offset that the model itself sets for each tensor, -1 for none."""
    count = len(model.tensors)
    data = next((metadata.data for metadata in model.metadata if metadata.name == OFFLINE_PLAN), None)
    if data is None:
        return (_PLANNED_ONLINE,) * count
    if len(data) < _OFFLINE_HEADER.size:
        raise ModelError(f"the offline memory plan has {len(data)} bytes, fewer than its header")
    _, _, planned = _OFFLINE_HEADER.unpack_from(data)
    if planned < count or len(data) < _OFFLINE_HEADER.size + 4 * count:
        raise ModelError(
            f"the offline memory plan has {planned} offsets in {len(data)} bytes for {count} tensors"
        )
    offsets: tuple[int, ...] = struct.unpack_from(f"<{count}i", data, _OFFLINE_HEADER.size)
    if min(offsets, default=0) < _PLANNED_ONLINE:
        raise ModelError(f"the offline memory plan has the offset {min(offsets)}")
    return offsets


@dataclass(frozen=True, slots=True)
class TailLayout:
    """Sizes in bytes of the structures that TFLM keeps at the end of the arena, for one width of pointers."""

    fixed: int
    """Allocators, planner and list of subgraphs."""
    pointer: int
    eval_tensor: int
    """TfLiteEvalTensor: one for each tensor."""
    io_tensor: int
    """TfLiteTensor with its quantisation of one channel: one for each input and output of the model."""
    node: int
    """NodeAndRegistration: one for each operator."""
    parameters: Mapping[str, int] = field(repr=False)
    """The operator's options in TFLM's form (`builtin_op_data.h`)."""
    state: Mapping[str, int] = field(repr=False)
    """What the kernel computes once (OpData…), before rounding up to ALIGNMENT."""
    other_parameters: int = 16
    """For operators that `parameters` does not name: a guess."""
    other_state: int = 32
    """For operators that `state` does not name: a guess."""


DEVICE_TAIL: Final = TailLayout(
    fixed=248,
    pointer=4,
    eval_tensor=12,
    io_tensor=60,
    node=32,
    parameters=MappingProxyType(
        {
            "CONV_2D": 28,
            "DEPTHWISE_CONV_2D": 28,
            "FULLY_CONNECTED": 32,
            "AVERAGE_POOL_2D": 40,
            "MAX_POOL_2D": 40,
            "RESHAPE": 36,
            "ADD": 8,
            "SOFTMAX": 4,
        }
    ),
    state=MappingProxyType(
        {
            "CONV_2D": 56,
            "DEPTHWISE_CONV_2D": 56,
            "FULLY_CONNECTED": 48,
            "AVERAGE_POOL_2D": 32,
            "MAX_POOL_2D": 32,
            "RESHAPE": 0,
            "ADD": 60,
            "SOFTMAX": 56,
        }
    ),
)
"""Estimate for the device: the fields of TFLM's structures with pointers of 4 bytes.

The fixed part is half of what TFLM takes with pointers of 8 bytes; nothing of it was measured on a device.
"""

_CONVOLUTIONS: Final = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})


def estimate_tail(model: Model, layout: TailLayout = DEVICE_TAIL) -> int:
    """Estimate the tail of the arena in bytes: TFLM's persistent structures, and the model's variables."""
    structures = (
        layout.fixed
        + layout.eval_tensor * len(model.tensors)
        + layout.io_tensor * (len(model.inputs) + len(model.outputs))
        + layout.node * len(model.operators)
        + sum(layout.parameters.get(operator.name, layout.other_parameters) for operator in model.operators)
    )
    persistent = [layout.pointer * len(model.inputs), layout.pointer * len(model.outputs)]
    for operator in model.operators:
        persistent.append(layout.state.get(operator.name, layout.other_state))
        # A multiplier and a shift, 4 bytes each, in two lists.
        persistent += [4 * _requantised_channels(model, operator)] * 2
    persistent += _variables(model)
    structures += sum(_round_up(size, ALIGNMENT) for size in persistent)
    return _round_up(structures, ALIGNMENT)


def _requantised_channels(model: Model, operator: Operator) -> int:
    """Channels for which the kernel stores a multiplier each."""
    if operator.name in _CONVOLUTIONS and operator.outputs:
        return (model.tensors[operator.outputs[0]].shape or (0,))[-1]
    if operator.name == "FULLY_CONNECTED" and len(operator.inputs) > 1 and operator.inputs[1] >= 0:
        weights = model.tensors[operator.inputs[1]].quantization
        return len(weights.scales) if weights is not None and weights.is_per_channel else 0
    return 0


def _variables(model: Model) -> list[int]:
    """Sizes of what the model keeps from one invocation to the next."""
    resources = {
        operator.inputs[0]: model.tensors[operator.inputs[1]].nbytes
        for operator in model.operators
        if operator.name == "ASSIGN_VARIABLE" and len(operator.inputs) == 2 and min(operator.inputs) >= 0
    }
    tensors = [tensor.nbytes for tensor in model.tensors if tensor.is_variable and not tensor.is_constant]
    return [*tensors, *resources.values()]


@dataclass(frozen=True, slots=True)
class ArenaNeed:
    """Bytes of tensor arena that a model needs: the planned head and the estimated tail."""

    head: int
    tail: int

    @property
    def total(self) -> int:
        """Smallest tensor arena in which the model loads."""
        return self.head + self.tail


def arena_need(model: Model) -> ArenaNeed:
    """Tell what the model needs of the tensor arena; ModelError as for plan_arena."""
    return ArenaNeed(plan_arena(model).head, estimate_tail(model))


def check_tensor_counts(model: Model) -> None:
    """Raise ModelError where the model has more inputs or outputs than the device can number."""
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


class ModelMemory(enum.Enum):
    """Where the host puts a model: SET_MODEL_ARENA or SET_MODEL_EXT."""

    ARENA = "arena"
    EXT = "external memory"


@dataclass(frozen=True, slots=True)
class Region:
    """`size` bytes from `offset` of a memory."""

    memory: ModelMemory
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Where a model and its tensors go."""

    model: Region
    tensor_arena: Region


class MemoryShortage(ModelError):
    """A model, or its tensors, that `memory` is too small for; `needed` and `available` are in bytes."""

    def __init__(
        self, what: str, memory: ModelMemory, needed: int, available: int, load_result: LoadResult
    ) -> None:
        """Make the message "`what` N bytes of the memory", with what is available and missing."""
        self.memory = memory
        self.needed = needed
        self.available = available
        super().__init__(
            f"{what} {needed:,} bytes of the {memory.value}: "
            f"{available:,} available, {self.missing:,} missing",
            load_result,
        )

    @property
    def missing(self) -> int:
        """Bytes short."""
        return self.needed - self.available


def place_model(
    model_size: int, need: ArenaNeed, arena_size: int, external_size: int, memory: ModelMemory
) -> MemoryMap:
    """Place a model file of `model_size` bytes in `memory` and its tensors in the arena; sizes are in bytes.

    A model in the arena comes first, rounded up to MODEL_ALIGNMENT, and the tensor arena is what remains; a
    model in external memory leaves the arena whole. Raise MemoryShortage where model or tensors do not fit,
    with a note where external memory would do.
    """
    try:
        return _place(model_size, need, arena_size, external_size, memory)
    except MemoryShortage as shortage:
        if memory is ModelMemory.ARENA and model_size <= external_size and need.total <= arena_size:
            shortage.add_note("with the model in external memory it fits")
        raise


def _place(
    model_size: int, need: ArenaNeed, arena_size: int, external_size: int, memory: ModelMemory
) -> MemoryMap:
    in_arena = memory is ModelMemory.ARENA
    reserved = _round_up(model_size, MODEL_ALIGNMENT) if in_arena else model_size
    available = arena_size if in_arena else external_size
    if reserved > available:
        raise MemoryShortage("the model needs", memory, reserved, available, LoadResult.OTHER)
    start = reserved if in_arena else 0
    if need.total > arena_size - start:
        what = f"the tensors (head {need.head:,}, tail about {need.tail:,}) need"
        raise MemoryShortage(
            what, ModelMemory.ARENA, need.total, arena_size - start, LoadResult.TENSORS_DO_NOT_FIT
        )
    return MemoryMap(Region(memory, 0, reserved), Region(ModelMemory.ARENA, start, arena_size - start))


def _round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
