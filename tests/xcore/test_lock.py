"""Hardware locks: one holder, the others in order."""

import pytest

from aisrv.xcore.lock import Lock
from aisrv.xcore.node import open_node
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import bench, settle, simulated


@simulated
async def test_a_lock_has_one_holder_and_goes_to_the_others_in_order() -> None:
    async with bench() as test:
        lock = test.node.tiles[0].allocate_lock()
        order: list[int] = []

        async def use(number: int) -> None:
            await lock.acquire()
            order.append(number)

        for number in range(4):
            test.start(use, number)
            await settle()
        for holders in range(1, 5):
            assert order == list(range(holders))
            lock.release()
            await settle()
        lock.free()


@simulated
async def test_releasing_a_lock_that_nobody_holds_traps() -> None:
    async with open_node() as node:
        lock = node.tiles[0].allocate_lock()
        with pytest.raises(Trap) as trap:
            lock.release()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert trap.value.reason == "release of lock 0x80000005, which nobody holds"


@simulated
async def test_a_held_lock_cannot_be_freed() -> None:
    async with open_node() as node:
        lock = node.tiles[0].allocate_lock()

        async def hold(lock: Lock) -> None:
            await lock.acquire()
            with pytest.raises(Trap) as trap:
                lock.free()
            assert trap.value.reason == "freer on lock 0x80000005, which tile 0 core 0 (holder) holds"

        node.tiles[0].start(hold, lock, name="holder")


@simulated
async def test_a_freed_lock_traps() -> None:
    async with open_node() as node:
        lock = node.tiles[0].allocate_lock()
        lock.free()
        with pytest.raises(Trap) as trap:
            await lock.acquire()
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
        assert trap.value.reason == "lock_acquire on lock 0x80000005, which was freed"
