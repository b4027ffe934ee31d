"""The Pareto front against its definition, pair by pair."""

from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.evaluate.sweep.front import Place, Point, places

SMALL = st.integers(1, 4)


@st.composite
def points(draw: st.DrawFn) -> list[Point]:
    """Points that often share values, with bands that often touch; one accuracy for each model."""
    rights = draw(st.lists(st.tuples(SMALL, st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=3))
    found: dict[Point, None] = {}
    for _ in range(draw(st.integers(0, 12))):
        ms, model = draw(SMALL), draw(st.integers(0, 2))
        right, below, above = rights[model]
        band = (ms - draw(st.integers(0, 2)) / 2, ms + draw(st.integers(0, 2)) / 2)
        point = Point(ms, *band, draw(SMALL), right, right - below, right + above, model)
        found[point] = None
    return list(found)


def beats(one: Point, other: Point) -> bool:
    ours = (one.ms, one.bytes, -one.accuracy)
    theirs = (other.ms, other.bytes, -other.accuracy)
    return ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))


def surely(one: Point, other: Point) -> bool:
    same_time = (one.ms, one.ms_low, one.ms_high) == (other.ms, other.ms_low, other.ms_high)
    faster = one.ms_high <= other.ms_low
    as_right = one.model == other.model or one.accuracy_low >= other.accuracy_high
    return beats(one, other) and (same_time or faster) and as_right


def place(point: Point, others: list[Point]) -> Place:
    if not any(beats(each, point) for each in others):
        return Place.FRONT
    return Place.BEHIND if any(surely(each, point) for each in others) else Place.PERHAPS


@given(points())
def test_the_front_is_that_of_all_pairs(found: list[Point]) -> None:
    assert places(found) == [place(each, found) for each in found]


def test_bands_that_overlap_leave_a_doubt() -> None:
    fast = Point(10, 9, 12, 100)
    assert places([fast, Point(13, 12, 15, 100)]) == [Place.FRONT, Place.BEHIND]
    assert places([fast, Point(13, 11, 15, 100)]) == [Place.FRONT, Place.PERHAPS]


def test_an_interval_leaves_a_doubt_between_models_and_none_within_one() -> None:
    best = Point(10, 10, 10, 100, 0.9, 0.8, 0.95, model=0)
    other = Point(20, 20, 20, 100, 0.85, 0.75, 0.9, model=1)
    same = Point(20, 20, 20, 100, 0.9, 0.8, 0.95, model=0)
    assert places([best, other, same]) == [Place.FRONT, Place.PERHAPS, Place.BEHIND]
