"""Processes killed within writes of a chip's file, which they opened by its path or by links to it.

After each kill every page and sector is as before the write that was going on, or as after it.
"""

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from flash_server.chip.storage import FileStorage
from flash_server.errors import StorageError
from tests.soak.check import Check, Figures
from tests.support.oracles.killed_writer import PART
from tests.support.paths import ROOT


def run(size: int, seed: int) -> Figures:
    """Kill so many writers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chip = folder / "chips" / "chip"
        (folder / "chips").mkdir()
        (folder / "links").mkdir()
        links = [folder / "link", folder / "links" / "second", folder / "folder" / "chip"]
        links[0].symlink_to(chip)
        links[1].symlink_to(links[0])
        (folder / "folder").symlink_to(folder / "chips")
        arguments = [str(chip), str(size), "whole", str(seed), *map(str, links)]
        program = [sys.executable, "-m", "tests.support.oracles.killed_writer", *arguments]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        kills, finished, mixed = map(int, done.stdout.split())
        assert not mixed, f"{mixed} of {kills} files are neither old nor new, seed {seed}"
        with closing(FileStorage(chip, PART.size)):
            pass
        left = sorted(path.name for path in (folder / "chips").iterdir())
        assert left == ["chip"], f"{left} are left"
        second = folder / "chips" / "second"
        second.hardlink_to(chip)
        for path in (chip, second, *links):
            with pytest.raises(StorageError):
                FileStorage(path, PART.size)
    return {"killed": kills, "finished by the journal": finished, "neither old nor new": mixed}


CHECK: Final = Check(
    "writers", "kill -9 within writes of chip files, under every name", "kills", 500, 30, 1, run
)
