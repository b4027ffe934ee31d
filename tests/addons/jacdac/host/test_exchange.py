"""An engine as a Model Runner on a Jacdac bus: what it carries, and what it refuses in words."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.jacdac.host.bus_client import BusClient
from aisrv.addons.jacdac.host.connection import JacdacConnection
from aisrv.addons.jacdac.host.model_runner import ModelRunnerClient
from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.addons.jacdac.wire.packing import Packing
from aisrv.addons.jacdac.wire.service_spec import Access, Register
from aisrv.addons.jacdac.wire.service_tables import CONTROL, MODEL_RUNNER
from host_tools.client import AiServer
from host_tools.errors import (
    BadAddressError,
    DeviceNotFound,
    HostError,
    ModelError,
    NoModelError,
    NotRunError,
    TransferError,
    TransferTimeout,
    UnsupportedCommand,
)
from tests.support.models import networks
from tests.support.paths import ROOT
from tests.support.programs import HOST, run_process

MODEL = digits.model_bytes()
MODEL_FILE = ROOT / "aisrv" / "digits" / "digits.tflite"
SEVEN = ROOT / "examples" / "seven.npy"
IMAGE = digits.test_images()[3].image
OUTPUT = networks.run(MODEL, IMAGE)[0]


def input_floats(image: bytes) -> bytes:
    return ((np.frombuffer(image, "i1").astype("f4") + 128) / 240).astype("<f4").tobytes()


def output_floats(output: bytes) -> bytes:
    return ((np.frombuffer(output, "i1").astype("f4") + 128) / 256).astype("<f4").tobytes()


@pytest.fixture
def server(aisrv_jacdac: str) -> Iterator[AiServer]:
    with AiServer.open(f"jacdac:{aisrv_jacdac}") as server:
        yield server


def test_load_and_run(server: AiServer) -> None:
    steps: list[tuple[int, int]] = []
    server.load_model(MODEL, progress=lambda done, whole: steps.append((done, whole)))
    assert steps[-1] == (len(MODEL), len(MODEL))
    assert (server.input_length(), server.output_length()) == (4 * 64, 4 * 10)
    assert server.run(input_floats(IMAGE)) == output_floats(OUTPUT)
    (ticks,) = server.timings()
    assert ticks > 0
    assert ticks % 100 == 0  # microseconds cross the bus


def test_output_is_read_from_the_register_by_another_client(server: AiServer, aisrv_jacdac: str) -> None:
    server.load_model(MODEL)
    server.run(input_floats(IMAGE))
    with AiServer.open(f"jacdac:{aisrv_jacdac}") as other:
        assert other.read_output() == output_floats(OUTPUT)


def test_engine_without_a_model(server: AiServer) -> None:
    with pytest.raises(NotRunError):
        server.timings()
    with pytest.raises(NoModelError):
        server.input_length()
    with pytest.raises(NoModelError):
        server.run(bytes(256))


def test_model_that_does_not_load_says_why_and_leaves_none(server: AiServer) -> None:
    server.load_model(MODEL)
    with pytest.raises(ModelError, match="ERROR_MODEL_ERR"):
        server.load_model(b"this is not a model at all, is it?!", force=True)
    with pytest.raises(NoModelError):
        server.input_length()


def test_model_of_no_bytes_is_refused_and_the_old_one_serves_on(server: AiServer) -> None:
    server.load_model(MODEL)
    with pytest.raises(ModelError, match="a model of 0 bytes"):
        server.load_model(b"", force=True)
    assert server.input_length() == 256


def test_input_of_another_size_is_refused(server: AiServer) -> None:
    server.load_model(MODEL)
    with pytest.raises(TransferError, match="64 bytes, the input has 256: over Jacdac it is float32"):
        server.run(IMAGE)


@pytest.mark.parametrize(
    "call",
    [
        lambda server: server.status(),
        lambda server: server.spec(),
        lambda server: server.debug_log(),
        lambda server: server.gpio_enabled(),
        lambda server: server.load_model(MODEL, "ext"),
        lambda server: server.load_model_from_flash(),
    ],
)
def test_what_the_services_lack_is_named(server: AiServer, call: Callable[[AiServer], object]) -> None:
    with pytest.raises(UnsupportedCommand, match="cannot be sent over Jacdac, which carries model, input"):
        call(server)


def test_inference_without_an_input_and_other_tensors_are_refused(server: AiServer) -> None:
    server.load_model(MODEL)
    with pytest.raises(UnsupportedCommand, match="keeps no input"):
        server.infer()
    with pytest.raises(UnsupportedCommand, match="tensor 0 only, not 1"):
        server.read_output(1)


def test_addresses(aisrv_jacdac: str) -> None:
    with pytest.raises(DeviceNotFound, match=r"no engine 4: device .* has 1 Model Runners"):
        AiServer.open(f"jacdac:{aisrv_jacdac}", engine=4)
    with pytest.raises(DeviceNotFound, match="no Model Runner on 0000000000000001 announces itself"):
        AiServer.open(f"jacdac:{aisrv_jacdac}/0000000000000001")
    with pytest.raises(BadAddressError, match="is not a device id"):
        AiServer.open(f"jacdac:{aisrv_jacdac}/1")
    with pytest.raises(HostError, match="HOST:PORT"):
        AiServer.open("jacdac:nowhere")


def announce_when_asked(bus: JacdacConnection) -> None:
    """Be one more device with a Model Runner."""
    announce = Announce(0x0F01, 1, (MODEL_RUNNER.service_class,))
    for frame in bus.frames(10):
        if frame.multicast_class == CONTROL.service_class:
            bus.send(report_frame(0x77, ServicePacket(0, 0, bytes(announce))))
            return


def test_device_must_be_named_where_a_bus_has_several(aisrv_jacdac: str) -> None:
    with JacdacConnection(aisrv_jacdac) as other, ThreadPoolExecutor() as threads:
        next(other.frames(10))  # it has joined
        done = threads.submit(announce_when_asked, other)
        with pytest.raises(BadAddressError, match=r"has several devices: .*/0000000000000077"):
            AiServer.open(f"jacdac:{aisrv_jacdac}")
        done.result()


def test_set_of_a_register_is_acknowledged(aisrv_jacdac: str) -> None:

    with BusClient.open(aisrv_jacdac) as bus:
        (device,) = bus.find(MODEL_RUNNER.service_class)
        runner = ModelRunnerClient(bus, device, 2)
        runner.write("auto_invoke_every", 7)
        assert runner.read("auto_invoke_every") == 7


def test_register_that_a_service_lacks(aisrv_jacdac: str) -> None:

    missing = Register(0x1FF, "missing", Packing("u8"), Access.RO, "")
    with BusClient.open(aisrv_jacdac) as bus:
        (device,) = bus.find(MODEL_RUNNER.service_class)
        with pytest.raises(UnsupportedCommand, match="has no register missing"):
            bus.get(device, 2, missing)


# The command.


def host(bus: str, *words: object, check: bool = True) -> str:
    done = run_process([*HOST, "--device", f"jacdac:{bus}", *words], check=check)
    return done.stdout if check else done.stderr


def test_command_loads_infers_and_tells(aisrv_jacdac: str, tmp_path: Path) -> None:
    info = json.loads(host(aisrv_jacdac, "--json", "info"))
    assert (info["model_size"], info["input_shape"], info["last_error"]) == (0, [], "no model")
    output = tmp_path / "scores.bin"
    answer = host(
        aisrv_jacdac, "--json", "infer", SEVEN, "--model", MODEL_FILE, "--output", output, "--top", 1
    )
    assert output.read_bytes() == OUTPUT
    assert json.loads(answer)["top"] == [{"index": 7, "label": None, "value": 0.99609375}]
    timings = json.loads(host(aisrv_jacdac, "--json", "timings"))
    assert timings["total_us"] == json.loads(host(aisrv_jacdac, "--json", "info"))["last_run_time"]
    assert host(aisrv_jacdac, "info").splitlines()[5:8] == [
        f"model size            {len(MODEL)}",
        "input shape           1x8x8x1",
        "output shape          1x10",
    ]
    assert "Model Runners: 1" in host(aisrv_jacdac, "list")


def test_command_shows_numbers_without_the_model_file(aisrv_jacdac: str, tmp_path: Path) -> None:
    host(aisrv_jacdac, "load", MODEL_FILE)
    numbers = tmp_path / "numbers.bin"
    numbers.write_bytes(input_floats(IMAGE))
    answer = json.loads(host(aisrv_jacdac, "--json", "infer", numbers, "--top", 1))
    assert answer["bytes"] == 40
    assert answer["top"] == [{"index": 7, "label": None, "value": 0.99609375}]


def test_command_refuses_another_model_and_what_has_no_place(aisrv_jacdac: str, tmp_path: Path) -> None:
    adding = tmp_path / "adding.tflite"
    adding.write_bytes(networks.adding_network(1, 1, 12))
    host(aisrv_jacdac, "load", adding)
    assert "holds another model" in host(aisrv_jacdac, "infer", SEVEN, "--model", MODEL_FILE, check=False)
    assert "keeps no input" in host(aisrv_jacdac, "write", 0, SEVEN, check=False)
    assert "one time for all operators" in host(aisrv_jacdac, "timings", "--model", MODEL_FILE, check=False)
    assert "cannot be sent over Jacdac" in host(aisrv_jacdac, "log", check=False)


def test_client_gives_up_where_nobody_answers(aisrv_jacdac: str) -> None:

    with BusClient.open(aisrv_jacdac) as bus, pytest.raises(TransferTimeout, match="no answer about uptime"):
        bus.get(0x1234, 0, CONTROL.register("uptime"), seconds=0.3)


def test_arrays_are_numbers(server: AiServer) -> None:
    server.load_model(MODEL)
    numbers = np.frombuffer(input_floats(IMAGE), "<f4").reshape(1, 8, 8, 1)
    assert server.run(numbers)[0].tobytes() == output_floats(OUTPUT)
    assert str(server.model()) == "float32[1, 8, 8, 1] -> float32[1, 10]"


def test_device_gives_the_shapes(server: AiServer, aisrv_jacdac: str) -> None:
    server.load_model(MODEL)
    with AiServer.open(f"jacdac:{aisrv_jacdac}") as other:
        assert str(other.model()) == "float32[1, 8, 8, 1] -> float32[1, 10]"
