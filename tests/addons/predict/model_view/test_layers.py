"""Places of boxes: no two share room, edges go down, and the rules of the layers hold, whatever the edges."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.addons.predict.model_view.layers import Edge, lay_out
from tests.support.amounts import in_ci

WIDTH, PASSING = 200.0, 20.0


@st.composite
def networks(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    count = draw(st.integers(0, 30))
    pairs = st.tuples(st.integers(0, max(count - 1, 0)), st.integers(0, max(count - 1, 0)))
    return count, draw(st.lists(pairs, max_size=60)) if count else []


@settings(max_examples=in_ci(300, every_day=60), deadline=None)
@given(networks())
def test_boxes_are_apart_and_in_layers_by_longest_paths(network: tuple[int, list[Edge]]) -> None:
    count, edges = network
    layout = lay_out(count, edges, WIDTH, PASSING)
    downward = [edge for edge in edges if edge[0] < edge[1]]
    rows: dict[int, list[float]] = {}
    for number, layer in enumerate(layout.layers):
        above = [layout.layers[source] for source, target in downward if target == number]
        assert layer == max(above, default=-1) + 1
        rows.setdefault(layer, []).append(layout.centers[number])
    for edge, route in layout.routes.items():
        assert (route is None) == (edge[0] >= edge[1] or layout.layers[edge[1]] - layout.layers[edge[0]] > 25)
        for at, center in enumerate(route or (), layout.layers[edge[0]] + 1):
            others = [abs(center - box) for box in rows[at]]
            assert min(others) >= (WIDTH + PASSING) / 2 - 1e-6
    for row in rows.values():
        row.sort()
        assert all(right - left >= WIDTH - 1e-6 for left, right in pairwise(row))


def test_a_chain_is_a_straight_line() -> None:
    layout = lay_out(5, [(0, 1), (1, 2), (2, 3), (3, 4)], WIDTH, PASSING)
    assert layout.layers == [0, 1, 2, 3, 4]
    assert layout.centers == pytest.approx([0.0] * 5)


def test_branches_that_cross_are_untangled() -> None:
    # 0 feeds 1 and 2; 3 follows 2 and 4 follows 1, so that 4 belongs to the left of 3.
    layout = lay_out(5, [(0, 1), (0, 2), (2, 3), (1, 4)], WIDTH, PASSING)
    assert (layout.centers[1] < layout.centers[2]) == (layout.centers[4] < layout.centers[3])


def test_a_long_edge_goes_along_the_margin() -> None:
    edges = [(number, number + 1) for number in range(30)]
    assert lay_out(31, [*edges, (0, 30)], WIDTH, PASSING).routes[0, 30] is None
    assert lay_out(31, [*edges, (0, 20)], WIDTH, PASSING).routes[0, 20] is not None


def test_thousands_of_boxes_and_edges_are_placed() -> None:
    edges = [(max(0, number - step), number) for number in range(1, 2_000) for step in (1, 7, 20)]
    layout = lay_out(2_000, edges, WIDTH, PASSING)
    assert len(layout.centers) == 2_000
