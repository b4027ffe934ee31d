"""How long each test takes: with `pytest --seconds=FOLDER` each process of a run writes a file.

CPU seconds are those of the process and of the programs that it has waited for. A busy machine changes them
little, while tests that wait show in the seconds of the clock. `seconds_table.py` prints tables.
"""

import os
import resource
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support import ready_commands

COLLECTING: Final = "collecting"
"""The name of what comes before the first test: imports, and the making of all tests."""


class Seconds(msgspec.Struct, frozen=True):
    """What has passed, in seconds."""

    clock: float
    own: float
    """CPU seconds of the process, user's and system's."""
    programs: float
    """CPU seconds of programs that have ended."""

    def since(self, before: "Seconds") -> "Seconds":
        return Seconds(self.clock - before.clock, self.own - before.own, self.programs - before.programs)


class Row(msgspec.Struct, frozen=True):
    """One test, or collecting."""

    name: str
    seconds: Seconds


def now() -> Seconds:
    """Return what has passed on the clock, and what this process and its programs have used."""
    own, programs = (
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return Seconds(time.monotonic(), own, programs + ready_commands.cpu_seconds())


class Recorder:
    """A plugin of pytest that writes a line of JSON for each test, when it is done."""

    def __init__(self, folder: Path) -> None:
        """The folder is made; each process has a file of its own in it."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}.jsonl"
        self._start = now()

    def pytest_collection_finish(self) -> None:
        """Write what the process took so far; one that collects for others runs no tests."""
        self._write(COLLECTING, Seconds(now().clock - self._start.clock, now().own, now().programs))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure a test with its fixtures; the last one of a file ends what they began."""
        before = now()
        result = yield
        self._write(item.nodeid, now().since(before))
        return result

    def _write(self, name: str, seconds: Seconds) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(Row(name, seconds)) + b"\n")


def read_rows(folder: Path) -> list[Row]:
    """Return what all processes of a run have written."""
    decoder = msgspec.json.Decoder(Row)
    return [row for path in sorted(folder.glob("*.jsonl")) for row in decoder.decode_lines(path.read_bytes())]
