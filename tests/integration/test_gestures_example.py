"""The gestures on a Jacdac bus: what the example prints, and each result beside the reference kernels."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from tests.support.models import networks
from tests.support.paths import ROOT
from tests.support.programs import run_process

FOLDER = ROOT / "examples" / "gestures"
SCALE = np.float64(1 / 32)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def gesture_network() -> ModuleType:
    return load("gesture_network")


@pytest.fixture(scope="module")
def gestures(gesture_network: ModuleType) -> ModuleType:
    return load("gestures")


def quantized(window: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> bytes:
    steps = window.astype(np.float64) / SCALE
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.clip(whole, -128, 127).astype(np.int8).tobytes()


def test_each_result_is_that_of_the_reference_kernels(
    gestures: ModuleType, gesture_network: ModuleType
) -> None:
    model, forces = gesture_network.network(), gestures.movements()
    seen = trio.run(gestures.run, model, forces, clock=MockClock(autojump_threshold=0))
    readings = (np.round(forces * 2**20) / 2**20).astype(np.float32)[1:]  # the first starts the clock
    samples = np.concatenate([np.zeros((gesture_network.SAMPLES, 3), np.float32), readings])
    ends = range(gestures.EVERY, len(readings) + 1, gestures.EVERY)
    assert len(seen) == len(ends) == 20
    for end, scores in zip(ends, seen, strict=True):
        (output,) = networks.run(model, quantized(samples[end : end + gesture_network.SAMPLES]))
        assert scores == tuple((np.frombuffer(output, np.int8).astype(float) + 128) / 256)


@pytest.mark.long("each of its results is compared every day")
def test_example_names_the_gestures() -> None:
    done = run_process([sys.executable, FOLDER / "gestures.py"], check=True)
    names = [line[8:].rsplit(maxsplit=1)[0].strip() for line in done.stdout.splitlines()]
    assert names == ["still"] * 5 + ["shake"] * 6 + ["nod"] * 5 + ["upside down"] * 4


def test_network_is_the_same_each_time_and_small(gesture_network: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "gesture.tflite"
    run_process([sys.executable, FOLDER / "gesture_network.py", path], check=True)
    assert path.read_bytes() == gesture_network.network()
    assert path.stat().st_size < 4096
