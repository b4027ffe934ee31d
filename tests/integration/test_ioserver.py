"""The ioserver protocol with real models: a pyusb host over USB/IP, the commands, and XMOS's own `IOServer`.

The last needs PyPI's `xmos-ai-tools`, whose license keeps it out of this project: where it is installed in
this environment, or in the one whose Python `AISRV_XMOS_PYTHON` names, it is used unmodified.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import usb.core
import usb.util
from usb.backend import libusb1

from aisrv import digits
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, EngineSpec, UsbProtocol
from aisrv.device.device import Device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command
from host_tools.standins.pyusb_backend import get_backend
from tests.support.models import networks
from tests.support.paths import ROOT
from tests.support.peers.ioserver_host import IoserverHost
from tests.support.peers.xcore_tools import python_with
from tests.support.programs import AISRV, run_process

IMAGES = digits.test_images()
TIMEOUT = 60
EXPECTED = [networks.run(digits.model_bytes(), image)[0] for image, _ in IMAGES]


MODELS = (digits.model_bytes(), networks.two_input_add_network(1024), networks.summing_network())
"""In the order of their numbers."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A device with MODELS; gives the address of its USB/IP server."""
    engines = tuple(EngineSpec(tile=number % 2, arena_bytes=200 * 1024) for number in range(len(MODELS)))

    async def load(device: Device) -> None:
        for number, model in enumerate(MODELS):
            await device.load_model(model, engine=number, command=Command.SET_MODEL_EXT)

    with BackgroundDevice(Board(engines=engines, protocol=UsbProtocol.IOSERVER), runner=inline) as background:
        background.call(load)
        yield background.usbip_address


@pytest.fixture
def host(address: str) -> Iterator[IoserverHost]:
    host = IoserverHost(get_backend(address))
    yield host
    usb.util.dispose_resources(host.device)


# A host of our own.


def test_every_digit_gives_the_bytes_of_tflite_runtime_called_directly(host: IoserverHost) -> None:
    got = [host.run(image) for image, _ in IMAGES]
    assert got == [output + bytes(2) for output in EXPECTED]


def test_models_by_number_one_with_two_inputs_of_whole_packets(host: IoserverHost) -> None:
    one, two = bytes(i % 60 for i in range(1024)), bytes(i % 61 for i in range(1024))
    host.write_input(one, tensor=0, model=1)
    host.write_input(IMAGES[3].image)
    host.write_input(two, tensor=1, model=1)
    host.infer(1)
    host.infer()
    assert host.read_output(model=1) == bytes(a + b for a, b in zip(one, two, strict=True))
    assert host.read_output() == EXPECTED[3] + bytes(2)


def test_reset_gives_variables_their_first_values(host: IoserverHost) -> None:
    host.reset(2)
    one = networks.floats(1, 2, 3, 4)
    assert [host.run(one, 2) for _ in range(2)] == [one, networks.floats(2, 4, 6, 8)]
    host.reset(2)
    assert host.run(one, 2) == one


def test_reset_of_one_model_leaves_the_others_alone(host: IoserverHost) -> None:
    host.reset(2)
    host.run(networks.floats(1, 1, 1, 1), 2)
    host.reset(0)
    assert host.run(networks.floats(1, 1, 1, 1), 2) == networks.floats(2, 2, 2, 2)


def test_the_next_host_finds_the_models_reset(address: str) -> None:
    one = networks.floats(1, 2, 3, 4)
    answers = []
    for _ in range(3):
        host = IoserverHost(get_backend(address))
        answers.append(host.run(one, 2))
        host.close()
    assert answers[1:] == [one, one]


@pytest.mark.parametrize("tensor", [2, 255])
def test_an_input_that_there_is_not_stalls_the_write(host: IoserverHost, tensor: int) -> None:
    with pytest.raises(usb.core.USBError) as failure:
        host.write_input(bytes(1024), tensor=tensor, model=1)
    assert failure.value.backend_error_code == libusb1.LIBUSB_ERROR_PIPE
    host.clear()
    assert host.run(IMAGES[0].image) == EXPECTED[0] + bytes(2)


@pytest.mark.parametrize("tensor", [1, 255])
def test_an_output_that_there_is_not_stalls_the_read(host: IoserverHost, tensor: int) -> None:
    with pytest.raises(usb.core.USBError) as failure:
        host.read_output(tensor)
    assert failure.value.backend_error_code == libusb1.LIBUSB_ERROR_PIPE
    host.clear()
    assert host.run(IMAGES[0].image) == EXPECTED[0] + bytes(2)


def test_an_input_of_the_wrong_size_stalls(host: IoserverHost) -> None:
    with pytest.raises(usb.core.USBError) as failure:
        host.write_input(bytes(1024))
    assert failure.value.backend_error_code == libusb1.LIBUSB_ERROR_PIPE
    host.clear()
    assert host.run(IMAGES[0].image) == EXPECTED[0] + bytes(2)


# The commands.


def refusal(*arguments: str) -> tuple[int, str]:
    done = run_process([*AISRV, *arguments])
    return done.returncode, done.stderr


def test_a_device_without_models_is_a_usage_error() -> None:
    code, errors = refusal("exec", "--protocol", "ioserver", "--", "true")
    assert code == 2
    assert "give --model FILE" in errors


@pytest.fixture
def model_files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.tflite" for number in range(len(MODELS))]
    for path, model in zip(paths, MODELS, strict=True):
        path.write_bytes(model)
    return paths


def execute(python: Path | str, program: str, models: list[Path]) -> list[object]:
    """Run a program under `aisrv exec --protocol ioserver`; it prints JSON as its last line."""
    options = [option for path in models for option in ("--model", str(path))]
    done = run_process([*AISRV, "exec", "--protocol", "ioserver", *options, "--", str(python), "-c", program])
    assert done.returncode == 0, done.stderr
    answer: list[object] = json.loads(done.stdout.splitlines()[-1])
    return answer


OWN_PROGRAM = f"""
import json
from tests.support.peers.ioserver_host import IoserverHost
host = IoserverHost()
outputs = [
    host.run(bytes.fromhex("{IMAGES[0].image.hex()}")),
    host.read_output(model=1),
    host.run(bytes.fromhex("{networks.floats(1, 2, 3, 4).hex()}"), 2),
]
host.close()
print(json.dumps([output.hex() for output in outputs]))
"""


def test_exec_gives_each_model_an_engine_in_their_order(
    model_files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    outputs = [EXPECTED[0] + bytes(2), bytes(1024), networks.floats(1, 2, 3, 4)]
    assert execute(sys.executable, OWN_PROGRAM, model_files) == [output.hex() for output in outputs]


# XMOS's host class, unmodified.


@pytest.fixture(scope="module")
def xmos_python() -> str:
    """A Python that has `xmos-ai-tools` and pyusb."""
    return python_with("xmos_ai_tools.io_server", "IOServer")


XMOS_PROGRAM = """
import json, sys
import numpy as np
from xmos_ai_tools.io_server import IOServer, IOError

def result(function, *arguments, **keywords):
    try:
        value = function(*arguments, **keywords)
    except IOError:
        return "IOError"
    return None if value is None else value.tobytes().hex()
"""
CONNECT = """
server = IOServer()
server.connect()
"""


def xmos(python: str, program: str, models: list[Path]) -> list[object]:
    return execute(python, XMOS_PROGRAM + CONNECT + program, models)


def test_xmos_every_digit(xmos_python: str, model_files: list[Path]) -> None:
    program = f"""
answers = []
for image in {[image.hex() for image, _ in IMAGES]!r}:
    server.write_input_tensor(bytes.fromhex(image))
    server.start_inference()
    answers.append(result(server.read_output_tensor))
server.close()
print(json.dumps(answers))
"""
    got = xmos(xmos_python, program, model_files[:1])
    assert got == [(output + bytes(2)).hex() for output in EXPECTED]


def test_xmos_output_details_shape_the_answer(xmos_python: str, model_files: list[Path]) -> None:
    program = f"""
server = IOServer(output_details=({{"shape": (1, 10), "dtype": np.int8}},))
server.connect()
server.reset()
server.write_input_tensor(bytes.fromhex("{IMAGES[7].image.hex()}"))
server.start_inference()
output = server.read_output_tensor()
server.close()
print(json.dumps([list(output.shape), output.tobytes().hex()]))
"""
    got = execute(xmos_python, XMOS_PROGRAM + program, model_files[:1])
    assert got == [[1, 10], EXPECTED[7].hex()]


def test_xmos_models_by_number(xmos_python: str, model_files: list[Path]) -> None:
    program = f"""
server.write_input_tensor(bytes([1]) * 1024, tensor_num=0, model_num=1)
server.write_input_tensor(bytes([2]) * 1024, tensor_num=1, model_num=1)
server.write_input_tensor(bytes.fromhex("{IMAGES[1].image.hex()}"))
server.start_inference()
answers = [result(server.read_output_tensor), result(server.read_output_tensor, model_num=1)]
server.close()
print(json.dumps(answers))
"""
    # Its start_inference knows model 0 only: model 1 has its input, and an output of zeros.
    assert xmos(xmos_python, program, model_files) == [(EXPECTED[1] + bytes(2)).hex(), bytes(1024).hex()]


def test_xmos_bad_tensor_numbers(xmos_python: str, model_files: list[Path]) -> None:
    program = f"""
image = bytes.fromhex("{IMAGES[2].image.hex()}")
answers = [result(server.write_input_tensor, image, tensor_num=1)]
server._clear_error()
answers.append(result(server.read_output_tensor, 1))
server._clear_error()
server.write_input_tensor(image)
server.start_inference()
answers.append(result(server.read_output_tensor))
server.close()
print(json.dumps(answers))
"""
    got = xmos(xmos_python, program, model_files[:1])
    assert got == ["IOError", "IOError", (EXPECTED[2] + bytes(2)).hex()]


def test_xmos_reset_and_a_second_connection(xmos_python: str, model_files: list[Path]) -> None:
    program = f"""
one = bytes.fromhex("{networks.floats(1, 2, 3, 4).hex()}")
def run():
    server.write_input_tensor(one)
    server.start_inference()
    return result(server.read_output_tensor)
answers = [run(), run()]
server.reset()
answers.append(run())
server.close()
server.connect()
answers.append(run())
server.close()
print(json.dumps(answers))
"""
    first, second = networks.floats(1, 2, 3, 4).hex(), networks.floats(2, 4, 6, 8).hex()
    assert xmos(xmos_python, program, model_files[2:]) == [first, second, first, first]
