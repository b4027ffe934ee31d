"""Graphs on a device, on virtual time: sensors, nodes, AI engines and GPIO, beside its hosts."""

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.addons.graph.board import Graph
from aisrv.addons.graph.device import graph_of
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, BoardError, EngineSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.xcore.timed.device_costs import graph_pass_slots
from tests.support.amounts import amount
from tests.support.models import networks
from tests.support.models.graphs import (
    STREAM,
    GraphBuilder,
    digit_graph,
    form,
    golden_audio,
    word_graph,
    write_wav,
    write_words,
)
from tests.support.oracles.past_timeline import Scheduled
from tests.support.paths import ROOT

Change = tuple[float, str, bool]


def word_network() -> bytes:
    """The network of the example."""
    model: bytes = runpy.run_path(str(ROOT / "examples" / "word_network.py"))["network"]()
    return model


def virtual(function: Callable[[], object]) -> None:
    trio.run(function, clock=MockClock(autojump_threshold=0))  # type: ignore[arg-type]


def changes_of(device: Device) -> list[Change]:
    """Collect the changes of all pins, with their times since now."""
    changes: list[Change] = []
    start = trio.current_time()
    for pin in graph_of(device).pins.values():

        def note(level: bool, name: str = pin.name) -> None:
            changes.append((round(trio.current_time() - start, 6), name, level))

        pin.observe(note)
    return changes


def decisions() -> list[int]:
    """The golden decision of each frame, as the converter gives it."""
    return [127 if value else 0 for value in np.fromfile(STREAM / "trace_100frames.raw", "<i4").tolist()]


@pytest.mark.plain_time("its decisions come at the ticks of their frames, without the time of runs")
def test_microphone_to_keyword_to_gpio(tmp_path: Path) -> None:
    write_wav(golden_audio() + bytes(640 * 60), tmp_path / "speech.wav")
    spec = Graph(
        path=write_words(word_graph(), tmp_path / "graph.txt"),
        ios={4: "wav:speech.wav", 8: "gpio:word,long"},
    ).resolved(tmp_path)
    model = word_network()
    golden = decisions()

    async def main() -> None:
        async with open_device(Board(parts=(spec,)), runner=inline) as device:
            changes = changes_of(device)
            await device.load_model(model)
            await trio.sleep(4)
        first = np.frombuffer(networks.run(model, bytes(golden[:16]))[0], "<i1")
        assert first.tolist() == [79, 16]
        # The window of 16 decisions is full with frame 15, whose samples come at 15 * 20 ms.
        assert changes[:2] == [(0.3, "word", True), (0.3, "long", True)]
        assert [change[1:] for change in changes[2:]] == [("long", False), ("word", False)]

    virtual(main)


@pytest.mark.plain_time("its decisions come at the ticks of their frames, without the time of runs")
def test_camera_to_digits_to_gpio(tmp_path: Path) -> None:
    images = digits.test_images()[:10]
    camera = b"".join(bytes(value ^ 0x80 for value in each.image) for each in images)
    (tmp_path / "camera.bin").write_bytes(camera)
    pins = ",".join(map(str, range(10)))
    spec = Graph(
        path=write_words(digit_graph(), tmp_path / "graph.txt"),
        ios={5: "raw:camera.bin:8x8:bayer:rate=2", 7: f"gpio:{pins}"},
    ).resolved(tmp_path)
    expected = []
    level = [False] * 10
    for number, image in enumerate(images):
        scores = np.frombuffer(networks.run(digits.model_bytes(), image.image)[0], "<i1")
        for pin, high in enumerate((scores > 0).tolist()):
            if level[pin] != high:
                level[pin] = high
                expected.append((number * 0.5, str(pin), high))

    async def main() -> None:
        async with open_device(Board(parts=(spec,)), runner=inline) as device:
            changes = changes_of(device)
            await device.load_model(digits.model_bytes())
            await trio.sleep(10)
            assert changes == expected

    virtual(main)


def test_a_host_uses_the_same_engine_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "camera.bin").write_bytes(bytes(64) * 20)
    spec = Graph(
        path=write_words(digit_graph(), tmp_path / "graph.txt"),
        ios={5: "raw:camera.bin:8x8:bayer:rate=10", 7: "file:out.bin"},
    ).resolved(tmp_path)

    async def main() -> None:
        async with open_device(Board(parts=(spec,)), runner=inline) as device:
            await device.load_model(digits.model_bytes())
            host = InProcessHost(device.usb)
            await host.plug_in()
            await trio.sleep(0.55)
            await host.write(b"\x10\0\0")
            assert (await host.read(512))[:4] == b"\x78\x56\x34\x12"
            await trio.sleep(5)
            assert device.engines[0].inferences == 20
            assert device.engines[0].errors == 0

    virtual(main)
    blank = networks.run(digits.model_bytes(), b"\x80" * 64)[0]
    assert (tmp_path / "out.bin").read_bytes() == blank * 20


def test_the_graph_waits_for_a_model_that_fits(tmp_path: Path) -> None:
    spec = Graph(path=write_words(digit_graph(), tmp_path / "graph.txt"))

    async def main() -> None:
        async with open_device(Board(parts=(spec,)), runner=inline) as device:
            await trio.sleep(1)
            live = graph_of(device).live
            assert live is not None
            assert live.waits_for == "aisrv_stream_inference 0: engine 0 has no input tensor 0"
            await device.load_model(word_network())
            await trio.sleep(1)
            assert live.waits_for == (
                "aisrv_stream_inference 0: a frame of the input has 64 bytes; "
                "input tensor 0 of engine 0 has 16"
            )
            await device.load_model(digits.model_bytes())
            await trio.sleep(1)
            assert live.waits_for is None

    virtual(main)


@pytest.mark.parametrize("device_time", [False, True])
def test_interpreters_on_several_cores_run_a_graph(tmp_path: Path, device_time: bool) -> None:
    builder = GraphBuilder(processors=3)
    arcs = [builder.arc(form(64), form(64)) for _ in range(3)]
    builder.io(1, arcs[0])
    builder.io(2, arcs[2], tx=True)
    for number in range(2):
        builder.node(
            "arm_stream_filter",
            arcs[number : number + 1],
            arcs[number + 1 : number + 2],
            processor=number + 1,
        )
    data = bytes(range(256)) * 10
    (tmp_path / "in.bin").write_bytes(data)
    spec = Graph(
        path=write_words(builder.build(), tmp_path / "graph.txt"),
        cores=2,
        ios={1: "file:in.bin", 2: "file:out.bin"},
    ).resolved(tmp_path)

    async def main() -> None:
        async with open_device(Board(parts=(spec,)), runner=inline, device_time=device_time) as device:
            await trio.sleep(1)
            live = graph_of(device).live
            assert live is not None
            assert [each.visits > 0 for each in live.interpreters] == [True, True]
            assert [core.name for core in device.node.tiles[0].cores][-2:] == ["graph 0", "graph 1"]

    virtual(main)
    assert (tmp_path / "out.bin").read_bytes() == data


@pytest.mark.parametrize(
    ("ios", "message"),
    [
        ({9: "gpio:led"}, "the graph does not use IO 9; it uses 5, 7"),
        ({5: "gpio:led"}, "IO 5 is an input; a GPIO can only be joined to an output"),
        ({7: "wav:x.wav"}, "IO 7 is an output"),
        ({5: "file:pipe"}, "pipe: not a regular file"),
        ({5: "file:/dev/zero"}, "/dev/zero: not a regular file"),
        ({5: "file:missing"}, "missing: No such file or directory"),
    ],
)
async def test_a_wrong_io_is_refused(tmp_path: Path, ios: dict[int, str], message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    spec = Graph(path=write_words(digit_graph(), tmp_path / "graph.txt"), ios=ios).resolved(tmp_path)
    with pytest.raises(BoardError, match=message):
        async with open_device(Board(parts=(spec,)), runner=inline):
            pass


async def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("0x2, 0x0,")
    with pytest.raises(BoardError, match="the first value says 2 words"):
        async with open_device(Board(parts=(Graph(path=tmp_path / "graph.txt"),)), runner=inline):
            pass


@pytest.mark.parametrize(
    "change",
    [
        {"tile": 2},
        {"cores": 0},
        {"cores": 8},
        {"engines": (1,)},
        {"engines": (0, 0)},
        {"ios": {128: "gpio:x"}},
        {"ios": {1: "x"}},
    ],
)
def test_a_board_checks_its_graph(change: dict[str, object]) -> None:
    with pytest.raises(BoardError):
        Board(engines=(EngineSpec(),), parts=(Graph(path=Path("x"), **change),))  # type: ignore[arg-type]


def timed_run(tmp_path: Path, seed: int) -> tuple[list[tuple[str, int]], set[str]]:
    """Ticks of the pins' changes in device time, and cores that waited past the timeline."""
    spec = Graph(path=tmp_path / "graph.txt", ios={4: "wav:speech.wav", 8: "gpio:word,long"}).resolved(
        tmp_path
    )

    async def main() -> tuple[list[tuple[str, int]], set[str]]:
        changes: list[tuple[str, int]] = []
        async with open_device(Board(parts=(spec,)), runner=inline, device_time=True) as device:
            begin = device.node.clock.ticks()
            watch = Scheduled()
            trio.lowlevel.add_instrument(watch)
            for pin in graph_of(device).pins.values():

                def note(level: bool, name: str = pin.name) -> None:
                    changes.append((f"{name} {level:d}", device.node.clock.ticks() - begin))

                pin.observe(note)
            await device.load_model(word_network())
            await trio.sleep(4)
            trio.lowlevel.remove_instrument(watch)
        assert watch.turns > 500
        return changes, watch.past

    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.in_full
def test_a_graph_takes_its_time_and_waits_by_the_timeline_alone(tmp_path: Path) -> None:
    write_wav(golden_audio() + bytes(640 * 60), tmp_path / "speech.wav")
    write_words(word_graph(), tmp_path / "graph.txt")
    changes, past = timed_run(tmp_path, 0)
    assert past == set()
    assert [name for name, _ in changes] == ["word 1", "long 1", "long 0", "word 0"]
    due = 15 * 2_000_000
    assert due < changes[0][1] < due + 200_000  # what nodes and the inference take
    for seed in range(1, amount(20, every_day=2)):
        assert timed_run(tmp_path, seed) == (changes, set()), seed


def test_a_pass_of_a_graph_takes_slots_for_calls_and_words() -> None:
    assert graph_pass_slots(0, 0) == 20
    assert graph_pass_slots(3, 1281) == 20 + 60 + 4 * 321
