"""The suite with the mode on: each device that a test makes in its process is in device time.

`pytest --device-time` does that; nothing else asks for it. Tests that measure time have
the mark `plain_time` with the reason, and are left out.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from aisrv.board import Board

MARK: Final = "plain_time"


def switch_on() -> None:
    """Have all devices of this process in device time, whatever boards and tests say."""
    from aisrv.device import device  # which not every interpreter has that runs tests

    time_of = device._time_of

    def timed(board: "Board") -> Any:
        return time_of(replace(board, device_time=True))

    device._time_of = timed


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Skip tests with the mark, for its reason."""
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"device time: {mark.args[0]}"))
