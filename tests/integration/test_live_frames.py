"""Frames of a camera in device time, live: none early, and after a minute still at their ticks.

Acceptance 8 of "Device time and traces".
"""

from contextlib import AsyncExitStack
from functools import partial
from statistics import median

import pytest
import trio

from aisrv.device.timed_parts import _DeviceFrameClock
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.sensors.sources.pacing import LatePolicy, PacedSource
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timed.runtime import TimedRuntime
from tests.support.amounts import amount, is_in_full

RATE = 100
PERIOD = 100_000_000 // RATE
CAMERAS = amount(5, every_day=1)
FRAMES = amount(6_000, every_day=10)


class Black:
    """A sensor whose frames are all black."""

    width, height, encoding = 1, 1, Encoding.RGB

    async def frame(self) -> RawFrame:
        return RawFrame(1, 1, Encoding.RGB, bytes(3))


async def film(node: Node, after_due: list[int]) -> None:
    """Take the frames, as the sensor's core does, and note how many ticks after its due tick each came."""
    assert isinstance(node.runtime, TimedRuntime)
    clock = _DeviceFrameClock(node.runtime.timeline)
    source = PacedSource(Black(), RATE, LatePolicy.KEEP).by(lambda: clock)
    for number in range(FRAMES + 1):
        await source.frame()
        after_due.append(node.clock.ticks() - clock._origin - number * PERIOD)


@pytest.mark.in_full
def test_frames_of_a_minute_are_never_early_and_do_not_drift() -> None:
    cameras: list[list[int]] = [[] for _ in range(CAMERAS)]

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for number, after_due in enumerate(cameras):
                node = await stack.enter_async_context(open_node(number=number, classes=TIMED))
                node.tiles[0].start(partial(film, node, after_due), name="sensor")

    trio.run(main)
    assert min(map(min, cameras)) >= 0
    assert [len(each) for each in cameras] == [FRAMES + 1] * CAMERAS
    if is_in_full():
        # A millisecond after 60 s, by the best frame of the last second: another program may hold up one.
        assert median(min(each[-RATE:]) for each in cameras) < 100_000
