"""Turns that are held on a live clock while a core waits for something outside, as a process."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from aisrv.xcore.node import open_node
from aisrv.xcore.timed.at_work import MOST_HELD_SECONDS, AtWork
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.timed.timeline import Timeline
from tests.support.benches.pin_bench import Line

Promise = Callable[[Timeline, int], object]
OTHER = 1_000
"""Ticks after a core at work at which another one has its turn."""
PROCESS_SECONDS = 0.05


@pytest.mark.parametrize(
    ("promise", "order"),
    [
        (lambda _timeline, _tick: None, ["work", "other"]),
        (lambda timeline, tick: timeline.promise(timeline.clock_at(tick)), ["work", "other"]),
        (lambda timeline, tick: timeline.promise(timeline.clock_at(tick + 1)), ["other", "work"]),
    ],
)
def test_others_come_to_no_tick_before_which_a_core_at_work_may_act(
    promise: Promise, order: list[str]
) -> None:
    async def main() -> list[str]:
        came: list[str] = []
        async with open_node(classes=TIMED) as node:
            timeline = timeline_of(node.runtime)
            assert timeline is not None
            tile = node.tiles[0]
            begin = timeline.ticks + 1_000_000  # both have begun by then

            async def work() -> None:
                await timeline.wait_until(timeline.clock_at(begin))
                promise(timeline, begin + OTHER)
                await trio.sleep(PROCESS_SECONDS)
                came.append("work")

            async def other() -> None:
                await timeline.wait_until(timeline.clock_at(begin + OTHER))
                came.append("other")

            tile.start(work)
            tile.start(other)
        return came

    assert trio.run(main) == order


def test_the_present_is_the_tick_of_a_core_at_work_and_a_pin_is_driven_then() -> None:
    async def main() -> None:
        async with open_node(classes=TIMED) as node:
            timeline, pin = timeline_of(node.runtime), node.tiles[0].pin("1A")
            assert timeline is not None
            tick = timeline.ticks + 1_000_000
            pin.keep("test", 0)

            async def work() -> None:
                await timeline.wait_until(timeline.clock_at(tick))
                await trio.sleep(PROCESS_SECONDS)
                pin.drive(1, Line())

            node.tiles[0].start(work)
        assert list(pin.changes(0)) == [(tick, 1)]

    trio.run(main)


def test_turns_are_held_for_a_second_at_most_and_then_the_task_is_late() -> None:
    async def main() -> None:
        task, clock = trio.lowlevel.current_task(), trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        at_work = AtWork()
        at_work.began(task)
        assert at_work.has_turn
        assert at_work.holds(0)
        assert at_work.expiry == MOST_HELD_SECONDS
        clock.jump(MOST_HELD_SECONDS)
        assert not at_work.holds(0)
        assert not at_work.has_turn
        assert [at_work.takes_late(task), at_work.takes_late(task)] == [True, False]

    trio.run(main, clock=MockClock())


def test_who_waits_again_holds_nothing() -> None:
    async def main() -> None:
        task = trio.lowlevel.current_task()
        at_work = AtWork()
        at_work.began(task, 5)
        assert [at_work.holds(tick) for tick in (4, 5)] == [False, True]
        assert at_work.last_tick == 4
        assert at_work.ended(task)
        assert not at_work.holds(5)
        assert not at_work.ended(task)

    trio.run(main, clock=MockClock())
