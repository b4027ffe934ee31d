"""The AI engine: a task that interprets commands from the channel ends of its clients.

A client's command is answered whole before another client's is taken. Whatever a client sends is
answered: failures with a status word and a line in the debug log. Sources: the design document, section AI
Engine; "XCORE AI server: numbers and wire behaviour", sections Commands and Channel to an AI engine.
"""

import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.arrays import Array, ArrayAbandoned, receive_array_steps, send_array_steps
from aisrv.debug_log import DebugLog
from aisrv.engine_channel import set_command
from aisrv.gpio import Gpio
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import InferenceError, ModelError
from aisrv.inference.memory import ModelMemory
from aisrv.protocol import (
    GPIO_COUNT,
    SERVER_ID,
    STATUS_ERRORS,
    Command,
    GpioMode,
    Spec,
    Status,
    is_set,
)
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.channel import chan_in_steps, chan_out_steps
from aisrv.xcore.node import Node
from aisrv.xcore.select import select
from aisrv.xcore.steps import Steps
from aisrv.xcore.tokens import WORD_BYTES, Control

MAX_TIMINGS: Final = 0xFFFFFFFF
SMALL: Final = 512
"""Data bytes kept of a SET that carries a setting."""


class CommandFailed(Exception):
    """A command that ends with a status other than OKAY; the reason goes to the debug log."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class AIEngine:
    """State of one engine: its inference engine, GPIO, debug log, and the errors not yet read."""

    def __init__(
        self,
        inference: InferenceEngine,
        log: DebugLog,
        *,
        hardware: Spec,
        chain: ChanEnd | None = None,
    ) -> None:
        self.inference: Final = inference
        self.log: Final = log
        self.gpio: Final = Gpio()
        self.hardware: Final = hardware
        """The spec words that no model changes."""
        self.chain: Final = chain
        """Channel end to the next engine, which gets every output as its input."""
        self.errors = Status.OKAY
        """Error bits of failed commands since GET_STATUS last read them."""

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


def _word(value: int) -> bytes:
    return value.to_bytes(WORD_BYTES, "little")


# GET commands: what they answer.


def _nothing(_engine: AIEngine, _tensor: int) -> bytes:
    return b""


def _get_status(engine: AIEngine, _tensor: int) -> bytes:
    status, engine.errors = engine.errors, Status.OKAY
    return _word(status)


def _get_timings(engine: AIEngine, _tensor: int) -> bytes:
    engine.require_model()
    timings = engine.inference.timings
    return struct.pack(f"<{len(timings)}I", *(ticks & MAX_TIMINGS for ticks in timings))


def _get_thresholds(engine: AIEngine, _tensor: int) -> bytes:
    return struct.pack(f"{GPIO_COUNT}b", *engine.gpio.thresholds)


GetHandler = Callable[[AIEngine, int], bytes | memoryview]

GET_HANDLERS: Final[dict[int, GetHandler]] = {
    Command.NONE: _nothing,
    Command.HELLO: _nothing,
    Command.GET_STATUS: _get_status,
    Command.GET_ID: lambda _engine, _tensor: _word(SERVER_ID),
    Command.GET_SPEC: lambda engine, _tensor: bytes(engine.spec()),
    Command.GET_TIMINGS: _get_timings,
    Command.GET_DEBUG_LOG: lambda engine, _tensor: bytes(engine.log),
    Command.GET_INPUT_TENSOR: AIEngine.input_tensor,
    Command.GET_OUTPUT_TENSOR: AIEngine.output_tensor,
    Command.GET_INPUT_TENSOR_LENGTH: lambda engine, tensor: _word(len(engine.input_tensor(tensor))),
    Command.GET_OUTPUT_TENSOR_LENGTH: lambda engine, tensor: _word(len(engine.output_tensor(tensor))),
    Command.GET_OUTPUT_GPIO_EN: lambda engine, _tensor: _word(engine.gpio.enabled),
    Command.GET_OUTPUT_GPIO_MODE: lambda engine, _tensor: _word(engine.gpio.mode),
    Command.GET_OUTPUT_GPIO_THRESH: _get_thresholds,
}


# SET commands: what they do with their data.


async def _set_input_tensor(engine: AIEngine, tensor: int, array: Array) -> None:
    target = engine.input_tensor(tensor)
    padded = len(target) + -len(target) % WORD_BYTES  # hosts may pad to whole words
    if array.length not in (len(target), padded):
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"input tensor {tensor} has {len(target)} bytes, not {array.length}"
        )
    target[:] = memoryview(array.data)[: len(target)]


async def _start_infer(engine: AIEngine, _tensor: int, array: Array) -> None:
    if array.length > WORD_BYTES:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"START_INFER takes no data, got {array.length} bytes")
    engine.require_model()
    await engine.inference.invoke()
    if engine.inference.output_count:
        engine.gpio.update(engine.inference.output(0))
    if engine.chain is not None:
        await _push_outputs(engine, engine.chain)


async def _push_outputs(engine: AIEngine, chain: ChanEnd) -> None:
    """Make each output the input of the same number of the next engine, and start that one."""
    for number in range(engine.inference.output_count):
        data = bytes(engine.inference.output(number))
        _check_chained(await set_command(chain, Command.SET_INPUT_TENSOR, number, data))
    _check_chained(await set_command(chain, Command.START_INFER))


def _check_chained(status: Status) -> None:
    if status:
        raise CommandFailed(status, f"the chained engine answered {status!r}")


def _set_model(memory: ModelMemory) -> "SetAction":
    async def set_model(engine: AIEngine, _tensor: int, array: Array) -> None:
        if array.overflowed:
            await engine.inference.unload_model()
            raise CommandFailed(
                Status.ERROR_MODEL_ERR,
                f"the model has {array.length} bytes, {memory.name} memory has room for {len(array.data)}",
            )
        await engine.inference.load_model(bytes(array.data), memory)

    return set_model


def _setting(array: Array) -> int:
    """Read a setting, which hosts send as one to four bytes."""
    if not 1 <= array.length <= WORD_BYTES:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"a setting has 1 to 4 bytes, not {array.length}")
    return int.from_bytes(array.data, "little")


async def _set_gpio_enable(engine: AIEngine, _tensor: int, array: Array) -> None:
    enabled = _setting(array)
    if enabled > 1:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"GPIO enable is 0 or 1, not {enabled}")
    engine.gpio.enabled = bool(enabled)


async def _set_gpio_mode(engine: AIEngine, _tensor: int, array: Array) -> None:
    mode = _setting(array)
    if mode not in list(GpioMode):
        raise CommandFailed(Status.ERROR_BAD_CMD, f"GPIO mode is 0 (none) or 1 (max), not {mode}")
    engine.gpio.mode = GpioMode(mode)


async def _set_gpio_threshold(engine: AIEngine, _tensor: int, array: Array) -> None:
    if not 2 <= array.length <= WORD_BYTES:
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"a threshold has 2 bytes, index and level, not {array.length}"
        )
    index, threshold = struct.unpack_from("Bb", array.data)
    if index >= GPIO_COUNT:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"there are {GPIO_COUNT} GPIO outputs, there is no {index}")
    engine.gpio.thresholds[index] = threshold


SetAction = Callable[[AIEngine, int, Array], Awaitable[None]]


def _small(_engine: AIEngine) -> int:
    return SMALL


@dataclass(frozen=True, slots=True)
class SetHandler:
    """What a SET does with its data, and how much of them it can take."""

    run: SetAction
    limit: Callable[[AIEngine], int] = _small


def _largest_input(engine: AIEngine) -> int:
    inference = engine.inference
    return max((len(inference.input(i)) + WORD_BYTES for i in range(inference.input_count)), default=0)


SET_HANDLERS: Final[dict[int, SetHandler]] = {
    Command.SET_INPUT_TENSOR: SetHandler(_set_input_tensor, _largest_input),
    Command.START_INFER: SetHandler(_start_infer),
    Command.SET_MODEL_ARENA: SetHandler(
        _set_model(ModelMemory.ARENA), lambda engine: engine.inference.arena_bytes
    ),
    Command.SET_MODEL_EXT: SetHandler(
        _set_model(ModelMemory.EXT), lambda engine: engine.inference.external_bytes
    ),
    Command.SET_OUTPUT_GPIO_EN: SetHandler(_set_gpio_enable),
    Command.SET_OUTPUT_GPIO_THRESH: SetHandler(_set_gpio_threshold),
    Command.SET_OUTPUT_GPIO_MODE: SetHandler(_set_gpio_mode),
}


async def _refuse(_engine: AIEngine, _tensor: int, _array: Array) -> None:
    raise CommandFailed(Status.ERROR_BAD_CMD, "the engine does not know this command")


_UNKNOWN_SET: Final = SetHandler(_refuse)


# The task.


async def aiengine(node: Node, engine: AIEngine, clients: Sequence[ChanEnd]) -> None:
    """Serve the clients' commands for ever, one at a time."""
    while True:
        await serve_command(engine, await select_client(node, clients))


async def select_client(node: Node, clients: Sequence[ChanEnd]) -> ChanEnd:
    """Wait for a client that begins a command."""
    chosen = await select(node, *clients)
    assert isinstance(chosen, ChanEnd)  # noqa: S101 - only clients are in the select
    return chosen


async def serve_command(engine: AIEngine, c: ChanEnd) -> None:
    """Take one command from a client and answer it."""
    command, tensor = await c.perform("command", _command_steps(c))
    if is_set(command):
        await _serve_set(engine, c, command, tensor)
    else:
        await _serve_get(engine, c, command, tensor)


async def _serve_get(engine: AIEngine, c: ChanEnd, command: int, tensor: int) -> None:
    handler = GET_HANDLERS.get(command)
    try:
        if handler is None:
            raise CommandFailed(Status.ERROR_BAD_CMD, "the engine does not know this command")
        data = handler(engine, tensor)
    except CommandFailed as failure:
        await c.perform("status", _status_steps(c, _record(engine, command, failure)))
    else:
        await c.perform("answer", _answer_steps(c, data))


async def _serve_set(engine: AIEngine, c: ChanEnd, command: int, tensor: int) -> None:
    handler = SET_HANDLERS.get(command, _UNKNOWN_SET)
    try:
        array = await c.perform("data", receive_array_steps(c, handler.limit(engine)))
    except ArrayAbandoned:
        engine.log.write(f"{_name(command)}: the host gave up in the middle of the data")
        return
    status = Status.OKAY
    try:
        await handler.run(engine, tensor, array)
    except CommandFailed as failure:
        status = _record(engine, command, failure)
    except InferenceError as error:
        kind = Status.ERROR_MODEL_ERR if isinstance(error, ModelError) else Status.ERROR_INFER_ERR
        status = _record(engine, command, CommandFailed(kind, str(error)))
    await c.perform("status", _set_status_steps(c, status))


def _record(engine: AIEngine, command: int, failure: CommandFailed) -> Status:
    engine.errors |= failure.status & STATUS_ERRORS
    engine.log.write(f"{_name(command)}: {failure}")
    return failure.status


def _name(command: int) -> str:
    return Command(command).name if command in list(Command) else f"command 0x{command:02x}"


def _command_steps(c: ChanEnd) -> Steps[tuple[int, int]]:
    command = yield from chan_in_steps(c, WORD_BYTES)
    tensor = yield from chan_in_steps(c, WORD_BYTES)
    return int.from_bytes(command, "big"), int.from_bytes(tensor, "big")


def _status_steps(c: ChanEnd, status: Status) -> Steps[None]:
    yield from chan_out_steps(c, status.to_bytes(WORD_BYTES, "big"))


def _answer_steps(c: ChanEnd, data: bytes | memoryview) -> Steps[None]:
    yield from _status_steps(c, Status.OKAY)
    yield from send_array_steps(c, data)


def _set_status_steps(c: ChanEnd, status: Status) -> Steps[None]:
    yield from c.output(status.to_bytes(WORD_BYTES, "big"))
    yield from c.output(Control.END)
