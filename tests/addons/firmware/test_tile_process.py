"""The process of a tile: its start, its end, and what it can't do to the simulator."""

import gc
import os
import struct
from pathlib import Path

import pytest

from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.records import REQUESTS, RecordError, Verb, read_requests, start
from aisrv.addons.firmware.tile_process import ProcessSettings, ProgramEnded, TileProcess
from tests.support.benches.c_programs import compiled


def descriptors() -> list[str]:
    """Files that this process has open."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


RETURNS = "int main(void) { return 5; }"


def test_a_program_runs_from_give_to_take(tmp_path: Path) -> None:
    with TileProcess(compiled(tmp_path, RETURNS), 0) as process:
        process.give([start(0, 0, 0, [])])
        assert process.is_running
        (request,) = read_requests(process.take())
        assert (process.is_running, request.verb, request.a) == (False, Verb.RETURN, 5)


def test_a_program_that_ends_says_how(tmp_path: Path) -> None:
    with TileProcess(compiled(tmp_path, "int main(void) { _Exit(9); }"), 0) as process:
        process.give([start(0, 0, 0, [])])
        with pytest.raises(ProgramEnded, match=r"^ended with 9$") as ended:
            process.take()
        assert ended.value.code == 9


def test_a_program_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    with TileProcess(compiled(tmp_path, RETURNS), 0) as process:
        process.take()
        process.kill()
        with pytest.raises(ProgramEnded, match=r"^was ended by SIGKILL$"):
            process.give([])


def test_nothing_is_left_after_the_block(tmp_path: Path) -> None:
    before = descriptors()
    with TileProcess(compiled(tmp_path, RETURNS), 0) as process:
        pid = process.pid
        assert os.getpgid(pid) == pid
    assert not Path(f"/proc/{pid}").exists()
    assert descriptors() == before


def test_a_program_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(tmp_path, RETURNS)
    monkeypatch.setattr("aisrv.addons.firmware.tile_process.VERSION", 99)
    with TileProcess(program, 0) as process, pytest.raises(ProgramEnded, match=r"^ended with 2$"):
        process.take()


def test_a_program_that_overwrites_its_requests(tmp_path: Path) -> None:
    with TileProcess(compiled(tmp_path, RETURNS), 0) as process:
        process.take()
        struct.pack_into("<I", process._memory, 4, 0xFFFFFFFF)
        process.is_running = True
        os.write(process._to, b"\1")
        message = process.take()  # the program writes the size anew
        assert len(message) == 0
        message.release()
        process._memory[REQUESTS : REQUESTS + 20] = b"\xff" * 20
        with pytest.raises(RecordError):
            list(read_requests(memoryview(process._memory[REQUESTS : REQUESTS + 20])))


def test_a_debugger_starts_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, RETURNS)
    with TileProcess(program, 0, ProcessSettings(command=("env", "LC_ALL=C"))) as process:
        process.give([start(0, 0, 0, [])])
        assert read_requests(process.take())[0].a == 5


def test_a_debugger_that_is_not_there_leaves_nothing_open(tmp_path: Path) -> None:
    program = compiled(tmp_path, RETURNS)
    gc.collect()
    before = descriptors()
    with pytest.raises(FirmwareError, match=r"^no-such-debugger: No such file or directory$"):
        TileProcess(program, 0, ProcessSettings(command=("no-such-debugger",)))
    gc.collect()
    assert descriptors() == before
