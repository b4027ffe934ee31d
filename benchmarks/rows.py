"""A figure of a benchmark."""

from typing import NamedTuple


class Row(NamedTuple):
    """One figure."""

    name: str
    value: float
    unit: str
