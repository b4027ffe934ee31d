"""ADD, MUL, pools and SOFTMAX of float32 as steps of the library.

Sources: `reference/pooling.h`, `reference/softmax.h` of TensorFlow Lite; exponentials are those of glibc and
newlib, `math/expf.c` of Arm's Optimized Routines.
"""

from decimal import Decimal, localcontext
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.kernels.backends.native.elementwise import pool_step
from aisrv.kernels.backends.native.float32 import bit_bounds
from aisrv.kernels.backends.native.steps import Step, make_step
from aisrv.kernels.params import ElementwiseAddParams, MulParams, PoolParams, SoftmaxParams

_POWERS: Final = 32
_FLOAT_WORK: Final = 16
"""Work of a float of ADD, or of a pool's window, in multiply-accumulates."""
_REGISTER: Final = 16


def add(params: ElementwiseAddParams) -> Step:
    """Prepare ADD."""
    return _pairs(params, "ADDITION_FLOAT32")


def mul(params: MulParams) -> Step:
    """Prepare MUL; a shorter input repeats."""
    return _pairs(params, "MULTIPLICATION_FLOAT32")


def _pairs(params: ElementwiseAddParams | MulParams, kind: str) -> Step:
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
