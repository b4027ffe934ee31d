"""The state of an AI engine, and how its commands fail."""

from typing import Final

from aisrv.debug_log import DebugLog
from aisrv.engine_channel import MODEL_CHANGED
from aisrv.gpio import Gpio
from aisrv.inference.engine import InferenceEngine
from aisrv.protocol import Spec, Status
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.tokens import Control
from flash_server.flash_channel import FlashChannel


class CommandFailed(Exception):
    """A command that ends with a status other than OKAY; the reason goes to the debug log."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Watcher:
    """A client that wants to know when the model has changed; `c` is a channel end just for that."""

    def __init__(self, c: ChanEnd) -> None:
        self._c = c
        self._unanswered = False

    async def tell(self) -> None:
        """Send MODEL_CHANGED unless one is on its way: never more than its one token, so it cannot block."""
        if self._unanswered and self._c.ready:
            await self._c.chkct(Control.ACK)
            self._unanswered = False
        if not self._unanswered:
            self._unanswered = True
            await self._c.outct(MODEL_CHANGED)


class AIEngine:
    """State of one engine: its inference engine, GPIO, debug log, and the errors not yet read."""

    def __init__(
        self,
        inference: InferenceEngine,
        log: DebugLog,
        *,
        hardware: Spec,
        chain: ChanEnd | None = None,
        flash: FlashChannel | None = None,
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
        self.watchers: Final[list[Watcher]] = []
        self.boot_report = b""
        """What the device booted, as GET_BOOT answers it."""
        self.errors = Status.OKAY
        """Error bits of failed commands since GET_STATUS last read them."""

    async def power_up(self) -> None:
        """Do what an engine does before it takes commands: ask what was booted."""
        if self.flash is not None:
            self.boot_report = bytes(await self.flash.read_boot_report())

    async def model_changed(self) -> None:
        """Tell the watchers."""
        for watcher in self.watchers:
            await watcher.tell()

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
        if self.inference.model is None:
            raise CommandFailed(Status.ERROR_NO_MODEL, "no model is loaded")

    def input_tensor(self, number: int) -> memoryview:
        """Return an input tensor by number; one that the model does not have fails with ERROR_BAD_CMD."""
        self.require_model()
        _check_number("input", number, self.inference.input_count)
        return self.inference.input(number)

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
