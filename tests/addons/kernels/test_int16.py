"""The arithmetic of int16 activations on values that were worked out by hand."""

from array import array

import pytest

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import quantized_multiplier
from aisrv.addons.kernels.errors import InternalError
from tests.support.models.operators import words

HALF = quantized_multiplier(0.5)


@pytest.mark.parametrize(
    ("real", "mantissa"), [(0.5, 1 << 14), (1 - 2.0**-31, 32767), (0.75, 3 << 13), (0.5 + 2.0**-16, 16385)]
)
def test_mantissas_are_rounded_to_15_bits(real: float, mantissa: int) -> None:
    assert int16.reduced_mantissa(quantized_multiplier(real)) == mantissa


# 5/2 and -5/2 are ties. The result is a word of 32 bits.
@pytest.mark.parametrize(
    ("value", "result"),
    [(5, 3), (-5, -2), (1 << 31, 1 << 30), (-(1 << 32), -(1 << 31)), ((1 << 32) + 6, 3 - (1 << 31))],
)
def test_wide_sums_are_rounded_up_once_and_wrap(value: int, result: int) -> None:
    assert int16.multiply_wide(value, HALF) == result


def test_sums_have_the_bits_of_the_bias() -> None:
    assert int16.is_wide(None)
    assert int16.is_wide(memoryview(array("q", [1])))
    assert not int16.is_wide(words([1]))


def test_factors_of_wide_sums_are_bounded() -> None:
    int16.check_wide([quantized_multiplier(127.9)], None)
    with pytest.raises(InternalError, match=r"below 2\*\*7"):
        int16.check_wide([HALF, quantized_multiplier(128.0)], None)


@pytest.mark.parametrize("sign", [1, -1])
def test_biases_of_wide_sums_are_bounded(sign: int) -> None:
    int16.check_wide([HALF], memoryview(array("q", [0, sign * ((1 << 46) - 1)])))
    with pytest.raises(InternalError, match=r"bias: must be below 2\*\*46"):
        int16.check_wide([HALF], memoryview(array("q", [0, sign << 46])))


def test_tables_begin_and_end_with_their_functions() -> None:
    exponentials, reciprocals = int16.exponentials(), int16.reciprocals()
    assert (len(exponentials), len(reciprocals)) == (513, 513)
    # exp(-10) is 1.5 of 32768; exp(0) is cut to what int16 holds. 1/(1 + 0) likewise, 1/2 is exact.
    assert (exponentials[0], exponentials[-1]) == (2, 32767)
    assert (reciprocals[0], reciprocals[-1]) == (32767, 16384)


@pytest.mark.parametrize(("value", "result"), [(-32768, 0), (-32768 + 64, 5), (-32767, 0), (32767, 10)])
def test_between_two_entries_there_is_a_line(value: int, result: int) -> None:
    table = [0, *[10] * 512]
    assert int16.look_up(value, table) == result


@pytest.mark.parametrize(
    ("row", "outputs"),
    [([7], [32767]), ([5, 5], [16384, 16384]), ([0, -32768, -32768], [32764, 2, 2])],
)
def test_softmax_of_rows_that_can_be_worked_out(row: list[int], outputs: list[int]) -> None:
    # A step is worth 1, so -32768 is far beyond the table, whose least is 2: 32767 of 32771.
    multiplier = quantized_multiplier(6553.5)
    assert int16.softmax_row(row, multiplier, int16.exponentials(), int16.reciprocals()) == outputs
