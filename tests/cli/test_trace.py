"""`--trace` of commands with a real program on USB, and `aisrv trace summary` of what it did."""

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisrv import digits
from aisrv.cli.main import main
from tests.support.peers.trace_processor import TraceProcessor, trace_processor
from tests.support.programs import AISRV, run_process, start_process

__all__ = ["trace_processor"]

PROGRAM = """
import sys
from aisrv import digits
from host_tools.client import AiServer

with AiServer.open("usb") as server:
    server.load_model(digits.model_bytes())
    for digit in digits.test_images()[:3]:
        print(server.run(digit.image).hex())
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a program that loads the digits and reads three."""
    folder = tmp_path_factory.mktemp("trace")
    (folder / "program.py").write_text(PROGRAM)
    words = ("--trace", "run.pftrace", "--serial", "LAB-1", "--", sys.executable, "program.py")
    run_process([*AISRV, "exec", *words], cwd=folder, check=True)
    return folder / "run.pftrace"


def summary(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["trace", "summary", *map(str, words)])


def test_the_summary_counts_commands_and_bytes(trace: Path) -> None:
    found = json.loads(summary(trace, "--json").stdout)
    counts = {each["command"]: each["count"] for each in found["commands"]}
    assert {name: counts[name] for name in ("SET_MODEL_ARENA", "SET_INPUT_TENSOR", "START_INFER")} == {
        "SET_MODEL_ARENA": 1,
        "SET_INPUT_TENSOR": 3,
        "START_INFER": 3,
    }
    moved = {each["bus"]: each["bytes"] for each in found["transfers"]}
    # Each command is a packet of three bytes; the model and three images follow theirs.
    assert moved["usb OUT 1"] - len(digits.model_bytes()) - 3 * 64 in range(3 * 10, 3 * 16)
    assert {each["device"] for each in found["cores"]} == {"1-1 (LAB-1)"}
    assert found["path"]["command"] == "SET_MODEL_ARENA"
    assert sum(each["ns"] for each in found["path"]["steps"]) == found["path"]["ns"]


def test_the_summary_in_the_terminal(trace: Path) -> None:
    shown = summary(trace, "--command", "START_INFER").output
    assert "tile 1 core 2 (usb_data)" in shown
    assert "SET_INPUT_TENSOR" in shown
    assert "path of START_INFER" in shown
    assert "Traceback" not in shown


@pytest.mark.long("it reads traces of all kinds every day; this one is of a whole command")
def test_perfetto_takes_it(trace: Path, trace_processor: TraceProcessor) -> None:
    problems, (process,), commands, (flows,) = trace_processor.query(
        trace,
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select name from process where pid = 1",
        "select name, count(*) from slice where category = 'command' and name like '%INFER%' group by 1",
        "select count(*) from flow",
    )
    assert problems == []
    assert process == ("1-1 (LAB-1)",)
    assert commands == [("START_INFER", 3)]
    assert int(str(flows[0])) > 100


def test_with_device_time_an_inference_takes_what_is_predicted(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    words = ("--device-time", "--trace", "t", "--", sys.executable, "program.py")
    run_process([*AISRV, "exec", *words], cwd=tmp_path, check=True)
    profile = run_process([*AISRV, "profile", "digits.tflite", "--json"], cwd=tmp_path, check=True)
    ticks = json.loads(profile.stdout)["profiles"][0]["ticks"]
    steps = json.loads(summary(tmp_path / "t", "--command", "START_INFER", "--json").stdout)["path"]["steps"]
    waits = [each["ns"] for each in steps if each["what"] == "invoke on its interpreter"]
    assert waits == [10 * ticks]


def test_ctrl_c_leaves_a_ring_that_can_be_read(tmp_path: Path) -> None:
    words = ("run", "--port", "0", "--trace", "ring", "--trace-ring", "64K")
    with start_process([*AISRV, *words], cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("aisrv: ready at")
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)  # or what it says as it begins could meet a pipe that is closed
    assert running.returncode == 130
    found = summary(tmp_path / "ring", "--json")
    assert found.exit_code == 0, found.output
    assert any("usb_data" in each["core"] for each in json.loads(found.stdout)["cores"])


def test_a_process_that_is_killed_leaves_what_it_did(tmp_path: Path) -> None:
    words = ("run", "--port", "0", "--trace", "t")
    with start_process([*AISRV, *words], cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("aisrv: ready at")
        while not (tmp_path / "t").stat().st_size:
            time.sleep(0.05)
        running.kill()
    found = summary(tmp_path / "t", "--json")
    assert found.exit_code == 0, found.output
    assert any("usb_data" in each["core"] for each in json.loads(found.stdout)["cores"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trace-ring", "1M"), "--trace-ring and --trace-limit are for --trace FILE"),
        (
            ("--trace", "t", "--trace-ring", "1M", "--trace-limit", "1M"),
            "--trace-ring keeps the end, --trace-limit the beginning: give one",
        ),
        (("--trace", "t", "--trace-level", "all"), "'all' is not one of"),
        (("--trace", "no/t"), "no"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = run_process([*AISRV, "run", "--port", "0", *words], cwd=tmp_path)
    assert done.returncode == 2 or words[-1] == "no/t"
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_no_trace_or_has_no_such_command(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\x7fELF")
    refused = summary(tmp_path / "t")
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"Error: {tmp_path / 't'}: no trace: byte 0 begins no packet\n",
    )
    assert summary(trace, "--command", "LOAD").exit_code == 2
