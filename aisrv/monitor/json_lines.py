"""The state of devices as lines of JSON: the counters of the view, for programs."""

import dataclasses
import enum
import json
from collections.abc import Sequence
from typing import Final

import trio

from aisrv.monitor.snapshot import DeviceMonitor
from aisrv.monitor.values import DeviceStatus
from aisrv.values.addons import offered

LINE_SECONDS: Final = 1.0


async def print_status(monitors: Sequence[DeviceMonitor]) -> None:
    """Print a line for each device whenever it has changed, at most one a second, until cancelled."""
    printed: list[DeviceStatus | None] = [None] * len(monitors)
    while True:
        for number, monitor in enumerate(monitors):
            status = monitor.snapshot()
            if status != printed[number]:
                printed[number] = status
                print(status_line(status), flush=True)
        await trio.sleep(LINE_SECONDS)


def status_line(status: DeviceStatus) -> str:
    """Write a status as JSON, on one line; parts have their tables' names, and are null if not there."""
    values = dataclasses.asdict(status)
    parts = dict.fromkeys(offered("tables")) | values.pop("parts")
    return json.dumps(values | parts, default=_value)


def _value(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{value!r} has no form in JSON")
