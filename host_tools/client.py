"""The AI server as an object: one method per command, errors as exceptions, over USB, SPI and Jacdac.

    with AiServer.open("usbip:localhost:3240") as server:
        server.load_model("person_detection.tflite")
        outputs = server.run("photo.png", dequantize=True)
        print(outputs[0], outputs.best(3), server.timings())

The same program talks to hardware (`usb`) and to a virtual device that is started for it (`virtual`).
"""

import struct
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, TypeVar, overload

from aisrv.protocol.commands import (
    AcquireMode,
    Command,
    Dialect,
    FrameRegion,
    GpioMode,
    GpioThreshold,
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
    TransferStall,
    UnexplainedError,
    UnsupportedCommand,
)
from host_tools.exchange.usb import Exchange, log_text
from host_tools.tensors.timings import REFERENCE_MHZ, Timings
from host_tools.transports.schemes import open_transport
from host_tools.transports.transport import Buffer, OtherTransport, Progress, Transport, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from aisrv.protocol.sensor_format import SensorFormat
    from host_tools.model_summary import ModelSummary
    from host_tools.tensors.files import InputValue
    from host_tools.tensors.frames import Picture
    from host_tools.tensors.outputs import Outputs
    from host_tools.transports.spi.transport import SpiTransport

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds for one transfer, and so for one inference or the loading of one model."""

Memory: TypeAlias = Literal["arena", "ext"]
"""Where a model is put: in the tensor arena, or in external memory."""

_Answer = TypeVar("_Answer")

_SET_MODEL: Final[dict[Memory, Command]] = {"arena": Command.SET_MODEL_ARENA, "ext": Command.SET_MODEL_EXT}
_SET_MODEL_FLASH: Final[dict[Memory, Command]] = {
    "arena": Command.SET_MODEL_ARENA_FLASH,
    "ext": Command.SET_MODEL_EXT_FLASH,
}

_NEW_MODEL: Final = frozenset((*_SET_MODEL.values(), *_SET_MODEL_FLASH.values()))


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
        transport: "Transport | SpiTransport | OtherTransport",
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
        self._exchange = self._wire(transport, engine, dialect, timeout)
        self._name = type(transport).__name__
        self._engine = engine
        self._file: bytes | None = None
        self._model: ModelSummary | None = None
        self._has_run = False
        self._unknown: set[Command] = set()
        """Questions of the virtual device's own that this device has refused, as hardware does."""
        self._reference_mhz = REFERENCE_MHZ if self._exchange.as_float32 else reference_mhz

    @staticmethod
    def _wire(
        transport: "Transport | SpiTransport | OtherTransport",
        engine: int,
        dialect: Dialect,
        timeout: float | None,
    ) -> Wire:
        """Return the way of commands over a transport."""
        from host_tools.transports.spi.transport import SpiTransport

        if isinstance(transport, SpiTransport):
            from host_tools.exchange.spi import SpiExchange

            return SpiExchange(transport, engine, timeout)
        if isinstance(transport, OtherTransport):
            return transport.wire(engine, timeout)
        return Exchange(transport, engine, dialect, timeout)

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
        """Answer of GET_ID: 0x12345678 for every AI server."""
        return self._ask(Command.GET_ID, _word)

    def status(self) -> Status:
        """Return the engine's status bits. Reading them clears the error bits."""
        return Status(self._ask(Command.GET_STATUS, _word))

    def spec(self) -> Spec:
        """Return what the hardware is, and the sizes of the loaded model's tensors."""
        return self._ask(Command.GET_SPEC, Spec.from_bytes)

    def debug_log(self) -> str:
        """Return the last lines of the engine's log, without the padding."""
        return self._ask(Command.GET_DEBUG_LOG, log_text)

    def boot_report(self) -> bytes:
        """Return what the device booted, a `flash_server.boot.boot_image.BootReport`; no bytes where unknown.

        The question is the virtual device's own: hardware refuses it, or over SPI answers zeros.
        """
        report = self._ask_if_known(Command.GET_BOOT, bytes) or b""
        return report if any(report) else b""

    def memory_map(self) -> MemoryMap | None:
        """Return where model and tensors lie in the engine's memories; None where the device does not say.

        The question is the virtual device's own, and goes over USB only.
        """
        return self._ask_if_known(Command.GET_MEMORY, MemoryMap.from_bytes)

    def load_server(self, image: Buffer, progress: Progress | None = None) -> None:
        """Replace the upgrade image, as of `aisrv-flash boot-image`, which the next reset boots; SPI only."""
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
        """Load the model that the flash holds for this engine."""
        self._forget_model()
        self._exchange.set(_SET_MODEL_FLASH[memory])

    def use_model(self, model: Buffer | str | PathLike[str]) -> None:
        """Take a `.tflite` file, else TensorError, for the model that the engine has; nothing is sent."""
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

        descriptions = self._ask_if_known(Command.GET_TENSORS, TensorDescriptions.from_bytes)
        if descriptions is None:
            raise TensorError(
                "the device does not say what its model's tensors are: load the model, or name its file "
                "with use_model"
            )
        if not (descriptions.inputs or descriptions.outputs):
            raise NoModelError(Command.GET_TENSORS, self._engine, status=Status.ERROR_NO_MODEL)
        return ModelSummary.of_device(descriptions)

    def _forget_model(self) -> None:
        self._file = self._model = None
        self._has_run = False

    # Tensors and inference

    def input_length(self, tensor: int = 0) -> int:
        """Return the bytes of an input tensor."""
        return self._ask(Command.GET_INPUT_TENSOR_LENGTH, _word, tensor)

    def output_length(self, tensor: int = 0) -> int:
        """Return the bytes of an output tensor."""
        return self._ask(Command.GET_OUTPUT_TENSOR_LENGTH, _word, tensor)

    def write_input(self, data: Buffer, tensor: int = 0, progress: Progress | None = None) -> None:
        """Set an input tensor, all of it. `progress` is called with the bytes done and all bytes."""
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

    def run_many(self, inputs: "Iterable[Buffer]", *, in_flight: int = 4) -> "Iterator[bytes]":
        """Yield output 0 for each of the inputs, all bytes, in order: as `run`, with several in flight.

        It is lazy, and quicker than `run` where inputs are small. An error has the index of its input as a
        note; the outputs before it have been yielded then, and the server stays usable.
        """
        from host_tools.exchange.many_runs import run_many

        for output in run_many(self._exchange, inputs, in_flight):
            self._has_run = True
            yield output

    def _run_arrays(self, values: "Sequence[InputValue]", dequantize: bool, value_range: str) -> "Outputs":
        from host_tools.tensors.files import input_tensor
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
        ticks = self._ask(Command.GET_TIMINGS, _words)
        # No times at all are of a model without operators; a Model Runner has one once it has run.
        is_known = any(ticks) or not (ticks or self._exchange.as_float32)
        if not (is_known or self._has_run):
            raise NotRunError("there are no timings: no inference has run since the model was loaded")
        return Timings(ticks, self._operator_names(len(ticks)), self._timing_bands(), self._reference_mhz)

    def _timing_bands(self) -> TimingBands | None:
        """Return what a virtual device says of its clock and its times; None of hardware."""
        if self._exchange.as_float32:  # over Jacdac there is no such question
            return None
        bands = self._ask_if_known(Command.GET_TIMING_BANDS, TimingBands.from_bytes)
        return bands if bands and bands.reference_hz else None  # over SPI hardware answers zeros

    def _operator_names(self, count: int) -> tuple[str, ...]:
        """Return the names of as many operators, from the file or the device; none where neither has them."""
        if self._exchange.as_float32:  # over Jacdac there is one time for all
            return ()
        if self._file is not None:
            with suppress(TensorError):  # the device took a file that cannot be read here
                names = self.model().operators
                if len(names) == count:
                    return names
        answer = self._ask_if_known(Command.GET_OPERATORS, bytes) or b""
        return tuple(name.decode(errors="replace") for name in answer.split(b"\0")[:-1])

    def profile(self) -> str:
        """Return the profiler summary of the last inference, which goes to the debug log, too.

        The question is the virtual device's own, and goes over USB only: hardware refuses it.
        """
        return self._exchange.get(Command.GET_PROFILE).decode(errors="replace")

    # GPIO

    def gpio_enabled(self) -> bool:
        """Return whether inferences drive the GPIO outputs."""
        return bool(self._ask(Command.GET_OUTPUT_GPIO_EN, _number))

    def enable_gpio(self, enabled: bool = True) -> None:
        """Let inferences drive the GPIO outputs, or not."""
        self._exchange.set(Command.SET_OUTPUT_GPIO_EN, bytes([enabled]))

    def gpio_thresholds(self) -> tuple[int, ...]:
        """Return the threshold of each GPIO output, -128 to 127."""
        data = self._exchange.get(Command.GET_OUTPUT_GPIO_THRESH)
        return struct.unpack(f"{len(data)}b", data)

    def set_gpio_threshold(self, index: int, threshold: int) -> None:
        """Set the threshold, -128 to 127, of output 0 to 3; ProtocolError for what does not fit a byte."""
        self._exchange.set(Command.SET_OUTPUT_GPIO_THRESH, bytes(GpioThreshold(index, threshold)))

    def gpio_mode(self) -> GpioMode:
        """Return how the outputs follow output tensor 0."""
        return self._ask(Command.GET_OUTPUT_GPIO_MODE, lambda data: GpioMode(_number(data)))

    def set_gpio_mode(self, mode: GpioMode) -> None:
        """Set how the outputs follow output tensor 0."""
        self._exchange.set(Command.SET_OUTPUT_GPIO_MODE, bytes([mode]))

    # The sensor

    def acquire_single(self, region: tuple[int, int, int, int, int, int] | None = None) -> None:
        """Acquire a frame, or its region: start x, end x, start y, end y, width, height, in pixels."""
        self._exchange.set(Command.START_ACQUIRE_SINGLE, bytes(FrameRegion(*region)) if region else b"")

    def acquire_stream(self) -> None:
        """Acquire frames continuously."""
        self._exchange.set(Command.START_ACQUIRE_STREAM)

    def set_sensor_register(self, address: int, register: int, value: int) -> None:
        """Write one register of the sensor at an I2C address; each number is a byte."""
        self._exchange.set(Command.START_ACQUIRE_SET_I2C, bytes(RegisterWrite(address, register, value)))

    def acquire_mode(self) -> AcquireMode:
        """Return whether single frames or a stream are acquired."""
        return self._ask(Command.GET_ACQUIRE_MODE, lambda data: AcquireMode(_word(data)))

    def read_sensor(self) -> bytes:
        """Return the bytes of the last frame."""
        return self._exchange.get(Command.GET_SENSOR_TENSOR)

    def sensor_format(self) -> "SensorFormat | None":
        """Return size and encoding of the sensor's frames; None where the device does not say.

        The question is the virtual device's own, and goes over USB only.
        """
        from aisrv.protocol.sensor_format import SensorFormat

        return self._ask_if_known(
            Command.GET_SENSOR_FORMAT, lambda data: SensorFormat.from_bytes(data) if data else None
        )

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
        """Make the device abandon the command in progress; its model stays. USB only: UnsupportedCommand."""
        self._exchange.reset()

    def _ask(self, command: Command, read: "Callable[[bytes], _Answer]", tensor: int = 0) -> _Answer:
        """Send a GET and read its answer; TransferError for one that `read` refuses with a ValueError."""
        data = self._exchange.get(command, tensor)
        try:
            return read(data)
        except ValueError as error:
            raise TransferError(f"{command.name}: {error}") from error

    def _ask_if_known(self, command: Command, read: "Callable[[bytes], _Answer]") -> _Answer | None:
        """Ask what a virtual device alone answers; None where the device refuses, in whatever way it does.

        It is asked again only if the reason may be of the moment. An answer that `read` refuses with a
        ValueError is None, too: a board may use the code for something else.
        """
        if command in self._unknown:
            return None
        try:
            data = self._exchange.get(command)
        except (BadCommandError, UnexplainedError, UnsupportedCommand, TransactionTooLong):
            self._unknown.add(command)
            return None
        except (CommandError, TransferStall):
            return None
        try:
            return read(data)
        except ValueError:
            self._unknown.add(command)
            return None


def _word(data: bytes) -> int:
    if len(data) != 4:
        raise ValueError(f"expected a word of 4 bytes, got {len(data)} bytes")
    return int.from_bytes(data, "little")


def _words(data: bytes) -> tuple[int, ...]:
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes are not a whole number of words")
    return struct.unpack(f"<{len(data) // 4}I", data)


def _number(data: bytes) -> int:
    """Read a small number that firmware sends as a byte or as a word."""
    if not data:
        raise ValueError("expected a number, got no bytes")
    return int.from_bytes(data, "little")
