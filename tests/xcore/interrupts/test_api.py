"""Interrupts: taken between two verbs of a core and while it waits, on what goes on below, and masked."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.core import Resource, current_core
from aisrv.xcore.interrupts.api import (
    disable_all_triggers,
    disable_trigger,
    enable_trigger,
    interrupt_mask_all,
    interrupt_permitted,
    interrupt_unmask_all,
    setup_interrupt_callback,
)
from aisrv.xcore.lib_xcore import par
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.select import select, select_or_default
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timer import Timer
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Deadlock, InterruptError, Trap, TrapKind
from tests.support.amounts import in_ci
from tests.support.benches.simulation import settle, simulated, sole_error

Main = Callable[[], Awaitable[object]]
ROUNDS = 12
"""So often Trio wakes two tasks, each time in either order."""


async def _until(node: Node, tick: int) -> None:
    await trio.sleep_until(node.clock.deadline(tick))


def _start(node: Node, main: Main) -> None:
    node.tiles[0].start(interrupt_permitted(main), name="main")


async def _interrupted_by(end: ChanEnd, isr: Main) -> None:
    """Have an end interrupt the calling core from now on."""
    setup_interrupt_callback(end, isr)
    enable_trigger(end)
    await interrupt_unmask_all()


def _inputs(node: Node) -> tuple[ChanEnd, ChanEnd]:
    """Return an end of tile 1 and the one of tile 0 that it outputs to."""
    return node.channel(node.tiles[1], node.tiles[0])


@simulated
async def test_a_callback_runs_while_the_core_waits_which_then_waits_on() -> None:
    seen: list[object] = []
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            assert str(current_core()) == "tile 0 core 0 (main, isr in inuint)"
            seen.append(("isr", await b.inuint(), node.clock.ticks()))

        async def main() -> None:
            await _interrupted_by(b, isr)
            seen.append(("main", await d.inuint(), node.clock.ticks()))

        async def other() -> None:
            for word in (1, 2):
                await _until(node, 100 * word)
                await a.outuint(word)
            await _until(node, 500)
            await c.outuint(7)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [("isr", 1, 100), ("isr", 2, 200), ("main", 7, 500)]


@simulated
async def test_what_came_while_a_callback_waits_is_taken_after_it() -> None:
    seen: list[object] = []
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            first = await b.inuint()
            seen.append(("isr", first, await b.inuint(), node.clock.ticks()))

        async def main() -> None:
            await _interrupted_by(b, isr)
            seen.append(("main", await d.inuint(), node.clock.ticks()))

        async def other() -> None:
            await _until(node, 100)
            await a.outuint(1)
            await _until(node, 200)
            await c.outuint(7)  # is done at once: the verb below takes it, but its core is held
            assert node.clock.ticks() >= 200
            await _until(node, 300)
            await a.outuint(2)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [("isr", 1, 2, 300), ("main", 7, 300)]


@simulated
async def test_an_error_that_came_while_a_callback_waits_is_raised_after_it() -> None:
    seen: list[object] = []
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            seen.append((await b.inuint(), await b.inuint()))

        async def main() -> None:
            await _interrupted_by(b, isr)
            with pytest.raises(Trap, match="expected data on"):
                await d.inuint()
            seen.append(node.clock.ticks())

        async def other() -> None:
            await a.outuint(1)
            await _until(node, 200)
            await c.outct(5)
            await _until(node, 300)
            await a.outuint(2)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [(1, 2), 300]


async def _wait_lock(node: Node) -> object:
    lock = node.tiles[0].allocate_lock()
    await lock.acquire()
    node.tiles[0].start(lambda: _release_at(node, lock.release), name="holder")
    await lock.acquire()
    return "lock"


async def _release_at(node: Node, release: Callable[[], object]) -> None:
    await _until(node, 500)
    release()


async def _wait_timer(node: Node) -> object:
    return await node.tiles[0].allocate_timer().wait_after(499)


async def _wait_select(node: Node) -> object:
    timer = node.tiles[0].allocate_timer()
    return (await select(timer.after(499), node.tiles[0].allocate_chanend())).name


async def _wait_channel(node: Node) -> object:
    c, d = node.channel(node.tiles[0], node.tiles[0])
    node.tiles[0].start(lambda: _send_at(node, c), name="sender")
    return await chan_in_word(d)


async def _send_at(node: Node, c: ChanEnd) -> None:
    await _until(node, 500)
    await chan_out_word(c, 9)


async def _wait_jobs(node: Node) -> object:
    async def own() -> None:
        pass

    async def job() -> None:
        await _until(node, 500)

    await par(node.tiles[0], own, job)
    return None


async def _sleep(node: Node) -> object:
    await _until(node, 500)
    return None


async def _poll(node: Node) -> object:
    end = node.tiles[0].allocate_chanend()
    while node.clock.ticks() < 500:
        assert await select_or_default(end) is None
    return None


@pytest.mark.parametrize(
    ("wait", "result"),
    [
        (_wait_lock, "lock"),
        (_wait_timer, 500),
        (_wait_select, "timer 0x80000001"),
        (_wait_channel, 9),
        (_wait_jobs, None),
        (_sleep, None),
        (_poll, None),
    ],
)
@simulated
async def test_a_callback_runs_in_whatever_the_core_waits_for(
    wait: Callable[[Node], Awaitable[object]], result: object
) -> None:
    seen: list[object] = []
    async with open_node() as node:
        a, b = _inputs(node)

        async def isr() -> None:
            seen.append((await b.inuint(), node.clock.ticks()))

        async def main() -> None:
            await _interrupted_by(b, isr)
            assert await wait(node) == result
            assert 500 <= node.clock.ticks() <= 600  # a loop that polls looks each microsecond
            seen.append("main")

        async def other() -> None:
            await _until(node, 300)
            await a.outuint(3)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [(3, 300), "main"]


@simulated
async def test_a_wait_is_cancelled_while_a_callback_runs_and_the_core_goes_on_after_it() -> None:
    seen: list[object] = []
    async with open_node() as node:
        (a, b), (_, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            seen.append((await b.inuint(), await b.inuint()))

        async def main() -> None:
            await _interrupted_by(b, isr)
            with trio.move_on_at(node.clock.deadline(200)) as scope:
                await d.inuint()
            seen.append((scope.cancelled_caught, node.clock.ticks()))
            assert not d.statistics().verb_in_progress

        async def other() -> None:
            await a.outuint(1)
            await _until(node, 300)
            await a.outuint(2)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [(1, 2), (True, 300)]


@simulated
async def test_an_interrupt_that_the_core_itself_raises_comes_before_its_next_verb() -> None:
    seen: list[object] = []
    async with open_node() as node:
        a, b = node.channel(node.tiles[0], node.tiles[0])
        nobody = node.tiles[0].allocate_chanend()
        nobody.setd(node.tiles[1].allocate_chanend())

        async def isr() -> None:
            seen.append(await b.inuint())

        async def main() -> None:
            await _interrupted_by(b, isr)
            for word in range(3):
                await a.outuint(word)
                seen.append("output")
                await nobody.outuchar(1)
                seen.append("next")

        _start(node, main)
    assert seen == ["output", 0, "next", "output", 1, "next", "output", 2, "next"]
    assert node.clock.ticks() == 0  # which takes no time


@simulated
async def test_nothing_interrupts_while_masked_and_unmasking_runs_what_is_due() -> None:
    seen: list[object] = []
    async with open_node() as node:
        a, b = _inputs(node)

        async def isr() -> None:
            seen.append(await b.inuint())

        async def main() -> None:
            setup_interrupt_callback(b, isr)
            enable_trigger(b)
            await _until(node, 100)  # masked as the core begins
            seen.append("unmask")
            await interrupt_unmask_all()
            interrupt_mask_all()
            seen.append("masked")
            await _until(node, 300)
            assert await b.inuint() == 2  # the core may input itself
            await interrupt_unmask_all()
            seen.append("end")

        async def other() -> None:
            await a.outuint(1)
            await _until(node, 200)
            await a.outuint(2)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == ["unmask", 1, "masked", "end"]


@simulated
async def test_a_disabled_event_does_not_interrupt_until_it_is_enabled() -> None:
    seen: list[object] = []
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def isr_b() -> None:
            seen.append(("b", await b.inuint(), node.clock.ticks()))
            disable_trigger(b)

        async def isr_d() -> None:
            seen.append(("d", await d.inuint(), node.clock.ticks()))

        async def main() -> None:
            setup_interrupt_callback(b, isr_b)
            await _interrupted_by(d, isr_d)
            await _until(node, 100)
            enable_trigger(b)
            await _until(node, 200)
            disable_all_triggers()
            await _until(node, 300)
            enable_trigger(b)
            enable_trigger(d)
            await _until(node, 400)

        async def other() -> None:
            for tick in (50, 150, 250):
                await _until(node, tick)
                await a.outuint(tick)
                await c.outuint(tick)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [("d", 50, 50), ("b", 50, 100), ("d", 150, 150), ("b", 150, 300), ("d", 250, 300)]


@simulated
async def test_a_callback_is_not_interrupted() -> None:
    seen: list[object] = []
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def slow() -> None:
            seen.append(("slow", await b.inuint()))
            await _until(node, 300)
            seen.append("slow ends")

        async def quick() -> None:
            seen.append(("quick", await d.inuint(), node.clock.ticks()))

        async def main() -> None:
            setup_interrupt_callback(d, quick)
            enable_trigger(d)
            await _interrupted_by(b, slow)
            await _until(node, 500)

        async def other() -> None:
            await a.outuint(1)
            await _until(node, 100)
            await c.outuint(2)

        node.tiles[1].start(other)
        _start(node, main)
    assert seen == [("slow", 1), "slow ends", ("quick", 2, 300)]


# A callback that unmasks interrupts.


async def _trap_of(
    callback: Callable[[Node, ChanEnd, ChanEnd], Main], classes: ResourceClasses
) -> Trap | None:
    """Return what halts a core, to whose two ends come words at ticks 100 and 300.

    `callback` makes the callback of the first from both ends. That of the other one inputs.
    """
    async with open_node(on_trap="halt", classes=classes) as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)
        timer, own = node.tiles[1].allocate_timer(), node.tiles[0].allocate_timer()

        async def on_d() -> None:
            await d.inuint()

        async def main() -> None:
            setup_interrupt_callback(d, on_d)
            enable_trigger(d)
            await _interrupted_by(b, callback(node, b, d))
            await own.wait_after(1000)

        async def other() -> None:
            await timer.wait_after(99)
            await a.outuint(1)
            await timer.wait_after(299)
            await c.outuint(2)

        node.tiles[1].start(other)
        core = node.tiles[0].start(interrupt_permitted(main), name="main")
    return core.trap


def _waits_unmasked(node: Node, b: ChanEnd, d: ChanEnd) -> Main:
    async def on_b() -> None:
        await b.inuint()
        await interrupt_unmask_all()
        await node.tiles[0].allocate_timer().wait_after(500)

    return on_b


def _unmasks_before_it_inputs(node: Node, b: ChanEnd, d: ChanEnd) -> Main:
    async def on_b() -> None:
        await interrupt_unmask_all()
        await b.inuint()

    return on_b


def _enables_unmasked(node: Node, b: ChanEnd, d: ChanEnd) -> Main:
    async def on_b() -> None:
        await b.inuint()
        disable_trigger(d)
        await interrupt_unmask_all()
        await node.tiles[0].allocate_timer().wait_after(500)
        enable_trigger(d)

    return on_b


LOST = (
    "which has unmasked interrupts: the way back to what that interrupted is lost, "
    "as lib_xcore saves neither SPC nor SSR"
)


@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "timed"])
@pytest.mark.parametrize(
    ("callback", "interrupting"),
    [
        (_waits_unmasked, "on_d on chanend 0x80000102"),
        (_unmasks_before_it_inputs, "on_b on chanend 0x80000002"),
        (_enables_unmasked, "on_d on chanend 0x80000102"),
    ],
)
@simulated
async def test_an_interrupt_of_a_callback_that_has_unmasked_them_traps(
    callback: Callable[[Node, ChanEnd, ChanEnd], Main], interrupting: str, classes: ResourceClasses
) -> None:
    trap = await _trap_of(callback, classes)
    assert trap is not None
    assert trap.kind is TrapKind.ECALL
    assert trap.reason == f"{interrupting} interrupts on_b on chanend 0x80000002, {LOST}"


def _masks_again(node: Node, b: ChanEnd, d: ChanEnd) -> Main:
    async def on_b() -> None:
        await b.inuint()
        await interrupt_unmask_all()
        interrupt_mask_all()
        await node.tiles[0].allocate_timer().wait_after(500)

    return on_b


def _unmasks_at_its_end(node: Node, b: ChanEnd, d: ChanEnd) -> Main:
    async def on_b() -> None:
        await b.inuint()
        await interrupt_unmask_all()

    return on_b


@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "timed"])
@pytest.mark.parametrize("callback", [_masks_again, _unmasks_at_its_end])
@simulated
async def test_a_callback_may_unmask_interrupts_while_none_comes(
    callback: Callable[[Node, ChanEnd, ChanEnd], Main], classes: ResourceClasses
) -> None:
    assert await _trap_of(callback, classes) is None


@simulated
async def test_a_timer_interrupts_at_its_time_and_at_the_one_it_is_changed_to() -> None:
    seen: list[int] = []
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        event = timer.after(99)

        async def isr() -> None:
            seen.append(timer.now())
            event.change(timer.now() + 99)

        async def main() -> None:
            setup_interrupt_callback(event, isr)
            enable_trigger(event)
            await interrupt_unmask_all()
            await _until(node, 250)
            event.change(279)  # from 299
            await _until(node, 420)
            disable_trigger(event)
            await _until(node, 600)

        _start(node, main)
    assert seen == [100, 200, 280, 380]


@simulated
async def test_a_verb_on_the_end_that_waits_below_traps() -> None:
    async with open_node(on_trap="halt") as node:
        (a, b), (_, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            await b.inuint()
            await d.inuint()

        async def main() -> None:
            await _interrupted_by(b, isr)
            await d.inuint()

        _start(node, main)
        await settle()
        await a.outuint(1)
        await settle()
        (core,) = node.tiles[0].cores
        assert core.trap is not None
        assert core.trap.kind is TrapKind.RESOURCE_DEP
        assert core.trap.reason == (
            "inuint on chanend 0x80000102 while tile 0 core 0 (main) is in inuint on it"
        )
        assert not d.statistics().verb_in_progress  # the core is gone, with all that it was in


@simulated
async def test_an_input_from_an_end_that_interrupts_traps() -> None:
    async with open_node(on_trap="halt") as node:
        _, b = _inputs(node)

        async def isr() -> None:
            """Never runs."""

        async def main() -> None:
            await _interrupted_by(b, isr)
            await b.inuint()

        _start(node, main)
        await settle()
        (core,) = node.tiles[0].cores
        who = "tile 0 core 0 (main, isr)"
        assert str(core.trap) == (
            f"RESOURCE_DEP (9): inuint on chanend 0x80000002 while {who} is in an interrupt on it"
        )


@simulated
async def test_an_error_of_a_callback_halts_its_core_alone_which_does_not_go_on() -> None:
    seen: list[object] = []
    async with open_node(on_trap="halt") as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            await b.inuint()
            await b.inuint()
            raise ValueError("of the callback")

        async def main() -> None:
            await _interrupted_by(b, isr)
            seen.append(await d.inuint())  # comes, but after it the core is gone

        async def other() -> None:
            await a.outuint(1)
            await c.outuint(1)
            await a.outuint(2)
            await _until(node, 100)
            seen.append("other")

        node.tiles[1].start(other)
        _start(node, main)
    (core,) = node.tiles[0].cores
    assert str(core.trap) == "ECALL (8): ValueError: of the callback"
    assert seen == ["other"]


@simulated
async def test_the_error_of_the_function_is_raised_as_it_is() -> None:
    async def main() -> None:
        raise Trap(TrapKind.ECALL, "as it is")

    with pytest.raises(ExceptionGroup) as error:
        async with open_node() as node:
            _start(node, main)
    assert [str(each) for each in error.value.exceptions] == ["ECALL (8): as it is"]


@simulated
async def test_stopping_the_node_ends_callback_and_core() -> None:
    async with open_node() as node:
        (a, b), (_, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            await b.inuint()
            await b.inuint()

        async def main() -> None:
            await _interrupted_by(b, isr)
            await d.inuint()

        node.tiles[1].start(a.outuint, 1)
        _start(node, main)
        await settle()
        node.stop()
    assert node.runtime.cores == ()
    assert node.runtime.runnable == 0


@simulated
async def test_an_interrupt_ends_with_its_core() -> None:
    async with open_node() as node:
        a, b = _inputs(node)

        async def isr() -> None:
            raise AssertionError("the core has ended")

        async def main() -> None:
            await _interrupted_by(b, isr)

        _start(node, main)
        await settle()
        await a.outuint(1)
        await settle()
        assert await b.inuint() == 1


# Reports.


def _report(program: Callable[[], Awaitable[None]]) -> list[str]:
    with pytest.raises(ExceptionGroup) as error:
        simulated(program)()
    return str(sole_error(error.value, Deadlock)).splitlines()[1:]


def test_cores_in_deadlock_though_one_of_them_could_be_interrupted_by_the_other() -> None:
    async def program() -> None:
        async with open_node() as node:
            (a, b), (c, d) = _inputs(node), _inputs(node)

            async def isr() -> None:
                """Never runs."""

            async def main() -> None:
                d.assign(current_core())  # type: ignore[arg-type]
                await _interrupted_by(b, isr)
                await d.inuint()

            a.assign(node.tiles[1].start(c.inuint, name="other"))
            _start(node, main)

    assert _report(program) == [
        (
            "  tile 0 core 0 (main): inuint on chanend 0x80000102 (destination 0x80010102, 0 tokens "
            "buffered, fed by chanend 0x80010102 of tile 1 core 0 (other)), "
            "or interrupted by isr on chanend 0x80000002"
        ),
        (
            "  tile 1 core 0 (other): inuint on chanend 0x80010102 (destination 0x80000102, 0 tokens "
            "buffered, fed by chanend 0x80000102 of tile 0 core 0 (main))"
        ),
    ]


def test_a_callback_that_waits_without_end_is_a_deadlock() -> None:
    async def program() -> None:
        async with open_node() as node:
            (a, b), (c, d) = _inputs(node), _inputs(node)

            async def isr() -> None:
                await b.inuint()
                await _until(node, 100)
                await b.inuint()

            async def main() -> None:
                await _interrupted_by(b, isr)
                await d.inuint()

            async def other() -> None:
                await a.outuint(1)
                await c.outuint(1)

            node.tiles[1].start(other, name="other")
            _start(node, main)

    assert _report(program) == [
        "  tile 0 core 0 (main): interrupt on chanend 0x80000002 (until tile 0 core 0 (main, isr) returns)",
        (
            "  tile 0 core 0 (main, isr): inuint on chanend 0x80000002 (destination 0x80010002, 0 tokens "
            "buffered, fed by chanend 0x80010002 of tile 1 core 0 (other), which has ended, "
            "whose route is open)"
        ),
    ]


def test_no_deadlock_while_a_timer_may_interrupt_but_one_while_it_is_masked() -> None:
    seen: list[int] = []

    async def program() -> None:
        async with open_node() as node:
            a, b = node.channel(node.tiles[0], node.tiles[0])
            event = node.tiles[0].allocate_timer().after(999)

            async def isr() -> None:
                seen.append(node.clock.ticks())
                disable_trigger(event)
                await a.outuint(5)

            async def main() -> None:
                setup_interrupt_callback(event, isr)
                enable_trigger(event)
                await interrupt_unmask_all()
                seen.append(await b.inuint())
                interrupt_mask_all()
                enable_trigger(event)
                await b.inuint()

            _start(node, main)

    assert _report(program) == [
        (
            "  tile 0 core 0 (main): inuint on chanend 0x80000102 (destination 0x80000002, 0 tokens "
            "buffered, fed by chanend 0x80000002 of tile 0 core 0 (main, isr in inuint), whose route is open)"
        )
    ]
    assert seen == [1000, 5]


@simulated
async def test_the_watch_knows_that_an_interrupt_may_wake_a_core(caplog: pytest.LogCaptureFixture) -> None:
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)
        node.watch_deadlocks()

        async def isr() -> None:
            await b.inuint()
            await d.outuint(1)

        async def main(*, interrupted: bool) -> None:
            d.assign(current_core())  # type: ignore[arg-type]
            if interrupted:
                await _interrupted_by(b, isr)
            await d.inuint()

        c.assign(node.tiles[1].start(c.inuint, name="other"))
        with trio.move_on_after(5):
            async with trio.open_nursery():
                _start(node, lambda: main(interrupted=True))
                await trio.sleep(5)
        assert "never run again" not in caplog.text
        _ = a
        node.stop()


def test_the_watch_finds_the_same_cores_where_nothing_may_interrupt(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        async with open_node() as node:
            c, d = _inputs(node)
            node.watch_deadlocks()

            async def main() -> None:
                d.assign(current_core())  # type: ignore[arg-type]
                await interrupt_unmask_all()
                await d.inuint()

            c.assign(node.tiles[1].start(c.inuint, name="other"))
            _start(node, main)
            await trio.sleep(5)
            node.stop()

    simulated(program)()
    assert "2 cores can never run again" in caplog.text


@simulated
async def test_a_trap_names_the_verb_of_an_interruptible_core() -> None:
    async with open_node(on_trap="halt") as node:
        _, d = _inputs(node)

        async def main() -> None:
            await d.inuint()

        _start(node, main)
        await settle()
        with pytest.raises(Trap, match=r"while tile 0 core 0 \(main\) is in inuint on it"):
            await d.inuint()
        node.stop()


@simulated
async def test_reports_name_the_call_in_which_an_interruptible_core_waits_for_the_outside() -> None:
    async with open_node() as node:

        async def main() -> None:
            await node.tiles[0].allocate_timer().wait_after(50)

        _start(node, main)
        await settle()
        assert node.report().splitlines()[1] == "  tile 0 core 0 (main): wait_after on timer 0x80000001"


class _Verbs(Tracer):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def verb_began(self, core: object, verb: str, resource: Resource, tick: int) -> None:
        self.seen.append((str(core), verb, resource.name))


@simulated
async def test_tracers_hear_of_callbacks_as_of_verbs() -> None:
    tracer = _Verbs()
    async with open_node() as node:
        (a, b), (c, d) = _inputs(node), _inputs(node)

        async def isr() -> None:
            await b.inuchar()

        async def main() -> None:
            await _interrupted_by(b, isr)
            await d.inuchar()

        with node.tracing(tracer):
            _start(node, main)
            await settle()
            await a.outuchar(1)
            await settle()
            await c.outuchar(1)
            await settle()
    in_isr = "tile 0 core 0 (main, isr in inuchar)"
    assert [each for each in tracer.seen if each[0] != "None"] == [
        ("tile 0 core 0 (main)", "inuchar", "chanend 0x80000102"),
        (in_isr, "interrupt", "chanend 0x80000002"),
        (in_isr, "inuchar", "chanend 0x80000002"),
    ]


# Misuse.


@simulated
async def test_a_core_that_was_not_permitted_interrupts_says_how() -> None:
    async with open_node(on_trap="halt") as node:
        _, b = _inputs(node)

        async def main() -> None:
            setup_interrupt_callback(b, main)

        core = node.tiles[0].start(main)
        await settle()
        assert core.trap is not None
        assert core.trap.reason == (
            "InterruptError: tile 0 core 0 (main) takes no interrupts: "
            "start it as interrupt_permitted(function)"
        )


@simulated
async def test_tasks_that_are_no_cores_take_no_interrupts() -> None:
    with pytest.raises(InterruptError, match="interrupts are of cores"):
        await interrupt_permitted(trio.lowlevel.checkpoint)()
    with pytest.raises(InterruptError, match="a task outside of any core takes no interrupts"):
        interrupt_mask_all()


@simulated
async def test_an_event_without_a_callback_and_one_of_another_tile() -> None:
    errors: list[str] = []
    async with open_node() as node:
        a, b = _inputs(node)

        async def main() -> None:
            attempts: tuple[Callable[[], None], ...] = (
                lambda: enable_trigger(b),
                lambda: disable_trigger(b),
                lambda: setup_interrupt_callback(a, main),
            )
            for attempt in attempts:
                with pytest.raises((InterruptError, Trap)) as error:
                    attempt()
                errors.append(str(error.value))
            with pytest.raises(InterruptError) as error:
                await interrupt_permitted(main)()
            errors.append(str(error.value))

        _start(node, main)
    assert errors == [
        "eeu on chanend 0x80000002, of which tile 0 core 0 (main) has no interrupt callback",
        "edu on chanend 0x80000002, of which tile 0 core 0 (main) has no interrupt callback",
        (
            "ILLEGAL_RESOURCE (4): setv on chanend 0x80010002, which belongs to tile 1, "
            "by tile 0 core 0 (main)"
        ),
        "tile 0 core 0 (main) is interruptible already",
    ]


@simulated
async def test_a_callback_that_leaves_its_event_runs_again_and_others_get_their_turns() -> None:
    async with open_node() as node:
        a, b = _inputs(node)

        async def isr() -> None:
            """Take nothing."""

        async def main() -> None:
            await _interrupted_by(b, isr)
            await _until(node, 10)

        _start(node, main)
        await a.outuchar(1)
        await _until(node, 20)
        assert node.clock.ticks() >= 20
        node.stop()


# Any order of what comes.


@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "timed"])
@settings(max_examples=in_ci(200, every_day=40))
@given(
    words=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=12),
    works=st.lists(st.integers(0, 5), min_size=3, max_size=3),
)
def test_no_word_is_lost_in_any_order(
    classes: ResourceClasses, words: list[tuple[int, int]], works: list[int]
) -> None:
    async def program() -> None:
        got: list[list[int]] = [[], [], []]
        busy = 0
        async with open_node(classes=classes) as node:
            pairs = [_inputs(node) for _ in range(3)]
            timers = [[tile.allocate_timer() for _ in range(3)] for tile in node.tiles]
            count = sum(to == 0 for _, to in words)

            async def wait(timer: Timer, ticks: int) -> None:
                await timer.wait_after(timer.now() + ticks)

            def isr_of(number: int) -> Main:
                async def isr() -> None:
                    nonlocal busy
                    busy += 1
                    assert busy == 1
                    word = await pairs[number][1].inuint()
                    await wait(timers[0][number], works[number])
                    got[number].append(word)
                    busy -= 1

                return isr

            async def main() -> None:
                for number in (1, 2):
                    setup_interrupt_callback(pairs[number][1], isr_of(number))
                    enable_trigger(pairs[number][1])
                await interrupt_unmask_all()
                for _ in range(count):
                    word = await pairs[0][1].inuint()
                    assert not busy
                    await wait(timers[0][0], works[0])
                    got[0].append(word)
                await wait(timers[0][0], 10_000)

            async def sends(number: int) -> None:
                for word, (pause, to) in enumerate(words):
                    if to == number:
                        await wait(timers[1][number], pause)
                        await pairs[number][0].outuint(word)

            for number in range(3):
                node.tiles[1].start(sends, number)
            _start(node, main)
        expected = [[word for word, (_, to) in enumerate(words) if to == number] for number in range(3)]
        assert got == expected

    simulated(program)()


@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "timed"])
def test_a_callback_comes_before_what_its_core_waits_for_however_late_both_are(
    classes: ResourceClasses,
) -> None:
    """As on a busy machine: the clock is past both times before anybody looks; Trio wakes in any order."""
    seen: list[str] = []
    clock = trio.testing.MockClock()

    async def main() -> None:
        async with open_node(classes=classes) as node:
            timer, own = node.tiles[0].allocate_timer(), node.tiles[0].allocate_timer()

            async def isr() -> None:
                seen.append("callback")
                disable_trigger(timer.after(0))

            async def waits(turn: int) -> None:
                event = timer.after(1_000_000 * turn + 199_999)
                setup_interrupt_callback(event, isr)
                enable_trigger(event)
                await own.wait_after(1_000_000 * turn + 299_999)
                seen.append("core")

            async def core() -> None:
                await interrupt_unmask_all()
                for turn in range(ROUNDS):
                    await waits(turn)

            node.tiles[0].start(interrupt_permitted(core), name="core")
            for _ in range(ROUNDS):
                await settle()
                clock.jump(0.01)
            await settle()

    trio.run(main, clock=clock)
    assert seen == ["callback", "core"] * ROUNDS


@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "timed"])
def test_a_callback_of_a_timed_port_comes_before_what_its_core_waits_for_however_late_both_are(
    classes: ResourceClasses,
) -> None:
    seen: list[str] = []
    clock = trio.testing.MockClock()

    async def main() -> None:
        async with open_node(classes=classes) as node:
            port, own = node.tiles[0].port("1A"), node.tiles[0].allocate_timer()

            async def isr() -> None:
                await port.in_()
                seen.append("callback")
                disable_trigger(port)

            async def core() -> None:
                port.enable()
                setup_interrupt_callback(port, isr)
                await interrupt_unmask_all()
                for turn in range(ROUNDS):
                    await port.set_trigger_time((1_000_000 * turn + 20_000) & 0xFFFF)
                    enable_trigger(port)
                    await own.wait_after(1_000_000 * turn + 40_000)
                    seen.append("core")

            node.tiles[0].start(interrupt_permitted(core), name="core")
            for _ in range(ROUNDS):
                await settle()
                clock.jump(0.01)
            await settle()

    trio.run(main, clock=clock)
    assert seen == ["callback", "core"] * ROUNDS
