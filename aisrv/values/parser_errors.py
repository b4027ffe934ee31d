"""What other people's parsers raise, as the error of its kind: the one wrapper around each call of one.

Of damaged bytes a parser raises what its author had in mind, and what nobody had: IndexError, AssertionError,
struct.error, MemoryError and the like. So this wrapper takes any exception; blocks in it are to be small.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aisrv.values.printable import printable

LONGEST_REASON: Final = 300
"""Characters of a parser's own words in a message."""


@contextmanager
def parser_errors(
    what: str, kind: type[Exception], passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise `kind` for whatever the block raises: `what` is wrong, such as "a.wav: not a WAV file".

    Errors of that kind go through as they are, and those that are `passing`.
    """
    try:
        yield
    except (kind, *passing):
        raise
    except Exception as error:  # parsers of others
        raise kind(f"{printable(what)}: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Return why a parser failed, in one printable line."""
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    first = said.strip().partition("\n")[0]
    return printable(first, LONGEST_REASON) or type(error).__name__
