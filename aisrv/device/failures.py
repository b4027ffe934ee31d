"""Unexpected errors that end one device, or what serves one, and nothing else of the process.

They are logged when they happen, and raised together at the end, so that the process ends with an error.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import trio


class DeviceFailed(Exception):
    """An unexpected error in one device, or in what serves it; its cause is the error itself."""


class Failures:
    """The errors of tasks that end alone. Leaving its block raises those that there were, as a group.

    Where another error ends the block, that is raised.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._errors: Final[list[DeviceFailed]] = []

    def __len__(self) -> int:
        return len(self._errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._errors and (value is None or _is_cancellation(value)):
            raise ExceptionGroup("devices failed", self._errors) from None

    def add(self, what: str, error: BaseException) -> None:
        """Log an error and keep it."""
        cause = first_cause(error)
        failure = DeviceFailed(f"{what} failed: {describe(cause)}")
        failure.__cause__ = error
        self._errors.append(failure)
        self._logger.error("%s", failure, exc_info=error)

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


def describe(error: BaseException) -> str:
    """Return the type of an error, its text, and its notes."""
    text = "; ".join(filter(None, (str(error), *getattr(error, "__notes__", ()))))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
