"""Functions under lib_xcore's names: allocation up to the limit, time, par, and synchronizers."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word
from aisrv.xcore.lib_xcore import (
    chan_alloc,
    chan_free,
    chanend_alloc,
    chanend_free,
    chanend_get_dest,
    chanend_set_dest,
    get_reference_time,
    hwtimer_alloc,
    hwtimer_delay,
    lock_alloc,
    par,
    s_chan_alloc,
    s_chan_free,
)
from aisrv.xcore.node import open_node
from aisrv.xcore.select import Selection
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import SizeError, Trap, TrapKind
from tests.support.benches.simulation import bench, settle, simulated


@pytest.mark.parametrize(("allocate", "limit"), [(chanend_alloc, 32), (hwtimer_alloc, 10), (lock_alloc, 4)])
@simulated
async def test_allocation_past_the_limit_gives_none(allocate: Callable[[Tile], Any], limit: int) -> None:
    async with open_node() as node:
        resources = [allocate(node.tiles[0]) for _ in range(limit)]
        assert None not in resources
        assert allocate(node.tiles[0]) is None
        resources[3].free()
        assert allocate(node.tiles[0]).number == 3


@simulated
async def test_channel_is_allocated_whole_or_not_at_all() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        lone = tile.allocate_chanend()
        channels = [chan_alloc(tile) for _ in range(15)]
        assert None not in channels
        assert (chan_alloc(tile), tile.chanends_free) == (None, 1)
        chanend_free(lone)
        assert chan_alloc(tile) is not None


@simulated
async def test_chan_free_frees_both_ends() -> None:
    async with open_node() as node:
        channel = chan_alloc(node.tiles[0])
        assert channel is not None
        chan_free(channel)
        assert node.tiles[0].chanends_free == 32


@simulated
async def test_s_chan_free_closes_the_routes_first() -> None:
    async with open_node() as node:
        channel = s_chan_alloc(node.tiles[0])
        assert channel is not None
        await channel.a.outuint(7)
        assert await channel.b.inuint() == 7
        with pytest.raises(Trap, match="while its route to chanend 0x80000102 is open"):
            chan_free(channel)
        await s_chan_free(channel)
        assert node.tiles[0].chanends_free == 32


@simulated
async def test_destination_is_zero_until_one_is_set() -> None:
    async with open_node() as node:
        c = node.tiles[0].allocate_chanend()
        assert chanend_get_dest(c) == 0
        chanend_set_dest(c, 0x80010302)
        assert chanend_get_dest(c) == 0x80010302


@simulated
async def test_delay_takes_its_ticks_and_the_reference_clock_needs_no_timer() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        timer = tile.allocate_timer()
        begin = get_reference_time(tile)
        assert await hwtimer_delay(timer, 1000) == begin + 1001
        assert get_reference_time(tile) == begin + 1001


@simulated
async def test_trigger_time_can_be_changed_between_waits() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        tick = timer.after(1000)
        selection = Selection(test.b, tick)
        assert await selection.wait() is tick
        tick.change(5000)
        assert not tick.ready
        assert await selection.wait() is tick
        assert timer.now() == 5001


@simulated
async def test_par_runs_jobs_side_by_side_and_joins() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        log: list[tuple[int, int]] = []

        def job(number: int, ticks: int) -> Callable[[], Any]:
            async def run() -> None:
                await trio.sleep(ticks / 1e8)
                log.append((number, tile.cores_in_use))

            return run

        async def main() -> None:
            await par(tile, job(0, 100), job(1, 300), job(2, 200))
            log.append((9, tile.cores_in_use))

        tile.start(main)
        await trio.sleep(1)
        assert log == [(0, 3), (2, 3), (1, 2), (9, 1)]


@simulated
async def test_par_with_too_few_cores_begins_nothing() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        with pytest.raises(Trap, match="tile 0 has 8 logical cores left, 9 are wanted"):
            await par(tile, *[trio.lowlevel.checkpoint] * 10)
        assert tile.cores_in_use == 0


@simulated
async def test_join_is_seen_by_deadlock_detection() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        a, b = node.channel(tile, tile)

        async def child() -> None:
            await chan_in_word(b)

        async def parent(c: ChanEnd) -> None:
            await par(tile, trio.lowlevel.checkpoint, child)
            await c.outuint(1)

        tile.start(parent, a)
        await settle()
        deadlock = node.runtime.find_deadlock()
        assert deadlock is not None
        assert deadlock.path == "parent -> child -> parent"
        assert "par on par (waits for tile 0 core 1 (child))" in str(deadlock)
        node.stop()


async def _par_of_one_that_waits(tile: Tile, first: Callable[[], Awaitable[object]]) -> list[str]:
    """What happened to a second job of a `par`, by the time that the `par` has ended."""
    ended: list[str] = []

    async def second() -> None:
        try:
            await trio.sleep_forever()
        finally:
            await trio.lowlevel.cancel_shielded_checkpoint()
            ended.append("cancelled")

    with suppress(LookupError), trio.move_on_after(0.001):
        await par(tile, first, second)
    return ended


async def _fail() -> None:
    await trio.lowlevel.checkpoint()
    raise LookupError


@pytest.mark.parametrize("first", [trio.sleep_forever, trio.lowlevel.checkpoint, _fail])
@simulated
async def test_jobs_end_before_a_par_that_fails_or_is_cancelled(
    first: Callable[[], Awaitable[object]],
) -> None:
    async with open_node() as node:
        tile = node.tiles[0]

        async def core() -> None:
            assert await _par_of_one_that_waits(tile, first) == ["cancelled"]
            assert tile.cores_in_use == 1

        tile.start(core)


@simulated
async def test_halted_job_is_waited_for_and_does_not_hold_up_the_end_of_its_par() -> None:
    async with open_node(on_trap="halt") as node:
        tile = node.tiles[0]
        states: list[str] = []

        async def core() -> None:
            with trio.move_on_after(0.001) as scope:
                await par(tile, trio.lowlevel.checkpoint, _fail)
            states.append("waited" if scope.cancelled_caught else "joined")

        tile.start(core)
        await trio.sleep(0.002)
        assert states == ["waited"]
        assert tile.cores_in_use == 1  # the one that is halted


@simulated
async def test_barrier_refuses_a_core_that_is_not_a_member() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        barrier = tile.allocate_synchronizer(2)
        refused: list[Trap] = []

        async def stranger() -> None:
            with pytest.raises(Trap) as trap:
                await barrier.synchronize()
            refused.append(trap.value)

        tile.start(barrier.synchronize, name="one")
        await settle()
        tile.start(barrier.synchronize, name="two")
        await settle()
        tile.start(stranger)
        await settle()
        (trap,) = refused
        assert (trap.kind, trap.place) == (TrapKind.ILLEGAL_RESOURCE, "sync on synchronizer 0x80000003")
        assert trap.reason == (
            "sync on synchronizer 0x80000003 by tile 0 core 0 (stranger); its members are "
            "tile 0 core 0 (one), which has ended, tile 0 core 1 (two), which has ended"
        )


@simulated
async def test_cancelled_member_stays_a_member() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        barrier = tile.allocate_synchronizer(2)

        async def member() -> None:
            with trio.move_on_after(0.001):
                await barrier.synchronize()
            await barrier.synchronize()

        async def stranger() -> None:
            await trio.sleep(0.003)
            with pytest.raises(Trap):
                await barrier.synchronize()

        tile.start(member)
        tile.start(stranger)
        await trio.sleep(0.002)
        tile.start(barrier.synchronize, name="other")


@simulated
async def test_core_cannot_be_at_a_barrier_twice() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        barrier = tile.allocate_synchronizer(2)

        async def core() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(barrier.synchronize)
                await settle()
                with pytest.raises(Trap) as trap:
                    await barrier.synchronize()
                nursery.cancel_scope.cancel()
            assert trap.value.kind is TrapKind.RESOURCE_DEP

        tile.start(core)


@simulated
async def test_synchronizer_lets_all_members_go_at_once_again_and_again() -> None:
    async with bench() as test:
        barrier = test.node.tiles[0].allocate_synchronizer(3)
        for _ in range(2):
            first, second = test.start(barrier.synchronize), test.start(barrier.synchronize)
            await settle()
            assert (first.done, second.done) == (False, False)
            with pytest.raises(Trap, match="at which 2 wait"):
                barrier.free()
            await barrier.synchronize()
            await settle()
            assert (first.done, second.done) == (True, True)
        barrier.free()
        with pytest.raises(Trap, match="sync on synchronizer 0x80000003, which was freed"):
            await barrier.synchronize()


@simulated
async def test_member_that_waits_for_another_one_is_in_deadlock() -> None:
    """Who the members are is known from the first time that all were there."""
    async with open_node() as node:
        tile = node.tiles[0]
        barrier = tile.allocate_synchronizer(2)
        a, b = node.channel(tile, tile)

        async def early(c: ChanEnd) -> None:
            await barrier.synchronize()
            await barrier.synchronize()
            await c.outuint(1)

        async def late(c: ChanEnd) -> None:
            await barrier.synchronize()
            await c.inuint()
            await barrier.synchronize()

        tile.start(early, a)
        tile.start(late, b)
        await settle()
        deadlock = node.runtime.find_deadlock()
        assert deadlock is not None
        assert deadlock.path == "early -> late -> early"
        assert "(1 of 2 are here: tile 0 core 0 (early))" in str(deadlock)
        node.stop()


@simulated
async def test_cancelled_member_is_not_counted() -> None:
    async with bench() as test:
        barrier = test.node.tiles[0].allocate_synchronizer(2)
        first = test.start(barrier.synchronize)
        await settle()
        await first.cancel()
        second = test.start(barrier.synchronize)
        await settle()
        assert not second.done
        await barrier.synchronize()
        await settle()
        assert second.done


@simulated
async def test_synchronizers_are_seven_of_one_member_at_least() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        with pytest.raises(SizeError):
            tile.allocate_synchronizer(0)
        barriers = [tile.allocate_synchronizer(1) for _ in range(7)]
        await barriers[0].synchronize()
        with pytest.raises(Trap) as trap:
            tile.allocate_synchronizer(1)
        assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE


# The page that says where each name of lib_xcore is.
