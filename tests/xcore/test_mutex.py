"""Mutual exclusion: one holder, the others in order, and waits that are given up."""

import trio

from aisrv.xcore.mutex import Mutex
from aisrv.xcore.node import open_node
from tests.support.benches.simulation import settle, simulated


@simulated
async def test_one_task_at_a_time_in_the_order_of_asking() -> None:
    order: list[int] = []
    async with open_node() as node, trio.open_nursery() as nursery:
        mutex = Mutex(node.runtime, "test")

        async def use(number: int) -> None:
            async with mutex:
                order.append(number)
                await trio.sleep(1)
                order.append(number)

        for number in range(3):
            nursery.start_soon(use, number)
            await settle()
    assert order == [0, 0, 1, 1, 2, 2]


@simulated
async def test_a_wait_that_is_given_up_leaves_the_queue() -> None:
    held: list[None] = []
    async with open_node() as node, trio.open_nursery() as nursery:
        mutex, scope = Mutex(node.runtime, "test"), trio.CancelScope()

        async def give_up() -> None:
            with scope:
                await mutex.acquire()

        async def hold() -> None:
            await mutex.acquire()
            held.append(None)

        await mutex.acquire()
        nursery.start_soon(give_up)
        await settle()
        nursery.start_soon(hold)
        await settle()
        scope.cancel()
        await settle()
        mutex.release()
    assert len(held) == 1


@simulated
async def test_who_is_cancelled_as_it_gets_it_gives_it_back() -> None:
    order: list[str] = []
    async with open_node() as node, trio.open_nursery() as nursery:
        mutex, scope = Mutex(node.runtime, "test"), trio.CancelScope()

        async def first() -> None:
            with scope:
                async with mutex:
                    await trio.sleep(1)

        async def second() -> None:
            async with mutex:
                order.append("second")

        await mutex.acquire()
        nursery.start_soon(first)
        await settle()
        nursery.start_soon(second)
        await settle()
        mutex.release()
        scope.cancel()
    assert order == ["second"]
