"""The CPU time of a task's own steps, told from that of the tasks beside it."""

import pytest
import trio

from aisrv.addons.web.cpu_time import CpuTime


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_steps_are_counted_and_what_runs_between_them_is_not() -> None:
    clock = Clock()
    cpu = CpuTime(clock)

    async def work() -> str:
        clock.now += 1
        await trio.lowlevel.checkpoint()
        clock.now += 2
        await trio.lowlevel.checkpoint()
        clock.now += 4
        return "done"

    async def other() -> None:
        for _ in range(5):
            clock.now += 100
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await cpu.run(work()) == "done"
    assert cpu.spent == 7


async def test_a_cancellation_reaches_the_work_and_is_counted() -> None:
    clock = Clock()
    cpu = CpuTime(clock)

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            clock.now += 3

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cpu.run, work())
            await trio.lowlevel.checkpoint()
            scope.cancel()
    assert scope.cancelled_caught
    assert cpu.spent == 3


async def test_an_error_of_the_work_comes_out_and_its_time_counts() -> None:
    clock = Clock()
    cpu = CpuTime(clock)

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        clock.now += 5
        raise KeyError("x")

    with pytest.raises(KeyError):
        await cpu.run(work())
    assert cpu.spent == 5


async def test_a_wait_that_raises_can_be_caught_by_the_work() -> None:
    async def work() -> str:
        with trio.move_on_after(0):
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return "went on"

    assert await CpuTime().run(work()) == "went on"


def test_calls_add_up() -> None:
    clock = Clock()
    cpu = CpuTime(clock)

    def work() -> int:
        clock.now += 2
        return 7

    assert [cpu.call(work), cpu.call(work), cpu.spent] == [7, 7, 4]
