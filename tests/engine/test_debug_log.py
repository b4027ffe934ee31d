"""The debug log: text padded with NUL to 2048 bytes, the newest lines that fit."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.engine.debug_log import DebugLog

SIZE = 2048
LINE = 512


@pytest.fixture
def log() -> DebugLog:
    return DebugLog(logging.getLogger("tests.engine"))


def text(log: DebugLog) -> str:
    return bytes(log).rstrip(b"\0").decode()


def test_empty_log_is_all_padding(log: DebugLog) -> None:
    assert bytes(log) == bytes(SIZE)


def test_lines_stand_in_order_each_ended_by_a_newline(log: DebugLog) -> None:
    log.write("first")
    log.write("second\nthird\n")
    assert bytes(log) == b"first\nsecond\nthird\n" + bytes(SIZE - 19)


@pytest.mark.parametrize(
    ("written", "kept"), [("", ""), ("\n", "\n"), ("a\n\nb", "a\n\nb\n"), ("a\r\nb", "a\nb\n")]
)
def test_empty_lines_and_line_ends(log: DebugLog, written: str, kept: str) -> None:
    log.write(written)
    assert text(log) == kept


@pytest.mark.parametrize(("length", "kept"), [(510, 510), (511, 511), (512, 511), (5000, 511)])
def test_line_is_cut_at_512_bytes_with_its_newline(log: DebugLog, length: int, kept: int) -> None:
    log.write("x" * length)
    assert text(log) == "x" * kept + "\n"


@pytest.mark.parametrize("before", [508, 509, 510, 511])
def test_cut_never_splits_a_character(log: DebugLog, before: int) -> None:
    log.write("x" * before + "é" * 10)
    room = (LINE - 1 - before) // 2
    assert text(log) == "x" * before + "é" * room + "\n"


def test_oldest_lines_make_room(log: DebugLog) -> None:
    for number in range(1000):
        log.write(f"{number:07}")  # eight bytes with the newline
    assert text(log) == "".join(f"{number:07}\n" for number in range(1000 - 255, 1000))


def test_log_always_ends_with_a_nul(log: DebugLog) -> None:
    for _ in range(4):
        log.write("y" * 600)  # four lines of 512 bytes would fill it
    assert bytes(log) == (b"y" * 511 + b"\n") * 3 + bytes(512)


def test_2047_bytes_fit(log: DebugLog) -> None:
    for length in (511, 511, 511, 510):
        log.write("z" * length)
    assert len(text(log)) == 2047


def test_nul_and_what_utf_8_cannot_hold_do_not_break_the_text(log: DebugLog) -> None:
    log.write("a\0b\udcffc")
    assert text(log) == "ab\\udcffc\n"


def test_lines_go_to_the_host_s_logger_whole(log: DebugLog, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tests.engine"):
        log.write("one %s\n" + "x" * 600)
    assert caplog.record_tuples == [
        ("tests.engine", logging.INFO, "one %s"),
        ("tests.engine", logging.INFO, "x" * 600),
    ]


@given(st.lists(st.text(max_size=700), max_size=20))
def test_any_text_gives_2048_bytes_of_whole_lines_in_utf_8(entries: list[str]) -> None:
    log = DebugLog(logging.getLogger("tests.engine"))
    for entry in entries:
        log.write(entry)
    data = bytes(log)
    kept = data.rstrip(b"\0")
    assert len(data) == SIZE
    assert len(kept) < SIZE
    assert kept == b"" or kept.endswith(b"\n")
    assert b"\0" not in kept
    kept.decode()


def test_of_many_lines_the_last_256_are_taken(log: DebugLog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log.write("".join(f"{number:07}\n" for number in range(65_536)))
    assert [record.getMessage() for record in caplog.records] == [
        f"{number:07}" for number in range(65_536 - 256, 65_536)
    ]
    assert text(log).splitlines()[-1] == "0065535"
