"""A run that ends when its question is answered: rarely wrong, and the same whatever comes first."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.sweep.accuracy import STEP, Prefix, in_order, is_decided


def decision(right: np.ndarray, wanted: float) -> int | None:  # type: ignore[type-arg]
    """Where a test of the score for the wanted share says no at 0.1 %: Wilson's interval is its inverse."""
    for count in range(STEP, len(right) + 1, STEP):
        distance = right[:count].mean() - wanted
        if abs(distance) >= 3.290527 * math.sqrt(wanted * (1 - wanted) / count):
            return count
    return None


def test_at_0_899_at_most_1_percent_of_1000_runs_say_that_it_is_0_9() -> None:
    source = np.random.default_rng(899)
    wrong = 0
    for _ in range(1000):
        prefix = Prefix(5000, 0.9)
        prefix.put(0, source.random(5000) < 0.899)
        at = prefix.decided_at
        wrong += at is not None and prefix.right[:at].mean() > 0.9
    assert wrong <= 10


@pytest.mark.parametrize("share", [0.8, 0.97])
def test_what_is_clear_ends_soon(share: float) -> None:
    prefix = Prefix(10_000, 0.9)
    prefix.put(0, np.random.default_rng(1).random(10_000) < share)
    assert prefix.decided_at is not None
    assert prefix.decided_at <= 1000


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.85, 0.9, 0.99]), st.lists(st.integers(1, 999)))
def test_the_end_does_not_depend_on_the_batches(seed: int, share: float, cuts: list[int]) -> None:
    source = np.random.default_rng(seed)
    right = source.random(1000) < share
    edges = [0, *sorted(set(cuts)), 1000]
    batches = list(pairwise(edges))
    source.shuffle(batches)
    prefix = Prefix(1000, 0.9)
    for first, end in batches:
        prefix.put(first, right[first:end])
    assert prefix.decided_at == decision(right, 0.9)


def test_no_question_has_no_answer() -> None:
    prefix = Prefix(300, None)
    prefix.put(0, np.ones(300, bool))
    assert prefix.decided_at is None


def test_exact_bounds() -> None:
    assert is_decided(100, 100, 0.9)
    assert not is_decided(99, 100, 0.9)
    assert not is_decided(81, 100, 0.9)
    assert is_decided(80, 100, 0.9)


def test_examples_keep_their_labels_in_another_order() -> None:
    data = DataSet(
        "x", "npz", ["a", "b", "c"], "", (np.arange(6).reshape(3, 2),), [b"0", b"1", b"2"], list("xyz")
    )
    found = in_order(data, np.array([2, 0, 1]))
    assert found.labels == ["c", "a", "b"]
    assert found.arrays[0].tolist() == [[4, 5], [0, 1], [2, 3]]
    assert found.files == [b"2", b"0", b"1"]
    assert found.names == ["z", "x", "y"]
