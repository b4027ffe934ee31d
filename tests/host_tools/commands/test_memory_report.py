"""The map of an engine's memory, drawn."""

import pytest

from aisrv.protocol.memory_map import MemoryMap, ModelMemory
from host_tools.commands.memory_report import bar, memory_data, show_memory

ARENA, EXT = ModelMemory.ARENA, ModelMemory.EXT
IN_ARENA = MemoryMap(1000, 500, ARENA, 100, head_bytes=200, tail_bytes=50)
OUTSIDE = MemoryMap(1000, 500, EXT, 100, head_bytes=200, tail_bytes=50)


def test_bar_shares_its_width_by_size() -> None:
    # Of 20 characters, 100, 200 and 50 of 1000 bytes are 2, 4 and 1.
    assert bar(IN_ARENA, ARENA, 20) == [("model", 2), ("head", 4), ("free", 13), ("tail", 1)]


def test_bar_shows_the_smallest_region() -> None:
    tiny = MemoryMap(1 << 20, 0, ARENA, 1, head_bytes=1, tail_bytes=1)
    assert bar(tiny, ARENA, 64) == [("model", 1), ("head", 1), ("free", 61), ("tail", 1)]


@pytest.mark.parametrize("free", [0, 1, 500])
def test_bar_is_as_wide_as_asked(free: int) -> None:
    full = MemoryMap(350 + free, 0, ARENA, 100, head_bytes=200, tail_bytes=50)
    assert sum(characters for _, characters in bar(full, ARENA, 64)) == 64


def test_memory_of_no_bytes_has_no_bar() -> None:
    assert bar(MemoryMap(1000, 0), EXT) == [("free", 0)]


def test_drawing(capsys: pytest.CaptureFixture[str]) -> None:
    show_memory(IN_ARENA)
    assert capsys.readouterr().out.splitlines() == [
        "arena                  1,000 bytes  " + 6 * "M" + 12 * "H" + 43 * "." + 3 * "T",
        "  M model                100 bytes   10.0 % from 0x0",
        "  H head                 200 bytes   20.0 % from 0x64",
        "  . free                 650 bytes   65.0 % from 0x12c",
        "  T tail                  50 bytes    5.0 % from 0x3b6, an estimate",
        "external memory          500 bytes  " + 64 * ".",
        "  . free                 500 bytes  100.0 % from 0x0",
    ]


def test_data_for_programs() -> None:
    assert memory_data(OUTSIDE) == {
        "arena": {
            "head": {"offset": 0, "bytes": 200},
            "free": {"offset": 200, "bytes": 750},
            "tail": {"offset": 950, "bytes": 50},
        },
        "ext": {"model": {"offset": 0, "bytes": 100}, "free": {"offset": 100, "bytes": 400}},
    }
