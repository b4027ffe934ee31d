"""ADD, SUB, MUL, pools, MEAN, SOFTMAX, LOGISTIC and TANH of float32 as steps of the library.

Sources: `reference/pooling.h`, `reference/reduce.h`, `reference/softmax.h`, `reference/logistic.h` of
TensorFlow Lite; exponentials are those of glibc and newlib, `math/expf.c` of Arm's Optimized
Routines, and tangents those of fdlibm, `s_tanhf.c`.
"""

import math
from decimal import Decimal, localcontext
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels.backends.native.elementwise import pool_step
from aisrv.addons.kernels.backends.native.float32 import bit_bounds, float_bits
from aisrv.addons.kernels.backends.native.steps import Step, make_step
from aisrv.addons.kernels.params import (
    ElementwiseAddParams,
    FunctionParams,
    MeanParams,
    MulParams,
    PoolParams,
    SoftmaxParams,
    SubParams,
)

_POWERS: Final = 32
_FLOAT_WORK: Final = 16
"""Work of a float of ADD, or of a pool's window, in multiply-accumulates."""
_FUNCTION_WORK: Final = 64
"""Work of a float of LOGISTIC or TANH, likewise."""
_REGISTER: Final = 16


def add(params: ElementwiseAddParams) -> Step:
    """Prepare ADD."""
    return _pairs(params, "ADDITION_FLOAT32")


def mul(params: MulParams) -> Step:
    """Prepare MUL; a shorter input repeats."""
    return _pairs(params, "MULTIPLICATION_FLOAT32")


def sub(params: SubParams) -> Step:
    """Prepare SUB; a shorter input repeats."""
    return _pairs(params, "SUBTRACTION_FLOAT32")


def _pairs(params: ElementwiseAddParams | MulParams | SubParams, kind: str) -> Step:
    count = len(params.output)
    return make_step(
        kind,
        "float32_pairs",
        count * _FLOAT_WORK,
        items=-(-count // _REGISTER),
        first=params.input1,
        second=params.input2,
        output=params.output,
        first_count=len(params.input1),
        second_count=len(params.input2),
        count=count,
        **bit_bounds(params.activation),
    )


def average_pool(params: PoolParams) -> Step:
    """Prepare AVERAGE_POOL_2D: sums by the number of values inside of the picture."""
    return pool_step(params, "AVERAGE_POOL_FLOAT32", _FLOAT_WORK, **bit_bounds(params.activation))


def max_pool(params: PoolParams) -> Step:
    """Prepare MAX_POOL_2D."""
    return pool_step(params, "MAX_POOL_FLOAT32", _FLOAT_WORK, **bit_bounds(params.activation))


def mean(params: MeanParams) -> Step:
    """Prepare MEAN: an average pool of all there is, without bounds; or of whole rows."""
    outer, count, inner = params.input_shape
    work = len(params.input) * _FLOAT_WORK
    if inner == 1:
        return make_step(
            "ROW_MEAN_FLOAT32",
            "float32_rows",
            work,
            items=outer,
            input=params.input,
            output=params.output,
            rows=outer,
            count=count,
        )
    return make_step(
        "AVERAGE_POOL_FLOAT32",
        "pool",
        work,
        items=outer,
        input=params.input,
        output=params.output,
        batches=outer,
        height=1,
        width=count,
        channels=inner,
        out_height=1,
        out_width=1,
        filter_h=1,
        filter_w=count,
        stride_h=1,
        stride_w=1,
        top=0,
        left=0,
        low=float_bits(-math.inf),
        high=float_bits(math.inf),
    )


def logistic(params: FunctionParams) -> Step:
    """Prepare LOGISTIC."""
    return _function(params, "LOGISTIC_FLOAT32")


def tanh(params: FunctionParams) -> Step:
    """Prepare TANH."""
    return _function(params, "TANH_FLOAT32")


def _function(params: FunctionParams, kind: str) -> Step:
    count = len(params.input)
    return make_step(
        kind,
        "float32_function",
        count * _FUNCTION_WORK,
        items=-(-count // _REGISTER),
        input=params.input,
        output=params.output,
        powers=_powers(),
        count=count,
    )


def softmax(params: SoftmaxParams) -> Step:
    """Prepare SOFTMAX over each row."""
    rows, classes = params.input_shape
    return make_step(
        "SOFTMAX_FLOAT32",
        "float32_softmax",
        len(params.input) * _FLOAT_WORK,
        items=rows,
        input=params.input,
        output=params.output,
        powers=_powers(),
        rows=rows,
        classes=classes,
        beta=params.beta,
    )


@cache
def _powers() -> npt.NDArray[np.float64]:
    """2**(n / 32), each the nearest double."""
    with localcontext(prec=40):
        return np.array([float(Decimal(2) ** (Decimal(n) / _POWERS)) for n in range(_POWERS)])
