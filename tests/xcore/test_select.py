"""Select: which case is taken, when, and how often the task wakes."""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.core import Core
from aisrv.xcore.node import open_node
from aisrv.xcore.runtime import MAX_VERBS_PER_TURN
from aisrv.xcore.select import Case, SelectError, Selection, select, select_or_default
from aisrv.xcore.tokens import Control
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import Bench, bench, drain, settle, simulated, tokens


def _sinks(test: Bench, count: int) -> tuple[list[ChanEnd], list[ChanEnd]]:
    pairs = [test.node.channel(*test.node.tiles) for _ in range(count)]
    return [pair.a for pair in pairs], [pair.b for pair in pairs]


@pytest.mark.parametrize("token", [b"\x01", 5])
@simulated
async def test_an_end_is_ready_when_one_token_is_buffered(token: bytes | int) -> None:
    async with bench() as (_node, a, b, _tasks):
        assert await select_or_default(b) is None
        await (a.outct(token) if isinstance(token, int) else a.outbytes(token))
        assert await select(b) is b


@simulated
async def test_a_select_consumes_nothing() -> None:
    async with bench() as (_node, a, b, _tasks):
        await a.outuchar(7)
        assert [await select(b), await select(b)] == [b, b]
        assert await drain(b) == tokens(b"\x07")


@simulated
async def test_pause_is_no_event() -> None:
    async with bench() as (_node, a, b, _tasks):
        await a.outct(Control.PAUSE)
        assert await select_or_default(b) is None


@simulated
async def test_a_select_waits_for_the_first_event() -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, 3)
        chosen = test.start(select, *sinks)
        await settle()
        assert not chosen.done
        await sources[1].outuchar(1)
        await settle()
        assert chosen.value() is sinks[1]


@simulated
@pytest.mark.parametrize("verb", ["outuint", "outuchar", "outct"])
async def test_a_token_over_a_route_that_is_open_wakes_a_select(verb: str) -> None:
    async with bench() as test:
        await test.a.outuint(1)
        await test.b.inuint()
        started = test.start(select, test.b)
        await settle()
        await getattr(test.a, verb)(5)
        await settle()
        assert started.value() is test.b


@simulated
async def test_of_several_ready_events_any_is_taken() -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, 3)
        for source in sources:
            await source.outct(Control.END)
        taken = Counter([sinks.index(await select(*sinks)) for _ in range(300)])  # type: ignore[arg-type]  # an end went in
        assert set(taken) == {0, 1, 2}
        assert min(taken.values()) > 50


@simulated
async def test_a_seeded_node_repeats_its_choices() -> None:
    runs = []
    for _ in range(2):
        async with open_node(seed=7) as node:
            pairs = [node.channel(*node.tiles) for _ in range(4)]
            for pair in pairs:
                await pair.a.outuchar(1)
            runs.append([(await select(*(pair.b for pair in pairs))).name for _ in range(50)])
            for pair in pairs:
                await pair.b.inuchar()
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4


@simulated
async def test_an_ordered_select_takes_the_first_ready_case() -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, 3)
        await sources[2].outuchar(1)
        await sources[1].outuchar(1)
        assert {await select(*sinks, ordered=True) for _ in range(50)} == {sinks[1]}


@simulated
async def test_an_ordered_select_that_parked_takes_whichever_comes_first() -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, 3)
        chosen = test.start(lambda: select(*sinks, ordered=True))
        await settle()
        await sources[2].outuchar(1)
        await sources[0].outuchar(1)  # in the same pass of the scheduler
        await settle()
        assert chosen.value() is sinks[2]


class _Wakes(Tracer):
    def __init__(self) -> None:
        self.wakes = 0

    def woken(self, core: Core, tick: int) -> None:
        self.wakes += 1


@pytest.mark.parametrize("count", [2, 4, 16])
@simulated
async def test_ends_that_become_ready_in_one_pass_wake_the_select_once(count: int) -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, count)
        received: list[int] = []

        async def server() -> None:
            left = list(sinks)
            while left:
                end = await select(*left)
                assert isinstance(end, ChanEnd)
                received.append(await end.inuchar())
                left.remove(end)

        wakes = _Wakes()
        with test.node.tracing(wakes):
            test.node.tiles[1].start(server)
            await settle()
            for number, source in enumerate(sources):
                await source.outuchar(number)
            await settle()
        assert sorted(received) == list(range(count))
        assert wakes.wakes == 1


@simulated
async def test_a_guard_that_is_false_leaves_its_case_out() -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, 2)
        for source in sources:
            await source.outuchar(1)
        cases = (Case(sinks[0], lambda: False), Case(sinks[1], lambda: True))
        assert {await select(*cases) for _ in range(20)} == {sinks[1]}


@simulated
async def test_guards_are_evaluated_each_time() -> None:
    async with bench() as test:
        sources, sinks = _sinks(test, 2)
        for source in sources:
            await source.outuchar(1)
        room = [True, False, True]
        seen = iter(room)
        cases = (Case(sinks[0], lambda: next(seen)), sinks[1])
        chosen = [await select(*cases, ordered=True) for _ in room]
        assert chosen == [sinks[0], sinks[1], sinks[0]]


@simulated
async def test_a_guard_is_not_evaluated_while_the_select_is_parked() -> None:
    async with bench() as test:
        evaluated: list[bool] = []

        def guard() -> bool:
            evaluated.append(len(evaluated) > 0)  # true from the second time
            return evaluated[-1]

        guarded, other = Case(test.b, guard), test.end()
        chosen = test.start(select, guarded, other)
        await settle()
        await test.a.outuchar(1)
        await settle()
        assert evaluated == [False]
        assert not chosen.done


async def test_a_loop_over_a_default_case_lets_others_run() -> None:
    async with bench() as test:

        async def engine() -> int:
            turns = 0
            while await select_or_default(test.b) is None:
                turns += 1
            return turns

        turns = test.start(engine)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert not turns.done
        await test.a.outuchar(1)
        await settle()
        assert turns.value() >= 9


@simulated
async def test_a_resource_may_stand_in_one_case_only() -> None:
    async with bench() as (node, _a, b, _tasks):
        timer = node.tiles[0].allocate_timer()
        for twice in ((b, b), (b, Case(b, lambda: False)), (timer.after(1), b, timer.after(2))):
            with pytest.raises(SelectError, match="a resource may stand in one case of a select only"):
                await select(*twice)
        with pytest.raises(SelectError):
            await select_or_default(b, b)


@simulated
async def test_a_second_core_that_selects_on_the_same_end_traps_and_leaves_the_first_alone() -> None:
    async with bench() as test:
        free = test.end()
        first = test.start(select, test.b)
        await settle()
        with pytest.raises(Trap) as trap:
            await select(free, test.b)
        assert trap.value.kind is TrapKind.RESOURCE_DEP
        assert trap.value.reason == "select on chanend 0x80010002 while task select is in a select on it"
        await test.a.outuchar(1)
        await settle()
        assert first.value() is test.b
        free.free()  # nor does anybody listen there


@simulated
async def test_a_select_on_an_end_in_a_verb_traps() -> None:
    async with bench() as test:
        test.start(test.b.inuint)
        await settle()
        with pytest.raises(Trap) as trap:
            await select(test.b)
        assert trap.value.kind is TrapKind.RESOURCE_DEP


@simulated
async def test_a_select_on_a_freed_end_traps() -> None:
    async with bench() as (_node, _a, b, _tasks):
        b.free()
        for verb in (select, select_or_default):
            with pytest.raises(Trap) as trap:
                await verb(b)
            assert trap.value.kind is TrapKind.ILLEGAL_RESOURCE
            assert trap.value.reason == "select on chanend 0x80010002, which was freed"


# With timers.


@simulated
async def test_a_timer_among_the_events_ends_the_wait() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        deadline = timer.after(timer.now() + 1000)
        assert await select(test.b, deadline) is deadline
        assert timer.now() == 1001


@simulated
async def test_the_earlier_of_two_timers_is_taken() -> None:
    async with bench() as test:
        one, other = (test.node.tiles[0].allocate_timer() for _ in range(2))
        late, early = one.after(2000), other.after(1000)
        assert await select(late, early) is early
        assert one.now() == 1001


@simulated
async def test_a_token_before_the_time_is_taken_and_the_timer_does_nothing_later() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        deadline = timer.after(1000)
        chosen = test.start(select, test.b, deadline)
        await test.node.tiles[0].allocate_timer().wait_after(500)
        await test.a.outuchar(1)
        await settle()
        assert chosen.value() is test.b
        assert timer.now() == 501
        word = test.start(test.b.inuint)
        await timer.wait_after(2000)
        assert not word.done  # and was not cancelled either
        await test.a.outbytes(b"\x02\x03\x04")
        await settle()
        assert word.value() == 0x01020304


@simulated
async def test_a_timer_that_has_passed_is_ready_at_once() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        await timer.wait_after(10)
        past = timer.after(10)
        assert await select_or_default(test.b, past) is past
        assert await select_or_default(test.b, timer.after(11)) is None


@simulated
async def test_an_ordered_select_puts_a_ready_end_before_a_passed_time() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        await timer.wait_after(10)
        await test.a.outuchar(1)
        assert {await select(test.b, timer.after(1), ordered=True) for _ in range(20)} == {test.b}


class _Hand:
    name = "hand"


async def _taken_of_one_tick(seed: int, *, ordered: bool = False) -> str:
    """Return which of two events was taken that come at one tick, while a core waits for both."""
    async with open_node(seed=seed) as node:
        tile = node.tiles[0]
        port, timer = tile.port("1A"), tile.allocate_timer()
        port.enable()
        port.set_trigger_in_equal(1)
        port.pins[0].drive(1, _Hand(), 99)  # the port samples it at the next tick
        chosen = await select(port, timer.after(99), ordered=ordered)
        assert node.clock.ticks() == 100
        return "port" if chosen is port else "timer"


@simulated
async def test_of_a_pin_and_a_timer_of_one_tick_any_is_taken() -> None:
    taken = Counter([await _taken_of_one_tick(seed) for seed in range(60)])
    assert set(taken) == {"port", "timer"}
    assert min(taken.values()) > 15


@simulated
async def test_an_ordered_select_takes_the_first_of_two_events_of_one_tick() -> None:
    assert {await _taken_of_one_tick(seed, ordered=True) for seed in range(20)} == {"port"}


@simulated
async def test_a_periodic_case_keeps_its_times_whatever_else_happens() -> None:
    async with bench() as test:
        timer = test.node.tiles[0].allocate_timer()
        sender = test.node.tiles[1].allocate_timer()
        due: list[int] = []
        bytes_taken = 0

        async def source() -> None:
            for number in range(100):
                await sender.wait_after(sender.now() + 37)
                await test.a.outuchar(number)

        test.start(source)
        time = timer.now()
        while len(due) < 10:
            event = await select(test.b, timer.after(time + 500))
            if event is test.b:
                await test.b.inuchar()
                bytes_taken += 1
            else:
                time += 500
                due.append(timer.now())
        assert due == [500 * n + 1 for n in range(1, 11)]
        assert bytes_taken == 100


def test_a_select_needs_a_case() -> None:
    with pytest.raises(SelectError, match="a select must have a case"):
        Selection()


@simulated
async def test_the_name_of_a_select_has_the_cases_that_are_enabled() -> None:
    async with bench() as test:
        assert Selection(test.a, Case(test.b, lambda: True)).name == f"{test.a.name} or {test.b.name}"
        assert Selection(test.a, Case(test.b, lambda: False)).name == test.a.name
        assert Selection(Case(test.b, lambda: False)).name == "no case whose guard holds"


@pytest.mark.parametrize("wait", [Selection.wait, Selection.wait_or_default])
def test_just_the_257th_select_in_a_row_passes_a_checkpoint(
    wait: Callable[[Selection], Awaitable[object]],
) -> None:
    @simulated
    async def run() -> None:
        async with bench() as test:
            await test.a.outuchar(1)  # the first verb
            selection = Selection(test.b)
            with assert_no_checkpoints():
                for _ in range(MAX_VERBS_PER_TURN - 1):
                    assert await wait(selection) is test.b
            with assert_checkpoints():
                assert await wait(selection) is test.b

    run()


async def test_the_default_case_passes_a_checkpoint() -> None:
    async with bench() as test:
        with assert_checkpoints():
            assert await select_or_default(test.b) is None


@simulated
async def test_an_event_ends_a_poll() -> None:
    """The second default in a row at one tick takes a microsecond."""
    async with bench() as test:
        selection = Selection(test.b)
        began = trio.current_time()
        assert await selection.wait_or_default() is None
        await test.a.outuchar(1)
        assert await selection.wait_or_default() is test.b
        await test.b.inuchar()
        assert await selection.wait_or_default() is None
        assert trio.current_time() == began
        assert await selection.wait_or_default() is None
        assert trio.current_time() == pytest.approx(began + 1e-6, abs=1e-9)


@simulated
async def test_a_poll_of_a_core_is_its_own() -> None:
    async with bench() as test:
        times: list[float] = []

        async def poll() -> None:
            assert await select_or_default(test.b) is None
            times.append(trio.current_time())

        began = trio.current_time()
        test.node.tiles[1].start(poll)
        await settle()
        test.node.tiles[1].start(poll)
        await settle()
        assert times == [began, began]
        assert await select_or_default(test.a) is None
        assert trio.current_time() == began


@simulated
async def test_a_wait_names_its_end_only_where_there_are_several() -> None:
    async with bench() as test:
        alone = test.b.explain_wait()
        assert Selection(test.b).explain_wait() == alone
        both = f"{test.a.name}: {test.a.explain_wait()}; {test.b.name}: {alone}"
        assert Selection(test.a, test.b).explain_wait() == both
