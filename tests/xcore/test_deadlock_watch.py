"""The watch that nodes share: each is looked at a second after it asked, by one task that ends in between."""

import trio
import trio.testing

from aisrv.xcore.deadlock_watch import WATCH_SECONDS, DeadlockWatch
from tests.support.benches.simulation import simulated


class _Node:
    """Notes when it is looked at; asks again `times` times."""

    def __init__(self, watch: DeadlockWatch, times: int = 0) -> None:
        self._watch = watch
        self._times = times
        self.looked: list[float] = []

    def look(self) -> None:
        self.looked.append(trio.current_time())
        if self._times:
            self._times -= 1
            self._watch.look_later(self)


@simulated
async def test_each_node_is_looked_at_a_second_after_it_asked_by_one_task() -> None:
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        watch = DeadlockWatch(nursery)
        first, second = _Node(watch), _Node(watch)
        watch.look_later(first)
        await trio.sleep(0.25)
        watch.look_later(second)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
    assert [first.looked, second.looked] == [[start + WATCH_SECONDS], [start + 0.25 + WATCH_SECONDS]]


@simulated
async def test_without_a_node_that_waits_there_is_no_task() -> None:
    async with trio.open_nursery() as nursery:
        watch = DeadlockWatch(nursery)
        node = _Node(watch)
        assert not nursery.child_tasks
        for looks in (1, 2):
            watch.look_later(node)
            await trio.sleep(2 * WATCH_SECONDS)
            assert len(node.looked) == looks
            assert not nursery.child_tasks


@simulated
async def test_a_node_that_asks_while_it_is_looked_at_gets_no_second_task() -> None:
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        watch = DeadlockWatch(nursery)
        node = _Node(watch, times=2)
        watch.look_later(node)
        await trio.sleep(1.5 * WATCH_SECONDS)
        assert len(nursery.child_tasks) == 1
    assert node.looked == [start + WATCH_SECONDS * number for number in (1, 2, 3)]
