"""Seven hosts at once on five devices, for as long as is asked: every output compared with the interpreter's.

Three hosts come over USB/IP, one of them through pyusb, one over SPI beside another over USB/IP on the
device's second engine, one speaks ioserver, and one runs under `aisrv exec`. They connect anew and change
models now and then. At the end no process may have grown, kept a descriptor, or written a traceback.
"""

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from aisrv import digits
from host_tools.client import AiServer
from host_tools.standins.pyusb_backend import UsbipBackend, get_backend
from host_tools.transports.usb import UsbTransport
from tests.soak.check import Check, Figures
from tests.support.benches.engines import INSTALLED
from tests.support.models import networks
from tests.support.paths import ROOT
from tests.support.peers.ioserver_host import IoserverHost
from tests.support.programs import AISRV, Started, running

MODELS: Final = (digits.model_bytes(), networks.two_input_add_network(48), digits.two_output_model_bytes())
GROWTH: Final = 48 << 20
"""Bytes that a process may grow by, once it is warm."""
WORKER_DESCRIPTORS: Final = 8
"""That a process has for each model that is loaded, at most."""
PATIENCE: Final = 120
"""Seconds that a transfer may take, and a host be late at the end, on a busy machine."""


class Interpreter:
    """A model run directly, with the reference kernels."""

    def __init__(self, model: bytes) -> None:
        try:
            from tflite_runtime.interpreter import Interpreter, OpResolverType
        except ModuleNotFoundError:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        self._interpreter: Any = Interpreter(
            model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        self._interpreter.allocate_tensors()
        self._inputs = self._interpreter.get_input_details()
        self._outputs = self._interpreter.get_output_details()
        self.input_bytes: Final = [int(np.prod(each["shape"])) for each in self._inputs]

    def run(self, inputs: list[bytes]) -> list[bytes]:
        """Return the outputs for int8 inputs."""
        for each, data in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(each["index"], np.frombuffer(data, np.int8).reshape(each["shape"]))
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(each["index"]).tobytes() for each in self._outputs]


class Device(Protocol):
    """What a host does with its device."""

    def load(self, model: bytes) -> None: ...

    def run(self, inputs: list[bytes], outputs: int) -> list[bytes]: ...

    def close(self) -> None: ...


class AiServerDevice:
    """A device that speaks the AI server's protocol, on any wire."""

    def __init__(self, server: AiServer) -> None:
        self._server = server

    def load(self, model: bytes) -> None:
        self._server.load_model(model)

    def run(self, inputs: list[bytes], outputs: int) -> list[bytes]:
        for number, data in enumerate(inputs):
            self._server.write_input(data, number)
        self._server.infer()
        return [self._server.read_output(number) for number in range(outputs)]

    def close(self) -> None:
        self._server.close()


class IoserverDevice:
    """A device that speaks ioserver, whose models were given at its start."""

    def __init__(self, backend: Any) -> None:
        self._host = IoserverHost(backend, slack=PATIENCE)
        self._model = 0

    def load(self, model: bytes) -> None:
        self._model = MODELS.index(model)

    def run(self, inputs: list[bytes], outputs: int) -> list[bytes]:
        for number, data in enumerate(inputs):
            self._host.write_input(data, number, self._model)
        self._host.infer(self._model)
        # Outputs are padded to whole words.
        return [self._host.read_output(number, self._model) for number in range(outputs)]

    def close(self) -> None:
        self._host.close()


@dataclass
class Host:
    """A host in a thread of its own."""

    name: str
    connect: Callable[[], Device]
    models: tuple[int, ...] = (0, 1, 2)
    inferences: int = 0
    connections: int = 0
    faults: list[str] = field(default_factory=list)

    def work(self, until: float, seed: str) -> None:
        """Run models on random inputs until it is time, and compare each output."""
        chance = random.Random(f"{seed}:{self.name}")
        interpreters = [Interpreter(MODELS[number]) for number in self.models]
        try:
            while time.monotonic() < until:
                device = self.connect()
                self.connections += 1
                try:
                    for _ in range(chance.choice((1, 2, 5))):
                        number = chance.randrange(len(interpreters))
                        device.load(MODELS[self.models[number]])
                        self._compare(device, interpreters[number], chance, until)
                finally:
                    device.close()
        except Exception as error:
            self.faults.append(f"{self.name} after {self.inferences} inferences, seed {seed}: {error!r}")

    def _compare(self, device: Device, direct: Interpreter, chance: random.Random, until: float) -> None:
        for _ in range(chance.choice((1, 10, 100, 400))):
            inputs = [chance.randbytes(size) for size in direct.input_bytes]
            expected = direct.run(inputs)
            got = device.run(inputs, len(expected))
            for wanted, found in zip(expected, got, strict=True):
                assert found[: len(wanted)] == wanted, f"{found.hex()} in place of {wanted.hex()}"
                assert not found[len(wanted) :].strip(b"\0")
                assert len(found) - len(wanted) < 4
            self.inferences += 1
            if time.monotonic() > until:
                break


@dataclass
class Process:
    """A process of devices, and what it holds."""

    process: Started
    engines: int
    descriptors: int = 0
    """Before the first host came."""
    warm: int = 0
    """Bytes in RAM after a quarter of the time."""

    def held(self) -> tuple[int, int]:
        """Bytes in RAM, and descriptors."""
        folder = Path(f"/proc/{self.process.pid}")
        pages = int((folder / "statm").read_text().split()[1])
        return pages * 4096, len(list((folder / "fd").iterdir()))


def _places(ready: str) -> dict[str, str]:
    return dict(place.split(":", 1) for place in ready.split(", "))


@contextmanager
def seven_hosts(processes: list[Process]) -> Iterator[list[Host]]:
    """Start the devices; the hosts that are threads here. The seventh is a program of its own."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as name:
        files = []
        for number, model in enumerate(MODELS):
            files += ["--model", str(Path(name) / f"{number}.tflite")]
            Path(files[-1]).write_bytes(model)
        tflm = "tflm" if "tflm" in INSTALLED else "kernels"
        three, first = stack.enter_context(running("--devices", "3", "--engine", "kernels"))
        two, second = stack.enter_context(
            running("--board", "two-engines", "--engine", tflm, "--spi-port", "0")
        )
        io, third = stack.enter_context(running("--protocol", "ioserver", "--engine", "tflite", *files))
        processes += [Process(three, 3), Process(two, 2), Process(io, 3)]
        for each in processes:
            each.descriptors = each.held()[1]
        usbip, both, ioserver = _places(first)["usbip"], _places(second), _places(third)["usbip"]

        def server(address: str, **options: Any) -> Callable[[], Device]:
            return lambda: AiServerDevice(AiServer.open(address, timeout=PATIENCE, **options))

        def by_pyusb() -> Device:
            backend = UsbipBackend(usbip)
            device = next(each for each in backend.enumerate_devices() if each.record.busid == "1-3")
            return AiServerDevice(AiServer(UsbTransport(backend, device), timeout=PATIENCE))

        yield [
            Host("usbip 1", server(f"usbip:{usbip}/1-1")),
            Host("usbip 2", server(f"usbip:{usbip}/1-2")),
            Host("pyusb", by_pyusb),
            Host("spi", server(f"spi:{both['spi']}"), (0,)),
            Host("usbip, engine 1", server(f"usbip:{both['usbip']}", engine=1)),
            Host("ioserver", lambda: IoserverDevice(get_backend(ioserver))),
        ]


def run(size: int, seed: int) -> Figures:
    """Let the hosts work for so many seconds."""
    processes: list[Process] = []
    with seven_hosts(processes) as hosts:
        until = time.monotonic() + size
        program = [*AISRV, "exec", "--", sys.executable, "-m", "tests.soak.hosts", str(size), str(seed)]
        with subprocess.Popen(
            program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as own:
            threads = [threading.Thread(target=host.work, args=(until, str(seed))) for host in hosts]
            for thread in threads:
                thread.start()
            time.sleep(size / 4)
            for each in processes:
                each.warm = each.held()[0]
            for thread in threads:
                thread.join(size + PATIENCE)
                assert not thread.is_alive(), "a host hangs"
            output, errors = own.communicate(timeout=PATIENCE)
        assert own.returncode == 0, errors[-2000:]
        faults = [fault for host in hosts for fault in host.faults]
        assert not faults, "; ".join(faults)
        time.sleep(0.5)
        for each in processes:
            memory, descriptors = each.held()
            assert memory - each.warm < GROWTH, f"{memory} bytes, {each.warm} before"
            allowed = each.descriptors + WORKER_DESCRIPTORS * each.engines
            assert descriptors <= allowed, f"{descriptors} descriptors, {each.descriptors} before"
            each.process.terminate()
            errors = each.process.communicate(timeout=PATIENCE)[1]
            assert each.process.returncode == 0, errors[-2000:]
            assert "Traceback" not in errors, errors[-2000:]
    counts = {host.name: host.inferences for host in hosts} | {"exec": int(output)}
    assert min(counts.values()) > 0, counts
    connections = sum(host.connections for host in hosts)
    return {"inferences": sum(counts.values()), "connections": connections, "each": counts}


def main(seconds: float, seed: str) -> None:
    """Be the seventh host, under `aisrv exec`: print the inferences."""
    host = Host("exec", lambda: AiServerDevice(AiServer.open("usb", timeout=PATIENCE)))
    host.work(time.monotonic() + seconds, seed)
    if host.faults:
        sys.exit("; ".join(host.faults))
    sys.stdout.write(f"{host.inferences}\n")


CHECK: Final = Check(
    "hosts", "seven hosts at once, every inference compared bit for bit", "seconds", 1200, 1, 21, run
)

if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2])
