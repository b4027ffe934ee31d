"""Traces that were cut, or are none: what can be read is, and the rest is told in a line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.monitor.trace.packets import PACKET
from aisrv.monitor.trace.reading import LARGEST_PACKET, TraceError, TraceReader
from aisrv.monitor.trace.sinks import FileSink
from aisrv.values.protobuf import data, uint, varint
from tests.monitor.trace.test_sinks import fill
from tests.support.amounts import in_ci


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("trace") / "t"
    with FileSink(path) as sink:
        fill(sink, 20)
    return path.read_bytes()


def test_a_file_that_was_cut_has_what_came_before(trace: bytes, tmp_path: Path) -> None:
    counts = set()
    cuts = 0
    sizes = range(0, len(trace), in_ci(1, every_day=5))
    for size in sizes:
        path = tmp_path / "cut"
        path.write_bytes(trace[:size])
        reader = TraceReader(path)
        try:
            counts.add(len(list(reader.slices())))
        except TraceError as error:
            assert "no event of a track" in str(error)  # noqa: PT017 - only of the shortest
            assert size < 120
        cuts += reader.is_cut
    assert counts == set(range(1, 22)) | {0}
    assert cuts > len(sizes) * 0.8  # all others end with a packet


@given(st.data())
def test_bytes_that_changed_are_read_or_refused(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        with FileSink(path) as sink:
            fill(sink, 5)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            list(TraceReader(path).slices())
        except TraceError as error:
            assert str(error).startswith(str(path))  # noqa: PT017 - where it says so


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no event of a track in it"),
        (b"\x7fELF", "no trace: byte 0 begins no packet"),
        (PACKET + b"\xff" * 10, "the packet at byte 0 has no length"),
        (PACKET + varint(LARGEST_PACKET + 1), "the packet at byte 0 is too large: 1,048,577 bytes"),
        (PACKET + b"\1\7", "packet at byte 0: offset 0: wire type 7 of field 0 is not known"),
        (data(1, uint(11, 5)), "packet at byte 0: a field is no message"),
        (data(1, data(11, data(9, b"no number"))), "packet at byte 0: field 9 is no number"),
    ],
)
def test_what_is_no_trace(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TraceError) as caught:
        list(TraceReader(tmp_path / "t").slices())
    assert str(caught.value) == f"{tmp_path / 't'}: {reason}"


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "t")
    with pytest.raises(OSError, match="not a regular file"):
        list(TraceReader(tmp_path / "t").slices())
