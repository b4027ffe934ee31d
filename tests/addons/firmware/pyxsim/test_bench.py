"""Checkers on the pins of a node: when they go on, what they see, and what they drive."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from aisrv.addons.firmware.pyxsim.bench import Bench
from aisrv.addons.firmware.pyxsim.sim_thread import SimThread
from aisrv.addons.firmware.pyxsim.testers import TestError
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.ports.pin import Pin, Z
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.timed.classes import TIMED
from tests.support.benches.simulation import simulated

FS = 10_000_000
"""A tick in femtoseconds."""
A, B, C = (f"tile[0]:XS1_PORT_{port}" for port in ("1A", "1B", "8A"))


class Device:
    """Who drives pins of the device."""

    name = "a port"


class Checker(SimThread):
    """Runs a function on the device, keeps what it tells, and ends the run unless it is one of several."""

    def __init__(self, function: Callable[..., None], *, ends: bool = True) -> None:
        self._function = function
        self._ends = ends
        self.told: list[Any] = []

    def run(self, *arguments: Any) -> None:
        self._function(self, *arguments)
        if self._ends:
            self.xsi.terminate()

    def tick(self) -> float:
        return self.xsi.get_time() / FS


async def bench_of(
    node: Node,
    *checkers: Checker | tuple[Any, ...],
    device: Awaitable[None] | None = None,
    weak: bool = False,
) -> str | None:
    """Run checkers, each of which returns, and a device beside them."""
    ended: list[str | None] = []
    async with trio.open_nursery() as nursery:

        async def run_device() -> None:
            if device is not None:
                await device

        nursery.start_soon(run_device)
        ended.append(await Bench(node, FS, is_weak=weak).run(checkers, 10))
        nursery.cancel_scope.cancel()
    return ended[0]


def drives(pin: Pin, *levels: tuple[int, int]) -> Device:
    device = Device()
    for level, tick in levels:
        pin.drive(level, device, tick)
    return device


@simulated
async def test_a_wait_ends_at_the_first_tick_that_reaches_its_time() -> None:
    def run(self: Checker) -> None:
        for ticks in (3.0, 3.5, 7.0, 5.0):
            self.wait_until(ticks * FS)
            self.told.append(self.tick())

    async with open_node() as node:
        checker = Checker(run)
        assert await bench_of(node, checker) is None
    assert checker.told == [3, 3.5, 7, 7]


@simulated
async def test_a_clock_of_a_checker_keeps_its_times_for_those_who_measure_it() -> None:
    def clock(self: Checker) -> None:
        for edge in range(1, 6):
            self.wait_until(edge * 2.5 * FS)
            self.xsi.drive_port_pins(A, edge & 1)

    def measures(self: Checker) -> None:
        for _ in range(5):
            self.wait_for_port_pins_change([B])
            self.told.append(self.tick())

    async def follows() -> None:
        tick = 0
        while True:
            tick = await node.tiles[0].pin("1A").edge(after=tick)
            ticks.append(tick)
            node.tiles[0].pin("1B").drive(node.tiles[0].pin("1A").value(), follower)

    follower = Device()
    ticks: list[int] = []
    async with open_node() as node:
        checker = Checker(measures)
        await bench_of(node, checker, Checker(clock, ends=False), device=follows())
    assert checker.told == [2.5, 5, 7.5, 10, 12.5]
    assert ticks == [3, 5, 8, 10, 13]


@simulated
async def test_changes_of_the_device_are_seen_at_their_ticks() -> None:
    def run(self: Checker) -> None:
        while self.tick() < 40:
            self.wait_for_port_pins_change([A, C])
            self.told.append((self.tick(), self.xsi.sample_port_pins(A), self.xsi.sample_port_pins(C)))

    async with open_node() as node:
        drives(node.tiles[0].pin("1A"), (0, 5), (1, 20), (0, 21))
        drives(node.tiles[0].pin("8A.3"), (1, 20), (0, 40))
        for bit in (0, 1, 2, 4, 5, 6, 7):
            drives(node.tiles[0].pin(f"8A.{bit}"), (0, 0))
        checker = Checker(run)
        await bench_of(node, checker)
    assert checker.told == [(5, 0, 0), (20, 1, 8), (21, 0, 8), (40, 0, 0)]


@simulated
async def test_a_device_that_begins_to_drive_and_lets_go_is_a_change() -> None:
    def run(self: Checker) -> None:
        for _ in range(2):
            self.told.append(self.xsi.is_port_driving(A))
            self.wait_for_port_pins_change([A])
        self.told.append((self.tick(), self.xsi.is_port_driving(A)))

    async with open_node() as node:
        drives(node.tiles[0].pin("1A"), (0, 3), (Z, 9))
        checker = Checker(run)
        await bench_of(node, checker)
    assert checker.told == [False, True, (9, False)]


@simulated
async def test_what_a_checker_drives_is_seen_at_once_by_tasks() -> None:
    edges: list[tuple[int, int]] = []

    async def watches() -> None:
        pin = node.tiles[0].pin("8A.2")
        while True:
            edges.append((await pin.edge(), pin.value()))

    def run(self: Checker) -> None:
        self.wait_until(2 * FS)
        self.xsi.drive_port_pins(C, 0x0C)
        self.wait_until(8 * FS)
        self.xsi.drive_port_pins(f"{C}.2", 0)
        self.told.append(self.xsi.sample_port_pins(C))
        self.wait_until(9 * FS)

    async with open_node() as node:
        checker = Checker(run)
        await bench_of(node, checker, device=watches())
    assert edges == [(2, 1), (8, 0)]
    assert checker.told == [0x08]


@simulated
async def test_a_weak_drive_loses_against_the_device_and_wins_over_a_pull_up() -> None:
    class PulledUp(Device):
        open_drain = True

    def run(self: Checker) -> None:
        self.xsi.drive_port_pins(A, 1)
        self.xsi.drive_port_pins(B, 0)
        for tick in (1, 6, 11):
            self.wait_until(tick * FS)
            self.told.append((self.xsi.sample_port_pins(A), self.xsi.sample_port_pins(B)))

    async with open_node() as node:
        drives(node.tiles[0].pin("1A"), (0, 5), (Z, 10))
        node.tiles[0].pin("1B").drive(1, PulledUp())
        checker = Checker(run)
        await bench_of(node, checker, weak=True)
    assert checker.told == [(1, 0), (0, 0), (1, 0)]


@simulated
async def test_a_pull_up_of_the_device_is_no_drive() -> None:
    class PulledUp(Device):
        open_drain = True

    def run(self: Checker) -> None:
        for tick in (1, 6):
            self.wait_until(tick * FS)
            self.told.append((self.xsi.is_port_driving(A), self.xsi.sample_port_pins(A)))

    async with open_node() as node:
        port = PulledUp()
        node.tiles[0].pin("1A").drive(1, port)
        node.tiles[0].pin("1A").drive(0, port, 5)
        checker = Checker(run)
        await bench_of(node, checker, weak=True)
    assert checker.told == [(False, 1), (True, 0)]


@simulated
async def test_a_function_is_asked_at_each_tick_as_far_as_nothing_happens() -> None:
    asked: list[float] = []

    def holds(xsi: Any) -> bool:
        asked.append(xsi.get_time() / FS)
        return bool(xsi.get_time() >= 4.5 * FS or xsi.sample_port_pins(A))

    def run(self: Checker) -> None:
        self.wait(holds)
        self.told.append(self.tick())
        self.wait(lambda xsi: xsi.sample_port_pins(A))
        self.told.append(self.tick())

    async with open_node() as node:
        drives(node.tiles[0].pin("1A"), (1, 150_000))
        checker = Checker(run)
        await bench_of(node, checker)
    assert checker.told == [5, 150_000]
    assert asked[:6] == [0, 1, 2, 3, 4, 5]


@simulated
async def test_the_next_cycle_is_the_next_tick() -> None:
    def run(self: Checker) -> None:
        for _ in range(3):
            self.wait_for_next_cycle()
            self.told.append(self.tick())

    async with open_node() as node:
        checker = Checker(run)
        await bench_of(node, checker)
    assert checker.told == [1, 2, 3]


@simulated
async def test_checkers_at_one_tick_go_on_as_registered() -> None:
    order: list[int] = []

    def run(self: Checker, number: int) -> None:
        self.wait_for_port_pins_change([A])
        order.append(number)
        if len(order) == 3:
            self.xsi.terminate()

    async with open_node() as node:
        drives(node.tiles[0].pin("1A"), (1, 7))
        await bench_of(node, *((Checker(run, ends=False), number) for number in (3, 1, 2)))
    assert order == [3, 1, 2]


@simulated
async def test_a_checker_ends_the_run_and_all_threads_end() -> None:
    def endless(self: Checker) -> None:
        while True:
            self.wait_for_port_pins_change([A])

    def ends(self: Checker) -> None:
        self.wait_until(5 * FS)
        self.xsi.terminate()

    before = threading.active_count()
    async with open_node() as node:
        assert await bench_of(node, Checker(endless), Checker(ends)) is None
    assert threading.active_count() == before


@simulated
async def test_a_checker_that_fails_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    def run(self: Checker) -> None:
        self.wait_until(5 * FS)
        raise ValueError("no start bit")

    with pytest.raises(ExceptionGroup) as failed:
        async with open_node() as node:
            await bench_of(node, Checker(run))
    assert failed.group_contains(TestError, match="a checker failed: its traceback is on stderr")
    assert "ValueError: no start bit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        ("tile[0]:XS1_PORT_1Q", "is no port"),
        ("tile[2]:XS1_PORT_1A", "is no port"),
        ("XS1_PORT_1A", "is no port"),
        ("tile[0]:XS1_PORT_8A.8", "port 8A has no bit 8"),
    ],
)
@simulated
async def test_a_port_that_is_not_there(port: str, reason: str) -> None:
    async with open_node() as node:
        with pytest.raises(TestError, match=reason):
            Bench(node, FS).pins_of(port)


@simulated
async def test_a_run_that_takes_too_long_is_given_up() -> None:
    def run(self: Checker) -> None:
        while True:
            self.wait_until(self.xsi.get_time() + FS)

    async with open_node() as node:
        assert await Bench(node, FS).run([Checker(run)], 0.05) == "Simulator timed out"


def test_a_run_in_which_nothing_can_happen_any_more_ends() -> None:
    async def run() -> str | None:
        def waits(self: Checker) -> None:
            self.wait_for_port_pins_change([A])

        async with open_node() as node:
            return await bench_of(node, Checker(waits))

    ended = trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert ended == "Nothing can happen any more"


@simulated
async def test_in_device_time_checkers_see_what_cores_do_in_their_turns() -> None:
    def run(self: Checker) -> None:
        for _ in range(4):
            self.wait_for_port_pins_change([A])
            self.told.append((self.tick(), self.xsi.sample_port_pins(A)))

    async with open_node(classes=TIMED) as node:
        port, checker = node.tiles[0].port("1A"), Checker(run)

        async def blinks() -> None:
            port.enable()
            for time in (100, 200, 300, 400):
                await port.out_at_time(time, time // 100 & 1)

        node.tiles[0].start(blinks)
        assert await bench_of(node, checker) is None
    assert checker.told == [(101, 1), (201, 0), (301, 1), (401, 0)]  # it counts from tick 1 on


@pytest.mark.parametrize("classes", [PLAIN, TIMED])
def test_a_run_in_which_all_cores_wait_for_ever_ends(classes: ResourceClasses) -> None:
    async def run() -> tuple[str | None, int]:
        ticks: list[int] = []
        async with open_node(classes=classes) as node:
            port = node.tiles[0].port("1A")

            async def waits() -> None:
                port.enable()
                await port.in_at_time(5_000)
                ticks.append(node.clock.ticks())
                await port.in_when_pinseq(1)

            node.tiles[0].start(waits)
            ended = await bench_of(node)
            node.stop()
        return ended, len(ticks)

    clocks = [trio.testing.MockClock(autojump_threshold=0) for _ in range(8)]  # Trio shuffles tasks
    ended = {trio.run(run, clock=clock) for clock in clocks}
    assert ended == {("Nothing can happen any more", 1)}
