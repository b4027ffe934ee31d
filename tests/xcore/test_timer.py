"""Timers: ticks of 10 ns on virtual time, exact, strict, and 32 bits wide."""

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aisrv.xcore.node import open_node
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.amounts import in_ci
from tests.support.benches.simulation import simulated


@simulated
async def test_a_tick_is_ten_nanoseconds() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        assert timer.now() == 0
        await trio.sleep(1)
        assert timer.now() == 100_000_000


@simulated
async def test_ticks_count_from_the_start_of_the_node() -> None:
    await trio.sleep(12.345)
    async with open_node() as node:
        assert node.clock.ticks() == 0


@simulated
async def test_all_timers_of_a_node_show_the_same_time() -> None:
    async with open_node() as node:
        timers = [tile.allocate_timer() for tile in node.tiles for _ in range(10)]
        await trio.sleep(0.001)
        assert {timer.now() for timer in timers} == {100_000}


@simulated
async def test_timerafter_is_strict() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        event = timer.after(timer.now())
        assert not event.ready  # now is not after now
        assert await timer.wait_after(0) == 1
        assert event.ready


@pytest.mark.parametrize("period", [1, 2, 3, 7, 999, 1000, 4_353, 100_000, 1_000_003])
@simulated
async def test_a_long_sequence_of_waits_is_exact_to_the_tick(period: int) -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        time = timer.now()
        for _ in range(500):
            time += period
            assert await timer.wait_after(time) == (time + 1 & 0xFFFFFFFF)
        assert node.clock.ticks() == 500 * period + 1


@pytest.mark.parametrize("start", [0.1, 98_765.4321, 10 * 86_400.0])
@pytest.mark.parametrize("age", [0.3, 3_600.0, 30 * 86_400.0])
def test_waits_are_exact_whenever_the_node_started_and_however_old_it_is(start: float, age: float) -> None:
    async def program() -> None:
        clock.jump(start)
        async with open_node() as node:
            clock.jump(age)
            timer = node.tiles[0].allocate_timer()
            time = timer.now()
            for _ in range(200):
                time += 97
                assert await timer.wait_after(time) == (time + 1 & 0xFFFFFFFF)

    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(program, clock=clock)


def test_a_timer_wraps_at_32_bits() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def program() -> None:
        async with open_node() as node:
            timer = node.tiles[0].allocate_timer()
            clock.jump((2**32 - 16) / 100_000_000)
            assert timer.now() == 0xFFFFFFF0
            assert await timer.wait_after(0xFFFFFFFF) == 0
            assert node.clock.ticks() == 2**32  # the node's own count does not wrap
            assert await timer.wait_after(4) == 5

    trio.run(program, clock=clock)


@settings(derandomize=True, deadline=None, max_examples=in_ci(200, every_day=40))
@given(now=st.integers(0, 2**34), time=st.integers(0, 2**32 - 1))
@example(now=0, time=0x7FFFFFFF)
@example(now=0, time=0x80000001)
def test_timerafter_compares_as_the_hardware_does(now: int, time: int) -> None:
    difference = (now - time) % 2**32
    passed = 0 < difference < 2**31  # (int32)(now - time) > 0
    clock = trio.testing.MockClock()

    async def program() -> None:
        async with open_node() as node:
            clock.jump(now / 100_000_000)
            assert node.clock.ticks() == now
            assert node.tiles[0].allocate_timer().after(time).ready is passed

    trio.run(program, clock=clock)


@simulated
async def test_waiting_for_a_time_that_has_passed_takes_no_time() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        await timer.wait_after(100)
        assert await timer.wait_after(50) == 101


@simulated
async def test_a_wait_for_a_passed_time_is_a_checkpoint() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        with trio.CancelScope() as scope:
            scope.cancel()
            await timer.wait_after(0xFFFFFF00)
        assert scope.cancelled_caught


@simulated
async def test_a_freed_timer_traps() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        timer.free()
        for verb, use in (("in", timer.now), ("freer", timer.free), ("setd", lambda: timer.after(1))):
            with pytest.raises(Trap) as trap:
                use()
            assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
            assert trap.value.reason == f"{verb} on timer 0x80000001, which was freed"
