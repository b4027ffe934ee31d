"""What is kept of a trace: all of it, its beginning or its end; each can be read."""

import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from aisrv.monitor.trace.packets import packet
from aisrv.monitor.trace.reading import Slice, TraceReader
from aisrv.monitor.trace.sinks import BLOCK_BYTES, FLUSH_SECONDS, FileSink, MemorySink, RingSink, Sink
from aisrv.monitor.trace.writer import TraceWriter
from tests.support.peers.trace_processor import TraceProcessor


def fill(sink: Sink, count: int, unit_ns: int = 1) -> None:
    """Write an open slice, in it `count` others of 5 units each 10 units, and a counter."""
    writer = TraceWriter(sink, unit_ns=unit_ns)
    process = writer.process(1, "device")
    thread = writer.thread(process, 1, 1, "core")
    level = writer.counter(process, "led", "level")
    writer.begin(thread, 0, "whole", "command")
    writer.count(level, 0, 1)
    for number in range(count):
        writer.begin(thread, 10 * number, f"part {number % 7}", "wait", {"number": number})
        writer.end(thread, 10 * number + 5)
    writer.end(thread, 10 * count)


def slices_of(path: Path) -> list[Slice]:
    return list(TraceReader(path).slices())


def test_a_file_has_all_of_it(tmp_path: Path) -> None:
    with FileSink(tmp_path / "t") as sink:
        fill(sink, 1000)
    *parts, whole = slices_of(tmp_path / "t")
    assert [(each.start, each.end, each.arguments["number"]) for each in parts] == [
        (10 * number, 10 * number + 5, number) for number in range(1000)
    ]
    assert (whole.name, whole.start, whole.end) == ("whole", 0, 10_000)


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 511, 512, 513, 1024])
def test_a_limit_ends_the_trace_with_a_whole_packet(
    limit: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), FileSink(tmp_path / "t", limit) as sink:
        fill(sink, 1000)
    assert (tmp_path / "t").stat().st_size <= limit
    assert [each.getMessage() for each in caplog.records] == [
        f"{tmp_path / 't'}: the limit of {limit} bytes is reached; the trace ends here"
    ]
    if limit >= 511:
        reader = TraceReader(tmp_path / "t")
        assert list(reader.slices())
        assert not reader.is_cut


def test_a_ring_keeps_the_last_of_it(tmp_path: Path) -> None:
    size = 1 << 16
    with RingSink(tmp_path / "t", size) as sink:
        fill(sink, 20_000)
    assert size / 2 < (tmp_path / "t").stat().st_size <= size
    *parts, whole = slices_of(tmp_path / "t")
    parts = [each for each in parts if each.arguments]  # one may have been open where the ring begins
    numbers = [each.arguments["number"] for each in parts]
    assert numbers[-1] == 19_999
    assert numbers == list(range(int(numbers[0]), 20_000))
    assert (whole.name, whole.end) == ("whole", 200_000)  # it began in what is gone
    assert parts[0].start == 10 * int(numbers[0])


def test_a_ring_that_is_large_enough_has_all_of_it(tmp_path: Path) -> None:
    with FileSink(tmp_path / "file") as file:
        fill(file, 500)
    with RingSink(tmp_path / "ring", 1 << 20) as ring:
        fill(ring, 500)
    assert slices_of(tmp_path / "ring") == slices_of(tmp_path / "file")


def test_perfetto_takes_a_ring_and_a_file_that_was_cut(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    with RingSink(tmp_path / "ring", 1 << 16) as sink:
        fill(sink, 20_000)
    (tmp_path / "cut").write_bytes((tmp_path / "ring").read_bytes()[:30_000])
    wanted = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    for name in ("ring", "cut"):
        problems, (count,), (level,) = trace_processor.query(
            tmp_path / name,
            wanted,
            "select count(*) from slice where category = 'wait'",
            "select value from counter limit 1",
        )
        parts = [each for each in slices_of(tmp_path / name) if each.category == "wait"]
        assert problems == []
        assert count == (len(parts),)
        assert level == (1.0,)


def test_a_ring_in_ticks_has_its_times_where_it_begins(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    with RingSink(tmp_path / "ring", 1 << 16) as sink:
        fill(sink, 20_000, unit_ns=10)
    problems, shown = trace_processor.query(
        tmp_path / "ring",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select ts, dur from slice where category = 'wait' and name like 'part %' order by ts",
    )
    assert problems == []
    assert len(shown) < 20_000  # the first ones are gone
    assert shown[-1000:] == [(100 * number, 50) for number in range(19_000, 20_000)]


@pytest.mark.parametrize("make", [FileSink, lambda path: RingSink(path, 1 << 20)])
def test_what_comes_after_the_end_is_not_kept(make: type[FileSink], tmp_path: Path) -> None:
    sink = make(tmp_path / "t")
    with sink:
        fill(sink, 5)
    before = (tmp_path / "t").read_bytes()
    fill(sink, 5)
    assert (tmp_path / "t").read_bytes() == before


@pytest.mark.parametrize("make", [FileSink, lambda path: RingSink(path, 1 << 20)])
def test_a_file_that_cannot_be_made(make: type[FileSink], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        make(tmp_path / "nowhere" / "t")


def test_a_full_disk_ends_the_trace_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with FileSink(Path("/dev/full")) as sink:
        fill(sink, 20_000)
    assert [each.getMessage() for each in caplog.records] == [
        "/dev/full: No space left on device; the trace ends here"
    ]


def test_a_ring_in_memory_has_what_a_file_has(tmp_path: Path) -> None:
    with RingSink(tmp_path / "ring", 1 << 16) as ring:
        fill(ring, 20_000)
    with MemorySink(1 << 16) as memory:
        fill(memory, 20_000)
    assert b"".join(memory.take()) == (tmp_path / "ring").read_bytes()
    assert memory.take() == []


def test_what_came_is_in_the_file_soon_in_whole_packets(tmp_path: Path) -> None:
    sizes = []

    async def main() -> None:
        with FileSink(tmp_path / "t") as sink:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sink.keep_flushed)
                for count in (10, 0, 3):
                    for number in range(count):
                        sink.write(packet(bytes((8, number))))
                    await trio.sleep(FLUSH_SECONDS / 2)
                    sizes.append((tmp_path / "t").stat().st_size)
                    await trio.sleep(FLUSH_SECONDS)
                    sizes.append((tmp_path / "t").stat().st_size)
                nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert sizes == [0, 40, 40, 40, 40, 52]


def test_a_block_that_is_full_is_in_the_file_at_once(tmp_path: Path) -> None:
    one = packet(b"\x12" + bytes(98))
    with FileSink(tmp_path / "t") as sink:
        for _ in range(BLOCK_BYTES // len(one)):
            sink.write(one)
        assert (tmp_path / "t").stat().st_size == 0
        sink.write(one)
        assert (tmp_path / "t").stat().st_size == (BLOCK_BYTES // len(one) + 1) * len(one)
