"""The state of an AI engine, the clients that watch it, and the failure of a command."""

from typing import TYPE_CHECKING, Final, Self

from aisrv.engine.debug_log import DebugLog
from aisrv.engine.gpio import Gpio
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import InferenceError, InvokeError, ModelError
from aisrv.protocol.commands import STATUS_ERRORS, AcquireMode, Spec, Status, command_name
from aisrv.protocol.engine_channel import MODEL_CHANGED, OUTPUT_CHANGED, Watcher
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.runtime import let_others_run
from flash_server.protocol import FlashReadError

if TYPE_CHECKING:
    from aisrv.sensors.acquire_channel import AcquireChannel, FrameFormat
    from flash_server.client.flash_channel import FlashChannel
    from flash_server.client.images import Window


COPIED_BYTES: Final = 1 << 19
"""Bytes of a tensor that are copied in one go."""


class _Interpreter:
    """What runs models, outside of the node: tracers hear of waits for it."""

    name = "its interpreter"


INTERPRETER: Final = _Interpreter()


class CommandFailed(Exception):
    """A command that ends with a status other than OKAY; the reason goes to the debug log."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    @classmethod
    def of(cls, error: InferenceError) -> Self:
        """Wrap an inference error as a command failure."""
        is_model = isinstance(error, ModelError)
        return cls(Status.ERROR_MODEL_ERR if is_model else Status.ERROR_INFER_ERR, str(error))


class FlashParameters:
    """A `ParameterSource` on an engine's channel to its flash server: a READ_PARAMETERS for each read."""

    def __init__(self, flash: "FlashChannel") -> None:
        self._flash = flash

    async def read(self, offset: int, size: int) -> bytes:
        """Read `size` bytes of the parameters; InvokeError with the server's reason."""
        try:
            return await self._flash.read_parameters(offset, size)
        except FlashReadError as error:
            raise InvokeError(f"the parameters in flash cannot be read: {error}") from error


class AIEngine:
    """State of one engine: its inference engine, GPIO, sensor, debug log, and the errors not yet read."""

    def __init__(
        self,
        inference: InferenceEngine,
        log: DebugLog,
        *,
        hardware: Spec,
        chain: ChanEnd | None = None,
        flash: "FlashChannel | None" = None,
        sensor: "AcquireChannel | None" = None,
        starts_stream: bool = False,
        window: "Window | None" = None,
    ) -> None:
        self.inference: Final = inference
        self.log: Final = log
        self.gpio: Final = Gpio()
        self.hardware: Final = hardware
        """The spec words that no model changes."""
        self.chain: Final = chain
        """Channel end to the next engine, which gets every output as its input."""
        self.flash: Final = flash
        """The flash server that has its image."""
        self.window: Final = window
        """Opens what the flash server has of its image for code that runs in place; None where none does."""
        self.sensor: Final = sensor
        """The acquire task."""
        self.starts_stream: Final = starts_stream
        """Whether it streams by itself as soon as a model is loaded."""
        self.frames: FrameFormat | None = None
        """What the sensor's frames look like; None without a sensor."""
        self.acquire_mode = AcquireMode.SINGLE
        self.watchers: Final[list[Watcher]] = []
        self.boot_report = b""
        """What the device booted, as GET_BOOT answers it."""
        self.errors = Status.OKAY
        """Error bits of failed commands since GET_STATUS last read them."""
        self.inferences = 0
        """Successful inferences since the device started."""

    async def power_up(self) -> None:
        """Do what an engine does before it takes commands: ask what was booted, and what the sensor gives."""
        if self.flash is not None:
            self.boot_report = bytes(await self.flash.read_boot_report())
        if self.sensor is not None:
            self.frames = await self.sensor.describe()

    @property
    def streams(self) -> bool:
        """Return whether it acquires and infers by itself."""
        return self.acquire_mode is AcquireMode.STREAM

    async def model_changed(self) -> None:
        """Notify the watchers."""
        for watcher in self.watchers:
            await watcher.notify(MODEL_CHANGED)

    async def output_changed(self) -> None:
        """Notify the watchers, which cannot see the inferences of a stream otherwise."""
        for watcher in self.watchers:
            await watcher.notify(OUTPUT_CHANGED)

    def record(self, command: int, failure: CommandFailed) -> Status:
        """Keep a failure for GET_STATUS and the debug log; returns its status."""
        self.errors |= failure.status & STATUS_ERRORS
        self.log.write(f"{command_name(command)}: {failure}")
        return failure.status

    def spec(self) -> Spec:
        """Describe the hardware, and the model if there is one."""
        inference, hardware = self.inference, self.hardware
        return Spec(
            hardware.server_kind,
            hardware.tiles,
            hardware.internal_kib,
            hardware.flash_kib,
            hardware.external_kib,
            sum(len(inference.input(i)) for i in range(inference.input_count)),
            sum(len(inference.output(i)) for i in range(inference.output_count)),
            len(inference.timings),
        )

    def require_model(self) -> None:
        """Fail with ERROR_NO_MODEL unless a model is loaded."""
        if not self.inference.is_ready:
            raise CommandFailed(Status.ERROR_NO_MODEL, "no model is loaded")

    def input_tensor(self, number: int) -> memoryview:
        """Return an input tensor by number; one that the model does not have fails with ERROR_BAD_CMD."""
        self.require_model()
        _check_number("input", number, self.inference.input_count)
        return self.inference.input(number)

    async def fill_input(self, number: int, data: bytes | memoryview) -> None:
        """Write the first bytes of an input tensor, piece by piece; other tasks run between the pieces."""
        target = self.inference.input(number)
        for at in range(0, len(data), COPIED_BYTES):
            if at:
                await let_others_run()
            piece = data[at : at + COPIED_BYTES]
            target[at : at + len(piece)] = piece

    def output_tensor(self, number: int) -> memoryview:
        """Return an output tensor by number; one that the model does not have fails with ERROR_BAD_CMD."""
        self.require_model()
        _check_number("output", number, self.inference.output_count)
        return self.inference.output(number)


def _check_number(kind: str, number: int, count: int) -> None:
    if number >= count:
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"the model has {count} {kind} tensors, there is no {number}"
        )
