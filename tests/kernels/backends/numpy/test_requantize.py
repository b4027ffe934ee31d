"""Requantization in float64: exact on both sides of every threshold, and refused where it would not be."""

import random
from dataclasses import replace

import numpy as np
import pytest

from aisrv.kernels.arithmetic import (
    MULTIPLY,
    Bounds,
    Multiplier,
    Rounding,
    quantized_multiplier,
    round_half_away,
)
from aisrv.kernels.backends.numpy.requantize import Workspace, padded_elements, requantize
from aisrv.kernels.backends.numpy.softmax import reciprocal as fast_reciprocal
from aisrv.kernels.backends.numpy.steps import (
    Line,
    Rescaling,
    Steps,
    TwoLines,
    mean_steps,
    rescaling,
    rescaling_steps,
)
from aisrv.kernels.softmax import reciprocal

INT8 = Bounds(-128, 127)
TYPICAL = quantized_multiplier(0.00371)


def steps_of(
    multiplier: Multiplier,
    *,
    bias: int = 0,
    reach: int = 1 << 20,
    bounds: Bounds = INT8,
    zero: int = 0,
    rounding: Rounding = Rounding.DOUBLE,
) -> Steps:
    bias_array, reach_array = np.array([bias]), np.array([reach])
    return rescaling_steps((multiplier,), bias_array, reach_array, bounds, zero, rounding)


def run(how: Rescaling, accumulators: list[int]) -> list[int]:
    """One channel's outputs."""
    flat = np.zeros(padded_elements(1, len(accumulators)), np.float32)
    flat[: len(accumulators)] = accumulators
    output = np.zeros(len(accumulators), np.int8)
    requantize(flat, output, how, Workspace())()
    return [int(value) for value in output]


def around(steps: Steps) -> list[int]:
    """Every accumulator beside a threshold, as far as it can occur, and the outermost."""
    reach = int(steps.reach[0])
    near = {int(each) + by for each in steps.thresholds[0] for by in (-2, -1, 0, 1)}
    return sorted({each for each in near if -reach <= each <= reach} | {-reach, 0, reach})


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("zero", [-128, -5, 0, 127])
def test_every_step_is_where_the_integers_have_it(rounding: Rounding, zero: int) -> None:
    chance = random.Random(zero)
    for _ in range(60):
        multiplier, bias = quantized_multiplier(2 ** chance.uniform(-16, 3)), chance.randint(-9999, 9999)
        steps = steps_of(multiplier, bias=bias, zero=zero, rounding=rounding)
        expected = [
            max(-128, min(127, MULTIPLY[rounding](each + bias, multiplier) + zero)) for each in around(steps)
        ]
        assert run(rescaling(steps, np.float32), around(steps)) == expected


@pytest.mark.parametrize(
    ("multiplier", "reach"),
    [(Multiplier(0, 0), 1 << 20), (Multiplier(1 << 30, -31), 1 << 20), (Multiplier(1 << 30, 25), 60)],
)
def test_extreme_multipliers_are_exact(multiplier: Multiplier, reach: int) -> None:
    steps = steps_of(multiplier, bias=3, zero=7, reach=reach)
    expected = [
        max(-128, min(127, MULTIPLY[Rounding.DOUBLE](each + 3, multiplier) + 7)) for each in around(steps)
    ]
    assert run(rescaling(steps, np.float32), around(steps)) == expected


def test_ties_away_from_zero_need_two_lines() -> None:
    assert isinstance(rescaling(steps_of(TYPICAL), np.float32), TwoLines)


def test_ties_up_need_one_line() -> None:
    assert isinstance(rescaling(steps_of(TYPICAL, rounding=Rounding.SINGLE), np.float32), Line)


def test_outputs_above_zero_need_one_line() -> None:
    assert isinstance(rescaling(steps_of(TYPICAL, zero=-128), np.float32), Line)


def test_steps_that_no_line_has_are_searched() -> None:
    crooked = steps_of(TYPICAL, zero=-128)
    crooked.thresholds[0, 100] += 5
    how = rescaling(crooked, np.float32)
    assert how is crooked
    threshold = int(crooked.thresholds[0, 100])
    assert run(how, [threshold - 1, threshold]) == [-28, -27]


def test_a_step_moved_by_one_accumulator_is_not_taken_for_exact() -> None:
    steps = steps_of(TYPICAL, zero=-128)
    for level in range(0, 255, 10):
        thresholds = steps.thresholds.copy()
        thresholds[0, level] -= 1
        how = rescaling(replace(steps, thresholds=thresholds), np.float32)
        at = int(thresholds[0, level])
        assert run(how, [at - 1, at]) == [level - 128, level - 127]


def test_a_range_of_one_value_is_constant() -> None:
    assert run(rescaling(steps_of(TYPICAL, bounds=Bounds(127, 127)), np.float32), [-9, 0, 9]) == [127] * 3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 25, 64, 125, 1000])
def test_means_are_rounded_half_away_from_zero(count: int) -> None:
    steps = mean_steps(np.array([count]), INT8)
    expected = [min(127, round_half_away(each / count)) for each in around(steps)]
    assert run(rescaling(steps, np.float32), around(steps)) == expected


def test_the_unrolled_reciprocal_is_the_plain_one() -> None:
    chance = random.Random(8)
    arguments = [0, 1, 1 << 30, (1 << 31) - 1, *(chance.randrange(1 << 31) for _ in range(5000))]
    assert [fast_reciprocal(each) for each in arguments] == [reciprocal(each) for each in arguments]
