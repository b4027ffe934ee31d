"""New lines of a debug log that is read again and again."""

from collections.abc import Sequence


def new_lines(before: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the lines of a log that came since it was `before`.

    The oldest lines of a log make room, so that its start is somewhere in what it was before. Where nothing
    of that is left, all lines are new.
    """
    for start in range(len(before)):
        kept = before[start:]
        if now[: len(kept)] == kept:
            return now[len(kept) :]
    return now
