"""Errors of devices that start or run end a command with one line, alone or in groups."""

from collections.abc import Callable

import click
import pytest

from aisrv.attach.usbip.vhci import VhciError
from aisrv.board import BoardError
from aisrv.cli.one_line_errors import one_line_errors
from aisrv.device.device import ModelRefused


def alone(error: Exception) -> BaseException:
    return error


def grouped(error: Exception) -> BaseException:
    return ExceptionGroup("outer", [ExceptionGroup("inner", [error])])


def shown(error: BaseException, *others: type[Exception]) -> click.ClickException:
    with pytest.raises(click.ClickException) as caught, one_line_errors(*others):
        raise error
    return caught.value


@pytest.mark.parametrize("wrap", [alone, grouped])
@pytest.mark.parametrize(
    ("error", "kind", "code", "message"),
    [
        (ModelRefused("too large"), click.ClickException, 1, "too large"),
        (FileNotFoundError(2, "No such file", "a.bin"), click.ClickException, 1, "a.bin: No such file"),
        (BoardError("no engine"), click.UsageError, 2, "no engine"),
    ],
    ids=["a device", "a file", "a board"],
)
def test_an_error_is_one_line(
    wrap: Callable[[Exception], BaseException], error: Exception, kind: type, code: int, message: str
) -> None:
    found = shown(wrap(error))
    assert (type(found), found.exit_code, found.message) == (kind, code, message)


def test_a_wrong_board_goes_before_what_comes_of_it() -> None:
    error = shown(ExceptionGroup("both", [OSError("gone"), BoardError("no engine")]))
    assert (error.exit_code, error.message) == (2, "no engine")


def test_errors_of_a_command_are_among_them() -> None:
    assert shown(grouped(VhciError("no module")), VhciError).message == "no module"
    with pytest.raises(VhciError), one_line_errors():
        raise VhciError("no module")


def test_an_unexpected_error_is_raised_with_all_others() -> None:
    errors = ExceptionGroup("both", [OSError("gone"), KeyError("x")])
    with pytest.raises(ExceptionGroup) as caught, one_line_errors():
        raise errors
    assert caught.value is errors


def test_ctrl_c_is_no_error() -> None:
    with pytest.raises(KeyboardInterrupt), one_line_errors():
        raise KeyboardInterrupt
