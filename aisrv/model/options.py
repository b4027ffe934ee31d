"""The options of operators that shape their work. Source: schema.fbs, union BuiltinOptions."""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from aisrv.model.errors import ModelFileError
from aisrv.model.flatbuffer import I8, I32, U8, Table
from aisrv.model.values import Activation, Options, Padding


class _OptionsTable(NamedTuple):
    """A table of the union BuiltinOptions: its number, and the numbers of its fields."""

    kind: int
    sizes: Mapping[str, int]
    """Extents that a kernel divides or loops by: at least 1, or it would crash."""
    activation: int | None = None
    padding: int | None = None


_CONV: Final = _OptionsTable(1, {"stride_w": 1, "stride_h": 2, "dilation_w": 4, "dilation_h": 5}, 3, 0)
_DEPTHWISE: Final = _OptionsTable(
    2, {"stride_w": 1, "stride_h": 2, "depth_multiplier": 3, "dilation_w": 5, "dilation_h": 6}, 4, 0
)
_POOL: Final = _OptionsTable(5, {"stride_w": 1, "stride_h": 2, "kernel_w": 3, "kernel_h": 4}, 5, 0)
_TRANSPOSE_CONV: Final = _OptionsTable(49, {"stride_w": 1, "stride_h": 2}, 3, 0)
_SOFTMAX: Final = 9

_OPTIONS: Final = {
    "CONV_2D": _CONV,
    "DEPTHWISE_CONV_2D": _DEPTHWISE,
    "TRANSPOSE_CONV": _TRANSPOSE_CONV,
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "FULLY_CONNECTED": _OptionsTable(8, {}, 0),
    "CONCATENATION": _OptionsTable(10, {}, 1),
    "ADD": _OptionsTable(11, {}, 0),
    "MUL": _OptionsTable(21, {}, 0),
    "SUB": _OptionsTable(28, {}, 0),
    "SOFTMAX": _OptionsTable(_SOFTMAX, {}),
}


def read_options(operator: Table, name: str) -> Options:
    """Read the options of an operator by name; the defaults where it has none of interest."""
    layout = _OPTIONS.get(name)
    if layout is None:
        return Options()
    where = f"{operator.where} ({name})"
    table = operator.table(4, "options") if operator.integer(3, U8) == layout.kind else None
    if table is None:
        if layout.sizes:
            raise ModelFileError(f"{where} has no options, so no strides")
        return Options()
    sizes = {
        field: table.integer(slot, I32, int("dilation" in field)) for field, slot in layout.sizes.items()
    }
    for field, size in sizes.items():
        if size < (0 if field == "depth_multiplier" else 1):
            raise ModelFileError(f"{where} has {field} {size}, which must be positive")
    return Options(
        padding=_choice(table, where, layout.padding, Padding),
        activation=_choice(table, where, layout.activation, Activation),
        beta=table.real(0) if layout.kind == _SOFTMAX else 1.0,
        **sizes,
    )


_Choice = TypeVar("_Choice", bound=enum.IntEnum)


def _choice(table: Table, where: str, slot: int | None, kind: type[_Choice]) -> _Choice:
    number = 0 if slot is None else table.integer(slot, I8)
    try:
        return kind(number)
    except ValueError:
        raise ModelFileError(
            f"{where} has {kind.__name__.lower()} {number}, which the schema does not know"
        ) from None
