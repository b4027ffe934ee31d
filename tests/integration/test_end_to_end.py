"""The whole product, in real processes: `aisrv run`, `exec` and `demo`, the host library and `aisrv-host`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.protocol.commands import Dialect
from aisrv.protocol.memory_map import ModelMemory
from host_tools.client import AiServer
from host_tools.errors import BadCommandError, ModelError, NoModelError
from tests.inference.interpreters.test_tflite import unquantized_network
from tests.support.models import networks
from tests.support.programs import (
    AISRV,
    HOST,
    TIMEOUT,
    default_engine_line,
    next_command_line,
    refusal,
    run_process,
    running,
)

IMAGES = digits.test_images()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running() as (_, address):
        yield address


# The device.


def test_it_says_what_runs_the_models_where_nobody_names_an_engine() -> None:
    with running("--engine", "kernels") as (process, address):
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TIMEOUT) == ("", next_command_line(address))
    with running("--board", "chained", "--devices", "2") as (process, address):
        process.send_signal(signal.SIGINT)
        lines = default_engine_line() + next_command_line(address)
        assert process.communicate(timeout=TIMEOUT) == ("", lines)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_cleanly(number: signal.Signals, code: int) -> None:
    with running() as (process, address):
        with AiServer.open(address) as server:
            server.load_model(digits.model_bytes())
            process.send_signal(number)
            output, errors = process.communicate(timeout=TIMEOUT)
        lines = default_engine_line() + next_command_line(address)
        assert (process.returncode, output, errors) == (code, "", lines)


def test_it_loads_models_at_start(digits_file: Path) -> None:
    with running("--model", str(digits_file)) as (_, address), AiServer.open(address) as server:
        assert server.run(IMAGES[0].image) == networks.run(digits.model_bytes(), IMAGES[0].image)[0]


def test_a_network_larger_than_a_tile_runs_in_an_external_arena() -> None:
    """As XMOS's quick start does on its application without a sensor: 1.04 MB with one memory."""
    network, image = networks.big_network(1_040_000), bytes(range(256)) * 4
    with running("--board", "app_no_sensor") as (_, address), AiServer.open(address) as server:
        server.load_model(network)
        memory_map = server.memory_map()
        assert memory_map is not None
        assert memory_map.model_memory is ModelMemory.ARENA
        assert (memory_map.arena_bytes, memory_map.model_bytes) == (20_224_000, 1_040_000)
        assert server.run(image) == networks.run(network, image)[0]
        assert server.spec().external_kib == 19_750


def test_the_profile_is_printed_for_who_asks() -> None:
    with running() as (_, address):
        with AiServer.open(address) as server:
            server.load_model(digits.model_bytes())
            server.run(IMAGES[0].image)
        done = run_process([*HOST, "--device", address, "profile"])
        assert (done.returncode, done.stdout.splitlines()[2]) == (0, "Operators")
        with AiServer.open(address) as server:
            assert server.debug_log().endswith(done.stdout.rstrip("\n"))


def test_it_takes_a_model_for_each_engine(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first.tflite", "second.tflite"))
    halves = networks.cut_in_two()
    first.write_bytes(halves[0])
    second.write_bytes(halves[1])
    with (
        running("--board", "chained", "--model", str(first), "--model", str(second)) as (_, address),
        AiServer.open(address, engine=0) as start,
    ):
        start.write_input(IMAGES[5].image)
        start.infer()
        start.close()
        with AiServer.open(address, engine=1) as end:
            assert end.read_output() == networks.run(digits.model_bytes(), IMAGES[5].image)[0]


def test_a_model_that_an_engine_refuses_ends_it_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "bad.tflite"
    path.write_bytes(b"nonsense")
    code, output, errors = refusal("run", "--port", "0", "--model", str(path))
    assert (code, output) == (1, "")
    assert errors.startswith("Error: engine 0 answered")
    assert "Traceback" not in errors


# The host library, over USB/IP.


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    "size",
    [511, 512, 513, *(pytest.param(size, marks=pytest.mark.long("as 512 and 513")) for size in (1024, 1025))],
)
def test_tensors_of_every_remainder_of_a_packet(address: str, dialect: Dialect, size: int) -> None:
    model = networks.two_input_add_network(size)
    one, two = bytes(i % 60 for i in range(size)), bytes(i % 61 for i in range(size))
    with AiServer.open(address, dialect=dialect) as server:
        server.load_model(model)
        server.write_input(one, tensor=0)
        server.write_input(two, tensor=1)
        server.infer()
        assert server.read_output() == bytes(a + b for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("dialect", Dialect)
def test_a_failure_is_typed_and_the_next_command_works(address: str, dialect: Dialect) -> None:
    with AiServer.open(address, dialect=dialect) as server:
        with pytest.raises(ModelError, match="not a TensorFlow Lite file"):
            server.load_model(b"nonsense" * 64, force=True)
        with pytest.raises(NoModelError):
            server.infer()
        server.load_model(digits.model_bytes())
        with pytest.raises(BadCommandError):
            server.read_output(tensor=3)
        assert server.id == 0x12345678


def test_a_failure_in_the_middle_of_a_run_is_told_as_its_own(address: str) -> None:
    with AiServer.open(address) as server:
        server.load_model(digits.model_bytes())
        with pytest.raises(BadCommandError, match="SET_INPUT_TENSOR failed"):
            server.run(bytes(63))
        assert len(server.run(IMAGES[0].image)) == 10


def test_a_model_that_kills_the_interpreter_costs_an_error_not_the_device(address: str) -> None:
    with AiServer.open(address) as server:
        with pytest.raises(ModelError, match="killed by SIGABRT"):
            server.load_model(unquantized_network())
        server.load_model(digits.model_bytes())
        assert len(server.run(IMAGES[0].image)) == 10


def test_a_model_stays_when_the_host_leaves(address: str) -> None:
    with AiServer.open(address) as server:
        server.load_model(digits.model_bytes())
    with AiServer.open(address) as server:
        assert server.run(IMAGES[1].image) == networks.run(digits.model_bytes(), IMAGES[1].image)[0]


# exec and demo.

PROGRAM = """
import sys, usb.core, usb.backend.libusb1
device = usb.core.find(idVendor=0x20B1, product="xAISRV")
device.write(0x01, b"\\x05\\0\\0")
try:
    device.read(0x81, 512)
except usb.core.USBError as error:
    assert error.backend_error_code == usb.backend.libusb1.LIBUSB_ERROR_PIPE
    sys.exit(9)
"""


def test_exec_ends_with_the_exit_code_of_an_unmodified_pyusb_program() -> None:
    done = run_process([*AISRV, "exec", "--", sys.executable, "-c", PROGRAM])
    assert done.returncode == 9


def test_exec_gives_the_program_its_model(digits_file: Path) -> None:
    done = run_process([*AISRV, "exec", "--model", digits_file, "--", sys.executable, "-c", PROGRAM])
    assert done.returncode == 0


def test_exec_of_a_program_that_does_not_exist() -> None:
    done = run_process([*AISRV, "exec", "--", "/nonexistent/tool"])
    assert done.returncode == 127
    assert "/nonexistent/tool" in done.stderr


@pytest.mark.long("two images are classified every day, and all of them on a device")
def test_the_demo_classifies_all_test_images() -> None:
    done = run_process([*AISRV, "demo", "--all", "--json"], check=True)
    result = json.loads(done.stdout)
    scores = [verdict["scores"] for verdict in result["verdicts"]]
    expected = [
        memoryview(networks.run(digits.model_bytes(), image)[0]).cast("b").tolist() for image, _ in IMAGES
    ]
    assert scores == expected
    names = [operator["name"] for operator in result["times"]["operators"]]
    assert names == ["CONV_2D", "MAX_POOL_2D"] * 2 + ["FULLY_CONNECTED", "SOFTMAX"]


def test_the_demo_shows_pictures_and_timings() -> None:
    done = run_process([*AISRV, "demo", "--count", "2"], check=True)
    text = done.stdout
    assert text.count("image ") == 2
    assert "One inference takes 0.414 ms (0.344 to 0.486), as predicted for the hardware;" in text
    assert "CONV_2D" in text


# The host tool.


def host(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_process([*HOST, "--device", address, *arguments], env={**os.environ, "COLUMNS": "100"})


def test_the_tool_loads_infers_and_shows_timings(address: str, digits_file: Path, tmp_path: Path) -> None:
    image = tmp_path / "image.bin"
    image.write_bytes(IMAGES[0].image)
    assert host(address, "load", str(digits_file)).returncode == 0
    inferred = host(address, "--json", "infer", str(image))
    assert inferred.returncode == 0, inferred.stderr
    timings = host(address, "timings", "--model", str(digits_file))
    assert "SOFTMAX" in timings.stdout


def test_a_virtual_board_is_chosen_by_name() -> None:
    with AiServer.open("virtual:two-engines", engine=1) as server:
        assert server.id == 0x12345678
