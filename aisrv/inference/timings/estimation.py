"""Estimate of the time of each operator on a modeled device."""

from typing import Final

from aisrv.inference.parameters import FLASH_LOADS, is_from_external_memory
from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import Band, Basis, Conditions, Cost
from aisrv.inference.timings.device_model import DeviceModel, Kernels, OperatorTime
from aisrv.inference.timings.generation import FileGeneration, generation_of
from aisrv.inference.timings.laws import VECTOR
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.optimized import PLAIN
from aisrv.inference.timings.reference import REFERENCE, each_element
from aisrv.inference.timings.scalar_cost import as_estimate, moving_bytes
from aisrv.inference.timings.xmos_operators import XMOS
from aisrv.model import Model, Operator, TensorType
from aisrv.protocol.memories import FlashPath, Memory

INSTRUCTIONS: Final = "instructions"
"""Option of an operator that is code, and whose instructions were counted."""
_ANY_TYPE: Final = frozenset({"SHAPE", "PACK", "RESHAPE", "STRIDED_SLICE"})
"""Operators that take as long whatever the type of their elements; of others int8 alone was measured."""
_OTHER_TYPE: Final = "as the reference kernels of 8 bits"
_GIVEN_RATE: Final = Band(0.98, 1.02)


def estimate_times(device: DeviceModel, model: Model) -> tuple[OperatorTime, ...]:
    """Return the time of each operator of the main subgraph, in execution order."""
    file = generation_of(model, device.generation)
    device = device.with_flash_of(file.generation)
    return tuple(_time(device, file, OperatorTensors.of(model, operator)) for operator in model.operators)


def _time(device: DeviceModel, file: FileGeneration, node: OperatorTensors) -> OperatorTime:
    if node.operator.name in FLASH_LOADS:
        return _load(device, node)
    if INSTRUCTIONS in node.operator.options.fields:
        return _counted(device, node.operator)
    conditions = _conditions(device, file, node)
    cost = _cost(device, node, conditions)
    return _timed(device, file, node.operator, cost)


def _conditions(device: DeviceModel, file: FileGeneration, node: OperatorTensors) -> Conditions:
    """Return the places of an operator's data: parameters not in its file were loaded to the arena."""
    external_arena = device.arena is Memory.EXTERNAL
    constants = [each.is_constant for each in node.inputs[1:] if each is not None]
    in_file = any(constants)
    external = device.parameters is Memory.EXTERNAL if in_file else external_arena and bool(constants)
    return Conditions(file.generation, external, external_arena, file.is_plain)


def _timed(device: DeviceModel, file: FileGeneration, operator: Operator, cost: Cost) -> OperatorTime:
    doubt = Band(1.0, 1.0) if file.is_certain else laws.UNCERTAIN
    slots, low, high = cost.on_threads(device.threads), 0.0, 0.0
    low, high = slots * cost.band.low, slots * cost.band.high
    lines = cost.lines
    for each in cost.before:
        lines = lines.plus(each.lines)
        slots += each.slots
        low, high = low + each.slots * each.band.low, high + each.slots * each.band.high
    return OperatorTime(
        operator.index,
        operator.name,
        ticks := round(device.slot_ticks(slots) + device.line_ticks(lines.count)),
        min(round((device.slot_ticks(low) + device.line_ticks(lines.low)) * doubt.low), ticks),
        max(round((device.slot_ticks(high) + device.line_ticks(lines.high)) * doubt.high), ticks),
        cost.basis,
        cost.source,
        cost.form,
        round(slots),
        Memory.EXTERNAL if lines.count else Memory.INTERNAL,
    )


def _load(device: DeviceModel, node: OperatorTensors) -> OperatorTime:
    """Estimate a load of parameters: from flash, or from external memory, a line once."""
    operator = node.operator
    nbytes = sum(tensor.nbytes for tensor in node.outputs)
    memory = Memory.INTERNAL
    if is_from_external_memory(operator):
        ticks = device.line_ticks(nbytes / VECTOR)
        basis, band, source = Basis.ESTIMATE, laws.ESTIMATE_BAND, "lines of external memory"
        memory = Memory.EXTERNAL
    else:
        ticks = device.flash_ticks(nbytes)
        basis, band, source = flash_basis(device.flash)
    spread = 0.0
    if (
        memory is Memory.INTERNAL
        and isinstance(device.flash, FlashPath | None)
        and device.flash is not FlashPath.FAST
    ):
        spread = laws.FLASH_SERVER_SPREAD * device.tick_mhz / device.core_mhz
    return OperatorTime(
        operator.index,
        operator.name,
        round(ticks),
        min(round(ticks * band.low), round(ticks - spread)),
        max(round(ticks * band.high), round(ticks + spread)),
        basis,
        source,
        memory=memory,
    )


def flash_basis(flash: FlashPath | float | None) -> tuple[Basis, Band, str]:
    """Return basis, band and source of the time of a read from flash."""
    if flash is FlashPath.FAST:
        return Basis.MEASURED, laws.PAD_BAND, f"fast flash, {laws.PERSON_2024}"
    if isinstance(flash, FlashPath | None):
        return Basis.MEASURED, laws.MEASURED_BAND, f"flash server, {laws.MOBILENET_2022}"
    return Basis.EXTRAPOLATED, _GIVEN_RATE, "flash rate"


def _counted(device: DeviceModel, operator: Operator) -> OperatorTime:
    """Compute the time of a node of relocatable code: one clock for each instruction, on a Cortex-M."""
    count = operator.options.integer(INSTRUCTIONS)
    ticks = count * device.tick_mhz / device.core_mhz
    band = laws.ESTIMATE_BAND
    low, high = round(ticks * band.low), round(ticks * band.high)
    source = "instructions of a Cortex-M"
    return OperatorTime(operator.index, operator.name, round(ticks), low, high, Basis.ESTIMATE, source)


def _cost(device: DeviceModel, node: OperatorTensors, conditions: Conditions) -> Cost:
    name = node.operator.name
    rule = XMOS.get(name)
    if rule is None and node.operator.is_custom:
        return moving_bytes(node, conditions)  # XMOS's own operators are no reference kernels, known or not
    data = node.input(0)
    is_like_measured = data is None or data.type is TensorType.INT8 or name in _ANY_TYPE
    if rule is None and is_like_measured and _is_replaced(device, conditions):
        rule = PLAIN.get(name)
    if rule is not None or is_like_measured:
        rule = rule or REFERENCE.get(name, each_element)
        return rule(node, conditions) or moving_bytes(node, conditions)
    other = as_estimate(REFERENCE.get(name, each_element)(node, conditions), _OTHER_TYPE)
    return other or moving_bytes(node, conditions)


def _is_replaced(device: DeviceModel, conditions: Conditions) -> bool:
    return device.kernels is Kernels.OPTIMIZED and conditions.is_plain
