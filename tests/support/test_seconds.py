"""What a test takes, as it is written and read."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.seconds import Recorder, now, read_rows

BUSY = "import time\nwhile time.process_time() < 0.1: pass"


def measure(recorder: Recorder, name: str, program: str) -> None:
    """Run a program of Python as a test of this name does."""
    item: Any = SimpleNamespace(nodeid=name)
    around = recorder.pytest_runtest_protocol(item)
    next(around)
    subprocess.run([sys.executable, "-S", "-c", program], check=True)
    with pytest.raises(StopIteration) as end:
        around.send(True)
    assert end.value.value is True


def test_each_test_has_its_own_seconds_and_those_of_its_programs(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    measure(recorder, "tests/a.py::busy", BUSY)
    measure(recorder, "tests/a.py::waits", "import time; time.sleep(0.1)")
    busy, waits = read_rows(tmp_path)
    assert (busy.name, waits.name) == ("tests/a.py::busy", "tests/a.py::waits")
    assert busy.seconds.programs >= 0.1
    assert waits.seconds.clock >= 0.1
    assert waits.seconds.programs < busy.seconds.programs


def test_what_comes_before_the_first_test_has_seconds(tmp_path: Path) -> None:
    Recorder(tmp_path).pytest_collection_finish()
    (row,) = read_rows(tmp_path)
    assert row.name == "collecting"
    assert 0 < row.seconds.own <= now().own
