"""ADD, MUL, pools, SOFTMAX, PAD and copies as steps of the library."""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic
from aisrv.addons.kernels.arithmetic import Bounds, Rounding
from aisrv.addons.kernels.backends.native.library import Library, Variant
from aisrv.addons.kernels.backends.native.steps import NativeKernel, Step, make_step
from aisrv.addons.kernels.backends.native.team import Team
from aisrv.addons.kernels.backends.numpy.elementwise import INT8_OF_BYTES, pair_table, products, sums
from aisrv.addons.kernels.backends.numpy.words import Numbers
from aisrv.addons.kernels.params import (
    INT8,
    INT16,
    Buffer,
    ElementType,
    ElementwiseAddParams,
    MulParams,
    PadParams,
    PoolParams,
    SoftmaxParams,
)
from aisrv.addons.kernels.windows import pool_windows

Bytes: TypeAlias = Buffer | npt.NDArray[Any]

MOST_TAPS: Final = {INT8: 1 << 16, INT16: 1 << 8}
"""Taps of an average pool whose quotients are exact in float32."""

_BYTE_WORK: Final = 16
"""Work of a byte of ADD, or of a pool's window, in multiply-accumulates."""
_LINE_BYTES: Final = 64

_BYTES: Final = np.arange(256, dtype=np.uint8)


class _Line(NamedTuple):
    """first * factor1 + second * factor2 + offset, to the nearest integer from low to high."""

    low: int
    high: int
    factor1: float
    factor2: float
    offset: float


def add(params: ElementwiseAddParams, variant: Variant, library: Library) -> Step:
    """Prepare ADD: as a line in float32 where that is exact for all pairs of bytes, else as a table."""
    table = pair_table(sums(params, Numbers())).astype(np.int8)
    # Plain C may have no true fma, and looks up as fast.
    line = None if variant is Variant.PLAIN else _line(params, table)
    if line is None or not _equals(line, table, variant, library):
        return _pairs(params, table)
    return _addition(line, params.input1, params.input2, params.output)


def mul(params: MulParams) -> Step:
    """Prepare MUL: as a table of all pairs of bytes."""
    return _pairs(params, pair_table(products(params, Numbers())).astype(np.int8))


def _line(params: ElementwiseAddParams, table: npt.NDArray[np.int8]) -> _Line | None:
    """The line a * factor1 + b * factor2 + offset that rounds to the table for all pairs; None without one.

    float32 may still miss it: see `_equals`.
    """
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    scale = params.output_quant.scale
    factor1 = arithmetic.float32(params.input1_quant.scale / scale)
    factor2 = arithmetic.float32(params.input2_quant.scale / scale)
    line = np.add.outer(INT8_OF_BYTES * factor1, INT8_OF_BYTES * factor2).reshape(-1)
    outputs = table.astype(np.float64)
    # Each pair leaves room for the offset: half an output on each side, and beyond a bound all of it.
    least = np.where(table == bounds.low, -np.inf, outputs - 0.5 - line).max()
    most = np.where(table == bounds.high, np.inf, outputs + 0.5 - line).min()
    if not (np.isfinite(least) and np.isfinite(most)):
        return None
    offset = (least + most) / 2
    return _Line(*bounds, factor1, factor2, offset)


def _addition(line: _Line, first: Bytes, second: Bytes, output: Bytes) -> Step:
    count = len(output)
    buffers: dict[str, Any] = {"first": first, "second": second, "output": output, "count": count}
    return make_step(
        "ADDITION",
        "addition",
        count * _BYTE_WORK,
        items=-(-count // _LINE_BYTES),
        **buffers,
        **line._asdict(),
    )


def _equals(line: _Line, table: npt.NDArray[np.int8], variant: Variant, library: Library) -> bool:
    """Tell whether the library computes the table from all pairs."""
    first, second, output = np.repeat(_BYTES, 256), np.tile(_BYTES, 256), np.empty(1 << 16, np.int8)
    NativeKernel(Team(library, variant), (_addition(line, first, second, output),))()
    return bool((output == table).all())


def _pairs(params: ElementwiseAddParams | MulParams, table: npt.NDArray[np.int8]) -> Step:
    """Prepare a look-up for each pair; a shorter input repeats."""
    table = np.ascontiguousarray(table)
    return make_step(
        "PAIRS",
        "pairs",
        first=params.input1,
        second=params.input2,
        output=params.output,
        table=table,
        first_count=len(params.input1),
        second_count=len(params.input2),
        count=len(params.output),
    )


def average_pool(params: PoolParams, elements: ElementType) -> Step:
    """Prepare AVERAGE_POOL_2D."""
    _, height, width, _ = params.input_shape
    most = MOST_TAPS[elements]
    if min(params.filter_h, height) * min(params.filter_w, width) > most:
        raise NotImplementedError(f"a pool of more than {most} taps")
    return _pool(params, "AVERAGE_POOL", elements)


def max_pool(params: PoolParams, elements: ElementType) -> Step:
    """Prepare MAX_POOL_2D."""
    return _pool(params, "MAX_POOL", elements)


def _pool(params: PoolParams, kind: str, elements: ElementType) -> Step:
    bounds: Bounds = arithmetic.activation_bounds(params.activation, params.output_quant, elements)
    kind = f"{kind}_INT16" if elements is INT16 else kind
    return pool_step(params, kind, _BYTE_WORK, low=bounds.low, high=bounds.high)


def pool_step(params: PoolParams, kind: str, work: int, *, low: int, high: int) -> Step:
    """Prepare a pool of any elements; `work` is that of a value of a window, in multiply-accumulates."""
    down, across = pool_windows(params)
    batches, height, width, channels = params.input_shape
    taps = min(params.filter_h, height) * min(params.filter_w, width)
    return make_step(
        kind,
        "pool",
        len(params.output) * taps * work,
        items=batches * down.outputs,
        input=params.input,
        output=params.output,
        batches=batches,
        height=height,
        width=width,
        channels=channels,
        out_height=down.outputs,
        out_width=across.outputs,
        filter_h=params.filter_h,
        filter_w=params.filter_w,
        stride_h=params.stride_h,
        stride_w=params.stride_w,
        top=down.before,
        left=across.before,
        low=low,
        high=high,
    )


def softmax_rows(params: SoftmaxParams) -> Step:
    """Prepare SOFTMAX over each row."""
    table = arithmetic.exponential_table(params.beta, params.input_quant.scale, Rounding.DOUBLE)
    exponentials = np.array(table, np.int32)
    rounded = np.array([arithmetic.rounding_shift(each, arithmetic.SUM_SHIFT) for each in table], np.int32)
    rows, classes = params.input_shape
    return make_step(
        "SOFTMAX",
        "softmax",
        input=params.input,
        output=params.output,
        exponentials=exponentials,
        rounded=rounded,
        rows=rows,
        classes=classes,
    )


def copy(source: memoryview, output: memoryview) -> Step:
    """Prepare a copy of bytes."""
    return make_step("COPY", "copy", input=source, output=output, count=len(output))


def pad(params: PadParams) -> Step:
    """Prepare PAD of the height and the width."""
    batches, height, width, pixel = params.input_shape
    return make_step(
        "PADDING",
        "padding",
        len(params.output),
        items=batches * params.output_shape[1],
        input=params.input,
        output=params.output,
        batches=batches,
        height=height,
        width=width * pixel,
        out_height=params.output_shape[1],
        out_width=params.output_shape[2] * pixel,
        top=params.top,
        left=params.left * pixel,
        fill=params.fill,
    )
