"""The structures of the C kernels, as the header has them."""

import struct

import pytest

from aisrv.addons.kernels.images.structures import KERNELS, Parameters
from aisrv.model.relocatable.errors import BuildError

SOFTMAX = {"input": 0xFFFF_FFFF, "output": 2, "exponentials": 3, "rows": -4, "classes": 5}


def test_a_kernel_has_its_number() -> None:
    assert (KERNELS[0], KERNELS[5], KERNELS[-1], len(KERNELS)) == ("conv_2d", "softmax", "mean", 11)


def test_words_are_in_the_order_of_the_structure() -> None:
    softmax = Parameters.of("softmax", **dict(reversed(SOFTMAX.items())))
    assert bytes(softmax) == struct.pack("<3I2i", *SOFTMAX.values())
    assert list(softmax.by_field().items()) == list(SOFTMAX.items())


@pytest.mark.parametrize("values", [{**SOFTMAX, "rank": 1}, {"input": 1}])
def test_each_field_is_given_once(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"^struct softmax: .*(rank|classes)"):
        Parameters.of("softmax", **values)


@pytest.mark.parametrize("values", [{"input": -1}, {"rows": 1 << 31}])
def test_a_value_fits_its_field(values: dict[str, int]) -> None:
    with pytest.raises(BuildError, match=r"^struct softmax: a value does not fit its field"):
        bytes(Parameters.of("softmax", **{**SOFTMAX, **values}))
