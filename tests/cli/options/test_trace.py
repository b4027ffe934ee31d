"""Options of traces: `--xscope FILE` of commands that run devices."""

import json
from pathlib import Path

import pytest

from tests.support.programs import AISRV, run_process

TASKS = """
from aisrv.xcore.probes import DataType, Probe, ProbeKind
from aisrv.xcore.xscope import xscope_int, xscope_register

async def record():
    xscope_register(Probe("Level", ProbeKind.CONTINUOUS, DataType.INT, "mV"))
    xscope_int(0, -7)
"""


@pytest.mark.parametrize("options", [[], ["--devices", "3"], ["--trace", "t.pftrace"]])
def test_exec_records_the_probes_of_the_first_device(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "tasks_of_probes.py").write_text(TASKS)
    (tmp_path / "board.toml").write_text('[[tasks]]\nname = "r"\ntask = "tasks_of_probes:record"\ntile = 0\n')
    command = [*AISRV, "exec", "--board", "board.toml", *options, "--xscope", "o.jsonl", "--", "true"]
    done = run_process(command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines())
    assert (line["tile"], line["probe"], line["event"], line["value"]) == (0, "Level", "value", -7)
