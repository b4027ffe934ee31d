"""Answers and times: what is missing, what failed, and percentiles."""

import numpy as np
import pytest

from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.times import TimeCounts


def test_missing_ranges_and_complete_shards() -> None:
    answers = Answers(10, 2, 4)
    assert answers.missing() == [(0, 10)]
    answers.put(0, np.ones((4, 2), np.uint8), (5,))
    answers.fail(6, "why")
    assert answers.missing() == [(4, 6), (7, 10)]
    assert [answers.is_complete(shard) for shard in range(3)] == [True, False, False]
    assert answers.bounds(2) == (8, 10)
    answers.put(4, np.ones((6, 2), np.uint8), ())
    assert answers.missing() == []
    assert not answers.outputs[6].any()


def test_shards_know_when_they_were_begun_and_how_often() -> None:
    answers = Answers(10, 2, 4)
    assert answers.seconds(0) is None
    answers.begin(3, 5)
    begun = [answers.seconds(shard) for shard in range(3)]
    assert [each is None for each in begun] == [False, False, True]
    answers.begin_again(5)
    assert answers.attempts == [1, 2, 1]
    assert answers.part(1).attempts == [2]


@pytest.mark.parametrize(("times", "runs"), [([1000, 2000, 4000], 3), ([1000, 2000, 4000], 3000)])
def test_percentiles_are_within_a_step(times: list[int], runs: int) -> None:
    counts = TimeCounts()
    counts.add(times, runs)
    assert sum(counts.values().values()) == runs
    median = counts.percentile_ms(50)
    assert median is not None
    assert abs(median / 0.002 - 1) < 0.05
    again = TimeCounts(counts.values())
    again += counts
    assert again.percentile_ms(50) == median


def test_no_runs_have_no_percentile() -> None:
    assert TimeCounts().percentile_ms(50) is None
