"""`aisrv run` with a graph, live: counters as JSON on standard output, while a host may be served."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.graphs import golden_audio, write_wav
from tests.support.paths import ROOT


def test_a_board_with_a_graph_runs_live(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "graph", tmp_path, dirs_exist_ok=True)
    write_wav(golden_audio(), tmp_path / "speech.wav")
    (tmp_path / "word.tflite").write_bytes(
        runpy.run_path(str(ROOT / "examples" / "word_network.py"))["network"]()
    )
    command = [
        sys.executable,
        "-m",
        "aisrv",
        "run",
        "--board",
        "word.toml",
        "--port",
        "0",
        "--json",
        "--until-eof",
    ]
    with subprocess.Popen(
        [*command, "--model", "word.tflite"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith("aisrv: ready at usbip:")
        for line in process.stdout:
            graph = json.loads(line)["graph"]
            if graph is not None and graph["pins"] == [["word", True], ["long", True]]:
                break
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0
    assert graph["nodes"][3]["inferences"] >= 1
