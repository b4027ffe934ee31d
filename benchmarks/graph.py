"""Graphs: visits and samples a second beside the same pipeline in plain NumPy, and the way to a GPIO.

`python -m benchmarks graph`. The pipeline is a row of amplifiers on frames of 320 samples of 16 bits. The two
take turns in one run.
"""

import statistics
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.addons.graph.board import Graph
from aisrv.addons.graph.device import graph_of
from aisrv.addons.graph.nodes.amplifier import gain_of
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from benchmarks.rows import Row
from tests.support.models.graphs import Sink, Source, chain, digit_graph, form, write_words

REPEATS: Final = 5
SAMPLES: Final = 320
CALLS: Final = 4000
"""Calls of nodes in a repeat."""
GAIN: Final = 0x804
PICTURES: Final = 200


def run() -> list[Row]:
    """Measure."""
    rows = []
    for nodes in (1, 10, 100):
        rows += _pipeline(nodes)
    rows.append(Row("last sample to GPIO, virtual time", 1e6 * _latency(virtual=True), "µs"))
    rows.append(Row("the same, real time, interpreter in the process", 1e6 * _latency(virtual=False), "µs"))
    return rows


def _pipeline(nodes: int) -> list[Row]:
    frames = max(1, CALLS // nodes)
    audio = np.random.default_rng(1).integers(-8192, 8192, (frames, SAMPLES)).astype("<i2")
    data = audio.tobytes()
    block = struct.pack("<BHBHH", 0, GAIN, 0, 0, 0)
    visits = 0

    def graph() -> bytes:
        nonlocal visits
        interpreter = chain(
            (1, 2), [form(2 * SAMPLES)] * (nodes + 1), [("arm_stream_amplifier", block, 0)] * nodes
        ).interpreter()
        sink = Sink()
        interpreter.attach(1, Source(data))
        interpreter.attach(2, sink)
        begin = time.perf_counter()
        interpreter.run()
        times["graph"].append(time.perf_counter() - begin)
        visits = interpreter.visits
        return bytes(sink.data)

    def plain() -> bytes:
        gain = np.int64(gain_of(GAIN))
        out = np.empty_like(audio)
        begin = time.perf_counter()
        for number in range(frames):
            samples: npt.NDArray[Any] = audio[number]
            for _ in range(nodes):
                samples = np.clip(samples.astype(np.int64) * gain >> 32, -32768, 32767).astype("<i2")
            out[number] = samples
        times["plain"].append(time.perf_counter() - begin)
        return out.tobytes()

    times: dict[str, list[float]] = {"graph": [], "plain": []}
    for _ in range(REPEATS):
        if graph() != plain():
            raise AssertionError("the graph and the plain pipeline differ")
    ours, theirs = min(times["graph"]), min(times["plain"])
    what = f"{nodes} node{'s' if nodes > 1 else ''}"
    return [
        Row(f"{what}: visits", visits / ours / 1e3, "thousand/s"),
        Row(f"{what}: samples", frames * SAMPLES / ours / 1e6, "million/s"),
        Row(f"{what}: samples, plain NumPy", frames * SAMPLES / theirs / 1e6, "million/s"),
        Row(f"{what}: time of the graph / of plain NumPy", ours / theirs, ""),
    ]


def _latency(*, virtual: bool) -> float:
    """Median seconds from a picture's arrival to the change of a pin, through converter and engine."""
    seconds: list[float] = []
    ones = next(image.image for image in digits.test_images() if image.label == 1)
    twos = next(image.image for image in digits.test_images() if image.label == 2)

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            spec = Graph(
                path=write_words(digit_graph(), Path(folder) / "graph.txt"),
                ios={7: "gpio:0,1,2,3,4,5,6,7,8,9"},
            )
            async with open_device(Board(parts=(spec,)), runner=inline) as device:
                await device.load_model(digits.model_bytes())
                await trio.sleep(0.1)
                graph = graph_of(device)
                assert graph.live is not None
                live, port = graph.live, graph.live.interpreters[0].ports[0]
                changed = trio.Event()
                for pin in graph.pins.values():
                    pin.observe(lambda _level: changed.set())
                for number in range(PICTURES):
                    picture = bytes(value ^ 0x80 for value in (twos if number % 2 else ones))
                    changed = trio.Event()
                    begin = trio.current_time()
                    live.post(port, picture)
                    with trio.fail_after(5):
                        await changed.wait()
                    seconds.append(trio.current_time() - begin)
                    await trio.sleep(0.001)

    if virtual:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    else:
        trio.run(main)
    return statistics.median(seconds)
