"""The team of threads under ThreadSanitizer: callers at once, and helpers that start, sleep and end."""

import shutil
import subprocess
from pathlib import Path

import pytest

from aisrv.addons.kernels.backends.native.library import FOLDER
from tests.support.programs import missing, run_process

STRESS = Path(__file__).with_name("team_stress.c")
OPTIONS = "-std=gnu11", "-g", "-O1", "-fsanitize=thread", "-pthread"


def stressed(folder: Path, headers: Path) -> "subprocess.CompletedProcess[str]":
    """Run the stress program with the team of a folder of headers."""
    if shutil.which("gcc") is None:
        missing("gcc is not installed: apt install gcc")
    asked = subprocess.run(["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True)
    if not Path(asked.stdout.strip()).is_absolute():
        missing("gcc has no ThreadSanitizer here: apt install libtsan2, or that of your gcc")
    program = folder / "stress"
    subprocess.run(["gcc", *OPTIONS, f"-I{headers}", "-o", program, STRESS], check=True)
    done = run_process([program])
    if "unexpected memory mapping" in done.stderr:
        missing("ThreadSanitizer needs fewer random bits of addresses: sysctl vm.mmap_rnd_bits=28")
    return done


def test_callers_and_helpers_do_not_race(tmp_path: Path) -> None:
    done = stressed(tmp_path, FOLDER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.mark.in_full
def test_a_race_is_seen(tmp_path: Path) -> None:
    """Who finds the team free has to see what the caller before wrote."""
    for header in FOLDER.glob("*.h"):
        shutil.copy(header, tmp_path)
    team = (tmp_path / "team.h").read_text()
    free = "__atomic_exchange_n(&team.busy, 1, __ATOMIC_{})"
    assert team.count(free.format("ACQUIRE")) == 1
    (tmp_path / "team.h").write_text(team.replace(free.format("ACQUIRE"), free.format("RELAXED")))
    done = stressed(tmp_path, tmp_path)
    assert "WARNING: ThreadSanitizer: data race" in done.stderr
    assert done.returncode != 0
