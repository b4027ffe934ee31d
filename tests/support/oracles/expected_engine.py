"""An engine as its documentation has it: what each command answers, and leaves in status, log and tensors.

Shares no code with the device. What a network computes comes from the interpreter called directly; what
only a device knows of a model, such as its timings, is given as `ModelFacts`.
"""

import copy
import functools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from aisrv.protocol.commands import Command, Status
from tests.support.models import networks

OKAY, NO_MODEL, BAD_CMD = Status.OKAY, Status.ERROR_NO_MODEL, Status.ERROR_BAD_CMD
LOADS: Final = (Command.SET_MODEL_ARENA, Command.SET_MODEL_EXT)
FLASH_LOADS: Final = (Command.SET_MODEL_ARENA_FLASH, Command.SET_MODEL_EXT_FLASH)
LOG_BYTES: Final = 2048
RESET_VARIABLES: Final = 0x180


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model that loads, or why it does not."""

    inputs: tuple[int, ...] = ()
    """Bytes of each."""
    outputs: tuple[int, ...] = ()
    operators: int = 0
    operator_names: bytes = b""
    """GET_OPERATORS once it is loaded."""
    timing_bands: bytes = b""
    """GET_TIMING_BANDS once it is loaded."""
    refusal: str = ""
    memory: bytes = b""
    """GET_MEMORY once it is loaded."""
    tensors: bytes = b""
    timings: bytes = b""
    """GET_TIMINGS once it has run."""
    profile: bytes = b""
    """The lines of GET_PROFILE that are the same after each run."""
    note: str = ""
    """What the log has of it when it loads."""


@functools.lru_cache(maxsize=8192)
def interpreted(model: bytes, *inputs: bytes) -> tuple[bytes, ...]:
    """Return the outputs of a model without variables."""
    return tuple(networks.run(model, *inputs))


@dataclass
class ExpectedEngine:
    """State of one engine. `set` and `get` take a command and say what it must answer."""

    facts: Mapping[tuple[int, bytes], ModelFacts]
    """By command and model."""
    no_memory: bytes = b""
    """GET_MEMORY without a model."""
    hardware: bytes = bytes.fromhex("0002000200000040")
    """The words of GET_SPEC that no model changes."""
    run: Callable[..., tuple[bytes, ...]] = interpreted
    frame: bytes | None = None
    """The sensor's latest; None without a sensor."""
    frames: int = 0
    """Exposed so far; the sensor's frames are `frame_data` of their numbers."""
    model: bytes | None = None
    loaded: ModelFacts = ModelFacts()
    inputs: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    ran: bool = False
    gpio_enabled: int = 0
    gpio_mode: int = 0
    thresholds: list[int] = field(default_factory=lambda: [-128] * 4)
    levels: tuple[bool, ...] = (False,) * 4
    errors: int = 0
    log: list[bytes] = field(default_factory=list)
    loads: int = 0
    """Models set so far, those that failed included."""
    resets: int = 0

    def copy(self) -> Self:
        """Return another of the same state."""
        other = copy.copy(self)
        for name in ("inputs", "outputs", "thresholds", "log"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def write_log(self, text: str) -> None:
        """Add lines; the oldest make room."""
        for line in text.splitlines():
            self.log.append(line.encode()[:511] + b"\n")
            while sum(map(len, self.log)) >= LOG_BYTES:
                del self.log[0]

    @property
    def log_bytes(self) -> bytes:
        return b"".join(self.log).ljust(LOG_BYTES, b"\0")

    def _fail(self, command: int, status: Status, text: str) -> Status:
        known = {each.value: each.name for each in Command}
        self.errors |= status
        self.write_log(f"{known.get(command, f'command 0x{command:02x}')}: {text}")
        return status

    # SET commands.

    def set(self, command: int, tensor: int, data: bytes) -> Status:
        """Return the status of a SET."""
        if command in LOADS:
            return self._load(command, data)
        handlers: dict[int, Callable[[], Status]] = {
            Command.SET_INPUT_TENSOR: lambda: self._write(tensor, data),
            Command.START_INFER: lambda: self._infer(data),
            Command.SET_OUTPUT_GPIO_EN: lambda: self._enable(data),
            Command.SET_OUTPUT_GPIO_MODE: lambda: self._mode(data),
            Command.SET_OUTPUT_GPIO_THRESH: lambda: self._threshold(data),
            Command.START_ACQUIRE_SINGLE: lambda: self._acquire(data),
            Command.START_ACQUIRE_STREAM: lambda: self._stream(data),
            Command.SET_SENSOR_TENSOR: lambda: self._put_frame(data),
            Command.START_ACQUIRE_SET_I2C: lambda: self._i2c(data),
        }
        if command in FLASH_LOADS:
            return self._fail(command, BAD_CMD, "the engine has no flash")
        if command not in handlers:
            return self._fail(command, BAD_CMD, "the engine does not know this command")
        return handlers[command]()

    def _load(self, command: int, data: bytes) -> Status:
        facts = self.facts[command, data]
        self.model, self.loaded, self.ran = None, ModelFacts(), False
        self.loads += 1
        if facts.refusal:
            return self._fail(command, Status.ERROR_MODEL_ERR, facts.refusal)
        self.model, self.loaded = data, facts
        self.inputs = [bytes(size) for size in facts.inputs]
        self.outputs = [bytes(size) for size in facts.outputs]
        if facts.note:
            self.write_log(facts.note)
        return OKAY

    def _number(self, command: int, kind: str, tensor: int, count: int) -> Status:
        if self.model is None:
            return self._fail(command, NO_MODEL, "no model is loaded")
        if tensor >= count:
            text = f"the model has {count} {kind} tensors, there is no {tensor}"
            return self._fail(command, BAD_CMD, text)
        return OKAY

    def _write(self, tensor: int, data: bytes) -> Status:
        command = Command.SET_INPUT_TENSOR
        status = self._number(command, "input", tensor, len(self.inputs))
        if status:
            return status
        size = len(self.inputs[tensor])
        if len(data) not in (size, size + -size % 4):
            return self._fail(command, BAD_CMD, f"input tensor {tensor} has {size} bytes, not {len(data)}")
        self.inputs[tensor] = data[:size]
        return OKAY

    def _infer(self, data: bytes) -> Status:
        command = Command.START_INFER
        if len(data) > 4:
            return self._fail(command, BAD_CMD, f"START_INFER takes no data, got {len(data)} bytes")
        if self.model is None:
            return self._fail(command, NO_MODEL, "no model is loaded")
        self.outputs = list(self.run(self.model, *self.inputs))
        self.ran = True
        if self.gpio_enabled:
            values = struct.unpack(f"{len(self.outputs[0])}b", self.outputs[0])
            top = max(range(len(values)), key=values.__getitem__)
            self.levels = tuple(
                place < len(values) and values[place] > threshold and (not self.gpio_mode or place == top)
                for place, threshold in enumerate(self.thresholds)
            )
        return OKAY

    def _setting(self, command: int, data: bytes, what: str) -> int | Status:
        if not 1 <= len(data) <= 4:
            return self._fail(command, BAD_CMD, f"a setting has 1 to 4 bytes, not {len(data)}")
        value = int.from_bytes(data, "little")
        if value > 1:
            return self._fail(command, BAD_CMD, f"{what}, not {value}")
        return value

    def _enable(self, data: bytes) -> Status:
        value = self._setting(Command.SET_OUTPUT_GPIO_EN, data, "GPIO enable is 0 or 1")
        if isinstance(value, Status):
            return value
        self.gpio_enabled = value
        return OKAY

    def _mode(self, data: bytes) -> Status:
        value = self._setting(Command.SET_OUTPUT_GPIO_MODE, data, "GPIO mode is 0 (none) or 1 (max)")
        if isinstance(value, Status):
            return value
        self.gpio_mode = value
        return OKAY

    def _threshold(self, data: bytes) -> Status:
        command = Command.SET_OUTPUT_GPIO_THRESH
        if not 2 <= len(data) <= 4:
            text = f"a threshold has 2 bytes, index and level, not {len(data)}"
            return self._fail(command, BAD_CMD, text)
        if data[0] >= 4:
            return self._fail(command, BAD_CMD, f"there is no GPIO output {data[0]}; an engine has 4")
        self.thresholds[data[0]] = data[1] - 256 if data[1] > 127 else data[1]
        return OKAY

    def _fit(self, command: int) -> Status:
        """Whether a frame of samples fits input tensor 0."""
        assert self.frame is not None
        status = self._number(command, "input", 0, len(self.inputs))
        if not status and len(self.inputs[0]) != len(self.frame):
            text = f"{len(self.frame)} bytes of samples, input tensor 0 has {len(self.inputs[0])}"
            return self._fail(command, BAD_CMD, text)
        return status

    def _acquire(self, data: bytes) -> Status:
        command = Command.START_ACQUIRE_SINGLE
        if self.frame is None:
            return self._fail(command, BAD_CMD, "the board has no sensor")
        if data:
            return self._fail(command, BAD_CMD, "the sensor gives samples, which have no regions")
        status = self._fit(command)
        if not status:
            self.frames += 1
            self.frame = self.inputs[0] = frame_data(self.frames)
        return status

    def _stream(self, data: bytes) -> Status:
        """A stream that would start is nothing that this knows."""
        command = Command.START_ACQUIRE_STREAM
        if len(data) > 4:
            return self._fail(command, BAD_CMD, f"START_ACQUIRE_STREAM takes no data, got {len(data)} bytes")
        if self.frame is None:
            return self._fail(command, BAD_CMD, "the board has no sensor")
        status = self._fit(command)
        assert status
        return status

    def _put_frame(self, data: bytes) -> Status:
        command = Command.SET_SENSOR_TENSOR
        if self.frame is None:
            return self._fail(command, BAD_CMD, "the board has no sensor")
        if len(data) != len(self.frame):
            return self._fail(command, BAD_CMD, f"a frame has {len(self.frame)} bytes, not {len(data)}")
        self.frame = data
        return OKAY

    def _i2c(self, data: bytes) -> Status:
        command = Command.START_ACQUIRE_SET_I2C
        if self.frame is None:
            return self._fail(command, BAD_CMD, "the board has no sensor")
        text = f"address, register and value are 3 bytes, not {len(data)}"
        assert len(data) not in (3, 4), "the bus is not known here"
        return self._fail(command, BAD_CMD, text)

    # GET commands.

    def get(self, command: int, tensor: int = 0) -> tuple[Status, bytes | None]:
        """Return the status and the data of a GET; None where `takes` judges the data."""
        always: dict[int, Callable[[], bytes]] = {
            Command.NONE: lambda: b"",
            Command.HELLO: lambda: b"",
            Command.GET_ID: lambda: struct.pack("<I", 0x12345678),
            Command.GET_OUTPUT_GPIO_EN: lambda: struct.pack("<I", self.gpio_enabled),
            Command.GET_OUTPUT_GPIO_MODE: lambda: struct.pack("<I", self.gpio_mode),
            Command.GET_OUTPUT_GPIO_THRESH: lambda: struct.pack("4b", *self.thresholds),
            Command.GET_DEBUG_LOG: lambda: self.log_bytes,
            Command.GET_BOOT: lambda: b"",
            Command.GET_MEMORY: lambda: self.loaded.memory or self.no_memory,
            Command.GET_TENSORS: lambda: self.loaded.tensors or bytes(4),
            Command.GET_TIMING_BANDS: lambda: self.timing_bands,
            Command.GET_ACQUIRE_MODE: lambda: bytes(4),
            Command.GET_SENSOR_FORMAT: lambda: b"" if self.frame is None else struct.pack("<3I", 64, 1, 3),
            Command.GET_SENSOR_TENSOR_LENGTH: lambda: struct.pack("<I", len(self.frame or b"")),
            Command.GET_SPEC: lambda: self.spec,
            Command.GET_STATUS: self._take_errors,
        }
        if command in always:
            return OKAY, always[command]()
        if command == Command.GET_SENSOR_TENSOR:
            if self.frame is None:
                return self._fail(command, BAD_CMD, "the board has no sensor"), b""
            return OKAY, self.frame
        return self._get_of_model(command, tensor)

    @property
    def spec(self) -> bytes:
        inputs, outputs = self.loaded.inputs, self.loaded.outputs
        return self.hardware + struct.pack("<3I", sum(inputs), sum(outputs), self.loaded.operators)

    @property
    def timings(self) -> bytes:
        return self.loaded.timings if self.ran else bytes(4 * self.loaded.operators)

    @property
    def timing_bands(self) -> bytes:
        return self.loaded.timing_bands or struct.pack("<3I", 100_000_000, 0, 0)

    def _take_errors(self) -> bytes:
        errors, self.errors = self.errors, 0
        return struct.pack("<I", errors)

    def _get_of_model(self, command: int, tensor: int) -> tuple[Status, bytes | None]:
        if command in (Command.GET_TIMINGS, Command.GET_PROFILE, Command.GET_OPERATORS):
            if self.model is None:
                return self._fail(command, NO_MODEL, "no model is loaded"), b""
            if command == Command.GET_OPERATORS:
                return OKAY, self.loaded.operator_names
            return OKAY, self.timings if command == Command.GET_TIMINGS else None
        kinds = {
            Command.GET_INPUT_TENSOR: ("input", self.inputs),
            Command.GET_INPUT_TENSOR_LENGTH: ("input", self.inputs),
            Command.GET_OUTPUT_TENSOR: ("output", self.outputs),
            Command.GET_OUTPUT_TENSOR_LENGTH: ("output", self.outputs),
        }
        if command in set(Command) - {Command.SET_SERVER} and command not in kinds:
            return OKAY, None  # one that is declared, and needs no prediction
        if command not in kinds:
            return self._fail(command, BAD_CMD, "the engine does not know this command"), b""
        kind, values = kinds[Command(command)]
        status = self._number(command, kind, tensor, len(values))
        if status:
            return status, b""
        value = values[tensor]
        is_length = command in (Command.GET_INPUT_TENSOR_LENGTH, Command.GET_OUTPUT_TENSOR_LENGTH)
        return OKAY, struct.pack("<I", len(value)) if is_length else value

    def takes(self, command: int, data: bytes) -> bool:
        """Take the answer of a GET that `get` does not predict; whether it is right, as far as is known."""
        return command != Command.GET_PROFILE or self._takes_profile(data)

    def _takes_profile(self, text: bytes) -> bool:
        """Take the answer of GET_PROFILE, which names the host's own time; whether the rest is right."""
        self.write_log(text.decode())
        if not self.ran:
            return text == b"The model has not run yet.\n"
        return steady_lines(text) == self.loaded.profile


def steady_lines(profile: bytes) -> bytes:
    """Return a profile without the time that this host took."""
    return profile.rpartition(b"\nThis host took ")[0]


def frame_data(number: int) -> bytes:
    """Samples of a frame, 64 bytes as the digits network takes them."""
    return bytes((number * 7 + place * 3) % 256 for place in range(64))
