"""`--device-time`, live: no answer comes before the chip's would; programs get their report."""

import json
import time
from fractions import Fraction
from pathlib import Path

from aisrv import digits
from aisrv.addons.predict.profile.end_to_end import Workload, usb
from host_tools.client import AiServer
from tests.support.peers import mlperf_tiny
from tests.support.programs import AISRV, HOST, run_process, running

CYCLES = 10


def test_a_cycle_over_usbip_is_never_shorter_than_predicted() -> None:
    path = mlperf_tiny.file("vww_96_int8.tflite")
    inputs = bytes(27_648)
    with running("--device-time", "--model", str(path)) as (_, address), AiServer.open(address) as server:
        server.run(inputs)
        taken = []
        for _ in range(CYCLES):
            begin = time.perf_counter()
            server.write_input(inputs)
            server.infer()
            server.read_output()
            taken.append(time.perf_counter() - begin)
        ticks = sum(time.ticks for time in server.timings().operators)
    _, *commands = usb(Workload((27_648,), (2,), 31, Fraction(ticks)))
    assert min(taken) >= sum(each.ticks for each in commands) / 100_000_000


def test_a_program_gets_its_report_on_standard_error(tmp_path: Path) -> None:
    model, image = tmp_path / "digits.tflite", tmp_path / "image.bin"
    model.write_bytes(digits.model_bytes())
    image.write_bytes(digits.test_images()[0].image)
    options = ("--device-time", "--report", "--json", "--model", model)
    done = run_process([*AISRV, "exec", *options, "--", *HOST, "infer", image], check=True)
    report = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("{")))
    rows = {row["command"]: row for row in report["commands"]}
    assert rows["START_INFER"]["ticks"] == 43_383.5
    assert rows["START_INFER"]["inference"] == 41_390
    assert "{" not in done.stdout
