"""Parameters from flash: the bytes that an inference reads, and the operators that read them."""

from typing import TYPE_CHECKING, Final

from aisrv.inference.parameters import LOADS, LoadKind
from aisrv.model.custom_options import CustomOptions

if TYPE_CHECKING:
    from aisrv.model import Model, Operator

FLASH_LOADS: Final = LOADS | {"XC_load_from_flash"}


def used_constants(model: "Model") -> tuple[int, int]:
    """Return number and bytes of the parameters that an inference needs: the constants of operators."""
    used = {index for operator in model.operators for index in operator.inputs if index >= 0}
    sizes = [model.tensors[index].nbytes for index in used if model.tensors[index].is_constant]
    return len(sizes), sum(sizes)


def used_constant_bytes(model: "Model") -> int:
    return used_constants(model)[1]


def is_from_external_memory(operator: "Operator") -> bool:
    """Check whether a load finds its parameters in external memory."""
    try:
        kind = CustomOptions.from_bytes(operator.custom_options).integer("t")
    except ValueError:
        return False
    return kind == LoadKind.EXTERNAL_MEMORY
