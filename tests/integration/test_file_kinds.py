"""Files that are none, or without end, in place of what the three programs read: refused at once, by kind."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.programs import AISRV, FLASH, HOST, run_process

COMMANDS: dict[str, Sequence[str]] = {
    "model": (*AISRV, "run", "--port", "0", "--model", "FILE"),
    "board": (*AISRV, "run", "--port", "0", "--board", "FILE.toml"),
    "xn file": (*AISRV, "boards", "FILE.xn"),
    "graph": (*AISRV, "run", "--port", "0", "--graph", "FILE"),
    "graph text": (*AISRV, "graph", "compile", "FILE", "--platform", "FILE"),
    "chip": (*AISRV, "run", "--port", "0", "--flash", "FILE"),
    "capture": (*AISRV, "replay", "FILE"),
    "profiled model": (*AISRV, "profile", "FILE"),
    "suite": (*AISRV, "profile", "--config", "FILE"),
    "sweep": (*AISRV, "sweep", "FILE"),
    "planned model": (*AISRV, "model", "plan", "FILE"),
    "compared model": (*AISRV, "model", "diff", "FILE"),
    "image": (*FLASH, "inspect", "FILE"),
    "configuration": (*FLASH, "pack", "--config", "FILE", "--output", "out"),
    "packed model": (*FLASH, "pack", "--engine", "model=FILE", "--output", "out"),
    "relocatable image": (*FLASH, "reloc", "info", "FILE"),
    "boot image": (*FLASH, "boot-image", "FILE", "--output", "out"),
    "host's model": (*HOST, "--device", "virtual", "load", "FILE"),
    "host's input": (*HOST, "--device", "virtual", "write", "0", "FILE"),
}


@pytest.mark.parametrize("kind", ["fifo", "zero"])
@pytest.mark.parametrize("what", COMMANDS)
def test_what_is_no_regular_file_is_refused_at_once(what: str, kind: str, tmp_path: Path) -> None:
    command = []
    for word in COMMANDS[what]:
        name, found, ending = word.partition("FILE")
        path = tmp_path / f"input{ending.partition(':')[0]}"
        if found and not path.is_symlink() and not path.exists():
            if kind == "fifo":
                os.mkfifo(path)
            else:
                path.symlink_to("/dev/zero")
        options = ending[ending.find(":") :] if ":" in ending else ""
        command.append(f"{name}{path}{options}" if found else word)
    done = run_process(command, cwd=tmp_path)
    assert done.returncode in (1, 2), done.stdout
    assert "Traceback" not in done.stderr
    assert "regular file" in done.stderr or "not a plain file" in done.stderr


@pytest.mark.parametrize("key", ["a" + ".a" * 30_000, "." * 30_000, '"a"' + '."a"' * 30_000])
def test_a_key_of_30000_dots_is_refused_at_once(key: str, tmp_path: Path) -> None:
    for command in ([*AISRV, "run", "--board"], [*FLASH, "pack", "--output", "out", "--config"]):
        path = tmp_path / "deep.toml"
        path.write_text(f"{key} = 1\n")
        done = run_process([*command, path], cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert len(done.stderr) < 2000


def test_a_file_that_is_too_large_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # of which nothing is on the disk
    done = run_process([*AISRV, "model", "plan", path])
    assert (done.returncode, "larger than 1073741824 bytes" in done.stderr) == (2, True)
