"""The AI server as an object: one method per command, errors as exceptions, over USB, SPI and Jacdac.

    with AiServer.open("usbip:localhost:3240") as server:
        server.load_model("person_detection.tflite")
        outputs = server.run("photo.png", dequantize=True)
        print(outputs[0], outputs.best(3), server.timings())

The same program talks to hardware (`usb`) and to a virtual device that is started for it (`virtual`).
"""

import struct
from contextlib import suppress
from enum import IntEnum
from os import PathLike
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, TypeAlias, TypeVar, overload

from aisrv.protocol.commands import (
    AcquireMode,
    Command,
    Dialect,
    FrameRegion,
    GpioMode,
    GpioThreshold,
    ProtocolError,
    RegisterWrite,
    Spec,
    Status,
    command_name,
    is_set,
)
from aisrv.protocol.memory_map import MemoryMap
from aisrv.protocol.timing_bands import TimingBands
from aisrv.values.regular_file import read_regular
from host_tools.errors import (
    BadCommandError,
    CommandError,
    NoModelError,
    NotRunError,
    TensorError,
    TransactionTooLong,
    TransferError,
    UnsupportedCommand,
)
from host_tools.exchange.usb import Exchange, log_text
from host_tools.tensors.timings import REFERENCE_MHZ, Timings
from host_tools.transports.schemes import open_transport
from host_tools.transports.transport import Buffer, Progress, Transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisrv.protocol.sensor_format import SensorFormat
    from host_tools.model_summary import ModelSummary
    from host_tools.tensors.frames import Picture
    from host_tools.tensors.inputs import InputValue
    from host_tools.tensors.outputs import Outputs
    from host_tools.transports.jacdac.transport import JacdacTransport
    from host_tools.transports.spi.transport import SpiTransport

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds for one transfer, and so for one inference or the loading of one model."""

Memory: TypeAlias = Literal["arena", "ext"]
"""Where a model is put: in the tensor arena, or in external memory."""

_Number = TypeVar("_Number", bound=IntEnum)

_SET_MODEL: Final[dict[Memory, Command]] = {"arena": Command.SET_MODEL_ARENA, "ext": Command.SET_MODEL_EXT}
_SET_MODEL_FLASH: Final[dict[Memory, Command]] = {
    "arena": Command.SET_MODEL_ARENA_FLASH,
    "ext": Command.SET_MODEL_EXT_FLASH,
}

_NEW_MODEL: Final = frozenset((*_SET_MODEL.values(), *_SET_MODEL_FLASH.values()))


class Wire(Protocol):
    """How commands travel: `Exchange` over USB, `SpiExchange` over SPI, `JacdacExchange` over Jacdac.

    `command` is its code, `tensor` the number of the tensor, `data` what a SET sends. `progress` is called
    with the bytes done and all bytes.
    """

    @property
    def as_float32(self) -> bool:
        """Whether tensors cross the wire as float32, whatever the model has."""

    def get(self, command: int, tensor: int = 0) -> bytes:
        """Send a GET; return its data."""

    def set(
        self, command: int, data: Buffer = b"", tensor: int = 0, progress: Progress | None = None
    ) -> None:
        """Send a SET, and wait until the engine has done it."""

    def run(self, data: Buffer) -> bytes:
        """Set input tensor 0, start an inference, get output tensor 0."""


class AiServer:
    """One engine of an AI server. Use it as a context manager, from one thread at a time.

    Every method raises `HostError`: `CommandError` or one of its kinds where the device refuses, and
    `DeviceGone`, `TransferTimeout` or `TransferError` where the way to it fails. The server stays usable
    after all but `DeviceGone`. After a time-out the next command makes the device abandon what it was doing.
    What SPI has no place for is an `UnsupportedCommand`: the port's engine and its tensors 0 only, no GPIO.
    So is what a Model Runner does not carry over Jacdac, where tensors are float32 numbers.
    """

    def __init__(
        self,
        transport: "Transport | SpiTransport | JacdacTransport",
        *,
        engine: int = 0,
        dialect: Dialect = Dialect.CLASSIC,
        timeout: float | None = DEFAULT_TIMEOUT,
        reference_mhz: float = REFERENCE_MHZ,
    ) -> None:
        """Talk to `engine` over an open transport; `timeout` is in seconds for each transfer.

        `dialect` is the framing of USB; SPI has one. `reference_mhz` is the clock that the device's timers
        count, where it does not say, as hardware does not: 175 for boards of 2021 and 2022.
        """
        self._transport = transport
        self._exchange = _wire(transport, engine, dialect, timeout)
        self._name = type(transport).__name__
        self._engine = engine
        self._file: bytes | None = None
        self._model: ModelSummary | None = None
        self._has_run = False
        self._names_operators = True
        """Whether the device may answer GET_OPERATORS, as hardware does not."""
        self._tells_bands = not self._exchange.as_float32
        """Whether it may answer GET_TIMING_BANDS, likewise; over Jacdac there is no such question."""
        self._reference_mhz = REFERENCE_MHZ if self._exchange.as_float32 else reference_mhz

    @classmethod
    def open(
        cls,
        device: str = "usb",
        *,
        engine: int = 0,
        dialect: Dialect = Dialect.CLASSIC,
        timeout: float | None = DEFAULT_TIMEOUT,
        reference_mhz: float = REFERENCE_MHZ,
    ) -> Self:
        """Open a device by its address, such as `usb`, `usbip:localhost:3240`, `spi:0.0` or `virtual`.

        `engine` is the number of the engine, `timeout` the seconds for each transfer; None waits as long as
        it takes. `reference_mhz` is the clock of a device that does not say it: hardware of 2021 and 2022
        counts 175 MHz.
        """
        transport = open_transport(device)
        try:
            server = cls(
                transport, engine=engine, dialect=dialect, timeout=timeout, reference_mhz=reference_mhz
            )
        except BaseException:
            transport.close()
            raise
        server._name = device
        return server

    def close(self) -> None:
        """Release the device. Closing again does nothing."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Say where the server is and what is known of its model; the device is not asked."""
        model = "" if self._model is None else f": {self._model}"
        if self._file is not None and not model:
            model = f": a model of {len(self._file)} bytes"
        return f"<AiServer {self._name}, engine {self._engine}{model}>"

    # The device

    @property
    def id(self) -> int:
        """What GET_ID answers: 0x12345678 for every AI server."""
        return self._get_word(Command.GET_ID)

    def status(self) -> Status:
        """Return the engine's status bits. Reading them clears the error bits."""
        return Status(self._get_word(Command.GET_STATUS))

    def spec(self) -> Spec:
        """Return what the hardware is, and the sizes of the loaded model's tensors."""
        data = self._exchange.get(Command.GET_SPEC)
        try:
            return Spec.from_bytes(data)
        except ValueError as error:
            raise TransferError(f"GET_SPEC: {error}") from error

    def debug_log(self) -> str:
        """Return the last lines of the engine's log, without the padding."""
        return log_text(self._exchange.get(Command.GET_DEBUG_LOG))

    def boot_report(self) -> bytes:
        """Return what the device booted, a `flash_server.boot.boot_image.BootReport`; no bytes where unknown.

        The question is the virtual device's own: hardware refuses it, or over SPI answers zeros.
        """
        try:
            report = self._exchange.get(Command.GET_BOOT)
        except CommandError:
            return b""
        return report if any(report) else b""

    def memory_map(self) -> MemoryMap | None:
        """Return where model and tensors lie in the engine's memories; None where the device does not say.

        The question is the virtual device's own, and goes over USB only.
        """
        try:
            return MemoryMap.from_bytes(self._exchange.get(Command.GET_MEMORY))
        except (CommandError, UnsupportedCommand):
            return None
        except ProtocolError as error:
            raise TransferError(f"GET_MEMORY: {error}") from error

    def load_server(self, image: Buffer, progress: Progress | None = None) -> None:
        """Replace the upgrade image in the device's boot partition; it is booted from the next reset on.

        Over SPI only. The image is what `aisrv-flash boot-image` makes. `progress` is called with the bytes
        done and all bytes.
        """
        self._exchange.set(Command.SET_SERVER, image, progress=progress)

    # The model

    def load_model(
        self,
        model: Buffer | str | PathLike[str],
        memory: Memory = "arena",
        progress: Progress | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Load a `.tflite` model, as bytes or from a file, into the arena or into external memory.

        It is checked first: TensorError for what is no model, or a relocatable image of one, and the loaded
        model stays. With `force` it is sent as it is. The file is remembered: shapes, quantization, operators
        and classes are read from it when needed. `progress` is called with the bytes done and all bytes.
        """
        data = read_regular(model) if isinstance(model, str | PathLike) else model
        if not force:
            from host_tools.model_summary import check_model

            check_model(data, model if isinstance(model, str | PathLike) else "the model")
        self._forget_model()
        self._exchange.set(_SET_MODEL[memory], data, progress=progress)
        self._file = bytes(data)

    def load_model_from_flash(self, memory: Memory = "arena") -> None:
        """Load the model that the flash holds for this engine.

        `memory` is "arena" or "ext".
        """
        self._forget_model()
        self._exchange.set(_SET_MODEL_FLASH[memory])

    def use_model(self, model: Buffer | str | PathLike[str]) -> None:
        """Take a `.tflite` file for the model that the engine has already, as from flash; nothing is sent.

        Raises TensorError where it is not a model.
        """
        from host_tools.model_summary import ModelSummary

        data = read_regular(model) if isinstance(model, str | PathLike) else bytes(model)
        self._model = self._as_carried(ModelSummary.of_file(data))
        self._file = data

    def model(self) -> "ModelSummary":
        """Return what is known of the model: from the file that was loaded, else from a virtual device.

        The device is asked once, over USB or Jacdac, where all tensors are float32. TensorError where neither
        says; `NoModelError` without a model.
        """
        if self._model is None:
            from host_tools.model_summary import ModelSummary

            self._model = self._as_carried(
                ModelSummary.of_file(self._file) if self._file is not None else self._ask_for_model()
            )
        return self._model

    def _as_carried(self, model: "ModelSummary") -> "ModelSummary":
        return model.as_floats() if self._exchange.as_float32 else model

    def _ask_for_model(self) -> "ModelSummary":
        from aisrv.protocol.tensor_descriptions import TensorDescriptions
        from host_tools.model_summary import ModelSummary

        try:
            descriptions = TensorDescriptions.from_bytes(self._exchange.get(Command.GET_TENSORS))
        except (BadCommandError, UnsupportedCommand) as error:
            raise TensorError(
                "the device does not say what its model's tensors are: load the model, or name its file "
                "with use_model"
            ) from error
        except ProtocolError as error:
            raise TransferError(f"GET_TENSORS: {error}") from error
        if not (descriptions.inputs or descriptions.outputs):
            raise NoModelError(Command.GET_TENSORS, self._engine, status=Status.ERROR_NO_MODEL)
        return ModelSummary.of_device(descriptions)

    def _forget_model(self) -> None:
        self._file = self._model = None
        self._has_run = False

    # Tensors and inference

    def input_length(self, tensor: int = 0) -> int:
        """Return the bytes of an input tensor."""
        return self._get_word(Command.GET_INPUT_TENSOR_LENGTH, tensor)

    def output_length(self, tensor: int = 0) -> int:
        """Return the bytes of an output tensor."""
        return self._get_word(Command.GET_OUTPUT_TENSOR_LENGTH, tensor)

    def write_input(self, data: Buffer, tensor: int = 0, progress: Progress | None = None) -> None:
        """Set an input tensor, all of it.

        `data` is its bytes. `progress` is called with the bytes done and all bytes.
        """
        self._exchange.set(Command.SET_INPUT_TENSOR, data, tensor, progress)

    def read_input(self, tensor: int = 0) -> bytes:
        """Return the bytes of an input tensor; an inference may have overwritten them."""
        return self._exchange.get(Command.GET_INPUT_TENSOR, tensor)

    def read_output(self, tensor: int = 0) -> bytes:
        """Return the bytes of an output tensor."""
        return self._exchange.get(Command.GET_OUTPUT_TENSOR, tensor)

    def infer(self) -> None:
        """Run the model on its input tensors; returns when it is done."""
        self._exchange.set(Command.START_INFER)
        self._has_run = True

    @overload
    def run(self, data: Buffer, /) -> bytes: ...  # type: ignore[overload-overlap]
    @overload
    def run(
        self, data: "InputValue", /, *more: "InputValue", dequantize: bool = ..., value_range: str = ...
    ) -> "Outputs": ...
    def run(
        self, data: "InputValue", /, *more: "InputValue", dequantize: bool = False, value_range: str = "auto"
    ) -> "bytes | Outputs":
        """Write the inputs, infer, and return the outputs: bytes for bytes, otherwise arrays.

        An input is an array, a PIL image or the path of an image, a `.npy` file or raw bytes; real numbers
        are quantized, and pictures resized and scaled by `value_range`, one of `images.RANGE_NAMES`. Outputs
        have the tensors' types, or are real numbers with `dequantize`; `Outputs` has labels and best scores.
        TensorError where an input does not fit; nothing is sent then.

        One input of bytes gives output 0 as it is: the model need not be known, and in the classic framing it
        is quicker than the three calls. `data` is input 0 and `more` are the others.
        """
        if isinstance(data, bytes | bytearray | memoryview) and not (more or dequantize):
            output = self._exchange.run(data)
            self._has_run = True
            return output
        return self._run_arrays((data, *more), dequantize, value_range)

    def _run_arrays(self, values: "Sequence[InputValue]", dequantize: bool, value_range: str) -> "Outputs":
        from host_tools.tensors.inputs import input_tensor
        from host_tools.tensors.outputs import Outputs

        model = self.model()
        if len(values) != len(model.inputs):
            raise TensorError(f"{len(values)} inputs given, the model has {len(model.inputs)}")
        pairs = zip(values, model.inputs, strict=True)
        tensors = [input_tensor(value, spec, value_range) for value, spec in pairs]
        if len(tensors) == len(model.outputs) == 1:
            outputs = [self.run(tensors[0])]
        else:
            for number, tensor in enumerate(tensors):
                self.write_input(tensor, number)
            self.infer()
            outputs = [self.read_output(number) for number in range(len(model.outputs))]
        decoded = [
            spec.values(each) if dequantize else spec.elements(each).copy()
            for spec, each in zip(model.outputs, outputs, strict=True)
        ]
        return Outputs(decoded, model.labels)

    def timings(self) -> Timings:
        """Return the time of each operator in the last inference, in execution order, in ticks.

        They have the operators' names where this object loaded the model, or was told its file, or a virtual
        device says them over USB. Over USB and SPI a virtual device says what a tick is, and between what
        each time is expected to be; of others a tick is one of `reference_mhz`. `NotRunError` where all are
        0, as before the first inference.
        """
        data = self._exchange.get(Command.GET_TIMINGS)
        if len(data) % 4:
            raise TransferError(f"GET_TIMINGS: {len(data)} bytes are not a whole number of words")
        ticks = struct.unpack(f"<{len(data) // 4}I", data)
        # No times at all are of a model without operators; a Model Runner has one once it has run.
        is_known = any(ticks) or not (ticks or self._exchange.as_float32)
        if not (is_known or self._has_run):
            raise NotRunError("there are no timings: no inference has run since the model was loaded")
        return Timings(ticks, self._operator_names(len(ticks)), self._timing_bands(), self._reference_mhz)

    def _timing_bands(self) -> TimingBands | None:
        """Return what a virtual device says of its clock and its times; None of hardware."""
        if not self._tells_bands:
            return None
        try:
            bands = TimingBands.from_bytes(self._exchange.get(Command.GET_TIMING_BANDS))
        except (BadCommandError, UnsupportedCommand, TransactionTooLong):
            self._tells_bands = False
            return None
        except ProtocolError as error:
            raise TransferError(f"GET_TIMING_BANDS: {error}") from error
        self._tells_bands = bands.reference_hz > 0  # over SPI hardware answers zeros
        return bands if self._tells_bands else None

    def _operator_names(self, count: int) -> tuple[str, ...]:
        """Return the names of as many operators, from the file or the device; none where neither has them."""
        if self._exchange.as_float32:  # over Jacdac there is one time for all
            return ()
        if self._file is not None:
            with suppress(TensorError):  # the device took a file that cannot be read here
                names = self.model().operators
                if len(names) == count:
                    return names
        if not self._names_operators:
            return ()
        try:
            answer = self._exchange.get(Command.GET_OPERATORS)
        except (BadCommandError, UnsupportedCommand):
            self._names_operators = False
            return ()
        return tuple(name.decode(errors="replace") for name in answer.split(b"\0")[:-1])

    def profile(self) -> str:
        """Return the profiler summary of the last inference, which goes to the debug log, too.

        The question is the virtual device's own, and goes over USB only: hardware refuses it.
        """
        return self._exchange.get(Command.GET_PROFILE).decode(errors="replace")

    # GPIO

    def gpio_enabled(self) -> bool:
        """Return whether inferences drive the GPIO outputs."""
        return bool(self._get_number(Command.GET_OUTPUT_GPIO_EN))

    def enable_gpio(self, enabled: bool = True) -> None:
        """Let inferences drive the GPIO outputs, or not.

        `enabled` says which.
        """
        self._exchange.set(Command.SET_OUTPUT_GPIO_EN, bytes([enabled]))

    def gpio_thresholds(self) -> tuple[int, ...]:
        """Return the threshold of each GPIO output, -128 to 127."""
        data = self._exchange.get(Command.GET_OUTPUT_GPIO_THRESH)
        return struct.unpack(f"{len(data)}b", data)

    def set_gpio_threshold(self, index: int, threshold: int) -> None:
        """Set one output's threshold, -128 to 127; anything else is a ValueError.

        `index` is the output, 0 to 3.
        """
        if not 0 <= index <= 255:
            raise ValueError(f"a GPIO index is 0 to 255, not {index}")
        if not -128 <= threshold <= 127:
            raise ValueError(f"a GPIO threshold is -128 to 127, not {threshold}")
        self._exchange.set(Command.SET_OUTPUT_GPIO_THRESH, bytes(GpioThreshold(index, threshold)))

    def gpio_mode(self) -> GpioMode:
        """Return how the outputs follow output tensor 0."""
        number = self._get_number(Command.GET_OUTPUT_GPIO_MODE)
        return _choice(Command.GET_OUTPUT_GPIO_MODE, GpioMode, number)

    def set_gpio_mode(self, mode: GpioMode) -> None:
        """Set how the outputs follow output tensor 0."""
        self._exchange.set(Command.SET_OUTPUT_GPIO_MODE, bytes([mode]))

    # The sensor

    def acquire_single(self, region: tuple[int, int, int, int, int, int] | None = None) -> None:
        """Acquire one frame: start x, end x, start y, end y, width, height; None is the whole frame.

        `region` is in pixels, ends excluded.
        """
        self._exchange.set(Command.START_ACQUIRE_SINGLE, bytes(FrameRegion(*region)) if region else b"")

    def acquire_stream(self) -> None:
        """Acquire frames continuously."""
        self._exchange.set(Command.START_ACQUIRE_STREAM)

    def set_sensor_register(self, address: int, register: int, value: int) -> None:
        """Write one register of the sensor at an I2C address; each number is a byte.

        `value` is what the register becomes.
        """
        self._exchange.set(Command.START_ACQUIRE_SET_I2C, bytes(RegisterWrite(address, register, value)))

    def acquire_mode(self) -> AcquireMode:
        """Return whether single frames or a stream are acquired."""
        number = self._get_word(Command.GET_ACQUIRE_MODE)
        return _choice(Command.GET_ACQUIRE_MODE, AcquireMode, number)

    def read_sensor(self) -> bytes:
        """Return the bytes of the last frame."""
        return self._exchange.get(Command.GET_SENSOR_TENSOR)

    def sensor_format(self) -> "SensorFormat | None":
        """Return size and encoding of the sensor's frames; None where the device does not say.

        The question is the virtual device's own, and goes over USB only.
        """
        from aisrv.protocol.sensor_format import SensorFormat

        try:
            answer = self._exchange.get(Command.GET_SENSOR_FORMAT)
            return SensorFormat.from_bytes(answer) if answer else None
        except (BadCommandError, UnsupportedCommand):
            return None
        except ProtocolError as error:
            raise TransferError(f"GET_SENSOR_FORMAT: {error}") from error

    def read_picture(self) -> "Picture":
        """Return the last frame as an array [height, width, 3] of red, green and blue, a preview.

        TensorError where the device does not say what its frames are, or they are not pictures.
        """
        from host_tools.tensors.frames import picture_of

        form = self.sensor_format()
        if form is None:
            raise TensorError("the device does not say what its frames are: read_sensor returns their bytes")
        return picture_of(self.read_sensor(), form)

    def write_sensor(self, data: Buffer) -> None:
        """Put `data`, a frame's bytes, in the place of the sensor's frame."""
        self._exchange.set(Command.SET_SENSOR_TENSOR, data)

    # Commands on the wire

    def command(self, code: int, tensor: int = 0, data: Buffer = b"") -> bytes:
        """Send a command by its code, known or not, and return its data; no bytes for a SET.

        Bit 7 of the code tells a SET, which takes `data`. ValueError for data of a GET, or a code above 0xFF.
        `tensor` is the number of the tensor.
        """
        if not 0 <= code <= 0xFF:
            raise ValueError(f"a command is a byte, not {code}")
        if is_set(code):
            if code in _NEW_MODEL:
                self._forget_model()
            self._exchange.set(code, data, tensor)
            return b""
        if memoryview(data).nbytes:
            raise ValueError(f"{command_name(code)} is a GET, which takes no data")
        return self._exchange.get(code, tensor)

    def reset(self) -> None:
        """Make the device abandon the command in progress, as after a time-out; its model stays.

        Over SPI the command is ended by the next one, over Jacdac there is none: UnsupportedCommand.
        """
        from host_tools.transports.jacdac.transport import JacdacTransport
        from host_tools.transports.spi.transport import SpiTransport

        if isinstance(self._transport, SpiTransport):
            raise UnsupportedCommand("SPI has no reset: the next command ends one that was cut short")
        if isinstance(self._transport, JacdacTransport):
            raise UnsupportedCommand("Jacdac has no command in progress that a reset could end")
        self._transport.reset()

    def _get_word(self, command: Command, tensor: int = 0) -> int:
        data = self._exchange.get(command, tensor)
        if len(data) != 4:
            raise TransferError(f"{command.name}: expected a word of 4 bytes, got {len(data)} bytes")
        return int.from_bytes(data, "little")

    def _get_number(self, command: Command) -> int:
        """Get a small number that firmware sends as a byte or as a word."""
        data = self._exchange.get(command)
        if not data:
            raise TransferError(f"{command.name}: expected a number, got no bytes")
        return int.from_bytes(data, "little")


def _wire(
    transport: "Transport | SpiTransport | JacdacTransport",
    engine: int,
    dialect: Dialect,
    timeout: float | None,
) -> Wire:
    from host_tools.transports.jacdac.transport import JacdacTransport
    from host_tools.transports.spi.transport import SpiTransport

    if isinstance(transport, SpiTransport):
        from host_tools.exchange.spi import SpiExchange

        return SpiExchange(transport, engine, timeout)
    if isinstance(transport, JacdacTransport):
        from host_tools.exchange.jacdac import JacdacExchange

        return JacdacExchange(transport, engine, timeout)
    return Exchange(transport, engine, dialect, timeout)


def _choice(command: Command, kind: type[_Number], number: int) -> _Number:
    try:
        return kind(number)
    except ValueError:
        raise TransferError(f"{command.name}: {number} is not a {kind.__name__}") from None
