"""A model that is hard to plan: 4,096 tensors, of which most live at once."""

from functools import cache

from tflite import BuiltinOperator, TensorType

from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator


@cache
def model() -> bytes:
    """Tensors that an operator each computes, and one that reads them all at the end."""
    names = [f"t{number}" for number in range(4095)]
    unit = Quantization.per_tensor(1.0, 0)
    operators = [NetworkOperator(BuiltinOperator.ADD, (names[0], names[0]), (name,)) for name in names[1:]]
    operators.append(NetworkOperator(BuiltinOperator.CONCATENATION, tuple(names[1:]), ("end",)))
    tensors = [Tensor(name, (1, 4), TensorType.INT8, unit) for name in names]
    tensors.append(Tensor("end", (1, 4 * 4094), TensorType.INT8, unit))
    return bytes(Network(tuple(tensors), tuple(operators), (names[0],), ("end",)))
