"""The one way to wait for another task: woken once, with a value or an error; cancelled, it cleans up."""

import pytest
import trio

from aisrv.xcore.waiter import Waiter
from tests.support.benches.simulation import Started, settle, simulated


@simulated
async def test_a_task_sleeps_until_it_is_woken_with_a_value() -> None:
    waiter = Waiter[int]()
    async with trio.open_nursery() as tasks:
        sleeper = Started(tasks, waiter.wait)
        await settle()
        assert not sleeper.done
        assert waiter.wake(7)
        await settle()
        assert sleeper.value() == 7


@simulated
async def test_an_error_is_raised_where_the_task_waits() -> None:
    waiter = Waiter[int]()
    async with trio.open_nursery() as tasks:
        sleeper = Started(tasks, waiter.wait)
        await settle()
        assert waiter.fail(ValueError("no"))
        await settle()
        with pytest.raises(ValueError, match="no"):
            sleeper.value()


@simulated
async def test_only_the_first_of_several_wakes_counts() -> None:
    waiter = Waiter[int]()
    async with trio.open_nursery() as tasks:
        sleeper = Started(tasks, waiter.wait)
        await settle()
        assert [waiter.wake(1), waiter.wake(2), waiter.fail(ValueError())] == [True, False, False]
        await settle()
        assert sleeper.value() == 1


@simulated
async def test_nobody_is_woken_where_nobody_sleeps() -> None:
    assert not Waiter[int]().wake(1)


@simulated
async def test_the_next_may_sleep_before_the_woken_task_has_run_on() -> None:
    waiter = Waiter[int]()
    async with trio.open_nursery() as tasks:
        first = Started(tasks, waiter.wait)
        await settle()
        sleeping = waiter.task

        async def second() -> int:
            waiter.wake(1)  # the first is due, and has not run yet
            return await waiter.wait()

        other = Started(tasks, second)

        async def waker() -> None:
            while waiter.task in (sleeping, None):
                await trio.lowlevel.checkpoint()
            waiter.wake(2)

        tasks.start_soon(waker)
        await settle()
        assert (first.value(), other.value()) == (1, 2)


@simulated
async def test_a_cancelled_wait_withdraws_at_once_and_is_not_woken() -> None:
    waiter = Waiter[int]()
    withdrawn: list[bool] = []
    async with trio.open_nursery() as tasks:
        sleeper = Started(tasks, waiter.wait, lambda: withdrawn.append(True))
        await settle()
        await sleeper.cancel()
    assert withdrawn == [True]
    assert not waiter.wake(1)


@simulated
async def test_a_wait_that_was_woken_withdraws_nothing_when_cancelled_after() -> None:
    waiter = Waiter[int]()
    withdrawn: list[bool] = []
    async with trio.open_nursery() as tasks:
        sleeper = Started(tasks, waiter.wait, lambda: withdrawn.append(True))
        await settle()
        waiter.wake(5)
        sleeper.scope.cancel()
        await settle()
        assert sleeper.value() == 5
    assert withdrawn == []
