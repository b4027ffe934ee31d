"""The watch on the turns of the event loop, with a clock that a task moves."""

import trio

from aisrv.monitor.loop_watch import LongTurn, LoopWatch


def turns_of(*steps: float, limit: float = 1.0) -> list[LongTurn]:
    """The long turns of a loop in which a task takes steps of these seconds, a turn each."""
    now = 100.0
    turns: list[LongTurn] = []

    async def main() -> None:
        nonlocal now
        await trio.lowlevel.checkpoint()
        for seconds in steps:
            now += seconds
            await trio.lowlevel.checkpoint()

    trio.run(main, instruments=[LoopWatch(turns.append, limit, lambda: now)])
    return turns


def test_a_turn_above_the_limit_is_reported_with_its_task() -> None:
    (turn,) = turns_of(0.5, 3.0, 0.25)
    assert (turn.seconds, turn.task_seconds) == (3.0, 3.0)
    assert turn.task.endswith("turns_of.<locals>.main")


def test_a_turn_at_the_limit_is_not() -> None:
    assert turns_of(1.0, 0.5) == []


def test_each_long_turn_is_reported() -> None:
    assert [turn.seconds for turn in turns_of(2.0, 0.0, 4.0)] == [2.0, 4.0]


def test_the_line_is_in_milliseconds() -> None:
    turn = LongTurn(0.0452, "usb_data", 0.0401)
    assert str(turn) == "the event loop was held for 45 ms, for 40 ms of it by usb_data"
