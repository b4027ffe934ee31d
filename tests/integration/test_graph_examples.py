"""The examples of graphs, from their texts: end to end on virtual time, and a node of one's own."""

import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.addons.graph.compiler.compile import load_graph
from aisrv.addons.graph.device import graph_of
from aisrv.addons.graph.nodes.registry import Registry
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from tests.support.models import networks
from tests.support.models.graphs import Sink, Source, golden_audio, write_wav
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"


def run_board(folder: Path, name: str, model: bytes, seconds: float) -> list[tuple[float, str, bool]]:
    """Run an example's board on virtual time; return the changes of its pins."""
    shutil.copytree(EXAMPLES / "graph", folder, dirs_exist_ok=True)
    board = replace(read_board(folder / name), spi=None)
    changes: list[tuple[float, str, bool]] = []

    async def main() -> None:
        async with open_device(board, runner=inline) as device:
            for pin in graph_of(device).pins.values():

                def note(level: bool, name: str = pin.name) -> None:
                    changes.append((round(trio.current_time(), 6), name, level))

                pin.observe(note)
            await device.load_model(model)
            await trio.sleep(seconds)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return changes


@pytest.mark.plain_time("its decisions come at the ticks of their frames")
def test_a_word_drives_a_pin(tmp_path: Path) -> None:
    write_wav(golden_audio(), tmp_path / "speech.wav")
    model = runpy.run_path(str(EXAMPLES / "word_network.py"))["network"]()
    assert run_board(tmp_path, "word.toml", model, 3) == [(0.3, "word", True), (0.3, "long", True)]


@pytest.mark.plain_time("its decisions come at the ticks of their frames")
def test_a_picture_drives_the_pin_of_its_digit(tmp_path: Path) -> None:
    images = digits.test_images()[:4]
    (tmp_path / "camera.bin").write_bytes(b"".join(bytes(v ^ 0x80 for v in each.image) for each in images))
    levels, expected = [False] * 10, []
    for number, each in enumerate(images):
        scores = np.frombuffer(networks.run(digits.model_bytes(), each.image)[0], "<i1")
        for pin, high in enumerate((scores > 0).tolist()):
            if high != levels[pin]:
                levels[pin] = high
                expected.append((number * 0.5, str(pin), high))
    assert run_board(tmp_path, "digits.toml", digits.model_bytes(), 1.9) == expected


def test_a_node_of_one_s_own_works_in_the_memory_of_the_arcs() -> None:
    gain = runpy.run_path(str(EXAMPLES / "gain_node.py"))["Gain"]
    graph, names = load_graph(
        EXAMPLES / "graph" / "gain.txt", EXAMPLES / "graph" / "platform" / "top_manifest.txt"
    )
    interpreter = Interpreter(GraphState(graph), Registry(names, {"example_gain": gain}))
    interpreter.reset()
    sink = Sink()
    samples = np.arange(-16, 16, dtype="<i2") * 1200
    interpreter.attach(4, Source(samples.tobytes()))
    interpreter.attach(8, sink)
    interpreter.run()
    assert (
        np.frombuffer(sink.data, "<i2").tolist() == np.clip(samples.astype(int) * 2, -32768, 32767).tolist()
    )
