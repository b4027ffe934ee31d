"""A DeviceScript program with a Model Runner, on the hub of `devs devtools` that the device joins.

`devs` listens on ports 8081 to 8083 and takes no others, so that there can be one of it on a machine.
"""

import fcntl
import json
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aisrv.addons.jacdac.host.bus_client import BusClient
from aisrv.addons.jacdac.host.connection import JacdacConnection
from aisrv.addons.jacdac.wire.announce import Announce
from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER, SENSOR_AGGREGATOR
from tests.support.models import networks
from tests.support.peers.jacdac_node import NodeClients
from tests.support.peers.jacdac_peers import NODE_FOLDER

ACCELEROMETER = 0x1F140409
SENSOR = 0x5E5E5E5E
PORTS = (8081, 8082, 8083)
SECONDS = 90
"""What a loaded machine may take for a step."""


@pytest.fixture
def clients() -> Iterator[NodeClients]:
    clients = NodeClients()
    with Path(tempfile.gettempdir(), "aisrv-devs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for port in PORTS:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        yield clients


@contextmanager
def running(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator["Lines"]:
    """Run a program with all that it starts; `npx` and `devs` leave children behind."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        lines = Lines(process)
        try:
            yield lines
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            lines.end()


class Lines:
    """What a program prints, line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()

    def wait_for(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> str:
        """Return what follows a text in the first line that has it."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            meanwhile()
            try:
                line = self._lines.get(timeout=0.02)
            except queue.Empty:
                continue
            assert line is not None, f"the program ended: {self._seen}"
            self._seen.append(line)
            if text in line:
                return line.partition(text)[2].strip()
        raise AssertionError(f"no {text!r} in {self._seen}")

    def end(self) -> None:
        """Read to the end."""
        self._reader.join()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line)
        self._lines.put(None)


class Sensor:
    """An accelerometer that always reads 3, -2 and 1 g, every 20 ms."""

    def __init__(self, bus: JacdacConnection) -> None:
        self._bus = bus
        self._announced = 0.0

    def read(self) -> None:
        if time.monotonic() - self._announced > 0.4:
            self._announced = time.monotonic()
            announce = Announce(0x0F0F, 1, (ACCELEROMETER,))
            self._bus.send(report_frame(SENSOR, ServicePacket(0, 0, bytes(announce))))
        reading = struct.pack("<3i", 3 << 20, -2 << 20, 1 << 20)
        self._bus.send(report_frame(SENSOR, ServicePacket(1, 0x1101, reading)))


@pytest.mark.long(
    "it compiles a program and runs DeviceScript's tools; other clients of Jacdac run every day"
)
def test_program_reads_registers_and_gets_results(clients: NodeClients, tmp_path: Path) -> None:
    environment = {**clients.environment, "NO_COLOR": "1"}
    devs = [str(clients.program("devs")), "--ci", "--no-colors"]
    subprocess.run(
        [*devs, "init", "--no-install", "program"], cwd=tmp_path, env=environment, check=True,
        capture_output=True, timeout=SECONDS,
    )  # fmt: skip
    folder = tmp_path / "program"
    shutil.copy(NODE_FOLDER / "devicescript" / "main.ts", folder / "src")
    model = tmp_path / "adding.tflite"
    model.write_bytes(networks.adding_network(1, 1, 12))  # twice each input
    server = [sys.executable, "-m", "aisrv", "run", "--until-eof", "--port", "0", "--model", str(model)]
    options = ["--jacdac-port", "0", "--jacdac-websocket-port", "0", "--jacdac-hub", "127.0.0.1:8082"]
    with running([*devs, "devtools"], folder, environment) as tools:
        tools.wait_for("dbgserver")
        with running([*server, *options], tmp_path, dict(os.environ)) as device:
            place = device.wait_for("jacdac:").partition(",")[0]
            tools.wait_for("tcpclient: connected")
            with running([*devs, "run", "--tcp", "src/main.ts"], folder, environment) as program:
                registers = json.loads(program.wait_for("registers "))
                assert registers == {
                    "format": 0x334C4654,
                    "formatVersion": 3,
                    "parallel": True,
                    "modelSize": model.stat().st_size,
                    "inputShape": [1, 12],
                    "outputShape": [1, 12],
                    "lastError": "",
                }
                with BusClient.open(place) as bus, JacdacConnection(place) as sensors:
                    (found,) = bus.find(MODEL_RUNNER.service_class)
                    sensor = (bytes(8), ACCELEROMETER, 0, 12, 0xA0, 20)
                    bus.set(found, 1, SENSOR_AGGREGATOR.register("inputs"), (20, 4, 0, (sensor,)))
                    accelerometer = Sensor(sensors)
                    reading = program.wait_for("reading ", accelerometer.read)
                assert json.loads(reading) == [6, -4, 2] * 4
