"""Sums of a trace that was written by hand, and the path of a command through three cores."""

from pathlib import Path

import pytest

from aisrv.monitor.trace.reading import TraceError
from aisrv.monitor.trace.sinks import FileSink
from aisrv.monitor.trace.summary import NOBODY, Step, as_json, summarize
from aisrv.monitor.trace.writer import TraceWriter


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A command of 100 ns on `a`, which waits for `b`, which waits for `c`."""
    with FileSink(tmp_path / "t") as sink:
        writer = TraceWriter(sink, unit_ns=1)
        process = writer.process(1, "1-1")
        a, b, c = (writer.thread(process, 1, tid, name) for tid, name in enumerate("abc", 1))
        bus = writer.track(process, "usb IN 1")
        writer.begin(c, 0, "in on timer", "wait")
        writer.begin(b, 0, "in from c", "wait")
        writer.begin(a, 100, "INFER", "command")
        writer.begin(a, 120, "in from b", "wait")
        writer.end(c, 140)
        writer.end(b, 150, {"woken by": "c"})
        writer.begin(bus, 155, "bulk IN", "usb", {"bytes asked for": 512})
        writer.begin(c, 155, "in on timer", "wait")
        writer.end(bus, 165, {"status": "OKAY", "bytes": 7})
        writer.end(a, 180, {"woken by": "b"})
        writer.end(a, 200)
        writer.begin(a, 210, "GET", "command")
        writer.end(a, 220)
        writer.instant(b, 230, "trap LINK_ERROR", "trap", {"reason": "because"})
        writer.end(c, 300)
    return tmp_path / "t"


def test_times_of_cores_and_commands(trace: Path) -> None:
    found = summarize(trace)
    assert (found.start, found.end, found.is_cut) == (0, 300, False)
    assert [(each.name, each.waiting, each.commands) for each in found.cores] == [
        ("a", 60, 110),
        ("b", 150, 0),
        ("c", 285, 0),
    ]
    assert dict(found.waits) == {("1-1", "a", "b"): 60, ("1-1", "b", "c"): 150, ("1-1", "c", NOBODY): 285}
    assert [(each.name, each.count, each.total) for each in found.commands] == [
        ("INFER", 1, 100),
        ("GET", 1, 10),
    ]
    assert found.transfers == {("1-1", "usb IN 1"): (1, 7, 10)}
    assert found.traps == [(230, "b", "because")]


def test_the_path_goes_back_through_who_ended_each_wait(trace: Path) -> None:
    assert summarize(trace).steps == [
        Step("c", "in on timer", 100, 140),
        Step("c", "runs", 140, 150),
        Step("b", "runs", 150, 180),
        Step("a", "runs", 180, 200),
    ]


def test_steps_fill_the_command(trace: Path) -> None:
    found = summarize(trace, "INFER")
    assert sum(each.end - each.start for each in found.steps) == 100
    assert summarize(trace, "GET").steps == [Step("a", "runs", 210, 220)]


def test_a_command_that_is_not_there(trace: Path) -> None:
    with pytest.raises(TraceError, match=r"no command LOAD in it; there are: INFER, GET$"):
        summarize(trace, "LOAD")


def test_json_has_all_of_it(trace: Path) -> None:
    found = as_json(summarize(trace))
    assert found["path"] == {
        "command": "INFER",
        "start_ns": 100,
        "ns": 100,
        "steps": [
            {"core": "c", "what": "in on timer", "start_ns": 100, "ns": 40},
            {"core": "c", "what": "runs", "start_ns": 140, "ns": 10},
            {"core": "b", "what": "runs", "start_ns": 150, "ns": 30},
            {"core": "a", "what": "runs", "start_ns": 180, "ns": 20},
        ],
    }
    assert found["cores"][0] == {"device": "1-1", "core": "a", "waiting_ns": 60, "commands_ns": 110}
