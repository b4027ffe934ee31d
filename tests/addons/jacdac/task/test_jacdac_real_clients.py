"""Jacdac's own clients against a device: jacdac-ts by TCP, WebSocket and serial port, jacdac-python."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.jacdac.wire.frame import Frame, frame_size
from aisrv.addons.jacdac.wire.service_spec import STATUS_CODE_CHANGED
from aisrv.addons.jacdac.wire.service_tables import CONTROL, MODEL_RUNNER, PROTOCOL_TEST, SENSOR_AGGREGATOR
from tests.support.amounts import some
from tests.support.models import networks
from tests.support.peers.jacdac_node import NodeClients, run_python_client
from tests.support.programs import AISRV, start_process

MODEL = digits.model_bytes()
IMAGES = [image for image, _ in digits.test_images()[:3]]


@pytest.fixture(scope="session")
def clients() -> NodeClients:
    return NodeClients()


@dataclass(frozen=True)
class Places:
    tcp: str
    websocket: str


@contextmanager
def served(*options: str) -> Iterator[list[str]]:
    """Run a device; yields the addresses of its ready line, those of USB first."""
    command = [*AISRV, "run", "--until-eof", "--port", "0", *options]
    command += ["--jacdac-port", "0", "--jacdac-websocket-port", "0"]
    with start_process(command, writes=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        try:
            yield line.removeprefix("aisrv: ready at ").split(", ")
        finally:
            process.stdin.close()
            process.wait(20)


@pytest.fixture
def device() -> Iterator[Places]:
    with served("--jacdac-protocol-test") as (_, tcp, websocket):
        yield Places(tcp.removeprefix("jacdac:"), websocket)


@pytest.fixture
def serial_port() -> Iterator[str]:
    with served("--jacdac-serial") as (*_, serial):
        yield serial.removeprefix("jacdac-serial:")


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "digits.tflite"
    path.write_bytes(MODEL)
    return path


def as_floats(image: bytes) -> bytes:
    return ((np.frombuffer(image, "i1").astype("f4") + 128) / 240).astype("<f4").tobytes()


def result(image: bytes) -> str:
    output = np.frombuffer(networks.run(MODEL, image)[0], "i1").astype("f4")
    return ((output + 128) / 256).astype("<f4").tobytes().hex()


@pytest.mark.parametrize("transport", ["tcp", "websocket"])
def test_upload_and_predict(
    clients: NodeClients, device: Places, model_file: Path, tmp_path: Path, transport: str
) -> None:
    inputs = tmp_path / "inputs.bin"
    inputs.write_bytes(b"".join(map(as_floats, IMAGES)))
    place = device.tcp if transport == "tcp" else device.websocket
    assert clients.run("predict.js", place, model_file, inputs) == {
        "before": "no model",
        "error": "",
        "size": len(MODEL),
        "format": "TFL3",
        "outputs": [result(image) for image in IMAGES],
        "shown": result(IMAGES[-1]),
    }


def test_protocol_test_with_and_without_acks(clients: NodeClients, device: Places) -> None:
    names = ["bool", "u32", "i32", "string", "bytes", "i8_u8_u16_i32", "u8_string"]
    assert clients.run("prototest.js", device.tcp) == {
        "checked": [*names, *[f"{name} acked" for name in names]],
        "piped": ["05", "06", "07"],
    }


def test_tables_are_those_of_the_specification(clients: NodeClients) -> None:
    folder = clients.folder / "node_modules" / "jacdac-ts" / "jacdac-spec" / "dist" / "json"
    files = {
        "control": CONTROL,
        "modelrunner": MODEL_RUNNER,
        "sensoraggregator": SENSOR_AGGREGATOR,
        "prototest": PROTOCOL_TEST,
    }
    for name, spec in files.items():
        table = json.loads((folder / f"{name}.json").read_text())
        assert table["classIdentifier"] == spec.service_class
        theirs = {
            (packet["identifier"], packet["name"]): packet
            for packet in table["packets"]
            if packet["kind"] in ("rw", "ro", "const")
        }
        for register in spec.registers:
            packet = theirs.pop((register.code, register.name))
            assert packet["kind"] == register.access.value
            assert packet["packFormat"] == register.packing.format
        left = {code for code, packet in ((k[0], p) for k, p in theirs.items()) if not packet.get("optional")}
        assert left == set()
        events = {p["identifier"]: p["packFormat"] for p in table["packets"] if p["kind"] == "event"}
        assert {e.code: e.packing.format for e in spec.events} == {
            STATUS_CODE_CHANGED.code: "u16 u16",
            **events,
        }


def test_recorded_traces_pass_the_codec(clients: NodeClients) -> None:
    folder = clients.folder / "node_modules" / "jacdac-ts" / "jacdac-spec" / "traces"
    frames = []
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text().splitlines():
            fields = line.split("\t")
            if len(fields) > 1 and fields[0].isdigit():
                data = bytes.fromhex(fields[1].split()[0])
                if len(data) == frame_size(data):  # some are recorded in part
                    frames.append(data)
    read = [Frame.from_bytes(data) for data in frames]
    assert len(read) == 615
    assert [bytes(frame) for frame in read] == frames


def test_official_clients_with_an_accelerometer(clients: NodeClients, device: Places, tmp_path: Path) -> None:
    model = tmp_path / "gesture.tflite"
    model.write_bytes(networks.adding_network(1, 1, 12))
    answer = clients.run("official.ts", device.tcp, model)
    assert answer["supported"] is True
    assert answer["results"] >= 3
    assert answer["length"] == 12


@pytest.mark.in_full
@pytest.mark.parametrize("seed", some([1, 2, 3], every_day=1))
def test_losses_in_both_directions(
    clients: NodeClients, device: Places, model_file: Path, tmp_path: Path, seed: int
) -> None:
    inputs = tmp_path / "inputs.bin"
    inputs.write_bytes(as_floats(IMAGES[0]))
    answer = clients.run("lossy.js", device.tcp, model_file, inputs, seed, 15, seconds=300)
    assert answer["output"] == result(IMAGES[0])
    assert answer["size"] == len(MODEL)
    assert answer["lost"]["sent"] > 0
    assert answer["lost"]["received"] > 0


def test_serial_port(clients: NodeClients, serial_port: str) -> None:
    answer = clients.run("serial.js", serial_port)
    assert answer == {"format": "TFL3", "error": "no model", "every": 0xFEFD}


def test_jacdac_python(device: Places) -> None:
    assert run_python_client(device.websocket) == {
        "format": 0x334C4654,
        "format_version": 3,
        "model_size": 0,
        "last_error": "no model",
        "num_samples": 0,
        "auto_invoke_every": 9,
    }
