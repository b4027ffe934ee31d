"""`aisrv run` with a graph, live: counters as JSON on standard output, while a host may be served."""

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from aisrv import digits
from tests.support.models.graphs import golden_audio, write_wav
from tests.support.paths import ROOT
from tests.support.programs import AISRV, start_process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the examples, with what they read."""
    shutil.copytree(ROOT / "examples" / "graph", tmp_path, dirs_exist_ok=True)
    write_wav(golden_audio(), tmp_path / "speech.wav")
    (tmp_path / "word.tflite").write_bytes(
        runpy.run_path(str(ROOT / "examples" / "word_network.py"))["network"]()
    )
    images = digits.test_images()[:1]
    (tmp_path / "camera.bin").write_bytes(bytes(value ^ 0x80 for value in images[0].image))
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("board", "model", "pins", "node"),
    [
        pytest.param(
            *("word.toml", "word.tflite", ["word", "long"], 3),
            marks=pytest.mark.long("the graph itself runs without a device's clock every day"),
        ),
        ("digits.toml", "digits.tflite", [str(digits.test_images()[0].label)], 1),
    ],
)
def test_a_board_with_a_graph_runs_live(
    folder: Path, board: str, model: str, pins: list[str], node: int
) -> None:
    command = [*AISRV, "run", "--board", board, "--model", model, "--port", "0", "--json", "--until-eof"]
    graph: dict[str, Any] | None = None
    with start_process(command, writes=True, cwd=folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith("aisrv: ready at usbip:")
        for line in process.stdout:
            graph = json.loads(line)["graph"]
            if graph is not None and [name for name, level in graph["pins"] if level] == pins:
                break
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0
    assert graph is not None
    assert graph["nodes"][node]["inferences"] >= 1
