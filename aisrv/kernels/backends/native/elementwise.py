"""ADD, MUL, pools, SOFTMAX, PAD and copies as steps of the library."""

import ctypes
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels import arithmetic, softmax
from aisrv.kernels.arithmetic import Bounds, Rounding
from aisrv.kernels.backends.native.library import Library, Variant
from aisrv.kernels.backends.native.steps import Kind, Step, address
from aisrv.kernels.backends.native.structures import (
    Addition,
    Copy,
    Padding,
    Pairs,
    Pool,
    Softmax,
    StepStructure,
)
from aisrv.kernels.backends.numpy import elementwise as tables
from aisrv.kernels.params import ElementwiseAddParams, MulParams, PadParams, PoolParams, SoftmaxParams

ADDITIONS: Final = {Variant.AVX512_VNNI: Kind.ADDITION_512, Variant.AVX2: Kind.ADDITION_256}
AVERAGE_POOLS: Final = {Variant.AVX512_VNNI: Kind.AVERAGE_POOL_512, Variant.AVX2: Kind.AVERAGE_POOL_256}
MAX_POOLS: Final = {Variant.AVX512_VNNI: Kind.MAX_POOL_512, Variant.AVX2: Kind.MAX_POOL_256}

MOST_TAPS: Final = 1 << 16
"""Taps of an average pool whose quotients are exact in float32."""

_SUM_SHIFT: Final = 12
_BYTES: Final = np.arange(256, dtype=np.uint8)
_VALUES: Final = _BYTES.view(np.int8).astype(np.float64)


def add(params: ElementwiseAddParams, variant: Variant, library: Library) -> Step:
    """Prepare ADD: as a line in float32 where that is exact for all pairs of bytes, else as a table."""
    table = tables.sums_table(params, Rounding.DOUBLE)
    line = _line(params, table, variant, library)
    if line is None:
        return _pairs(params, table)
    line.first, line.second = address(params.input1), address(params.input2)
    line.output, line.count = address(params.output), len(params.output)
    return Step(ADDITIONS[variant], line, (params.input1, params.input2, params.output))


def mul(params: MulParams) -> Step:
    """Prepare MUL: as a table of all pairs of bytes."""
    return _pairs(params, tables.products_table(params, Rounding.DOUBLE))


def _line(
    params: ElementwiseAddParams, table: npt.NDArray[np.int8], variant: Variant, library: Library
) -> Addition | None:
    """The line a * factor1 + b * factor2 + offset that rounds to the table for all pairs; or None."""
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    scale = params.output_quant.scale
    factor1 = np.float32(params.input1_quant.scale / scale)
    factor2 = np.float32(params.input2_quant.scale / scale)
    sums = np.add.outer(_VALUES * float(factor1), _VALUES * float(factor2)).reshape(-1)
    outputs = table.astype(np.float64)
    # Each pair leaves room for the offset: half an output on each side, and beyond a bound all of it.
    least = np.where(table == bounds.low, -np.inf, outputs - 0.5 - sums).max()
    most = np.where(table == bounds.high, np.inf, outputs + 0.5 - sums).min()
    if not (np.isfinite(least) and np.isfinite(most)):
        return None
    line = Addition(
        low=bounds.low, high=bounds.high, factor1=factor1, factor2=factor2, offset=(least + most) / 2
    )
    return line if _equals(line, table, variant, library) else None


def _equals(line: Addition, table: npt.NDArray[np.int8], variant: Variant, library: Library) -> bool:
    """Whether the library computes the table from all pairs."""
    first, second, output = np.repeat(_BYTES, 256), np.tile(_BYTES, 256), np.empty(1 << 16, np.int8)
    line.first, line.second, line.output = address(first), address(second), address(output)
    line.count = len(output)
    step = StepStructure(ADDITIONS[variant], ctypes.addressof(line), 1)
    library.functions.aisrv_run(ctypes.byref(step), ctypes.c_int64(1))
    return bool((output == table).all())


def _pairs(params: ElementwiseAddParams | MulParams, table: npt.NDArray[np.int8]) -> Step:
    """Prepare a look-up for each pair; a shorter input repeats."""
    table = np.ascontiguousarray(table)
    step = Pairs(
        first=address(params.input1),
        second=address(params.input2),
        output=address(params.output),
        table=address(table),
        first_count=len(params.input1),
        second_count=len(params.input2),
        count=len(params.output),
    )
    return Step(Kind.PAIRS, step, (params.input1, params.input2, params.output, table))


def average_pool(params: PoolParams, variant: Variant) -> Step:
    """Prepare AVERAGE_POOL_2D."""
    _, height, width, _ = params.input_shape
    if min(params.filter_h, height) * min(params.filter_w, width) > MOST_TAPS:
        raise NotImplementedError(f"a pool of more than {MOST_TAPS} taps")
    return _pool(params, AVERAGE_POOLS[variant])


def max_pool(params: PoolParams, variant: Variant) -> Step:
    """Prepare MAX_POOL_2D."""
    return _pool(params, MAX_POOLS[variant])


def _pool(params: PoolParams, kind: Kind) -> Step:
    bounds: Bounds = arithmetic.activation_bounds(params.activation, params.output_quant)
    down, across = arithmetic.pool_windows(params)
    batches, height, width, channels = params.input_shape
    step = Pool(
        input=address(params.input),
        output=address(params.output),
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
        low=bounds.low,
        high=bounds.high,
    )
    return Step(kind, step, (params.input, params.output))


def softmax_rows(params: SoftmaxParams) -> Step:
    """Prepare SOFTMAX over each row."""
    table = softmax.exponential_table(params.beta, params.input_quant.scale, Rounding.DOUBLE)
    exponentials = np.array(table, np.int32)
    rounded = np.array([arithmetic.rounding_shift(each, _SUM_SHIFT) for each in table], np.int32)
    rows, classes = params.input_shape
    step = Softmax(
        input=address(params.input),
        output=address(params.output),
        exponentials=address(exponentials),
        rounded=address(rounded),
        rows=rows,
        classes=classes,
    )
    return Step(Kind.SOFTMAX, step, (params.input, params.output, exponentials, rounded))


def copy(source: memoryview, output: memoryview) -> Step:
    """Prepare a copy of bytes."""
    step = Copy(input=address(source), output=address(output), count=len(output))
    return Step(Kind.COPY, step, (source, output))


def pad(params: PadParams) -> Step:
    """Prepare PAD of the height and the width."""
    batches, height, width, pixel = params.input_shape
    step = Padding(
        input=address(params.input),
        output=address(params.output),
        batches=batches,
        height=height,
        width=width * pixel,
        out_height=params.output_shape[1],
        out_width=params.output_shape[2] * pixel,
        top=params.top,
        left=params.left * pixel,
        fill=params.fill,
    )
    return Step(Kind.PADDING, step, (params.input, params.output), len(params.output))
