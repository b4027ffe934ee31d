"""Errors of starting or running devices, as one line and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from aisrv.board import BoardError
from aisrv.cli.serving import first_error
from aisrv.device.device import ModelRefused
from aisrv.listeners.failures import DeviceFailed, first_cause
from aisrv.sensors.image.frame import SourceError
from aisrv.xcore.traps import XcoreError
from flash_server.errors import FlashError

DEVICE_ERRORS: Final = (DeviceFailed, ModelRefused, OSError, XcoreError, FlashError, SourceError)
"""Errors of devices whose boards are sound."""


@contextmanager
def one_line_errors(*others: type[Exception]) -> Iterator[None]:
    """End the command with the first error that the block raises, alone or in groups.

    A BoardError is wrong usage; DEVICE_ERRORS and `others` end it with exit code 1, click's errors with their
    own. Groups with other errors are raised whole.
    """
    known: tuple[type[Exception], ...] = (BoardError, click.ClickException, *DEVICE_ERRORS, *others)
    try:
        yield
    except known as error:
        raise _click_error(error) from None
    except BaseExceptionGroup as errors:
        if errors.split(known)[1] is not None:
            raise
        raise _click_error(errors) from None


def _click_error(error: BaseException) -> click.ClickException:
    first = first_cause(error)
    if isinstance(first, click.ClickException):
        return first
    wrong_board = BaseExceptionGroup("", [error]).subgroup(BoardError)
    if wrong_board is not None:
        return click.UsageError(first_error(wrong_board))
    return click.ClickException(first_error(error))
