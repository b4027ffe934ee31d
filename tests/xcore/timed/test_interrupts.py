"""Interrupts in device time: when callbacks begin and end, to the clock, and what waits meanwhile.

600 clocks are a microsecond. The wrapper of a callback takes 14 slots before its function and 8 after it: 70
and 40 clocks.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import trio
import trio.testing

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.interrupts.api import (
    disable_trigger,
    enable_trigger,
    interrupt_mask_all,
    interrupt_permitted,
    interrupt_unmask_all,
    setup_interrupt_callback,
)
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.select import Event, select
from aisrv.xcore.tile import Tile
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.traps import Deadlock, TrapKind
from tests.support.benches.port_boards import block, enabled
from tests.support.benches.simulation import simulated, sole_error
from tests.support.oracles.past_timeline import Scheduled

if TYPE_CHECKING:
    from aisrv.xcore.timed.timeline import Timeline

Main = Callable[[], Awaitable[object]]
BEFORE, AFTER = 70, 40


class Board:
    """A node, whose core 0 of tile 0 may be interrupted, and what was seen at which clocks."""

    def __init__(self, node: Node) -> None:
        self.node = node
        timeline = timeline_of(node.runtime)
        assert timeline is not None
        self.timeline: Timeline = timeline
        self.seen: list[tuple[Any, int]] = []
        self.begin = 0
        """The tick from which on ticks and clocks count."""

    @property
    def tile(self) -> Tile:
        return self.node.tiles[0]

    def see(self, what: object) -> None:
        self.seen.append((what, self.timeline.now() - self.timeline.clock_at(self.begin)))

    def start(self, main: Main) -> None:
        self.tile.start(interrupt_permitted(main), name="main")

    def words(self, *ticks: int) -> ChanEnd:
        """Return an end of tile 0 to which a core of tile 1 outputs a byte at each tick."""
        a, b = self.node.channel(self.node.tiles[1], self.tile)
        self.output_at(a, *ticks)
        return b

    def output_at(self, end: ChanEnd, *ticks: int) -> None:
        """Have a core of tile 1 output a byte at each tick."""

        async def other() -> None:
            timer = self.node.tiles[1].allocate_timer()
            for number, tick in enumerate(ticks):
                await timer.wait_after(self.begin + tick - 1)
                await end.outuchar(number)

        self.node.tiles[1].start(other, name="other")

    async def interrupt_at(self, tick: int, *, work: int = 0) -> None:
        """Have a timer interrupt the running core once, in a callback that works for so many clocks."""
        event = self.tile.allocate_timer().after(tick - 1)

        async def isr() -> None:
            self.see("isr")
            disable_trigger(event)
            self.timeline.charge(work - 5)  # as that takes a slot

        await self.interrupted_by(event, isr)

    @staticmethod
    async def interrupted_by(event: Event, isr: Main) -> None:
        setup_interrupt_callback(event, isr)
        enable_trigger(event)
        await interrupt_unmask_all()


def seen_on_board(program: Callable[[Board], Awaitable[None]]) -> list[tuple[Any, int]]:
    """Return what a program has seen, and at which clocks."""
    seen: list[tuple[Any, int]] = []

    @simulated
    async def run() -> None:
        async with open_node(classes=TIMED) as node:
            board = Board(node)
            board.seen = seen
            await program(board)

    run()
    return seen


# While the core waits.


def test_a_timer_interrupts_a_core_that_waits_in_an_input_at_its_tick() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)

        async def main() -> None:
            await board.interrupt_at(500, work=600)
            await end.inuchar()
            board.see("main")

        board.start(main)

    # A route and a byte: 48 + 10.
    assert seen_on_board(program) == [("isr", 3000 + BEFORE), ("main", 6000 + 58)]


def test_what_comes_while_a_callback_runs_is_taken_as_it_has_returned() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)

        async def main() -> None:
            await board.interrupt_at(990, work=600)
            await end.inuchar()
            board.see("main")

        board.start(main)

    begun = 5940 + BEFORE
    assert seen_on_board(program) == [("isr", begun), ("main", begun + 600 + AFTER)]


def test_an_event_of_a_channel_end_is_there_at_the_clock_of_its_token() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)
        waits = board.words(2000)

        async def isr() -> None:
            board.see(await end.inuchar())

        async def main() -> None:
            await board.interrupted_by(end, isr)
            await waits.inuchar()
            board.see("main")

        board.start(main)

    assert seen_on_board(program) == [(0, 6058 + BEFORE), ("main", 12058)]


def test_a_callback_of_a_port_begins_at_the_tick_of_its_sample() -> None:
    async def program(board: Board) -> None:
        port = enabled(board.tile, "1A")
        port.pins[0].drive_run([0, 1], 0, 700, Peripheral())
        end = board.words(1000)

        async def isr() -> None:
            board.see(await port.in_())
            disable_trigger(port)

        async def main() -> None:
            port.set_trigger_in_equal(1)
            await board.interrupted_by(port, isr)
            await end.inuchar()
            board.see("main")

        board.start(main)

    # It is sampled at tick 701; an input takes a slot.
    assert seen_on_board(program) == [(1, 4206 + BEFORE + 5), ("main", 6058)]


class Peripheral:
    """Drives pins from outside."""

    name = "peripheral"


def test_a_select_is_interrupted_and_takes_its_event_after_the_callback() -> None:
    async def program(board: Board) -> None:
        end, other = board.words(1000), board.words(1001)

        async def main() -> None:
            await board.interrupt_at(998, work=300)
            assert await select(end, other, ordered=True) is end
            board.see("main")

        board.start(main)

    begun = 5988 + BEFORE
    assert seen_on_board(program) == [("isr", begun), ("main", begun + 300 + AFTER)]


@pytest.mark.parametrize(
    ("tick", "begun", "last"),
    [(500, 3000 + BEFORE, 5430), (900, 5400 + BEFORE, 5400 + BEFORE + 600 + AFTER)],
)
def test_an_output_of_a_port_is_interrupted_and_its_edges_stay_where_they_are(
    tick: int, begun: int, last: int
) -> None:
    async def program(board: Board) -> None:
        clock = block(board.tile, 50)  # a period of 100 ticks
        port = enabled(board.tile, "1A", clock, buffered=8)

        async def main() -> None:
            await board.interrupt_at(tick, work=600)
            clock.start()
            for _ in range(3):
                await port.out(0b01010101)
                board.see("out")
            await port.sync()
            board.see("sync")

        board.start(main)
        await trio.sleep(0.0001)
        assert [port.pins[0].value(at) for at in range(150, 2550, 100)] == [1, 0] * 12

    # Words are loaded at ticks 105 and 905.
    outputs = [("out", 30), ("out", 630), ("isr", begun), ("out", last)]
    assert seen_on_board(program) == [*outputs, ("sync", 15030)]


def test_a_lock_and_a_timer_are_waited_for_on() -> None:
    async def program(board: Board) -> None:
        lock = board.tile.allocate_lock()
        timer, own = board.tile.allocate_timer(), board.tile.allocate_timer()

        async def holder() -> None:
            await lock.acquire()
            await timer.wait_after(999)
            lock.release()

        async def main() -> None:
            await own.wait_after(99)
            await board.interrupt_at(500, work=600)
            await lock.acquire()
            board.see("lock")
            await board.interrupt_at(1500, work=600)
            await own.wait_after(1549)
            board.see("timer")

        board.tile.start(holder)
        board.start(main)

    assert seen_on_board(program) == [
        ("isr", 3000 + BEFORE),
        ("lock", 6000 + 5),
        ("isr", 9000 + BEFORE),
        ("timer", 9000 + BEFORE + 600 + AFTER),
    ]


def test_a_verb_on_a_channel_end_goes_on_after_the_callback_and_so_does_its_other_side() -> None:
    async def program(board: Board) -> None:
        c, d = board.node.channel(board.node.tiles[1], board.tile)

        async def other() -> None:
            await board.node.tiles[1].allocate_timer().wait_after(999)
            await chan_out_word(c, 7)
            board.see("other")

        async def main() -> None:
            await board.interrupt_at(998, work=600)
            board.see(await chan_in_word(d))

        board.node.tiles[1].start(other)
        board.start(main)

    # The first of four END crosses during the callback; three routes and four transfers are left.
    end = 5988 + BEFORE + 600 + AFTER + 3 * 48 + 4 * 10
    assert seen_on_board(program) == [("isr", 5988 + BEFORE), (7, end), ("other", end)]


def test_a_callback_may_wait_itself() -> None:
    async def program(board: Board) -> None:
        end, waits = board.words(1000, 3000), board.words(2000)

        async def isr() -> None:
            for _ in range(2):
                board.see(await end.inuchar())

        async def main() -> None:
            await board.interrupted_by(end, isr)
            await waits.inuchar()
            board.see("main")

        board.start(main)

    assert seen_on_board(program) == [(0, 6058 + BEFORE), (1, 18010), ("main", 18010 + AFTER)]


def test_a_core_counts_as_running_while_its_callback_does() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)

        async def main() -> None:
            await board.interrupt_at(500, work=600)
            await end.inuchar()

        board.start(main)
        for tick in (400, 550, 800):
            await trio.sleep_until(board.node.clock.deadline(tick))
            board.see(board.timeline.running[0])

    assert seen_on_board(program) == [(0, 2400), ("isr", 3000 + BEFORE), (1, 3300), (0, 4800)]


# Between verbs.


def _outputs_to_nobody(board: Board) -> ChanEnd:
    end = board.tile.allocate_chanend()
    end.setd(0x80011F02)
    return end


def test_a_core_that_does_not_wait_is_interrupted_between_two_verbs() -> None:
    async def program(board: Board) -> None:
        end = _outputs_to_nobody(board)

        async def main() -> None:
            await board.interrupt_at(100)
            board.see("main")
            for _ in range(58):
                await end.outuint(0)
            await end.outuint(0)
            board.see("after")

        board.start(main)

    begun = 600 + BEFORE
    assert seen_on_board(program) == [("main", 20), ("isr", begun), ("after", begun + AFTER + 10)]


def test_a_verb_is_done_before_a_callback_begins() -> None:
    async def program(board: Board) -> None:
        end = _outputs_to_nobody(board)

        async def main() -> None:
            await board.interrupt_at(100)
            await end.outwords(bytes(4 * 100))
            board.see("main")

        board.start(main)

    done = 20 + 100 * 20
    assert seen_on_board(program) == [("isr", done + BEFORE), ("main", done + BEFORE + AFTER)]


def test_a_verb_is_done_that_begins_before_an_event_of_a_core_that_is_ahead() -> None:
    async def program(board: Board) -> None:
        a, b = board.node.channel(board.node.tiles[1], board.tile)
        end = _outputs_to_nobody(board)

        async def isr() -> None:
            board.see(await b.inuchar())

        async def main() -> None:
            await board.interrupted_by(b, isr)
            await end.outwords(bytes(4 * 100))

        async def ahead() -> None:
            board.timeline.charge(600)
            await a.outuchar(1)

        async def other() -> None:
            await board.node.tiles[1].allocate_timer().wait_after(199)
            board.see("other")

        board.start(main)
        for core in (ahead, other):
            board.node.tiles[1].start(core)

    assert seen_on_board(program) == [("other", 1200), (1, 15 + 100 * 20 + BEFORE)]


def test_an_interrupt_that_the_core_itself_raises_comes_as_its_verb_is_done() -> None:
    async def program(board: Board) -> None:
        a, b = board.node.channel(board.tile, board.tile)

        async def isr() -> None:
            board.see(await b.inuchar())

        async def main() -> None:
            await board.interrupted_by(b, isr)
            for number in range(2):
                await a.outuchar(number)
                board.see("main")

        board.start(main)

    turn = 10 + BEFORE + AFTER
    begun = 15 + 10 + BEFORE
    assert seen_on_board(program) == [
        (0, begun),
        ("main", begun + AFTER),
        (1, begun + turn),
        ("main", begun + AFTER + turn),
    ]


def test_an_event_that_is_there_as_it_is_enabled_comes_before_the_next_verb() -> None:
    async def program(board: Board) -> None:
        a, b = board.node.channel(board.tile, board.tile)

        async def isr() -> None:
            board.see(await b.inuchar())

        async def main() -> None:
            await a.outuchar(1)
            setup_interrupt_callback(b, isr)
            await interrupt_unmask_all()
            enable_trigger(b)
            board.see("enabled")
            await _outputs_to_nobody(board).outuchar(2)
            board.see("main")

        board.start(main)

    # The end that is allocated, its destination and the output: 5 + 5 + 10.
    begun = 25 + 10 + BEFORE
    assert seen_on_board(program) == [("enabled", 25), (1, begun), ("main", begun + AFTER + 10)]


# Masks, and several at once.


def test_nothing_interrupts_while_masked_and_unmasking_runs_what_is_due() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)

        async def main() -> None:
            await board.interrupt_at(500, work=600)
            interrupt_mask_all()
            await end.inuchar()
            board.see("main")
            await interrupt_unmask_all()
            board.see("end")

        board.start(main)

    begun = 6058 + 5 + BEFORE
    assert seen_on_board(program) == [("main", 6058), ("isr", begun), ("end", begun + 600 + AFTER)]


def test_unmasking_runs_what_came_while_the_core_was_ahead() -> None:
    async def program(board: Board) -> None:
        end, nobody = board.words(400), _outputs_to_nobody(board)

        async def isr() -> None:
            board.see(await end.inuchar())

        async def main() -> None:
            setup_interrupt_callback(end, isr)
            enable_trigger(end)
            for _ in range(500):
                await nobody.outuchar(0)
            await interrupt_unmask_all()
            board.see("unmasked")

        board.start(main)

    begun = 10 + 500 * 10 + 5 + BEFORE
    assert seen_on_board(program) == [(0, begun), ("unmasked", begun + AFTER)]


def test_at_the_tick_at_which_the_core_has_waited_long_enough_the_interrupt_comes_first() -> None:
    async def program(board: Board) -> None:
        own = board.tile.allocate_timer()
        event = board.tile.allocate_timer().after(499)

        async def isr() -> None:
            board.see("isr")
            if len(board.seen) == 1:
                event.change(999)
            else:
                disable_trigger(event)

        async def main() -> None:
            await board.interrupted_by(event, isr)
            await own.wait_after(999)
            board.see("main")

        board.start(main)

    begun = 6000 + BEFORE
    assert seen_on_board(program) == [("isr", 3000 + BEFORE), ("isr", begun), ("main", begun + 5 + AFTER)]


def test_of_two_at_one_tick_the_one_set_up_first_is_first() -> None:
    async def program(board: Board) -> None:
        end, first, second = board.words(2000), board.words(1000), board.words(1000)

        async def isr_of_first() -> None:
            board.see(("first", await first.inuchar()))

        async def isr_of_second() -> None:
            board.see(("second", await second.inuchar()))

        async def main() -> None:
            setup_interrupt_callback(first, isr_of_first)
            setup_interrupt_callback(second, isr_of_second)
            enable_trigger(second)
            enable_trigger(first)
            await interrupt_unmask_all()
            await end.inuchar()
            board.see("main")

        board.start(main)

    begun = 6058 + BEFORE
    assert seen_on_board(program) == [
        (("first", 0), begun),
        (("second", 0), begun + AFTER + BEFORE),
        ("main", 12058),
    ]


def test_a_timer_whose_time_is_changed_interrupts_at_that() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)
        event = board.tile.allocate_timer().after(899)

        async def isr() -> None:
            board.see("isr")
            if len(board.seen) == 1:
                event.change(799)
            else:
                disable_trigger(event)

        async def main() -> None:
            await board.interrupted_by(event, isr)
            event.change(499)
            await end.inuchar()
            board.see("main")

        board.start(main)

    assert seen_on_board(program) == [("isr", 3000 + BEFORE), ("isr", 4800 + BEFORE), ("main", 6058)]


# Faults and reports.


def test_an_error_of_a_callback_halts_its_core_at_its_tick() -> None:
    @simulated
    async def run() -> None:
        async with open_node(classes=TIMED, on_trap="halt") as node:
            board = Board(node)
            end, waits = board.words(1000), board.words(2000)

            async def isr() -> None:
                await end.inuchar()
                await waits.inuchar()

            async def main() -> None:
                await board.interrupted_by(end, isr)
                await waits.inuchar()

            board.start(main)
            await trio.sleep_until(node.clock.deadline(1025))
            (core,) = board.tile.cores
            assert core.trap is not None
            assert core.trap.kind is TrapKind.RESOURCE_DEP
            assert core.trap.reason == (
                "inuchar on chanend 0x80000102 while tile 0 core 0 (main) is in inuchar on it"
            )

    run()


def test_a_report_of_a_deadlock_shows_the_callback() -> None:
    async def program(board: Board) -> None:
        end = board.words(1000)
        a, nothing = board.node.channel(board.node.tiles[1], board.tile)
        a.assign(board.node.tiles[1].start(trio.lowlevel.checkpoint, name="silent"))

        async def isr() -> None:
            await end.inuchar()
            await end.inuchar()

        async def main() -> None:
            await board.interrupted_by(end, isr)
            await nothing.inuchar()

        board.start(main)

    with pytest.raises(ExceptionGroup) as error:
        seen_on_board(program)
    assert str(sole_error(error.value, Deadlock)).splitlines()[1:] == [
        (
            "  tile 0 core 0 (main): inuchar on chanend 0x80000102 (destination 0x80010102, 0 tokens "
            "buffered, fed by chanend 0x80010102 of tile 1 core 1 (silent), which has ended)"
        ),
        (
            "  tile 0 core 0 (main, isr in inuchar): inuchar on chanend 0x80000002 (destination 0x80010002, "
            "0 tokens buffered, fed by chanend 0x80010002 of tile 1 core 0 (other), which has ended, whose "
            "route is open)"
        ),
    ]


# Order.


async def _many_interrupts(board: Board) -> None:
    """Two callbacks that take their time interrupt a core; one of tile 1 starts those that output."""
    generator = Random(7)
    ticks = [sorted(generator.sample(range(100, 4000), 12)) for _ in range(3)]
    channels = [board.node.channel(board.node.tiles[1], board.tile) for _ in range(3)]
    ends = [channel.b for channel in channels]
    nobody = _outputs_to_nobody(board)

    def isr_of(number: int) -> Main:
        async def isr() -> None:
            board.see((number, await ends[number].inuchar()))
            board.timeline.charge(generator.randrange(500))

        return isr

    async def main() -> None:
        for number in range(2):
            setup_interrupt_callback(ends[number], isr_of(number))
            enable_trigger(ends[number])
        await interrupt_unmask_all()
        for _ in range(12):
            board.see(await ends[2].inuchar())
            await nobody.outwords(bytes(4 * generator.randrange(1, 30)))

    async def start() -> None:
        board.begin = board.timeline.tick_of(board.timeline.now())
        for channel, its_ticks in zip(channels, ticks, strict=True):
            board.output_at(channel.a, *its_ticks)

    board.start(main)
    board.node.tiles[1].start(start)


def test_equal_programs_have_equal_ticks_in_whichever_order_trio_runs_tasks() -> None:
    traces = []
    for seed in range(10):
        with patch("trio._core._run._r", Random(seed)):
            traces.append(seen_on_board(_many_interrupts))
    assert len(traces[0]) == 36
    assert traces == traces[:1] * 10


def test_on_a_live_clock_callbacks_are_never_early() -> None:
    seen: list[tuple[Any, int]] = []

    async def run() -> None:
        async with open_node(classes=TIMED) as node:
            board = Board(node)
            end, waits = board.words(300_000, 400_000, 500_000), board.words(3_000_000)

            async def isr() -> None:
                board.see(await end.inuchar())

            async def main() -> None:
                await board.interrupted_by(end, isr)
                await waits.inuchar()
                board.see("main")

            board.start(main)
        seen.extend(board.seen)

    trio.run(run)
    assert [what for what, _ in seen] == [0, 1, 2, "main"]
    due = [6 * tick + 10 + BEFORE for tick in (300_000, 400_000, 500_000)]
    assert all(clock >= at for (_, clock), at in zip(seen, due, strict=False))


def test_no_core_runs_on_past_the_timeline() -> None:
    scheduled = Scheduled()
    past = []

    async def run() -> None:
        async with open_node(classes=TIMED) as node:
            board = Board(node)
            await _many_interrupts(board)
            await trio.sleep_until(node.clock.deadline(3900))
            past.append(set(scheduled.past))

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[scheduled])
    assert past == [set()]
    assert scheduled.turns > 100
