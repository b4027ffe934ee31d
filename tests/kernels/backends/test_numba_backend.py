"""The compiled backend against the plain loops and against TensorFlow Lite Micro, byte for byte."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from aisrv.kernels.arithmetic import Rounding
from aisrv.kernels.backends.numpy.backend import NumpyBackend
from aisrv.kernels.backends.reference import ReferenceBackend
from tests.kernels.backends.numpy.test_backend import (
    BROKEN_TILES,
    CONVOLUTIONS,
    PICTURES,
    POOLS,
    WIDE,
    resized,
)
from tests.support.amounts import share
from tests.support.operators import METHODS, Draw

if TYPE_CHECKING:
    from aisrv.kernels.backends.numba_backend import NumbaBackend
else:
    pytest.importorskip("numba", reason="numba is not installed; the extra `numba` brings it")
    from aisrv.kernels.backends.numba_backend import NumbaBackend


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_equals_the_plain_loops(code: int, rounding: Rounding) -> None:
    compiled, plain = NumbaBackend(rounding), ReferenceBackend(rounding)
    for seed in range(80):
        case = Draw(seed).case(code)
        assert case.run(compiled) == case.run(plain), f"seed {seed}"


@pytest.mark.parametrize("code", WIDE, ids=[METHODS[code] for code in WIDE])
def test_equals_tflm_where_ties_are_frequent(code: int) -> None:
    backend = NumbaBackend()
    for seed in range(10):
        case = Draw(seed).wide(code)
        assert case.run(backend) == case.run_tflm(), f"seed {seed}"


@pytest.mark.parametrize("picture", share(PICTURES, one_in=4, also=(BROKEN_TILES,)), ids=str)
@pytest.mark.parametrize("code", CONVOLUTIONS + POOLS, ids=[METHODS[code] for code in CONVOLUTIONS + POOLS])
def test_equals_numpy_on_pictures_of_all_sizes(code: int, picture: dict[str, Any]) -> None:
    for seed in range(4):
        draw = Draw(seed)
        case = resized(draw.case(code), draw, **picture)
        assert case.run(NumbaBackend()) == case.run(NumpyBackend()), f"seed {seed}"


def test_constants_may_be_read_only() -> None:
    case = Draw(4).mul()
    params = replace(case.params, input2=case.params.input2.toreadonly())
    assert replace(case, params=params).run(NumbaBackend()) == case.run(ReferenceBackend())
