"""ADD, MUL and SOFTMAX of int16 as steps of the library."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import arithmetic, int16
from aisrv.addons.kernels.arithmetic import INT32_MAX, INT32_MIN, Multiplier, multiply_twice_rounded
from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.recurrent import pack_factors
from aisrv.addons.kernels.backends.native.rescaling import LANES, repeated_rescaling
from aisrv.addons.kernels.backends.native.steps import Step, make_step
from aisrv.addons.kernels.int16 import ADD_LEFT_SHIFT
from aisrv.addons.kernels.params import INT16, ElementwiseAddParams, MulParams, SoftmaxParams

_WORK: Final = 16
"""Work of an element, in multiply-accumulates."""
_MOST_CLASSES = 1 << 16
"""Classes of a softmax whose exponentials have a sum of 31 bits."""


def add(params: ElementwiseAddParams, variant: Variant) -> Step:
    """Prepare ADD: in words, where these have room for it and the variant has more than plain C."""
    multipliers = arithmetic.add_multipliers(params, ADD_LEFT_SHIFT)
    words = variant is not Variant.PLAIN and _fits_words(multipliers)
    lefts = ADD_LEFT_SHIFT, ADD_LEFT_SHIFT, 0
    pairs = zip(multipliers, lefts, strict=True)
    rescaling = np.concatenate([repeated_rescaling(each, left) for each, left in pairs]) if words else None
    return _pairs(params, "ADDITION_INT16" if words else "WIDE_ADDITION_INT16", multipliers, rescaling)


def mul(params: MulParams) -> Step:
    """Prepare MUL; a shorter input repeats."""
    return _pairs(params, "MULTIPLICATION_INT16", (arithmetic.mul_multiplier(params),))


def softmax(params: SoftmaxParams) -> Step:
    """Prepare SOFTMAX over each row."""
    rows, classes = params.input_shape
    if classes > _MOST_CLASSES:
        raise NotImplementedError(f"a softmax of more than {_MOST_CLASSES} classes")
    return make_step(
        "SOFTMAX_INT16",
        "int16_softmax",
        input=params.input,
        output=params.output,
        factor=pack_factors((int16.softmax_multiplier(params),)),
        exponentials=np.array(int16.exponentials(), np.int16),
        reciprocals=np.array(int16.reciprocals(), np.int16),
        rows=rows,
        classes=classes,
    )


def _fits_words(multipliers: tuple[Multiplier, ...]) -> bool:
    """Tell whether no sum leaves 32 bits when it is scaled; those of inputs never do."""
    first, second, total = multipliers
    room = max(total.shift, 0) + 1
    ends = [
        sum(multiply_twice_rounded(value << ADD_LEFT_SHIFT, each) for each in (first, second))
        for value in (INT16.low, INT16.high)
    ]
    return ends[0] >= INT32_MIN >> room and ends[1] <= INT32_MAX >> room


def _pairs(
    params: ElementwiseAddParams | MulParams,
    kind: str,
    multipliers: tuple[Multiplier, ...],
    rescaling: npt.NDArray[np.int32] | None = None,
) -> Step:
    bounds = arithmetic.activation_bounds(params.activation, params.output_quant, INT16)
    buffers: dict[str, Any] = {"first": params.input1, "second": params.input2, "output": params.output}
    return make_step(
        kind,
        "int16_pairs",
        len(params.output) * _WORK,
        items=-(-len(params.output) // LANES),
        **buffers,
        rescaling=np.zeros(0, np.int32) if rescaling is None else rescaling,
        factors=pack_factors(multipliers),
        first_count=len(params.input1),
        second_count=len(params.input2),
        count=len(params.output),
        low=bounds.low,
        high=bounds.high,
    )
