"""RESIZE_BILINEAR beside TensorFlow Lite Micro: every byte of the output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operators import resampling
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

extents = st.integers(1, 12)


def resize(shape: tuple[int, int, int, int], size: tuple[int, int], align: bool, half: bool) -> bytes:
    return single(
        BuiltinOperator.RESIZE_BILINEAR,
        [tensor("in", shape), constant("size", size)],
        [tensor("out", (shape[0], *size, shape[3]))],
        {"align_corners": align, "half_pixel_centers": half},
    )


@FEW
@given(
    st.sampled_from([(False, False), (True, False), (False, True)]),
    st.tuples(st.integers(1, 2), extents, extents, st.integers(1, 4)),
    st.tuples(extents, extents),
)
def test_resize_bilinear(
    places: tuple[bool, bool], shape: tuple[int, int, int, int], size: tuple[int, int]
) -> None:
    agree(resize(shape, size, *places), random_int8(shape))


def test_a_picture_twice_as_large_as_converters_write_it() -> None:
    shape = (1, 24, 32, 8)
    agree(resize(shape, (48, 64), align=False, half=True), random_int8(shape))


def test_both_ways_to_place_pixels_at_once_are_refused() -> None:
    with pytest.raises(NetworkError, match="only one of them can be"):
        loaded(resize((1, 2, 2, 1), (4, 4), align=True, half=True))


def test_a_fraction_with_a_bit_less_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = resize((1, 5, 5, 3), (7, 9), align=False, half=False), random_int8((1, 5, 5, 3))
    agree(model, data)
    monkeypatch.setattr(resampling, "_FRACTION_BITS", 9)
    monkeypatch.setattr(resampling, "_ONE", 512)
    with pytest.raises(AssertionError):
        agree(model, data)
