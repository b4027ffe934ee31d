"""Signals: one waiter, set before or after, in the order of device time."""

import trio

from aisrv.xcore.node import open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.signal import Signal
from aisrv.xcore.timed.classes import TIMED
from tests.support.benches.simulation import settle, simulated


@simulated
async def test_a_signal_wakes_who_waits_and_is_clear_then() -> None:
    woken: list[None] = []
    async with open_node() as node, trio.open_nursery() as nursery:
        signal = Signal(node.runtime, "test")

        async def wait() -> None:
            while True:
                await signal.wait()
                woken.append(None)

        nursery.start_soon(wait)
        await settle()
        for count in range(3):
            assert len(woken) == count
            signal.set()
            await settle()
        nursery.cancel_scope.cancel()
    assert len(woken) == 3


@simulated
async def test_a_signal_that_nobody_waits_for_counts_once() -> None:
    async with open_node() as node:
        signal = Signal(node.runtime, "test")
        signal.set()
        signal.set()
        await signal.wait()
        with trio.move_on_after(1) as waiting:
            await signal.wait()
        assert waiting.cancelled_caught
        signal.set()
        await signal.wait()


async def _woken_at(classes: ResourceClasses) -> int:
    ticks: list[int] = []
    async with open_node(classes=classes) as node:
        signal = Signal(node.runtime, "test")
        timer = node.tiles[0].allocate_timer()
        a, b = node.channel(*node.tiles)

        async def sets() -> None:
            await timer.wait_after(99)
            await a.outwords(bytes(400))
            signal.set()

        async def waits() -> None:
            await signal.wait()
            ticks.append(node.clock.ticks())

        async def takes() -> None:
            await b.inwords(100)

        node.tiles[0].start(sets)
        node.tiles[0].start(waits)
        node.tiles[1].start(takes)
    return ticks[0]


def test_in_device_time_a_task_runs_on_at_the_clock_of_who_woke_it() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    assert trio.run(_woken_at, PLAIN, clock=clock) == 100
    clock = trio.testing.MockClock(autojump_threshold=0)
    # 100 words take 4 slots of 5 clocks each, at 6 clocks a tick.
    assert trio.run(_woken_at, TIMED, clock=clock) in range(100 + 333, 100 + 345)
