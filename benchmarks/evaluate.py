"""Data sets in engine processes beside the bare loop, and many runs on a device beside single ones.

    python -m benchmarks evaluate

The bare loop sets the input, invokes and gets the output, over rows in memory, in this process. What is
compared takes turns; times are CPU time of all processes without what starting takes, which a run of two
examples has, too. On a device it is the time that passes, in turns of 60 ms.
"""

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import trio
from PIL import Image

from aisrv import digits
from aisrv.addons.evaluate.evaluation import evaluate
from aisrv.addons.evaluate.request import Loaded, Request, load
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.local_run import LocalRun, LocalSettings
from aisrv.inference.interpreter import create_interpreter
from aisrv.protocol.engine_kind import EngineKind
from benchmarks.models_of_others import at_hand
from benchmarks.rows import Row
from host_tools.client import AiServer
from tests.support.peers import mlperf_tiny

PAIRS: Final = int(os.environ.get("AISRV_PAIRS", "15"))
TURN_SECONDS: Final = 0.06
PICTURES: Final = 1500
FEW: Final = 2
"""Examples of a run that takes hardly more than starting."""


def run() -> Iterator[Row]:
    """Yield the ratios: above 1 is faster than what it is compared with."""
    with tempfile.TemporaryDirectory() as name:
        yield from _digits(Path(name))
        for model in at_hand(mlperf_tiny, "vww_96_int8").values():
            yield from _person_detector(Path(name), model)


def _digits(folder: Path) -> Iterator[Row]:
    model = digits.model_bytes()
    many = _write(folder, "digits", model, 64, 1_000_000)
    few = _write(folder, "few digits", model, 64, 20_000)
    yield from _beside_the_loop("digits on tflite", *few, "tflite")
    yield from _beside_the_loop("digits on kernels:native", *many, "kernels:native")
    yield from _whole("digits on kernels:native", *many, folder)
    yield _two_workers("digits on tflite", *few, "tflite")
    yield from _many_runs("digits", model, 64, folder)


def _person_detector(folder: Path, model: bytes) -> Iterator[Row]:
    paths = _write(folder, "vww", model, 27_648, 20_000)
    yield from _beside_the_loop("vww on kernels:native", *paths, "kernels:native")
    yield _pictures(folder, paths[0])
    yield _two_workers("vww on kernels:native", *paths)
    yield from _many_runs("vww", model, 27_648, folder)


def _write(folder: Path, name: str, model: bytes, row: int, count: int) -> tuple[Path, Path]:
    random = np.random.default_rng(0)
    path, data = folder / f"{name}.tflite", folder / f"{name}.npz"
    path.write_bytes(model)
    if row == 64:
        images = np.array([np.frombuffer(each.image, np.int8) for each in digits.test_images()])
        labels = np.array([each.label for each in digits.test_images()])
        picks = np.arange(count) % len(images)
        np.savez(data, x=images[picks], y=labels[picks])
    else:
        np.savez(data, x=random.integers(-128, 128, (count, row), np.int8), y=np.zeros(count, np.int64))
    return path, data


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _taken(action: Callable[[], object]) -> float:
    before = _cpu()
    action()
    return _cpu() - before


def _bare(model: Path, data: Path, kind: str) -> Callable[[], None]:
    interpreter = create_interpreter(EngineKind.parse(kind))
    layout = interpreter.load(model.read_bytes(), 1 << 26)
    with np.load(data) as archive:
        rows = [row.data for row in archive["x"].view(np.uint8)]
    out = memoryview(bytearray(layout.outputs[0]))
    set_input, invoke, get_output = interpreter.set_input, interpreter.invoke, interpreter.get_output

    def loop() -> None:
        for row in rows:
            set_input(0, row)
            invoke()
            get_output(0, out)

    return loop


def _local(model: Path, data: Path | str, kind: str, limit: int | None) -> Callable[[], None]:
    request = Request(model, str(data), kind=EngineKind.parse(kind), limit=limit)
    return _local_run(request, load(request), 1)


def _local_run(request: Request, loaded: Loaded, processes: int) -> Callable[[], None]:
    def action() -> None:
        answers = Answers(len(loaded.data), loaded.output_bytes, 1000, files=bool(loaded.data.files))
        settings = LocalSettings(request.kind, loaded.file.data, processes)
        local = LocalRun(settings, loaded.data, loaded.preparation, answers, lambda _first, _end: None)
        trio.run(local.run)

    return action


def _beside_the_loop(name: str, model: Path, data: Path, kind: str) -> list[Row]:
    bare, ours = _bare(model, data, kind), _local(model, data, kind, None)
    start = _local(model, data, kind, FEW)
    ratios, starts = [], []
    for _ in range(PAIRS):
        starts.append(_taken(start))
        ratios.append(_taken(bare) / (_taken(ours) - starts[-1]))
    return [
        Row(f"{name}: one engine process, of the bare loop", statistics.median(ratios), ""),
        Row(f"{name}: starting it, CPU time", statistics.median(starts), "s"),
    ]


def _whole(name: str, model: Path, data: Path, folder: Path) -> Iterator[Row]:
    """Compare all of an evaluation but imports: reading, running, figures with intervals, parts, the folder.

    A run of two examples takes what does not depend on their number; ratios are with and without it.
    """
    bare = _bare(model, data, "kernels:native")
    plain = Request(model, str(data), kind=EngineKind.parse("kernels:native"), processes=1, check=0)
    for key, has_parts in (("without parts", False), ("with parts", True)):
        ratios, others, starts = [], [], []
        for number in range(PAIRS):
            with tempfile.TemporaryDirectory(dir=folder) as run:
                request = replace(plain, folder=Path(run) / "all") if has_parts else plain
                few = replace(request, limit=FEW, folder=Path(run) / "few" if has_parts else None)
                starts.append(_taken(lambda few=few: evaluate(few)))  # type: ignore[misc]
                base = _taken(bare)
                taken = _taken(lambda request=request: evaluate(request))  # type: ignore[misc]
                ratios.append(base / taken)
                others.append(base / (taken - starts[number]))
        whole = f"{name}: all of it {key}, of the bare loop"
        yield Row(whole, statistics.median(ratios), "")
        yield Row(f"{whole}, without what two examples take", statistics.median(others), "")
        yield Row(f"{name}: two examples {key}, CPU time", statistics.median(starts), "s")


def _pictures(folder: Path, model: Path) -> Row:
    """Compare JPEG files of 640x480 with a loop that reads, decodes and runs them one after the other."""
    random = np.random.default_rng(0)
    place = folder / "photos" / "person"
    place.mkdir(parents=True)
    for number in range(PICTURES):
        coarse = random.integers(0, 256, (12, 16, 3), np.uint8)
        picture = Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC)
        picture.save(place / f"{number:04}.jpg", quality=90)
    request = Request(model, str(place.parent), kind=EngineKind.parse("kernels:native"))
    loaded = load(request)
    interpreter = create_interpreter(request.kind)
    layout = interpreter.load(loaded.file.data, 1 << 26)
    out = memoryview(bytearray(layout.outputs[0]))
    files = sorted(place.iterdir())

    def loop() -> None:
        for path in files:
            interpreter.set_input(0, memoryview(loaded.preparation.file_row(path.read_bytes())))
            interpreter.invoke()
            interpreter.get_output(0, out)

    ours = _local_run(request, loaded, 1)
    few = _local(model, str(place.parent), "kernels:native", FEW)
    ratios = [_taken(loop) / (_taken(ours) - _taken(few)) for _ in range(PAIRS)]
    return Row("vww, JPEG of 640x480: of a loop that decodes, too", statistics.median(ratios), "")


def _two_workers(name: str, model: Path, data: Path, kind: str = "kernels:native") -> Row:
    """Compare two engine processes with one, by the time that passes; 1 is twice as fast."""
    request = Request(model, str(data), kind=EngineKind.parse(kind))
    loaded = load(request)
    one, two = (_local_run(request, loaded, processes) for processes in (1, 2))
    few = _local(model, str(data), kind, FEW)
    ratios = []
    for _ in range(PAIRS):
        start = _passed(few)
        ratios.append((_passed(one) - start) / (_passed(two) - start) / 2)
    return Row(
        f"{name}: two engine processes, of twice one, by the time that passes", statistics.median(ratios), ""
    )


def _passed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _many_runs(name: str, model: bytes, size: int, folder: Path) -> list[Row]:
    board = folder / "board.toml"
    board.write_text('[usb]\n[[engines]]\nkind = "kernels:native"\n')
    inputs = [bytes(each) for each in np.random.default_rng(0).integers(0, 256, (64, size), np.uint8)]
    with AiServer.open(f"virtual:{board}") as server:  # a process of its own, as users have it
        server.load_model(model, memory="ext")

        def single() -> int:
            for data in inputs:
                server.run(data)
            return len(inputs)

        def many() -> int:
            return sum(1 for _ in server.run_many(inputs))

        ratios = [_rate(many) / _rate(single) for _ in range(PAIRS)]
    return [Row(f"{name}: run_many, of run, by the time that passes", statistics.median(ratios), "")]


def _rate(action: Callable[[], int]) -> float:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < TURN_SECONDS:
        count += action()
    return count / (time.perf_counter() - start)
