"""The timeline of a node: its arithmetic, waits for wires, and turns from outside of cores."""

from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

import pytest
import trio
import trio.testing

from aisrv.xcore.node import Node, open_node
from aisrv.xcore.runtime import current_runtime
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.timed.timeline import LATE_TICKS, Timeline
from tests.support.benches.timed_node import core_clock


def of(node: Node) -> Timeline:
    """The timeline of a node in device time."""
    timeline = timeline_of(node.runtime)
    assert timeline is not None
    return timeline


def on_node(program: Callable[[Node, list[Any]], Awaitable[None]], **options: Any) -> list[Any]:
    """What a program notes on a virtual clock; cores that it starts have ended."""

    async def run() -> list[Any]:
        notes: list[Any] = []
        async with open_node(classes=TIMED, **options) as node:
            await program(node, notes)
        return notes

    return trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("mhz", [500, 600, 700, 800])
def test_a_clock_has_come_at_its_tick_and_not_before(mhz: int) -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)
        for clock in range(1, 200):
            tick = timeline.tick_of(clock)
            assert (tick - 1) * mhz < clock * 100 <= tick * mhz
            assert timeline.clock_at(tick - 1) < clock <= timeline.clock_at(tick)
        notes.append(timeline.clocks(Fraction(5, 3)))
        notes.append(timeline.clocks(962))

    assert on_node(program, core_clock_mhz=mhz) == [-(-5 * mhz // 300), -(-962 * mhz // 100)]


def test_a_plain_node_has_none() -> None:
    async def run() -> object:
        async with open_node() as node:
            return timeline_of(node.runtime)

    assert trio.run(run) is None


def test_a_core_waits_for_a_wire_and_does_not_run_meanwhile() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)

        async def transfer() -> None:
            timeline.charge(100)
            await timeline.wait_until(core_clock() + timeline.clocks(962))
            notes.append((timeline.ticks, core_clock()))
            await timeline.wait_until(0)  # has passed: it settles, and stays at its clock
            notes.append((timeline.ticks, core_clock()))

        node.tiles[0].start(transfer)
        await trio.sleep(5e-6)
        notes.append(timeline.running[0])

    assert on_node(program) == [0, (979, 100 + 5772), (979, 100 + 5772)]


def test_settling_is_for_the_tick_rounded_up_and_keeps_the_clock() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)

        async def work() -> None:
            for clocks in (7, 5, 1):
                timeline.charge(clocks)
                await timeline.settle()
                notes.append((timeline.ticks, core_clock()))

        node.tiles[0].start(work)

    assert on_node(program) == [(2, 7), (2, 12), (3, 13)]


def test_a_core_that_is_far_ahead_settles() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)
        c = node.tiles[0].allocate_chanend()
        c.setd(0x80011F02)

        async def work() -> None:
            for _ in range(1000):
                await c.outuint(1)
                notes.append(timeline.tick_of(core_clock()) - timeline.ticks)

        node.tiles[0].start(work)

    ahead = on_node(program)
    assert max(ahead) == 999  # two clocks more would be 1,000
    assert ahead[-1] < 1000


def test_what_is_called_off_does_not_happen() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)
        timeline.at(600, lambda: notes.append(timeline.ticks))
        timeline.at(300, lambda: notes.append("never")).call_off()
        await trio.sleep(1)

    assert on_node(program) == [100]


def test_acts_of_one_tick_go_by_port_and_request() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)
        for port in (3, 1, 2, 1):
            timeline.at(600, lambda port=port: notes.append(port), port=(-1, port))  # type: ignore[misc]
        await trio.sleep(1)

    assert on_node(program) == [1, 1, 2, 3]


def test_a_cancelled_wait_for_a_wire_ends_at_once() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        timeline = of(node)
        with trio.move_on_after(1e-6):
            await timeline.wait_until(timeline.clock_at(10_000))
        notes.append(timeline.ticks)

    assert on_node(program) == [100]


def test_cores_see_the_runtime_they_run_in() -> None:
    async def program(node: Node, notes: list[Any]) -> None:
        async def work() -> None:
            notes.append(current_runtime() is node.runtime)

        node.tiles[0].start(work)

    assert on_node(program) == [True]


def test_live_turns_are_never_early_and_a_late_one_moves_no_other() -> None:
    async def run() -> tuple[list[int], int]:
        early: list[int] = []
        async with open_node(classes=TIMED) as node:
            timeline, timer = of(node), node.tiles[0].allocate_timer()

            async def periods() -> None:
                began = timer.now()  # late already where the machine was slow to get here
                for period in range(1, 6):
                    due = began + 50_000 * period
                    assert await timer.wait_after(due - 1) == due  # what the core sees does not drift
                    early.append(timeline.ticks - due)
                    if period == 2:
                        while timeline.reference.ticks() < due + 2 * LATE_TICKS:
                            pass  # the machine is busy

            node.tiles[0].start(periods)
        return early, timeline.late

    early, late = trio.run(run)
    assert min(early) >= 0
    assert late >= 1
