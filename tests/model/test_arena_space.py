"""The lowest free place for each buffer, beside a search through all that was placed before."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.model.arena_plan import plan_arena
from aisrv.model.arena_space import ArenaSpace, Extents
from tests.support.models.arena_models import lives

STEPS = st.integers(-1, 12)
LIVES = st.tuples(STEPS, STEPS).map(sorted).map(lambda pair: (pair[0], pair[1]))
OFFLINE = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 60))
BUFFERS = st.lists(st.tuples(st.integers(1, 40), LIVES, OFFLINE), max_size=24)


def lowest_of(placed: list[tuple[int, int, int, int]], size: int, first: int, last: int) -> int:
    """The lowest offset at which nothing is in the way, tried from 0 on; `placed` are offset, size, life."""
    ends = sorted(offset + length for offset, length, _, _ in placed)
    in_the_way = [
        (offset, offset + length) for offset, length, begin, end in placed if begin <= last and first <= end
    ]
    return next(
        offset
        for offset in [0, *ends]
        if all(offset + size <= start or end <= offset for start, end in in_the_way)
    )


@given(BUFFERS)
def test_each_buffer_gets_the_lowest_place_that_is_free(
    buffers: list[tuple[int, tuple[int, int], int | None]],
) -> None:
    space = ArenaSpace([life for _, life, _ in buffers])
    placed: list[tuple[int, int, int, int]] = []
    for size, (first, last), fixed in buffers:
        expected = lowest_of(placed, size, first, last) if fixed is None else fixed
        assert space.place(size, first, last, fixed) == expected
        placed.append((expected, size, first, last))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=20))
def test_extents_hold_the_bytes_that_were_added(pieces: list[tuple[int, int]]) -> None:
    extents = Extents()
    taken: set[int] = set()
    for start, size in pieces:
        extents.add(start, start + size)
        taken.update(range(start, start + size))
    pairs = list(zip(extents.starts, extents.ends, strict=True))
    assert {byte for start, end in pairs for byte in range(start, end)} == taken
    assert all(end < start for (_, end), (start, _) in pairwise(pairs))


def seconds_to_plan(tensors: int, *, born_together: bool) -> float:
    """CPU time of planning so many tensors that live at once, the shortest of three tries."""
    chance = random.Random(1)
    births = [0 if born_together else n for n in range(tensors)]
    model = lives([(chance.randint(1, 5000), birth, tensors) for birth in births], tensors + 1)
    tries = []
    for _ in range(3):
        start = time.thread_time()
        plan = plan_arena(model)
        tries.append(time.thread_time() - start)
        assert plan.head == sum(allocation.size for allocation in plan.allocations)
    return min(tries)


@pytest.mark.parametrize("born_together", [True, False])
def test_time_of_tensors_that_live_at_once_grows_as_their_number(born_together: bool) -> None:
    # Each of 4 times as many took 16 times as long where a plan looked at all pairs.
    few, many = (seconds_to_plan(tensors, born_together=born_together) for tensors in (1024, 4096))
    assert many < 9 * few
