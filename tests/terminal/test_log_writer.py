"""Log lines never wait for a reader, and one peer cannot fill the log."""

import logging
import os
import sys
import time
from collections.abc import Iterator

import pytest

from aisrv.terminal import log_limit
from aisrv.terminal.log_limit import BURST, KINDS_LIMIT, LINES_PER_SECOND, QUIET_SECONDS, LogLimit, log_peer
from aisrv.terminal.log_writer import LogWriter
from tests.support.programs import run_process

PATIENCE = 120.0
"""Seconds after which a test gives up: none should need them, however busy the machine."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)


def record(text: str = "bad packet %d", *args: object, at: float = 0.0) -> logging.LogRecord:
    made = logging.LogRecord("phy.usb", logging.WARNING, "", 0, text, args, None)
    made.created = at
    return made


def read_until(reader: int, text: bytes, seconds: float = PATIENCE) -> bytes:
    """What comes out of a pipe up to a text."""
    got = b""
    end = time.monotonic() + seconds
    while text not in got:
        assert time.monotonic() < end, got
        got += os.read(reader, 65536)
    return got


def test_line_comes_out(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    writer.emit(record("hello %d", 7))
    assert read_until(reader, b"\n") == b"hello 7\n"
    os.close(descriptor)


def test_writer_never_waits_for_a_pipe_that_nobody_reads(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor, queue_lines=50)
    for number in range(2000):
        writer.emit(record(f"kind {number} " + 200 * "x"))  # 400 KB: a pipe takes 64, and more would wait
    written = dropped = 0
    rest = b""
    while written + dropped < 2000:
        *lines, rest = (rest + os.read(reader, 65536)).split(b"\n")
        written += sum(line.startswith(b"kind ") for line in lines)
        told = [line for line in lines if line.endswith(b"were dropped: they came faster than they are read")]
        dropped += sum(int(line.split()[0]) for line in told)
    assert (written + dropped, rest) == (2000, b"")
    assert dropped > 1000
    os.close(descriptor)


def test_descriptor_that_does_not_block_gets_every_line(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    os.set_blocking(descriptor, False)
    writer = LogWriter(descriptor)
    for number in range(600):
        writer.emit(record(f"kind {number} " + 200 * "x"))
    got = read_until(reader, b"kind 599 " + 200 * b"x" + b"\n")
    assert len(got.splitlines()) == 600
    os.close(descriptor)


def test_held_lines_are_for_their_owner(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    with writer.held():
        writer.emit(record("one"))
        assert writer.take() == ["one"]
    writer.emit(record("two"))
    assert read_until(reader, b"\n") == b"two\n"
    os.close(descriptor)


def test_reader_that_left_does_not_end_the_writer(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    gone, broken = os.pipe()
    os.close(gone)
    writer = LogWriter(broken)
    writer.emit(record("lost"))
    end = time.monotonic() + PATIENCE
    while writer._lines or writer._writing:
        assert time.monotonic() < end
        time.sleep(0.001)
    os.dup2(descriptor, writer._descriptor)
    writer.emit(record("found"))
    assert read_until(reader, b"\n") == b"found\n"
    os.close(broken)
    os.close(descriptor)


def test_burst_is_let_through_and_the_rest_is_counted() -> None:
    limit = LogLimit()
    admitted = [limit.admit(record("bad %d", number)) for number in range(BURST + 50)]
    assert admitted == BURST * [0] + 50 * [None]
    assert limit.admit(record("bad %d", 0, at=1 / LINES_PER_SECOND)) == 50


def test_other_kinds_and_peers_are_not_kept_back() -> None:
    limit = LogLimit()
    for _ in range(BURST + 1):
        last = limit.admit(record("bad %d", 1))
    assert last is None
    assert limit.admit(record("worse %d", 1)) == 0
    token = log_peer.set("10.0.0.9")
    try:
        assert limit.admit(record("bad %d", 1)) == 0
    finally:
        log_peer.reset(token)


def test_count_is_told_when_the_peer_falls_silent() -> None:
    limit = LogLimit()
    for number in range(BURST + 3):
        limit.admit(record("bad %d", number))
    assert limit.overdue(QUIET_SECONDS - 0.001) == []
    ((last, count),) = limit.overdue(QUIET_SECONDS)
    assert (last.getMessage(), count) == (f"bad {BURST + 2}", 3)
    assert limit.overdue(QUIET_SECONDS) == []


def test_kinds_are_bounded() -> None:
    limit = LogLimit()
    for number in range(3 * KINDS_LIMIT):
        limit.admit(record(f"kind {number}"))
    assert len(limit._buckets) == KINDS_LIMIT


def test_text_that_does_not_take_its_arguments(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LogWriter(descriptor)
    raised, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        writer.emit(record("%d", "no number"))
    finally:
        logging.raiseExceptions = raised
    writer.emit(record("next"))
    assert read_until(reader, b"\n") == b"next\n"
    assert log_limit.BURST == 100
    os.close(descriptor)


def test_count_is_told_when_the_process_ends() -> None:
    code = (
        "import logging; from aisrv.terminal.log_writer import LogWriter\n"
        "logging.getLogger().addHandler(LogWriter(2))\n"
        f"for _ in range({BURST + 3}): logging.error('bad packet')\n"
    )
    done = run_process([sys.executable, "-c", code], check=True)
    *lines, last = done.stderr.splitlines()
    assert lines == BURST * ["bad packet"]
    assert last == "bad packet (3 more of these were left out)"
