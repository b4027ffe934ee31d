"""Pins: levels over time by who drives them, what readers see, and how they are waited for."""

import logging

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.xcore.node import open_node
from aisrv.xcore.ports.clock_edges import ClockEdges
from aisrv.xcore.ports.pin import Pin, Pull, X, Z
from tests.support.benches.simulation import simulated


class Wire:
    """A driver."""

    def __init__(self, name: str, *, open_drain: bool = False, is_weak: bool = False) -> None:
        self.name = name
        self.open_drain = open_drain
        self.is_weak = is_weak


class Log:
    """A listener."""

    def __init__(self) -> None:
        self.ticks: list[int] = []

    def pin_changed(self, pin: Pin, tick: int) -> None:
        self.ticks.append(tick)


@simulated
async def test_a_pin_that_nobody_drives_floats_and_reads_0() -> None:
    async with open_node() as node:
        pin = node.tiles[0].pin("1A")
        assert (pin.name, pin.level(), pin.value()) == ("X0D00", Z, 0)


@pytest.mark.parametrize(("pull", "level"), [(Pull.UP, 1), (Pull.DOWN, 0)])
@simulated
async def test_a_pull_holds_a_pin_that_is_released(pull: Pull, level: int) -> None:
    async with open_node() as node:
        pin, wire = node.tiles[0].pin("1A"), Wire("w")
        pin.pull = pull
        pin.drive(1 - level, wire)
        assert pin.value() == 1 - level
        pin.release(wire, 5)
        assert [pin.level(tick) for tick in (4, 5, 6)] == [1 - level, level, level]


@simulated
async def test_a_weak_driver_loses_against_a_strong_one_and_wins_over_a_pull_up() -> None:
    async with open_node() as node:
        pin, weak, strong = node.tiles[0].pin("1A"), Wire("w", is_weak=True), Wire("s")
        pin.drive(1, weak)
        pin.drive(0, strong, 5)
        pin.release(strong, 9)
        assert [pin.level(tick) for tick in (4, 5, 8, 9)] == [1, 0, 0, 1]
        pulled = node.tiles[0].pin("1B")
        pulled.drive(1, Wire("p", open_drain=True))
        pulled.drive(0, weak, 5)
        assert [pulled.level(tick) for tick in (4, 5)] == [1, 0]


@simulated
async def test_who_else_drives_a_pin_and_that_a_pull_up_is_no_drive() -> None:
    async with open_node() as node:
        pin, wire, other = node.tiles[0].pin("1A"), Wire("w"), Wire("o", open_drain=True)
        pin.drive(1, wire)
        pin.drive(1, other, 5)
        pin.drive(0, other, 7)
        assert [pin.is_driven_by_another(wire, tick) for tick in (0, 5, 6, 7)] == [False, False, False, True]
        assert pin.is_driven_by_another(other)
        assert [pin.next_event(tick) for tick in (0, 4, 5, 6, 7)] == [5, 5, 7, 7, None]


@simulated
async def test_changes_may_lie_ahead_and_be_withdrawn() -> None:
    async with open_node() as node:
        pin, wire = node.tiles[0].pin("1A"), Wire("w")
        pin.drive_run([0, 1, 0, 1], 10, 5, wire)
        assert [pin.value(tick) for tick in (9, 10, 14, 15, 19, 20, 24, 25, 1000)] == [
            0,
            0,
            0,
            1,
            1,
            0,
            0,
            1,
            1,
        ]
        pin.withdraw(wire, 15)
        assert [pin.level(tick) for tick in (9, 14, 15, 1000)] == [Z, 0, 1, 1]
        pin.withdraw(wire)
        assert pin.level(1000) == Z


@simulated
async def test_a_change_between_others_leaves_them() -> None:
    async with open_node() as node:
        pin, wire = node.tiles[0].pin("1A"), Wire("w")
        pin.drive(1, wire, 20)
        pin.drive(0, wire, 10)
        pin.drive(1, wire, 10)
        pin.drive(0, wire, 15)
        assert list(pin.changes(0, 30)) == [(10, 1), (15, 0), (20, 1)]


@simulated
async def test_drivers_that_agree_are_one_level_and_others_x_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_node() as node:
        pin, a, b = node.tiles[1].pin("1B"), Wire("a"), Wire("b")
        pin.drive(1, a)
        pin.drive(1, b)
        assert pin.value() == 1
        with caplog.at_level(logging.WARNING):
            pin.drive(0, b, 7)
            pin.drive(0, b, 8)
            assert (pin.value(6), pin.value(7), pin.level(8)) == (1, X, X)
        assert [each.message for each in caplog.records] == [
            "pin X1D01: a and b drive different levels at tick 7"
        ]
        pin.release(a, 9)
        assert pin.value(9) == 0


@simulated
async def test_open_drains_are_a_wired_and_with_its_pull_up() -> None:
    async with open_node() as node:
        pin, a, b = node.tiles[0].pin("1A"), Wire("a", open_drain=True), Wire("b", open_drain=True)
        pin.drive(1, a)
        assert pin.level() == 1
        for low_a in (0, 1):
            for low_b in (0, 1):
                pin.drive(1 - low_a, a)
                pin.drive(1 - low_b, b)
                assert pin.level() == int(not low_a and not low_b)


@simulated
async def test_who_drives_is_told_apart_by_identity() -> None:
    async with open_node() as node:
        pin, a, b = node.tiles[0].pin("1A"), Wire("same"), Wire("same")
        pin.drive(1, a)
        pin.drive(1, b)
        pin.release(a)
        assert (pin.is_driven(a), pin.is_driven(b), pin.value()) == (False, True, 1)
        assert pin.drivers == (a, b)


@pytest.mark.parametrize(("rising", "ticks"), [(None, [10, 20, 30, 40]), (True, [10, 30]), (False, [20, 40])])
@simulated
async def test_edges_are_waited_for_to_the_tick(rising: bool | None, ticks: list[int]) -> None:
    async with open_node() as node:
        pin, wire, seen = node.tiles[0].pin("1A"), Wire("w"), []
        pin.drive_run([1, 0, 1, 0], 10, 10, wire)
        for _ in ticks:
            seen.append(await pin.edge(rising))
            assert node.clock.ticks() == seen[-1]
        assert seen == ticks


@simulated
async def test_an_edge_that_is_laid_down_while_somebody_waits_is_seen() -> None:
    async with open_node() as node, trio.open_nursery() as nursery:
        pin, wire, seen = node.tiles[0].pin("1A"), Wire("w"), []

        async def wait() -> None:
            seen.append(await pin.edge(rising=True))

        pin.drive(0, wire)
        pin.drive(1, wire, 1000)
        nursery.start_soon(wait)
        await pin.until(50)
        pin.withdraw(wire)
        await pin.until(70)
        pin.drive(1, wire)
        await pin.until(71)
        assert seen == [70]


@simulated
async def test_an_edge_at_the_tick_of_the_call_counts_where_it_comes_after_it() -> None:
    async with open_node() as node, trio.open_nursery() as nursery:
        pin, wire, seen = node.tiles[0].pin("1A"), Wire("w"), []

        async def wait() -> None:
            seen.append(await pin.edge())

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        pin.drive(1, wire)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [0]


@simulated
async def test_edges_since_a_tick_are_found_by_who_comes_late() -> None:
    async with open_node() as node:
        pin, wire, seen = node.tiles[0].pin("1A"), Wire("w"), [0]
        pin.keep("me", 0)
        pin.drive_run([1, 0, 1, 0], 1, 1, wire)
        await pin.until(100)
        for _ in range(4):
            seen.append(await pin.edge(after=seen[-1]))
        assert seen == [0, 1, 2, 3, 4]


@simulated
async def test_a_listener_hears_of_what_lies_ahead_and_is_withdrawn() -> None:
    async with open_node() as node:
        pin, wire, log = node.tiles[0].pin("1A"), Wire("w"), Log()
        pin.listen(log)
        pin.drive(1, wire)
        pin.drive_run([0, 1], 50, 10, wire)
        pin.withdraw(wire, 54)
        pin.withdraw(wire, 54)  # nothing is left
        pin.pull = Pull.UP
        pin.stop_listening(log)
        pin.drive(0, wire)
        assert log.ticks == [0, 50, 55, 0]


@simulated
async def test_the_past_is_dropped_unless_somebody_keeps_it() -> None:
    async with open_node() as node:
        pin, wire = node.tiles[0].pin("1A"), Wire("w")
        for tick in range(10_000):
            await pin.until(tick)
            pin.drive(tick & 1, wire)
        driven = pin._driven[id(wire)]
        assert len(driven) < 130
        pin.keep("me", 10_000)
        for tick in range(10_000, 10_500):
            await pin.until(tick)
            pin.drive(tick & 1, wire)
        assert list(pin.changes(10_000)) == [(tick, tick & 1) for tick in range(10_001, 10_500)]
        pin.forget("me")
        for tick in range(10_500, 12_000):
            await pin.until(tick)
            pin.drive(tick & 1, wire)
        assert len(driven) < 700


@simulated
async def test_a_periodic_clock_is_a_level_at_each_tick_and_its_past_stays_for_who_keeps_it() -> None:
    async with open_node() as node:
        pin, wire = node.tiles[0].pin("1A"), Wire("w")
        pin.keep("me", 0)
        pin.drive_clock(ClockEdges(10, 8), wire)
        changes = [(14, 1), (18, 0), (22, 1), (26, 0), (30, 1)]
        assert list(pin.changes(10, 33)) == changes
        assert pin.clock_driven(10) == (ClockEdges(10, 8), False)
        await pin.until(27)
        assert await pin.edge() == 30
        await pin.until(32)
        pin.drive(0, wire)
        await pin.until(100)
        assert list(pin.changes(10)) == [*changes, (32, 0)]
        assert pin.clock_driven(32) is None


class Naive:
    """A pin by lists: one level a tick and driver."""

    def __init__(self, ticks: int, drains: list[bool]) -> None:
        self.changes: list[dict[int, int]] = [{} for _ in drains]
        self.drains = drains
        self.ticks = ticks

    def level(self, driver: int, tick: int) -> int:
        earlier = [at for at in self.changes[driver] if at <= tick]
        return self.changes[driver][max(earlier)] if earlier else Z

    def resolved(self, tick: int) -> int:
        levels = [(self.level(driver, tick), drain) for driver, drain in enumerate(self.drains)]
        strong = {level for level, drain in levels if level != Z and not (drain and level == 1)}
        if len(strong) == 2:
            return X
        return strong.pop() if strong else 1 if any(level == 1 for level, _ in levels) else Z


@given(
    st.lists(st.booleans(), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["drive", "run", "withdraw", "release"]),
            st.integers(0, 2),
            st.integers(0, 30),
            st.lists(st.integers(0, 1), min_size=1, max_size=6),
            st.integers(1, 4),
        ),
        max_size=12,
    ),
)
@simulated
async def test_random_calls_give_the_levels_of_lists(
    drains: list[bool], calls: list[tuple[str, int, int, list[int], int]]
) -> None:
    async with open_node() as node:
        pin, naive = node.tiles[0].pin("1A"), Naive(60, drains)
        wires = [Wire(f"w{at}", open_drain=drain) for at, drain in enumerate(drains)]
        for call, which, tick, bits, period in calls:
            which %= len(wires)
            mine, wire = naive.changes[which], wires[which]
            if call == "drive":
                pin.drive(bits[0], wire, tick)
                mine[tick] = bits[0]
            elif call == "run":
                pin.drive_run(bits, tick, period, wire)
                mine.update({tick + at * period: bit for at, bit in enumerate(bits)})
            elif call == "release":
                pin.release(wire, tick)
                if wire in pin.drivers:
                    mine[tick] = Z
            else:
                pin.withdraw(wire, tick)
                for at in [at for at in mine if at > tick]:
                    del mine[at]
        levels = [naive.resolved(tick) for tick in range(60)]
        assert [pin.level(tick) for tick in range(60)] == levels
        assert list(pin.changes(0, 59)) == [
            (tick, levels[tick]) for tick in range(1, 60) if levels[tick] != levels[tick - 1]
        ]


@simulated
async def test_a_clock_that_ends_leaves_its_last_edge_to_who_waits_for_the_next() -> None:
    async with open_node() as node:
        pin, driver = node.tiles[0].pin("1A"), Wire("a clock")
        pin.drive_clock(ClockEdges(0, 20), driver)
        ticks = []

        async def watch() -> None:
            tick = 0
            while True:
                tick = await pin.edge(after=tick)
                ticks.append(tick)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await pin.until(37)
            pin.drive(0, driver)
            await pin.until(60)
            nursery.cancel_scope.cancel()
        assert ticks == [10, 20, 30, 37]
