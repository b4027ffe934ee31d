"""Every wait of the substrate for a tick, 97 days, a year and ten years after Trio's zero.

There floats tell five parts of a tick apart, then hardly ticks, then one in six. No wait hangs, and none ends
early: it is as late as at the start, or by what floats do not tell more; in device time by nothing more.
Which waits there are is the product's: `WAITS` names the code that each goes through.
"""

import ast
import math
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
import trio
from trio.testing import MockClock

import aisrv.xcore
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.core import current_core
from aisrv.xcore.interrupts.api import (
    enable_trigger,
    interrupt_permitted,
    interrupt_unmask_all,
    setup_interrupt_callback,
)
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.select import select, select_or_default
from aisrv.xcore.timed.classes import TIMED, timeline_of
from tests.support.benches.pin_bench import Line

DAY = 86_400
AGES = {"97 days": 97 * DAY, "a year": 365 * DAY, "10 years": 3650 * DAY}
STEPS = (50, 51, 53, 54, 55, 58, 100, 12_345)
"""Ticks that are waited for."""
SECONDS = 20  # of this machine


Wait = Callable[[Node, list[int]], Awaitable[object]]
"""Waits for ticks, and adds by how many ticks the clock of who waited was later than each."""


def now(node: Node) -> int:
    return node.runtime.tick_of(current_core())


async def timers(node: Node, late: list[int]) -> None:
    timer = node.tiles[0].allocate_timer()
    for step in STEPS:
        due = now(node) + step
        await timer.wait_after(due - 1 & 0xFFFFFFFF)
        late.append(now(node) - due)


async def selects(node: Node, late: list[int]) -> None:
    timer = node.tiles[0].allocate_timer()
    for step in STEPS:
        due = now(node) + step
        await select(timer.after(due - 1 & 0xFFFFFFFF))
        late.append(now(node) - due)


async def polls(node: Node, late: list[int]) -> None:
    timer = node.tiles[0].allocate_timer()
    for step in STEPS:
        due = now(node) + step
        event = timer.after(due - 1 & 0xFFFFFFFF)
        while await select_or_default(event) is None:
            pass
        late.append(now(node) - due)


async def interrupts(node: Node, late: list[int]) -> None:
    timer, other = node.tiles[0].allocate_timer(), node.tiles[0].allocate_timer()
    due = now(node) + 100
    event = timer.after(due - 1 & 0xFFFFFFFF)
    steps = iter(STEPS)

    async def callback() -> None:
        nonlocal due
        late.append(now(node) - due)
        due = now(node) + next(steps, 1 << 30)
        event.change(due - 1 & 0xFFFFFFFF)

    async def main() -> None:
        setup_interrupt_callback(event, callback)
        enable_trigger(event)
        await interrupt_unmask_all()
        await other.wait_after(now(node) + 20_000 & 0xFFFFFFFF)

    await interrupt_permitted(main)()


async def ports(node: Node, late: list[int]) -> None:
    port = node.tiles[0].port("1A")
    port.enable()
    for step in STEPS:
        due = now(node) + step
        await port.in_()
        await port.in_at_time(port.get_trigger_time() + step & 0xFFFF)
        late.append(now(node) - due)


async def acts(node: Node, late: list[int]) -> None:
    done = trio.Event()
    for step in STEPS:
        due = now(node) + step
        done = trio.Event()

        def act(due: int = due, done: trio.Event = done) -> None:
            late.append(now(node) - due)
            done.set()

        node.runtime.at_tick(due, act)
        await done.wait()


async def pins(node: Node, late: list[int]) -> None:
    pin, line = node.tiles[0].pin("1B"), Line()
    for at, step in enumerate(STEPS):
        due = now(node) + step
        await pin.until(due)
        late.append(now(node) - due)
        due = now(node) + step
        pin.drive(1 - at % 2, line, due)
        assert await pin.edge() == due
        late.append(now(node) - due)


async def timeline(node: Node, late: list[int]) -> None:
    line = timeline_of(node.runtime)
    if line is None:
        return
    for step in STEPS:
        due = now(node) + step
        await line.wait_until(line.clock_at(due))
        late.append(now(node) - due)
        line.charge(step * 6)
        await line.settle()
        late.append(now(node) - due - step)


WAITS: dict[str, tuple[Wait, bool, set[str]]] = {
    "timers": (timers, True, {"timer.TimerAfter._set", "timer.Timer.wait_after", "turns.Turns.give"}),
    "selects": (selects, True, {"runtime.Parking.park_until"}),
    "polls": (polls, True, {"select.Selection._let_time_pass"}),
    "interrupts": (interrupts, True, {"core._Alarm.ring"}),
    "ports": (ports, True, {"runtime.Parking.park_to_tick"}),
    "acts": (acts, False, {"alarms.Alarms._run"}),
    "pins": (pins, False, {"tick_waiter.TickWaiter.sleep"}),
    "timeline": (timeline, True, {"turns.Turns._sleep"}),
}
"""Whether a core waits, and the code that makes a tick one of Trio's times or waits for that."""
NO_TICKS = {
    "clock.Clock.first_tick_at",
    "clock.Clock.leave_tick",
    "deadlock_watch.DeadlockWatch._look_when_due",
}
"""The conversions themselves, and a wait in seconds."""


def waiting_code() -> set[str]:
    """Functions of the substrate that convert a tick to Trio's time, or wait for a time."""
    found = set()
    for file in Path(aisrv.xcore.__file__).parent.rglob("*.py"):
        for place, function in functions(ast.parse(file.read_text()), file.stem):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            names = {getattr(call.func, "attr", "") for call in calls}
            words = {word.arg for call in calls for word in call.keywords}
            if names & {"deadline", "sleep_until", "move_on_at"} or "deadline" in words:
                found.add(place)
    return found


def functions(tree: ast.AST, place: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{place}.{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{place}.{node.name}")


def test_each_wait_for_a_time_is_tried() -> None:
    tried = set().union(*(code for _, _, code in WAITS.values()))
    assert waiting_code() == tried | NO_TICKS


@contextmanager
def no_hang() -> Iterator[None]:
    """End a test that lets no virtual time pass any more."""

    def end(_: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no time passes any more, at {frame}")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def waited(name: str, classes: ResourceClasses, *, before: float = 0, within: float = 0) -> list[int]:
    """Do one of the waits at an age of Trio's clock before the node began, and at one of the node."""
    wait, by_core, _ = WAITS[name]

    async def main() -> list[int]:
        virtual = trio.lowlevel.current_clock()
        assert isinstance(virtual, MockClock)
        virtual.jump(before)
        late: list[int] = []
        async with open_node(classes=classes) as node:
            virtual.jump(within)
            if by_core:
                node.tiles[0].start(wait, node, late)
            else:
                await wait(node, late)
        return late

    with no_hang():
        return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("age", AGES.values(), ids=AGES)
@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "device time"])
@pytest.mark.parametrize("name", WAITS)
def test_no_wait_hangs_or_ends_early(name: str, classes: ResourceClasses, age: int) -> None:
    at_the_start = waited(name, classes)
    resolution = math.ceil(math.ulp(float(age)) * TICKS_PER_SECOND)
    for late in (waited(name, classes, before=age), waited(name, classes, within=age)):
        if classes is TIMED:
            assert late == at_the_start
        assert min(late, default=0) >= 0
        more = [each - first for each, first in zip(late, at_the_start, strict=True)]
        assert max(more, default=0) <= 2 * resolution
