"""The used bytes of an arena over time: finds the lowest place that is free for all of a buffer's life.

Two buffers are in each other's way if they are alive at the same step. A step at which nothing is born after
something died adds no such pair, so that steps are counted in ages: a new one begins with the first birth
after a death. Buffers that are alive all at once share one age, however many steps they are born in.

A binary tree over the ages keeps which bytes are taken. A life of any length is at most two nodes a level, so
that placing a buffer takes time with the logarithm of the ages, and with the number of gaps that are too
small.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final


class Extents:
    """Taken bytes as extents that neither overlap nor touch, by rising offset."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: Final[list[int]] = []
        self.ends: Final[list[int]] = []

    def add(self, start: int, end: int) -> None:
        """Take the bytes from `start` to `end`, some of which may be taken already."""
        starts, ends = self.starts, self.ends
        first, behind = bisect_left(ends, start), bisect_right(starts, end)
        if first < behind:
            start, end = min(start, starts[first]), max(end, ends[behind - 1])
        starts[first:behind] = (start,)
        ends[first:behind] = (end,)


class ArenaSpace:
    """The bytes of an arena that are taken in each age."""

    def __init__(self, lives: Sequence[tuple[int, int]]) -> None:
        """Create an empty arena for buffers with these lives, each from a first step to a last, inclusive."""
        self._births, self._deaths = _ages(lives)
        ages = 1 + max(self._deaths.values(), default=0)
        self._leaves = 1 << (ages - 1).bit_length()
        self._within: dict[int, Extents] = {}  # taken at some time of a node's ages
        self._throughout: dict[int, Extents] = {}  # taken at all times of a node's ages

    def place(self, size: int, first: int, last: int, offset: int | None = None) -> int:
        """Take `size` bytes, above 0, for a life, at `offset` or else at the lowest free one; return that."""
        nodes, above = self._nodes(self._births[first], self._deaths[last])
        if offset is None:
            offset = self._lowest(size, nodes, above)
        end = offset + size
        within = self._within
        for taken, places in ((self._throughout, nodes), (within, nodes), (within, above)):
            for node in places:
                extents = taken.get(node)
                if extents is None:
                    taken[node] = extents = Extents()
                extents.add(offset, end)
        return offset

    def _lowest(self, size: int, nodes: Iterable[int], above: Iterable[int]) -> int:
        taken = [self._within[node] for node in nodes if node in self._within]
        taken += [self._throughout[node] for node in above if node in self._throughout]
        offset = 0
        settled = 0  # the extents at the front that leave room at the offset
        while settled < len(taken):
            extents = taken[settled]
            starts, ends = extents.starts, extents.ends
            index = bisect_right(ends, offset)
            settled += 1
            if index < len(ends) and starts[index] < offset + size:
                offset = ends[index]
                # The next one is often in the way, too.
                while index + 1 < len(ends) and starts[index + 1] < offset + size:
                    index += 1
                    offset = ends[index]
                # What has been in the way is likely to be so again: it is asked first.
                if settled > 1:
                    taken.insert(0, taken.pop(settled - 1))
                    settled = 1
        return offset

    def _nodes(self, first: int, last: int) -> tuple[list[int], set[int]]:
        """Return the nodes that make up a life, and all that are above them."""
        nodes = []
        low, high = first + self._leaves, last + self._leaves + 1
        while low < high:
            if low & 1:
                nodes.append(low)
                low += 1
            if high & 1:
                high -= 1
                nodes.append(high)
            low >>= 1
            high >>= 1
        above: set[int] = set()
        for node in nodes:
            parent = node >> 1
            while parent and parent not in above:
                above.add(parent)
                parent >>= 1
        return nodes, above


def _ages(lives: Sequence[tuple[int, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the age of each step at which something is born, and of each at which something dies."""
    births = dict.fromkeys(first for first, _ in lives)
    deaths = dict.fromkeys(last for _, last in lives)
    born: dict[int, int] = {}
    died: dict[int, int] = {}
    age, is_over = 0, False
    for step in sorted(births | deaths):
        if step in births:
            age += is_over
            is_over = False
            born[step] = age
        if step in deaths:
            died[step] = age
            is_over = True
    return born, died
