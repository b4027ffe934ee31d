"""A device of the ioserver protocol in C with real models: the hosts of the protocol."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import usb.util

from aisrv.attach.background import BackgroundDevice
from aisrv.board.toml_file import read_board
from aisrv.device.device import Device
from aisrv.protocol.commands import Command
from host_tools.standins.pyusb_backend import get_backend
from tests.integration import test_ioserver as ours
from tests.integration.test_ioserver import MODELS, OWN_PROGRAM, model_files, xmos_python
from tests.support.benches.c_programs import kept_folder, kept_programs, need_compiler
from tests.support.models import networks
from tests.support.paths import ROOT
from tests.support.peers.ioserver_host import IoserverHost
from tests.support.programs import AISRV, run_process

__all__ = ["kept_programs", "model_files", "xmos_python"]
pytestmark = pytest.mark.long("every day the same firmware serves scripted engines, in tests/phy/usb")

BOARD = """
[usb]
protocol = "ioserver"
task = "usb_device"

[[engines]]
tile = 0
arena = "200K"
[[engines]]
tile = 1
arena = "200K"
[[engines]]
tile = 0
arena = "200K"

[[tasks]]
name = "usb_device"
tile = 1
c = ["{source}"]
defines = {{ MODELS = 3 }}
ends = {{ first = "engine 0", second = "engine 1", third = "engine 2" }}
"""

SAME = (
    ours.test_every_digit_gives_the_bytes_of_tflite_runtime_called_directly,
    ours.test_models_by_number_one_with_two_inputs_of_whole_packets,
    ours.test_reset_gives_variables_their_first_values,
    ours.test_reset_of_one_model_leaves_the_others_alone,
)
"""Tests of the device in Python that hold for the one in C."""
for _test in SAME:
    globals()[_test.__name__] = _test


@pytest.fixture(scope="module")
def board_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_compiler()
    path = tmp_path_factory.mktemp("board") / "ioserver.toml"
    path.write_text(BOARD.format(source=ROOT / "tests/addons/firmware/programs/ioserver.c"))
    return path


@pytest.fixture(scope="module")
def address(board_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    async def load(device: Device) -> None:
        for number, model in enumerate(MODELS):
            await device.load_model(model, engine=number, command=Command.SET_MODEL_EXT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", kept_folder(tmp_path_factory))
        with BackgroundDevice(read_board(board_file)) as background:
            background.call(load)
            yield background.usbip_address


@pytest.fixture
def host(address: str) -> Iterator[IoserverHost]:
    host = IoserverHost(get_backend(address))
    yield host
    usb.util.dispose_resources(host.device)


@pytest.fixture
def execute(
    board_file: Path, model_files: list[Path], kept_programs: None
) -> Callable[[str, str], list[object]]:
    """Run a program under `aisrv exec` with the board and all models; it prints JSON as its last line."""

    def run(python: str, program: str) -> list[object]:
        options = [option for path in model_files for option in ("--model", str(path))]
        settings = ["--board", str(board_file), "--model-memory", "ext", *options]
        done = run_process([*AISRV, "exec", *settings, "--", python, "-c", program])
        assert done.returncode == 0, done.stderr
        answers: list[object] = json.loads(done.stdout.splitlines()[-1])
        return answers

    return run


def test_exec_runs_a_host_against_it(
    execute: Callable[[str, str], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    outputs = [ours.EXPECTED[0] + bytes(2), bytes(1024), networks.floats(1, 2, 3, 4)]
    assert execute(sys.executable, OWN_PROGRAM) == [output.hex() for output in outputs]


# XMOS's own host class.


def test_xmos_class_finds_what_it_was_written_for(
    execute: Callable[[str, str], list[object]], xmos_python: str
) -> None:
    program = f"""
server.reset()
answers = []
for image in {[image.hex() for image, _ in ours.IMAGES]!r}:
    server.write_input_tensor(bytes.fromhex(image))
    server.start_inference()
    answers.append(result(server.read_output_tensor))
server.write_input_tensor(bytes([1]) * 1024, tensor_num=0, model_num=1)
server.write_input_tensor(bytes([2]) * 1024, tensor_num=1, model_num=1)
answers.append(result(server.read_output_tensor, model_num=1))
server.close()
server.connect()
answers.append(result(server.read_output_tensor))
server.close()
print(json.dumps(answers))
"""
    got = execute(xmos_python, ours.XMOS_PROGRAM + ours.CONNECT + program)
    outputs = [output + bytes(2) for output in ours.EXPECTED]
    assert got == [output.hex() for output in [*outputs, bytes(1024), outputs[-1]]]
