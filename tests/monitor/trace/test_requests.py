"""Requests lead to commands of their name, the oldest first."""

from pathlib import Path

from aisrv.monitor.trace.requests import MOST_PENDING, Requests
from aisrv.monitor.trace.sinks import FileSink
from aisrv.monitor.trace.writer import TraceWriter


def test_a_flow_ends_at_the_command_of_its_name(tmp_path: Path) -> None:
    with FileSink(tmp_path / "t") as sink:
        requests = Requests(TraceWriter(sink, unit_ns=1))
        assert [requests.ask(each) for each in ("A", "B", "A")] == [1, 2, 3]
        assert [requests.begin(each) for each in ("B", "A", "C", "A", "A")] == [2, 1, 0, 3, 0]


def test_requests_that_no_engine_gets_are_forgotten(tmp_path: Path) -> None:
    with FileSink(tmp_path / "t") as sink:
        requests = Requests(TraceWriter(sink, unit_ns=1))
        for _ in range(MOST_PENDING + 1):
            requests.ask("A")
        assert requests.begin("A") == 2
