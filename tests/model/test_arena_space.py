"""The lowest free place for each buffer, beside a search through all that was placed before."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.model.arena_plan import plan_arena
from aisrv.model.arena_space import ArenaSpace, Extents
from tests.support.arena_models import lives

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


@pytest.mark.parametrize("born_together", [True, False])
def test_4096_tensors_that_live_at_once_are_planned_at_once(born_together: bool) -> None:
    # Took 0.95 s of CPU time where this takes 0.03 s; the bound leaves room for slow machines.
    chance = random.Random(1)
    model = lives([(chance.randint(1, 5000), 0 if born_together else n, 4096) for n in range(4096)], 4097)
    start = time.thread_time()
    plan = plan_arena(model)
    assert time.thread_time() - start < 0.3
    assert plan.head == sum(allocation.size for allocation in plan.allocations)
