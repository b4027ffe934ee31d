"""Traces in device time: a run of a model has its operators."""

from pathlib import Path

import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.board import Board
from aisrv.device.device import open_devices
from aisrv.inference.process.inline import inline
from aisrv.inference.timings import OperatorTime
from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.reading import Slice, TraceReader
from aisrv.monitor.trace.recording import TraceRecording
from aisrv.monitor.trace.sinks import FileSink
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command


def infer(path: Path, *, device_time: bool) -> tuple[list[Slice], tuple[OperatorTime, ...]]:
    """Run the digits once on virtual time; return the slices, and the operators as predicted."""

    async def run() -> tuple[OperatorTime, ...]:
        board = Board(device_time=device_time)
        with TraceRecording(FileSink(path), Detail.RUNS) as recording:
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


def test_without_it_a_run_has_none(tmp_path: Path) -> None:
    slices, _ = infer(tmp_path / "t", device_time=False)
    assert [each for each in slices if each.category == "operator"] == []
    assert [each.name for each in slices if each.name.startswith("invoke")] != []
