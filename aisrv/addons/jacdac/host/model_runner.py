"""A Model Runner on a Jacdac bus, as host programs use it: a model goes in by a pipe, and so do inputs."""

import time
from typing import Final

from aisrv.addons.jacdac.host.bus_client import BusClient
from aisrv.addons.jacdac.wire.packing import Value
from aisrv.addons.jacdac.wire.pipes import InPipe, PipeArgument
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER
from aisrv.protocol.commands import Command, Status
from host_tools.errors import InferenceError, ModelError, TransferError, TransferTimeout
from host_tools.transports.transport import Progress

LOADING: Final = "loading"
"""Value of `last_error` during a load."""
_SET_MODEL: Final = MODEL_RUNNER.action("set_model")
_PREDICT: Final = MODEL_RUNNER.action("predict")


class ModelRunnerClient:
    """One engine of a device. Numbers are float32, little-endian, whatever the model's tensors hold."""

    def __init__(self, bus: BusClient, device: int, index: int) -> None:
        """Use service `index` of a device."""
        self.bus: Final = bus
        self.device: Final = device
        self.index: Final = index

    def read(self, name: str) -> Value:
        """Return the value of a register of the Model Runner, by its name."""
        return self.bus.get(self.device, self.index, MODEL_RUNNER.register(name))

    def write(self, name: str, value: Value) -> None:
        """Set a register; returns when the device has acknowledged it."""
        self.bus.set(self.device, self.index, MODEL_RUNNER.register(name), value)

    def load(self, model: bytes, seconds: float | None, progress: Progress | None = None) -> None:
        """Upload a model and wait until it is loaded; ModelError says why it was not."""
        answer = self._call(_SET_MODEL.code, _SET_MODEL.packing.pack(len(model)))
        port = int.from_bytes(answer, "little")
        if port:
            self.bus.send(PipeArgument(self.device, port), model, seconds, progress)
            self._await_load(seconds)
        if not port or self.read("model_size") != len(model):
            raise ModelError(
                Command.SET_MODEL_ARENA, status=Status.ERROR_MODEL_ERR, log=str(self.read("last_error"))
            )

    def predict(self, inputs: bytes, seconds: float | None) -> bytes:
        """Run the model on the numbers of its input and return those of its output; InferenceError."""
        outputs = bytearray()
        closed: list[bool] = []
        target = self.bus.open_port(InPipe(outputs.extend, lambda: closed.append(True)))
        try:
            port = int.from_bytes(self._call(_PREDICT.code, bytes(target)), "little")
            if port:
                self.bus.send(PipeArgument(self.device, port), inputs, seconds)
                self.bus.serve_until(lambda: closed, seconds, "no result of a predict")
        finally:
            self.bus.close_port(target.port)
        if not outputs:
            raise InferenceError(
                Command.START_INFER, status=Status.ERROR_INFER_ERR, log=str(self.read("last_error"))
            )
        return bytes(outputs)

    def _await_load(self, seconds: float | None) -> None:
        """Ask for the last error until it is not "loading"; a device that loads answers after 100 ms."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.read("last_error") == LOADING:
            if deadline is not None and time.monotonic() >= deadline:
                raise TransferTimeout(f"Jacdac: the model is not loaded within {seconds:g} s")

    def _call(self, code: int, payload: bytes) -> bytes:
        report = self.bus.command(self.device, self.index, code, payload)
        if len(report) != 2:
            raise TransferError(f"the report of command {code:#04x} has {len(report)} bytes, not 2")
        return report
