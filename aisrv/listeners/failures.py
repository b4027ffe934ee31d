"""Unexpected errors that end one device, or what serves one, and nothing else of the process.

They are logged when they happen, and raised together at the end, so that the process ends with an error.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import trio

KEPT: Final = 10
"""Errors that are kept to be raised: the first. Each holds its frames, and a peer may cause any number."""


class DeviceFailed(Exception):
    """An unexpected error in one device, or in what serves it; its cause is the error itself."""


class Failures:
    """The errors of tasks that end alone. Leaving its block raises the first `KEPT` of them, as a group.

    The group's text counts the others. Where another error ends the block, that is raised.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._first: Final[list[DeviceFailed]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._first and (value is None or _is_cancellation(value)):
            left_out = self._count - len(self._first)
            more = f"; {left_out} more errors are in the log alone" if left_out else ""
            raise ExceptionGroup(f"devices failed{more}", self._first) from None

    def add(self, what: str, error: BaseException) -> None:
        """Log an error, and keep it if it is one of the first.

        Its frames are for the log with `-v` where a note says its place.
        """
        failure = DeviceFailed(f"{what} failed: {describe(first_cause(error))}")
        failure.__cause__ = error
        self._count += 1
        if len(self._first) < KEPT:
            self._first.append(failure)
        place_is_known = bool(getattr(first_cause(error), "__notes__", ()))
        level = logging.INFO if place_is_known else logging.ERROR
        hint = "" if self._logger.isEnabledFor(level) else "-v shows the frames; "
        self._logger.log(level, "frames of an error of %s", what, exc_info=_without_groups(error))
        self._logger.error("%s%s", hint, failure)  # the reason is last

    @contextmanager
    def contain(self, what: str) -> Iterator[None]:
        """Keep what the block raises, unless it is not an ordinary exception."""
        try:
            yield
        except* Exception as errors:
            self.add(what, errors)


def _is_cancellation(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def first_cause(error: BaseException) -> BaseException:
    """Return the first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _without_groups(error: BaseException) -> BaseException:
    """Return the one error that is in groups, whose own frames say nothing; groups of several as they are."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        if len(inner.exceptions) > 1:
            return error
        inner = inner.exceptions[0]
    return inner


def describe(error: BaseException) -> str:
    """Return the notes of an error, which say where it was, then its type and its text."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ": ".join((*getattr(error, "__notes__", ()), reason))
