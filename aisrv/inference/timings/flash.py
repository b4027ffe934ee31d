"""Parameters from flash: how many bytes an inference reads, and who reads them."""

from typing import TYPE_CHECKING, Final

from aisrv.inference.parameters import LOADS

if TYPE_CHECKING:
    from aisrv.model import Model

FLASH_LOADS: Final = LOADS | {"XC_load_from_flash"}
"""Operators that copy parameters from flash."""


def used_constant_bytes(model: "Model") -> int:
    """Bytes of parameters that an inference needs: the constants that operators of the model use."""
    used = {index for operator in model.operators for index in operator.inputs if index >= 0}
    return sum(model.tensors[index].nbytes for index in used if model.tensors[index].is_constant)
