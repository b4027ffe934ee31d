"""Events of a node: slices with their times, arrows that join, and a run that is the same with a trace."""

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock

from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.device_tracer import MOST_RUNS, DeviceTracer
from aisrv.monitor.trace.reading import Slice, TraceReader
from aisrv.monitor.trace.recording import ChipTime, LiveTime, TraceClock
from aisrv.monitor.trace.sinks import FileSink, MemorySink
from aisrv.monitor.trace.writer import TraceWriter
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.probes import DataType, Probe, ProbeEvent, ProbeKind, Value
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timer import Timer
from tests.support.amounts import amount
from tests.support.oracles.substrate import substrate
from tests.support.oracles.substrate.programs import (
    Program,
    contended_program,
    matching_program,
    served_program,
)
from tests.support.peers.trace_processor import TraceProcessor

PERIOD = 1_000


class At:
    """An event clock that stands still."""

    def __init__(self, time: int) -> None:
        self._time = time

    def begin(self, tick: int) -> None:
        """Need nothing."""

    def at(self, _tick: int) -> int:
        return self._time


async def producer(c: ChanEnd, timer: Timer) -> None:
    for word in range(3):
        await timer.wait_after(timer.now() + PERIOD)
        await chan_out_word(c, word)


async def consumer(c: ChanEnd) -> None:
    for _ in range(3):
        await chan_in_word(c)


async def words(node: Node) -> None:
    a, b = node.channel(*node.tiles)
    node.tiles[0].start(producer, a, node.tiles[0].allocate_timer())
    node.tiles[1].start(consumer, b)
    await trio.sleep(1)


def record(path: Path, detail: Detail) -> None:
    """Trace a producer that is slow, and a consumer."""

    async def main() -> None:
        with FileSink(path) as sink:
            writer = TraceWriter(sink, unit_ns=1)
            process = writer.process(1, "device")
            tracer = DeviceTracer(writer, LiveTime(TraceClock()), process, 1, detail)
            async with open_node() as node:
                with node.tracing(tracer):
                    await words(node)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def slices_of(path: Path) -> tuple[TraceReader, list[Slice]]:
    reader = TraceReader(path)
    return reader, list(reader.slices())


def test_waits_have_their_time_and_who_ended_them(tmp_path: Path) -> None:
    record(tmp_path / "t", Detail.WAITS)
    reader, found = slices_of(tmp_path / "t")
    names = {number: track.name for number, track in reader.tracks.items()}
    waits = [
        (names[each.track], each.name, each.end - each.start, each.arguments.get("woken by"))
        for each in found
        if each.end - each.start
    ]
    # A timer is passed strictly after its time, so a period is a tick longer, and a tick is 10 ns.
    assert waits == 3 * [
        ("tile 0 core 0 (producer)", "in on timer 0x80000001", 10 * (PERIOD + 1), None),
        (
            "tile 1 core 0 (consumer)",
            "chan_in_word from tile 0 core 0 (producer)",
            10 * (PERIOD + 1),
            "tile 0 core 0 (producer)",
        ),
    ]


def test_levels_add_to_each_other(tmp_path: Path) -> None:
    sizes = []
    for detail in Detail:
        record(tmp_path / detail.name, detail)
        sizes.append((tmp_path / detail.name).stat().st_size)
    assert sizes == sorted(set(sizes))
    assert {each.category for each in slices_of(tmp_path / "RUNS")[1]} == {"wait"}
    assert {each.category for each in slices_of(tmp_path / "TOKENS")[1]} == {"wait", "verb"}


def test_equal_runs_are_equal_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
    for name in "ab":
        trio._core._run._r.seed(3)  # Trio shuffles by it
        record(tmp_path / name, Detail.TOKENS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_perfetto_takes_all_of_it_and_joins_the_arrows(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    record(tmp_path / "t", Detail.TOKENS)
    problems, threads, waits, flows, tokens = trace_processor.query(
        tmp_path / "t",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select thread.name, pid, tid from thread join process using (upid) where tid > 0 order by tid",
        "select sum(dur) from slice where category = 'wait' and name like '%timer%'",
        "select a.name, b.name, count(*) from flow join slice a on slice_out = a.id "
        "join slice b on slice_in = b.id group by 1, 2 order by 1",
        "select sum(value) from counter join counter_track t on track_id = t.id "
        "where t.name = 'running cores' and ts = 0",
    )
    assert problems == []
    assert [each for each in threads if "tile" in str(each[0])] == [
        ("tile 0 core 0 (producer)", 1, 1),
        ("tile 1 core 0 (consumer)", 1, 9),
    ]
    assert waits == [(3 * 10 * (PERIOD + 1),)]
    # A normal word: END there and back, four bytes with an END, and END back.
    assert flows == [("control 1", "input", 12), ("output", "input", 3)]
    assert len(tokens) == 1


def test_routes_between_tiles_are_counted_while_they_are_open(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    async def main() -> None:
        with FileSink(tmp_path / "t") as sink:
            writer = TraceWriter(sink, unit_ns=1)
            tracer = DeviceTracer(writer, LiveTime(TraceClock()), writer.process(1, "d"), 1, Detail.TOKENS)
            async with open_node() as node:
                with node.tracing(tracer):
                    pairs = [node.channel(*node.tiles) for _ in range(2)]
                    near, _ = node.channel(node.tiles[0], node.tiles[0])
                    for end in (*(a for a, _ in pairs), near):
                        await end.outuchar(1)
                    for a, _ in pairs:
                        await a.outct(1)
                node.stop()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    (counts,) = trace_processor.query(
        tmp_path / "t",
        "select t.name, value from counter join counter_track t on track_id = t.id "
        "where t.name like 'routes%' order by counter.id",
    )
    assert counts == [("routes from tile 0 to tile 1", value) for value in (1.0, 2.0, 1.0, 0.0)]


def test_probes_of_xscope_are_counters(tmp_path: Path, trace_processor: TraceProcessor) -> None:
    probes = (
        Probe("level", ProbeKind.CONTINUOUS, DataType.INT, "mV"),
        Probe("power", ProbeKind.CONTINUOUS, DataType.FLOAT, "W"),
        Probe("busy", ProbeKind.STARTSTOP, DataType.NONE),
    )
    records: list[tuple[int, ProbeEvent, Value]] = [
        (0, ProbeEvent.VALUE, 0xFFFFFFFB),
        (1, ProbeEvent.VALUE, 0.25),
        (2, ProbeEvent.START, None),
        (2, ProbeEvent.STOP, 9),
        (0, ProbeEvent.VALUE, b"abc"),
    ]

    async def main() -> None:
        with FileSink(tmp_path / "t") as sink:
            writer = TraceWriter(sink, unit_ns=1)
            tracer = DeviceTracer(writer, LiveTime(TraceClock()), writer.process(1, "d"), 1, Detail.COMMANDS)
            async with open_node() as node:
                node.runtime.xscope.configure(probes)
                with node.tracing(tracer):
                    for number, event, value in records:
                        node.runtime.xscope.record(1, number, event, value)
                node.stop()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    counts, problems = trace_processor.query(
        tmp_path / "t",
        "select t.name, value from counter join counter_track t on track_id = t.id order by counter.id",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    )
    assert counts == [
        ("level of tile 1", -5.0),
        ("power of tile 1", 0.25),
        ("busy of tile 1", 1.0),
        ("busy of tile 1", 0.0),
        ("level of tile 1", 3.0),
    ]
    assert problems == []


def test_a_trap_is_marked_with_its_reason(tmp_path: Path) -> None:
    async def bad(c: ChanEnd) -> None:
        await c.outuint(1)  # no destination

    async def main() -> None:
        with FileSink(tmp_path / "t") as sink:
            writer = TraceWriter(sink, unit_ns=1)
            tracer = DeviceTracer(writer, At(5), writer.process(1, "d"), 1, Detail.RUNS)
            async with open_node(on_trap="halt") as node:
                with node.tracing(tracer):
                    core = node.tiles[0].start(bad, node.tiles[0].allocate_chanend())
                    while core.trap is None:
                        await trio.testing.wait_all_tasks_blocked()
                node.stop()

    trio.run(main)
    reader, _ = slices_of(tmp_path / "t")
    ((at, track, name, reason),) = reader.traps
    assert (at, reader.tracks[track].name, name) == (5, "tile 0 core 0 (bad)", "trap LINK_ERROR")
    assert reason == "LINK_ERROR (1): output on chanend 0x80000002, which has no destination"


@pytest.mark.parametrize("seed", range(8))
def test_a_traced_run_is_the_run(seed: int, tmp_path: Path) -> None:
    def result(detail: Detail | None) -> tuple[object, ...]:
        seen: list[tuple[int, int]] = []

        async def source(c: ChanEnd, timer: Timer, number: int) -> None:
            chosen = random.Random(f"{seed} {number}")
            for word in range(12):
                if chosen.random() < 0.5:
                    await timer.wait_after(timer.now() + chosen.randrange(300))
                await chan_out_word(c, word)

        async def sink_of(c: ChanEnd, node: Node) -> None:
            seen.extend([(await chan_in_word(c), node.clock.ticks()) for _ in range(12)])

        async def main() -> tuple[object, ...]:
            with ExitStack() as stack:
                writer = TraceWriter(stack.enter_context(FileSink(tmp_path / "t")), unit_ns=1)
                async with open_node(seed=seed) as node:
                    if detail is not None:
                        tracer = DeviceTracer(writer, At(0), writer.process(1, "d"), 1, detail)
                        stack.enter_context(node.tracing(tracer))
                    for number in range(3):
                        a, b = node.channel(*node.tiles)
                        node.tiles[0].start(source, a, node.tiles[0].allocate_timer(), number)
                        node.tiles[1].start(sink_of, b, node)
                    await trio.sleep(1)
                    return sorted(seen), node.statistics()

        return trio.run(main, clock=MockClock(autojump_threshold=0))

    plain = result(None)
    assert not (tmp_path / "t").stat().st_size
    assert result(Detail.TOKENS) == plain
    assert len(slices_of(tmp_path / "t")[1]) > 100


DRAWS: Final = (matching_program, contended_program, served_program)


def went(program: Program, seed: int, classes: ResourceClasses, detail: Detail | None) -> Any:
    """Run a program with a scheduler that chooses the same each time.

    Returns answers and ends of the program, and its tick.
    """

    async def run() -> Any:
        tracer = None
        if detail is not None:
            writer = TraceWriter(MemorySink(1 << 20), unit_ns=1)
            clock = ChipTime(TraceClock()) if classes is TIMED else LiveTime(TraceClock())
            tracer = DeviceTracer(writer, clock, writer.process(1, "device"), 1, detail)
        found = await substrate.freely(program, random.Random(seed), tracer=tracer, classes=classes)
        return *found, trio.current_time()

    with patch("trio._core._run._r", random.Random(seed)):
        return trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.mark.in_full
@pytest.mark.parametrize("classes", [PLAIN, TIMED], ids=["plain", "timed"])
def test_a_trace_changes_nothing_in_random_programs(classes: ResourceClasses) -> None:
    for seed in range(amount(10_000, every_day=50)):
        program = DRAWS[seed % len(DRAWS)](random.Random(seed))
        detail = list(Detail)[seed // len(DRAWS) % len(Detail)]
        assert went(program, seed, classes, detail) == went(program, seed, classes, None), (seed, detail)


def test_withdrawn_tokens_have_no_arrow(tmp_path: Path) -> None:
    async def main() -> None:
        with FileSink(tmp_path / "t") as sink:
            writer = TraceWriter(sink, unit_ns=1)
            tracer = DeviceTracer(writer, At(0), writer.process(1, "d"), 1, Detail.RUNS)
            async with open_node() as node:
                a, b = node.channel(*node.tiles)
                with node.tracing(tracer):
                    with trio.move_on_after(0.01):
                        await a.outbytes(bytes(400))  # more than the buffers take
                    assert tracer._flight(b.resource_id).tokens == b.statistics().tokens_queued
                node.stop()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_in_device_time_an_event_is_at_its_tick() -> None:
    async def main() -> list[int]:
        clock = ChipTime(TraceClock())
        await trio.sleep(1)
        clock.begin(40)  # a second after the trace began
        return [clock.at(tick) for tick in (40, 41, 1_040, 0)]

    at = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert at == [1_000_000_000, 1_000_000_010, 1_000_010_000, 999_999_600]


def test_runs_that_nobody_takes_are_forgotten_where_they_are_too_many(tmp_path: Path) -> None:
    async def main() -> list[tuple[int, int]]:
        with FileSink(tmp_path / "trace") as sink:
            writer = TraceWriter(sink, unit_ns=1)
            process = writer.process(1, "device")
            tracer = DeviceTracer(writer, LiveTime(TraceClock()), process, 1, Detail.RUNS)
            async with open_node() as node:
                a, b = node.channel(*node.tiles)
                flight, seen = tracer._flight(b.resource_id), []
                for count in (1, MOST_RUNS - 1, 1, 1):
                    for _ in range(count):
                        tracer.output(a, bytes(2), 0)
                    seen.append((len(flight.runs), flight.tokens))
        return seen

    assert trio.run(main) == [(1, 2), (4_096, 8_192), (0, 0), (1, 2)]
