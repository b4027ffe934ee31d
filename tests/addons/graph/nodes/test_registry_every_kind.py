"""Every kind of node that runs here, in a graph: between an input and an output, until the input ends."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from aisrv.addons.graph.compiler.compile import compile_text
from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.inference import NAME, EngineTensor, Inference, Job
from aisrv.addons.graph.nodes.registry import STANDARD_NODES, Registry, can_run
from aisrv.addons.graph.platform.manifests import SHIPPED_PLATFORM, Platform, load_platform
from aisrv.addons.graph.run.scheduler import Interpreter
from aisrv.addons.graph.run.state import GraphState
from tests.support.amounts import is_long
from tests.support.models.graphs import S8, Sink, Source
from tests.support.paths import ROOT

KINDS: Final = [name for name in STANDARD_NODES if can_run(name)]
SMALLEST: Final = (2, 2)
FRAMES: Final = [(64, 64), (64, 128), (128, 64), (64, 48), (6, 64), (64, 6), SMALLEST]
OF_OTHER_RATES: Final = FRAMES[3:5]
"""Frames that graphs of all but the first rates have every day."""
RATES: Final = [(8000, 16000), (16000, 44100), (16000, 48000), (44100, 16000)]
INPUTS, OUTPUTS = (0, 2), (1, 6)
"""Numbers of IOs of the shipped platform."""
ARCS: Final = {"arm_stream_router": (2, 2), "arm_stream_split": (1, 2)}
PARAMETERS: Final = {
    "arm_stream_router": "2 i8; 2 2\n8 i16; 0 0 2 0 1 0 3 0",
    NAME: "4 u8; 0 0 0 0",
}
RAW: Final = {NAME: "S8"}
ONE_OUTPUT_A_CALL: Final = ("sigp_stream_detector", NAME)
BYTES: Final = 64 * 18


class Engine:
    """An engine that answers at once, whatever the lengths of its tensors."""

    def __init__(self, frames: tuple[int, int]) -> None:
        self.inputs = (EngineTensor(frames[0], S8),)
        self.outputs = (EngineTensor(frames[1], S8),)

    def submit(self, job: Job) -> None:
        job.output, job.entered = bytes(self.outputs[0].size), True


@pytest.fixture(scope="module")
def platform() -> Platform:
    return load_platform(SHIPPED_PLATFORM)


def text_of(kind: str, arcs: tuple[int, int], frames: tuple[int, int], rates: tuple[int, int]) -> str:
    if kind == "arm_stream_script":
        return f"node {kind} 0\nscript_code\nreturn\nend\nend\nend"
    lines = []
    for number, (frame, rate) in enumerate(zip(frames, rates, strict=True)):
        lines += [f"format_index {number}", f"format_frame_length {frame}", f"format_sampling_rate {rate}"]
        lines += [f"format_raw_data {RAW.get(kind, 'S16')}"]
    hwids = (*INPUTS[: arcs[0]], *OUTPUTS[: arcs[1]])
    for number, hwid in enumerate(hwids):
        lines += [f"stream_io {number}", f"stream_io_hwid {hwid}"]
    lines += [f"node {kind} 0"]
    if kind in ARCS:
        lines.append(f"node_nb_arcs {arcs[0]} {arcs[1]}")
    if kind in PARAMETERS:
        lines += ["node_parameters 0", PARAMETERS[kind], "end"]
    lines.append("end")
    for number in range(len(hwids)):
        tag, form = ("arc_output", 1) if number >= arcs[0] else ("arc_input", 0)
        lines.append(f"{tag} {number} 1 {form} {kind} 0 {number} {form}")
    return "\n".join(lines)


def samples() -> bytes:
    values = 9000 * np.sin(np.arange(BYTES // 2) / 7) + np.arange(BYTES // 2) % 11
    data: bytes = values.astype("<i2").tobytes()
    return data


class Run:
    """A graph of one node, run until nothing moves."""

    def __init__(
        self, kind: str, frames: tuple[int, int], rates: tuple[int, int], platform: Platform
    ) -> None:
        manifest = platform.nodes[kind]
        arcs = ARCS.get(kind, (manifest.arcs_in, manifest.arcs_out))
        compiled = compile_text(text_of(kind, arcs, frames, rates), Path("graph.txt"), platform)
        registry = Registry(STANDARD_NODES, {NAME: partial(Inference, {0: Engine(frames)})})
        interpreter = Interpreter(GraphState(compiled.graph), registry)
        self.entry = interpreter.entries[0]
        self.sinks = []
        for port in interpreter.ports:
            if port.transmits:
                self.sinks.append(Sink())
                interpreter.attach(port.hwid, self.sinks[-1])
            else:
                interpreter.attach(port.hwid, Source(samples()))
        interpreter.reset()
        moved = -1
        while moved != (moved := sum(port.moved for port in interpreter.ports)):
            interpreter.run()
        self.taken = [port.moved for port in interpreter.ports if not port.transmits]


@pytest.mark.parametrize(("kind", "rates"), list(product(KINDS, RATES)))
def test_a_graph_takes_its_inputs_to_their_end(kind: str, rates: tuple[int, int], platform: Platform) -> None:
    smallest = Run(kind, SMALLEST, rates, platform)
    expected = [bytes(sink.data) for sink in smallest.sinks]
    for frames in FRAMES if is_long() or rates == RATES[0] else [*OF_OTHER_RATES, SMALLEST]:
        run = smallest if frames == SMALLEST else Run(kind, frames, rates, platform)
        assert run.entry.counts.calls > 0
        assert not run.entry.failed
        assert run.taken == [BYTES // frames[0] * frames[0]] * len(run.entry.inputs), frames
        assert not any(arc.has_frame for arc in run.entry.inputs), frames
        for sink, samples in zip(run.sinks, expected, strict=True):
            assert len(sink.data) % frames[1] == 0
            if kind not in ONE_OUTPUT_A_CALL:
                assert sink.data, frames
                assert samples.startswith(sink.data), frames
                assert len(samples) - len(sink.data) < frames[1], frames


def outcome(kind: str, frames: tuple[int, int], platform: Platform) -> str:
    """Why a graph is refused at RESET, or what it takes."""
    try:
        return str(Run(kind, frames, RATES[0], platform).taken)
    except GraphError as error:
        return str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_half_samples_are_refused_where_they_would_stop_the_graph(kind: str, platform: Platform) -> None:
    told = outcome(kind, (7, 7), platform)
    assert "a frame of 7 bytes is not a whole number of samples" in told or set(told) <= set(
        str([BYTES // 7 * 7] * 2)
    )


@pytest.mark.parametrize("kind", [*KINDS[1:], NAME])
def test_the_guide_names_the_node(kind: str) -> None:
    assert f"`{kind}`" in (ROOT / "docs/guides/graphs.md").read_text(encoding="utf-8")
