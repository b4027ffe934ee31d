"""How commands travel to a Model Runner of a Jacdac bus: what `host_tools.exchange.usb` is for USB.

A Model Runner carries less than USB does. Tensors are float32 numbers, whatever the model's hold: one input,
one output. An inference is a predict, whose input goes with it; what an inference took is one number.
"""

import math
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER
from aisrv.model.values import TensorType
from aisrv.protocol.commands import TICKS_PER_SECOND, Command, Status, command_name
from aisrv.protocol.tensor_descriptions import TensorDescription, TensorDescriptions
from host_tools.errors import NoModelError, TransferError, UnsupportedCommand
from host_tools.transports.transport import Buffer, Progress

if TYPE_CHECKING:
    from aisrv.addons.jacdac.host.model_runner import ModelRunnerClient

TICKS_PER_MICROSECOND: Final = TICKS_PER_SECOND // 1_000_000
FLOAT_BYTES: Final = 4
LARGEST_TIME: Final = 0xFFFFFFFF
CARRIED: Final = "model, input and output 0 as float32, inferences, and the time of one"
"""What a Model Runner carries."""


class JacdacExchange:
    """The commands of one engine of a device on a bus, as far as its Model Runner carries them."""

    as_float32: Final[bool] = True
    """See `Wire`."""

    def __init__(self, runner: "ModelRunnerClient", timeout: float | None) -> None:
        """Use an engine's Model Runner; `timeout` is in seconds for each load and each inference."""
        self.timeout = timeout
        self._runner: Final = runner
        self._input: bytes | None = None
        self._output: bytes | None = None
        self._gets: Mapping[Command, Callable[[], bytes]] = {
            Command.GET_INPUT_TENSOR_LENGTH: lambda: self._length("input_shape").to_bytes(4, "little"),
            Command.GET_OUTPUT_TENSOR_LENGTH: lambda: self._length("output_shape").to_bytes(4, "little"),
            Command.GET_OUTPUT_TENSOR: self._read_output,
            Command.GET_TIMINGS: self._timings,
            Command.GET_TENSORS: self._tensors,
        }
        self._sets: Mapping[Command, Callable[[bytes, Progress | None], None]] = {
            Command.SET_MODEL_ARENA: self._load,
            Command.SET_INPUT_TENSOR: self._write_input,
            Command.START_INFER: self._infer,
        }

    def reset(self) -> None:
        """Raise UnsupportedCommand: there is no command in progress."""
        raise UnsupportedCommand("Jacdac has no command in progress that a reset could end")

    def get(self, command: int, tensor: int = 0) -> bytes:
        """Ask for what a register or the last predict says; UnsupportedCommand where none does."""
        return _handler(self._gets, command, tensor)()

    def set(
        self, command: int, data: Buffer = b"", tensor: int = 0, progress: Progress | None = None
    ) -> None:
        """Load a model, keep an input for the next inference, or run one; UnsupportedCommand otherwise."""
        _handler(self._sets, command, tensor)(bytes(data), progress)

    def run(self, data: Buffer) -> bytes:
        """Run the model on the float32 numbers of its input; return those of its output."""
        self._write_input(bytes(data))
        self._infer()
        return self._read_output()

    def run_each(self, _inputs: list[Buffer]) -> list[bytes] | None:
        """Return None: one run is in flight at a time."""
        return None

    def _load(self, model: bytes, progress: Progress | None = None) -> None:
        self._input = self._output = None
        self._runner.load(model, self.timeout, progress)

    def _write_input(self, data: bytes, _progress: Progress | None = None) -> None:
        expected = self._length("input_shape")
        if len(data) != expected:
            raise TransferError(
                f"SET_INPUT_TENSOR: {len(data)} bytes, the input has {expected}: over Jacdac it is float32"
            )
        self._input = data

    def _infer(self, _data: bytes = b"", _progress: Progress | None = None) -> None:
        if self._input is None:
            raise UnsupportedCommand(
                "START_INFER: a Model Runner keeps no input, so that one must be given with the inference"
            )
        self._output = None
        self._output = self._runner.predict(self._input, self.timeout)

    def _read_output(self) -> bytes:
        if self._output is not None:
            return self._output
        expected = self._length("output_shape")
        data = MODEL_RUNNER.register("outputs").packing.pack(self._runner.read("outputs"))
        if len(data) != expected:
            raise UnsupportedCommand(
                f"GET_OUTPUT_TENSOR: the register outputs has {len(data)} bytes of {expected}; "
                "run an inference, which gives all"
            )
        return data

    def _timings(self) -> bytes:
        microseconds = self._runner.read("last_run_time")
        if not isinstance(microseconds, int) or not microseconds:
            return b""
        return struct.pack("<I", min(microseconds * TICKS_PER_MICROSECOND, LARGEST_TIME))

    def _tensors(self) -> bytes:
        shapes = (self._shape("input_shape"), self._shape("output_shape"))
        inputs, outputs = ((TensorDescription(TensorType.FLOAT32, shape),) for shape in shapes)
        return bytes(TensorDescriptions(inputs, outputs))

    def _length(self, name: str) -> int:
        return FLOAT_BYTES * math.prod(self._shape(name))

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self._runner.read(name)
        if not isinstance(shape, tuple) or not shape:
            raise NoModelError(Command.GET_TENSORS, status=Status.ERROR_NO_MODEL)
        return shape


_Handler = TypeVar("_Handler")


def _handler(table: Mapping[Command, _Handler], command: int, tensor: int) -> _Handler:
    if command not in table:
        raise UnsupportedCommand(
            f"{command_name(command)} cannot be sent over Jacdac, which carries {CARRIED}"
        )
    if tensor:
        raise UnsupportedCommand(f"{command_name(command)}: over Jacdac there is tensor 0 only, not {tensor}")
    return table[Command(command)]
