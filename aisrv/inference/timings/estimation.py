"""From a model to the time of each operator on a modeled device."""

from typing import Final

from aisrv.inference.timings.cost import FITTED_CLOCK_MHZ, Basis, Cost
from aisrv.inference.timings.device_model import DeviceModel, Kernels, OperatorTime
from aisrv.inference.timings.flash import FLASH_LOADS
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.inference.timings.optimized import PLAIN, XMOS, moving_bytes
from aisrv.inference.timings.reference import REFERENCE, each_element
from aisrv.model import Model, Operator
from aisrv.protocol.commands import TICKS_PER_SECOND

INSTRUCTIONS: Final = "instructions"
"""The option of an operator that is code, and whose instructions were counted."""


def estimate_times(device: DeviceModel, model: Model) -> tuple[OperatorTime, ...]:
    """Return the time of each operator of the main subgraph, in execution order."""
    return tuple(_time(device, OperatorTensors.of(model, operator)) for operator in model.operators)


def _time(device: DeviceModel, node: OperatorTensors) -> OperatorTime:
    name, index = node.operator.name, node.operator.index
    if name in FLASH_LOADS:
        ticks = device.flash_ticks(sum(tensor.nbytes for tensor in node.outputs))
        return OperatorTime(index, name, round(ticks), Basis.FITTED, "flash rate")
    if INSTRUCTIONS in node.operator.options.fields:
        return _counted(device, node.operator)
    cost = _cost(device, node)
    ticks = cost.on_threads(device.threads) * FITTED_CLOCK_MHZ / device.clock_mhz
    return OperatorTime(index, name, round(ticks), cost.basis, cost.source)


def _counted(device: DeviceModel, operator: Operator) -> OperatorTime:
    """The time of a node of relocatable code: one clock for each instruction, on a Cortex-M."""
    seconds = operator.options.integer(INSTRUCTIONS) / (device.clock_mhz * 1e6)
    ticks = round(seconds * TICKS_PER_SECOND)
    return OperatorTime(operator.index, operator.name, ticks, Basis.ESTIMATE, "instructions of a Cortex-M")


def _cost(device: DeviceModel, node: OperatorTensors) -> Cost:
    is_reference = device.kernels is Kernels.REFERENCE
    rule = XMOS.get(node.operator.name) or (REFERENCE if is_reference else PLAIN).get(node.operator.name)
    cost = None if rule is None else rule(node)
    if cost is not None:
        return cost
    # XMOS's own operators are no reference kernels, known or not.
    if is_reference and not node.operator.is_custom:
        return each_element(node)
    return moving_bytes(node)
