"""Counts the tokens that leave each channel end, while somebody looks."""

from collections import Counter

from aisrv.xcore.tokens import Run
from aisrv.xcore.trace import TracedEnd, Tracer


class TokenCounter(Tracer):
    """A tracer whose `tokens` are counts by resource id. A node that nobody looks at has none."""

    def __init__(self) -> None:
        self.tokens: Counter[int] = Counter()

    def output(self, end: TracedEnd, run: Run, *_: object) -> None:
        """Count a run, or the control token that it is."""
        self.tokens[end.resource_id] += 1 if isinstance(run, int) else len(run)
