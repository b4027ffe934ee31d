"""Scores as the page shows them: all of a few, the best of many."""

from collections.abc import Sequence
from typing import Final

MOST_BARS: Final = 32
"""Outputs that are all shown; of more, the `BEST` largest are."""
BEST: Final = 10
MOST_SCORES: Final = 4096
"""Bytes of an output past which it is no list of scores."""


def shown_scores(values: Sequence[int]) -> list[list[int]]:
    """Return place and value of the scores, of many the largest; none of what is no list of scores."""
    if len(values) > MOST_SCORES:
        return []
    places = list(range(len(values)))
    if len(values) > MOST_BARS:
        places = sorted(places, key=lambda place: -values[place])[:BEST]
    return [[place, values[place]] for place in places]
