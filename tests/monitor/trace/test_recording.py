"""Traces in device time: a run of a model has its operators."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import trio
import trio.lowlevel
from trio.testing import MockClock

from aisrv import digits
from aisrv.board import Board
from aisrv.board.catalog import find_board
from aisrv.device.device import Device, open_devices
from aisrv.inference.process.inline import inline
from aisrv.inference.timings import OperatorTime
from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.reading import Slice, TraceReader
from aisrv.monitor.trace.recording import TICK_NS, TraceRecording
from aisrv.monitor.trace.sinks import FileSink
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command
from flash_server.image import DataPartition, EngineImage
from tests.support.peers.trace_processor import TraceProcessor


def infer(path: Path, *, device_time: bool, unit_ns: int = 1) -> tuple[list[Slice], tuple[OperatorTime, ...]]:
    """Run the digits once on virtual time; return the slices, and the operators as predicted."""

    async def run() -> tuple[OperatorTime, ...]:
        board = Board(device_time=device_time)
        with TraceRecording(FileSink(path), Detail.RUNS, unit_ns=unit_ns) as recording:
            tracers = [recording.tracer("1-1", device_time=device_time)]
            async with open_devices([board], runner=inline, tracers=tracers) as (device,):
                recording.add_outputs(0, device)
                await device.load_model(digits.model_bytes())
                await set_command(device.local[0], Command.START_INFER)
                return device.engines[0].inference.operator_times

    times = trio.run(run, clock=MockClock(autojump_threshold=0))
    return list(TraceReader(path).slices()), times


def test_in_device_time_a_run_has_its_operators_with_what_they_are_charged(tmp_path: Path) -> None:
    slices, times = infer(tmp_path / "t", device_time=True)
    operators = sorted((each for each in slices if each.category == "operator"), key=lambda each: each.start)
    assert [each.name for each in operators] == [each.name for each in times]
    assert [each.arguments["ticks"] for each in operators] == [each.ticks for each in times]
    (run,) = (each for each in slices if each.name.startswith("invoke"))
    assert (operators[0].start, operators[-1].end) == (run.start, run.end)
    charged = sum(each.end - each.start for each in operators)
    assert 0 <= charged - 10 * sum(each.ticks for each in times) < 10  # a run ends at a whole tick


def test_in_ticks_the_sums_by_name_are_what_is_charged(tmp_path: Path) -> None:
    slices, times = infer(tmp_path / "t", device_time=True, unit_ns=TICK_NS)
    shown: Counter[str] = Counter()
    charged: Counter[str] = Counter()
    for each in slices:
        if each.category == "operator":
            shown[each.name] += each.end - each.start
    for operator in times:
        charged[operator.name] += TICK_NS * operator.ticks
    rounded_up = shown.total() - charged.total()  # a run ends at a whole tick
    assert rounded_up in (0, TICK_NS)
    late = {name: shown[name] - charged[name] for name in shown.keys() | charged.keys()}
    assert all(0 <= each <= rounded_up for each in late.values()), late


def test_a_trace_in_ticks_has_the_times_of_one_in_nanoseconds(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    fine, _ = infer(tmp_path / "fine", device_time=True)
    ticks, _ = infer(tmp_path / "ticks", device_time=True, unit_ns=TICK_NS)
    times = [
        sorted((each.name, each.start, each.end) for each in some if each.category != "operator")
        for some in (fine, ticks)
    ]
    assert times[0] == times[1]
    assert (tmp_path / "ticks").stat().st_size < (tmp_path / "fine").stat().st_size
    (shown,) = trace_processor.query(
        tmp_path / "ticks",
        "select name, ts, ts + dur from slice where category not in ('operator', 'run')",
    )
    assert sorted(shown) == times[1]


def test_without_it_a_run_has_none(tmp_path: Path) -> None:
    slices, _ = infer(tmp_path / "t", device_time=False)
    assert [each for each in slices if each.category == "operator"] == []
    assert [each.name for each in slices if each.name.startswith("invoke")] != []


def parts(path: Path, board: Board, program: Callable[[Device], Awaitable[object]]) -> TraceReader:
    """Trace a device in device time while a program uses it."""

    async def run() -> None:
        with TraceRecording(FileSink(path), Detail.COMMANDS) as recording:
            tracers = [recording.tracer("1-1", device_time=True)]
            async with open_devices([board], runner=inline, tracers=tracers) as (device,):
                recording.add_outputs(0, device)
                await program(device)

    trio.run(run, clock=MockClock(autojump_threshold=0))
    return TraceReader(path)


def of_track(reader: TraceReader, name: str) -> list[tuple[str, object, int]]:
    """Slices of a track: name, bytes, nanoseconds."""
    found = list(reader.slices())
    tracks = {number for number, track in reader.tracks.items() if track.name == name}
    own = [each for each in found if each.track in tracks]
    return [(each.name, each.arguments["bytes"], each.end - each.start) for each in own]


def test_a_flash_chip_has_a_track_of_its_operations(tmp_path: Path) -> None:
    async def program(device: Device) -> None:
        await device.loaders[0].write_data(0, bytes(256))
        await device.loaders[0].read_data(0, 100)

    reader = parts(tmp_path / "t", replace(find_board("with-flash"), device_time=True), program)
    operations = of_track(reader, "flash 0")
    kinds = [name for name, _, _ in operations]
    assert {"read", "erase", "program"} <= set(kinds)
    assert kinds.index("erase") < kinds.index("program")
    assert ("read", 100) in [(name, size) for name, size, _ in operations]
    part = find_board("with-flash").flashes[0].part
    erased = next(took for name, _, took in operations if name == "erase")
    assert erased >= part.erases[0].seconds * 1e9


def test_windows_on_flash_have_counters_of_hits_and_misses(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    async def program(device: Device) -> None:
        image = DataPartition((EngineImage(digits.model_bytes(), None, None, bytes(4096)),))
        await device.loaders[0].write_data(0, image.build())
        await device.loaders[0].reload()
        window = await device.open_window(0)
        for address in (0, 4, 8, 1024):
            await window.read(address, 4)
        await window.read(0, 4)

    parts(tmp_path / "t", replace(find_board("with-flash"), device_time=True), program)
    hits, misses = (
        [value for (value,) in rows]
        for rows in trace_processor.query(
            tmp_path / "t",
            *(
                "select value from counter join counter_track t on track_id = t.id "
                f"where t.name = 'cache {name}' order by counter.id"
                for name in ("hits", "misses")
            ),
        )
    )
    assert (hits[-1], misses[-1]) == (3.0, 2.0)  # what came after the last operation of the chip, too
    assert (hits[0], misses[0]) == (2.0, 1.0)  # as the chip is read for the second miss


def test_exposures_have_a_track_and_dropped_frames_a_counter(tmp_path: Path) -> None:
    async def program(device: Device) -> None:
        await set_command(device.local[0], Command.SET_MODEL_ARENA, 0, digits.model_bytes())
        await trio.sleep(0.2)

    board = replace(find_board("camera"), device_time=True)
    exposures = of_track(parts(tmp_path / "t", board, program), "exposures")
    assert len(exposures) in (5, 6, 7)  # at 30 a second
    assert {(name, size) for name, size, _ in exposures} == {("exposure", 640 * 480)}


def test_leds_have_their_level_from_the_beginning(tmp_path: Path, trace_processor: TraceProcessor) -> None:
    async def program(_device: Device) -> None:
        await trio.lowlevel.checkpoint()

    parts(tmp_path / "t", Board(device_time=True), program)
    ((levels,),) = trace_processor.query(
        tmp_path / "t",
        "select count(*) from counter join counter_track t on track_id = t.id "
        "where t.name like '%led%' and ts = 0",
    )
    assert levels == (4,)
