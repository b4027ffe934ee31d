"""Places of boxes in layers: longest paths, order by barycenters, and what goes by between the boxes.

A layer is a row, numbered from the top. Boxes are numbered so that an edge from a lower number to a higher
goes down; any other is left to the margin, and so is one that passes very many layers. An edge that passes
layers has a place in each, beside the boxes.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

Edge = tuple[int, int]
"""From a box to a box, by their numbers."""

_SWEEPS: Final = 8
_LONGEST: Final = 24
"""Layers that an edge passes between the boxes; a longer one goes along the margin."""
_MOST_PASSED: Final = 20_000
"""Places of passing edges in all."""


class Layout(NamedTuple):
    """Where boxes are: the layer of each and its center; and where each edge passes."""

    layers: list[int]
    centers: list[float]
    routes: dict[Edge, tuple[float, ...] | None]
    """Centers in the layers that an edge passes; None for one along the margin."""


def lay_out(count: int, edges: Sequence[Edge], width: float, passing: float) -> Layout:
    """Place boxes of a width, whose centers are at least so far apart; a passing edge takes `passing`."""
    downward = [edge for edge in dict.fromkeys(edges) if edge[0] < edge[1]]
    layers = _longest_paths(count, downward)
    boxes = _LayeredBoxes(count, width)
    boxes.layer_of[:] = layers
    routes: dict[Edge, list[int] | None] = dict.fromkeys(edges)
    passed = 0
    for edge in downward:
        between = range(layers[edge[0]] + 1, layers[edge[1]])
        if len(between) <= _LONGEST and passed + len(between) <= _MOST_PASSED:
            passed += len(between)
            routes[edge] = boxes.join(edge, between, passing)
    boxes.order()
    centers = boxes.centers()
    return Layout(
        layers,
        centers[:count],
        {
            edge: None if route is None else tuple(centers[node] for node in route)
            for edge, route in routes.items()
        },
    )


def _longest_paths(count: int, downward: Sequence[Edge]) -> list[int]:
    """Return the layer of each box: one below the lowest of those that it follows."""
    layers = [0] * count
    for source, target in sorted(downward, key=lambda edge: edge[1]):
        layers[target] = max(layers[target], layers[source] + 1)
    return layers


class _LayeredBoxes:
    """Boxes and passing edges, each in its layer, and joined to their neighbors above and below."""

    def __init__(self, count: int, width: float) -> None:
        self.layer_of = [0] * count
        self.widths = [width] * count
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        self.rows: list[list[int]] = []

    def join(self, edge: Edge, between: range, passing: float) -> list[int]:
        """Add the places that an edge passes, and join them."""
        route = []
        last = edge[0]
        for layer in between:
            node = len(self.layer_of)
            self.layer_of.append(layer)
            self.widths.append(passing)
            self.above.append([])
            self.below.append([])
            self._touch(last, node)
            route.append(node)
            last = node
        self._touch(last, edge[1])
        return route

    def _touch(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def order(self) -> None:
        """Order each layer by the mean position of its neighbors, downwards and upwards in turn."""
        self.rows = [[] for _ in range(max(self.layer_of, default=-1) + 1)]
        for node, layer in enumerate(self.layer_of):
            self.rows[layer].append(node)
        position = [0.0] * len(self.layer_of)
        self._number(position, range(len(self.rows)))
        for sweep in range(_SWEEPS):
            is_down = sweep % 2 == 0
            neighbors = self.above if is_down else self.below
            for number in range(len(self.rows)) if is_down else reversed(range(len(self.rows))):
                self.rows[number].sort(key=lambda node: _mean(neighbors[node], position, position[node]))
                self._number(position, (number,))

    def _number(self, position: list[float], rows: Sequence[int]) -> None:
        for number in rows:
            row = self.rows[number]
            for place, node in enumerate(row):
                position[node] = place - (len(row) - 1) / 2

    def centers(self) -> list[float]:
        """Place each layer as near to its neighbors as its widths let it, keeping the order."""
        center = [0.0] * len(self.layer_of)
        for row in self.rows:
            self._spread(row, [0.0] * len(row), center)
        for sweep in range(_SWEEPS):
            is_down = sweep % 2 == 0
            neighbors = self.above if is_down else self.below
            for row in self.rows if is_down else reversed(self.rows):
                self._spread(row, [_mean(neighbors[node], center, center[node]) for node in row], center)
        return center

    def _spread(self, row: Sequence[int], wanted: Sequence[float], center: list[float]) -> None:
        """Place a layer with the least squares of distances from where its nodes are wanted."""
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + (self.widths[left] + self.widths[right]) / 2)
        blocks: list[tuple[float, int]] = []  # sum and count of what is pushed together
        for want, offset in zip(wanted, offsets, strict=False):
            total, number = want - offset, 1
            while blocks and blocks[-1][0] / blocks[-1][1] > total / number:
                before = blocks.pop()
                total, number = total + before[0], number + before[1]
            blocks.append((total, number))
        at = 0
        for total, number in blocks:
            for _ in range(number):
                center[row[at]] = total / number + offsets[at]
                at += 1


def _mean(nodes: Sequence[int], values: Sequence[float], default: float) -> float:
    return sum(values[node] for node in nodes) / len(nodes) if nodes else default
