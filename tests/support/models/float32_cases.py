"""Random layers of float32 as parameters: of the forms that layers of int16 have.

Now and then there are zeros of both signs, numbers too small for an exponent of their own, the largest ones,
infinities, and what is no number.
"""

import functools
import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tflite import BuiltinOperator

from aisrv.addons.kernels.params import UNQUANTIZED, FunctionParams, MeanParams, SubParams
from tests.support.models.int16_cases import Int16Draw, halves
from tests.support.models.operators import Case

SPECIAL: Final = (0.0, -0.0, 1e-45, -1e-40, 3.4028234e38, -3.4028234e38, np.inf, -np.inf, np.nan)
FINITE: Final = 6
"""So many of SPECIAL are finite."""
NOT_A_NUMBER: Final = 0x7FC00000
FDLIBM_TANH: Final = ((0.3, 0x3E9526ED), (0.7, 0x3F1AB7D8))
"""Arguments with the bits of fdlibm's tanhf, where the nearest floats are greater by one bit."""


def _mean(draw: Int16Draw) -> MeanParams:
    shape = draw.pick(1, 20), draw.pick(1, 40), draw.pick(1, 70) if draw.pick(0, 2) else 1
    return MeanParams(halves(math.prod(shape), draw.chance), shape, halves(shape[0] * shape[2], draw.chance))


def _function(draw: Int16Draw) -> FunctionParams:
    data = halves(draw.pick(1, 200), draw.chance)
    return FunctionParams(data, data)


def _sub(draw: Int16Draw) -> SubParams:
    mul = draw.mul().params
    return SubParams(**{field.name: getattr(mul, field.name) for field in fields(mul)})


_DRAWN: Final[Mapping[int, Callable[[Int16Draw], Any]]] = {
    BuiltinOperator.MEAN: _mean,
    BuiltinOperator.LOGISTIC: _function,
    BuiltinOperator.TANH: _function,
    BuiltinOperator.SUB: _sub,
}
"""What layers of int16 do not have."""


def float32_case(code: int, seed: int) -> Case:
    """A random layer, the same for one seed."""
    draw = Int16Draw(seed)
    drawn = _DRAWN[code](draw) if code in _DRAWN else draw.case(code).params
    chance = np.random.default_rng(seed + 1_000_000)
    special = len(SPECIAL) if seed % 8 == 7 else FINITE if seed % 8 == 3 else 0

    def floats(count: int, kinds: int) -> memoryview:
        values = chance.normal(0, 2.0 ** chance.integers(-3, 4), count).astype(np.float32)
        if kinds:
            places = chance.random(count) < 0.1
            values[places] = np.array(SPECIAL[:kinds], np.float32)[chance.integers(0, kinds, places.sum())]
        return memoryview(array("f", values.tolist()))

    changed: dict[str, Any] = {}
    for field in fields(drawn):
        value = getattr(drawn, field.name)
        if field.name.startswith("input") and isinstance(value, memoryview):
            changed[field.name] = floats(len(value), special)
        elif field.name == "output":
            changed[field.name] = memoryview(array("f", [0] * len(value)))
        elif field.name in ("weights", "bias") and value is not None:
            changed[field.name] = floats(len(value), min(special, FINITE)).toreadonly()
        elif field.name == "weights_per_channel_quant":
            changed[field.name] = None
        elif field.name.endswith("_quant"):
            changed[field.name] = UNQUANTIZED
    return Case(code, replace(drawn, **changed))


@functools.cache
def has_tflms_bits(code: int) -> bool:
    """Whether TFLM computes here what the library does: from glibc 2.41 on, tanhf is another one."""
    if code != BuiltinOperator.TANH:
        return True
    params = FunctionParams(memoryview(array("f", [FDLIBM_TANH[0][0]])), memoryview(array("f", [0])))
    (found,) = bits(Case(code, params).run_tflm())
    return int(found) == FDLIBM_TANH[0][1]


def bits(values: Iterable[float]) -> npt.NDArray[np.uint32]:
    """The bits of floats; what is no number has one form."""
    found = np.array(list(values), np.float32)
    return np.where(np.isnan(found), np.uint32(NOT_A_NUMBER), found.view(np.uint32))
