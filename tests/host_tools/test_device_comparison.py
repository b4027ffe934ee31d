"""Two devices compared: by arrays with known differences, and by `aisrv-host diff` between real devices."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aisrv import Board, digits
from aisrv.attach.background import BackgroundDevice
from aisrv.inference.process.inline import inline
from host_tools.cli import main
from host_tools.device_comparison import OutputDifference, _difference, in_runs, random_inputs
from host_tools.errors import TensorError
from host_tools.tensors.tensor_spec import TensorSpec
from host_tools.transports.usb import UsbTransport
from tests.support.benches.memory_device import Backend, Device, Engine
from tests.support.benches.memory_scheme import add_memory_scheme
from tests.support.command_calls import CommandCalls
from tests.support.models import networks

COMMAND = CommandCalls(main)
done, failed, call = COMMAND.done, COMMAND.failed, COMMAND.call


@pytest.fixture(scope="module")
def devices() -> Iterator[tuple[str, str]]:
    with (
        BackgroundDevice(Board(), runner=inline) as first,
        BackgroundDevice(Board(), runner=inline) as second,
    ):
        yield f"usbip:{first.usbip_address}", f"usbip:{second.usbip_address}"


def test_devices_that_agree(devices: tuple[str, str], digits_file: Path) -> None:
    lines = done("diff", *devices, "--model", digits_file, "--runs", 3).splitlines()
    assert lines[0] == "3 runs: all 30 elements agree"
    assert [line.rsplit(": ", 1)[0] for line in lines[1:]] == list(devices)
    answer = json.loads(done("diff", *devices, "--model", digits_file, "--json"))
    assert (answer["devices"], answer["runs"], answer["same"]) == (list(devices), 8, True)
    assert answer["microseconds"][0] == answer["microseconds"][1] > 0


def test_files_are_the_inputs_of_runs(devices: tuple[str, str], tmp_path: Path) -> None:
    model = tmp_path / "add.tflite"
    model.write_bytes(networks.two_input_add_network())
    paths = [tmp_path / str(number) for number in range(4)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 16)
    assert json.loads(done("diff", *devices, *paths, "--model", model, "--json"))["runs"] == 2
    assert "3 files given, each run takes 2" in failed(2, "diff", *devices, *paths[:3], "--model", model)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> str:
    """A device that answers 255 - i where the network would answer."""
    backend = Backend(Device(Engine(inputs=[64], outputs=[10], timings=[100] * 6)))
    add_memory_scheme(monkeypatch, lambda _: UsbTransport(backend, "the device"))
    return "memory"


def test_devices_that_differ(devices: tuple[str, str], other: str, digits_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(digits.test_images()[0].image)
    expected = np.frombuffer(networks.run(digits.model_bytes(), path.read_bytes())[0], np.int8).astype(int)
    answered = -1 - np.frombuffer(path.read_bytes()[:10], np.int8).astype(int)
    distance = abs(expected - answered)
    result = call("diff", devices[0], other, path, "--model", digits_file, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["outputs"] == [
        {
            "run": 0,
            "tensor": 0,
            "elements": 10,
            "differing": int((distance > 0).sum()),
            "largest": float(distance.max()),
            "first": int(distance.argmax() if distance[0] else np.flatnonzero(distance)[0]),
        }
    ]
    lines = call("diff", devices[0], other, path, "--model", digits_file).stdout.splitlines()
    assert lines[0].split()[:4] == ["run", "output", "elements", "differing"]
    assert f"1 runs: {(distance > 0).sum()} of 10 elements differ" in lines
    within = ("--tolerance", int(distance.max()))
    assert "all 10 elements agree" in done("diff", devices[0], other, path, "--model", digits_file, *within)


def test_errors_of_a_device(devices: tuple[str, str], tmp_path: Path) -> None:
    assert "no USB/IP server answers" in failed(
        3, "diff", devices[0], "usbip:127.0.0.1:1", "--model", digits_model(tmp_path)
    )
    (tmp_path / "bad").write_bytes(b"bad")
    assert "the model" in failed(2, "diff", *devices, "--model", tmp_path / "bad")
    assert call("diff", devices[0], "--model", tmp_path / "bad").exit_code == 2


def digits_model(folder: Path) -> Path:
    path = folder / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path


# Elements


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], 0, (0, 0.0, None)),
        ([1, 2, 3], [1, 4, 0], 0, (2, 3.0, 1)),
        ([1, 2, 3], [1, 4, 0], 2, (1, 3.0, 2)),
        ([np.nan, np.inf], [np.nan, np.inf], 0, (0, 0.0, None)),
        ([np.nan, 1.0], [1.0, 1.0], 100, (1, np.inf, 0)),
        ([np.inf, 1.0], [-np.inf, 1.5], 1, (1, np.inf, 0)),
        ([], [], 0, (0, 0.0, None)),
    ],
)
def test_differences(
    one: list[float], other: list[float], tolerance: float, expected: tuple[int, float, int | None]
) -> None:
    found = _difference(0, 0, np.array(one), np.array(other), tolerance)
    assert found == OutputDifference(0, 0, len(one), *expected)


def test_int8_extremes_are_255_apart() -> None:
    ends = np.array([-128], np.int8), np.array([127], np.int8)
    assert _difference(0, 0, *ends, 0).largest == 255


def test_random_inputs_are_the_same_for_a_seed() -> None:
    specs = [TensorSpec((2, 3)), TensorSpec((4,), "float32")]
    runs = random_inputs(specs, 2, 5)
    assert runs == random_inputs(specs, 2, 5) != random_inputs(specs, 2, 6)
    assert [[len(each) for each in run] for run in runs] == [[6, 16]] * 2
    assert all(0 <= value < 1 for value in struct.unpack("<4f", runs[0][1]))


def test_tensors_are_shared_out_to_runs() -> None:
    assert in_runs([b"a", b"b", b"c", b"d"], 2) == [[b"a", b"b"], [b"c", b"d"]]
    for tensors, inputs in (([b"a"], 2), ([], 0), ([b"a"], 0)):
        with pytest.raises(TensorError):
            in_runs(tensors, inputs)
