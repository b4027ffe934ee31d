"""The commands of the AI engine: a handler for each, in two tables.

Source: "XCORE AI server: numbers and wire behavior", section Commands.
"""

import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio
from msgspec import Struct

from aisrv.engine import acquisition
from aisrv.engine.state import AIEngine, CommandFailed
from aisrv.inference.interpreter import ModelBytes
from aisrv.model.values import Tensor
from aisrv.protocol.commands import GPIO_COUNT, SERVER_ID, Command, GpioMode, GpioThreshold, Status
from aisrv.protocol.engine_channel import RESET_VARIABLES, set_command, set_large
from aisrv.protocol.memory_map import MemoryMap, ModelMemory
from aisrv.xcore.array import Array
from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.tokens import WORD_BYTES
from flash_server.protocol import FAILURE_TEXTS, FlashFailure, FlashReadError

if TYPE_CHECKING:
    from aisrv.protocol.tensor_descriptions import TensorDescription
    from flash_server.client.flash_channel import FlashChannel
    from flash_server.client.images import InPlaceImage, Window

SMALL: Final = 512
"""Data bytes kept of a SET that carries a setting."""


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
    return struct.pack(f"<{len(timings)}I", *timings)


def _get_memory(engine: AIEngine, _tensor: int) -> bytes:
    inference = engine.inference
    return bytes(inference.memory_map or MemoryMap(inference.arena_bytes, inference.external_bytes))


def _get_tensors(engine: AIEngine, _tensor: int) -> bytes:
    from aisrv.protocol.tensor_descriptions import TensorDescriptions

    model = engine.inference.model
    if model is None:
        return bytes(TensorDescriptions())
    inputs, outputs = map(_describe, model.input_tensors), map(_describe, model.output_tensors)
    return bytes(TensorDescriptions(tuple(inputs), tuple(outputs)))


def _describe(tensor: Tensor) -> "TensorDescription":
    from aisrv.protocol.tensor_descriptions import TensorDescription

    quantization = tensor.quantization
    if quantization is None or len(quantization.scales) != 1:
        return TensorDescription(tensor.type, tensor.shape)
    (scale,), (zero_point,) = quantization.scales, quantization.zero_points
    return TensorDescription(tensor.type, tensor.shape, scale, zero_point)


async def _get_profile(engine: AIEngine, _tensor: int) -> bytes:
    """Carry out the firmware's print_profiler_summary, whose output is the debug log."""
    engine.require_model()
    summary = await engine.inference.print_profiler_summary()
    engine.log.write(summary)
    return summary.encode()


async def _get_operators(engine: AIEngine, _tensor: int) -> bytes:
    engine.require_model()
    return await engine.inference.operator_names()


def _get_thresholds(engine: AIEngine, _tensor: int) -> bytes:
    return struct.pack(f"{GPIO_COUNT}b", *engine.gpio.thresholds)


Answer = bytes | memoryview
GetHandler = Callable[[AIEngine, int], Awaitable[Answer]]


class AtOnce:
    """The handler of a GET that needs no other task.

    `answer` may be called twice for one command, and then changes nothing, where it gives more than SMALL
    bytes.
    """

    def __init__(self, answer: Callable[[AIEngine, int], Answer]) -> None:
        self.answer: Final = answer

    async def __call__(self, engine: AIEngine, tensor: int) -> Answer:
        """Answer as other handlers do."""
        return self.answer(engine, tensor)


_OWN_ANSWERS: Final[dict[int, Callable[[AIEngine, int], Answer]]] = {
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
    Command.GET_BOOT: lambda engine, _tensor: engine.boot_report,
    Command.GET_MEMORY: _get_memory,
    Command.GET_TENSORS: _get_tensors,
    Command.GET_ACQUIRE_MODE: acquisition.acquire_mode,
    Command.GET_SENSOR_TENSOR_LENGTH: acquisition.sensor_tensor_length,
    Command.GET_SENSOR_FORMAT: acquisition.sensor_format,
}

GET_HANDLERS: Final[dict[int, GetHandler]] = {
    **{command: AtOnce(answer) for command, answer in _OWN_ANSWERS.items()},
    Command.GET_SENSOR_TENSOR: acquisition.sensor_tensor,
    Command.GET_PROFILE: _get_profile,
    Command.GET_OPERATORS: _get_operators,
}


# SET commands: what they do with their data.


async def _set_input_tensor(engine: AIEngine, tensor: int, array: Array) -> None:
    target = _input_for(engine, tensor, array)
    await engine.fill_input(tensor, memoryview(array.data)[: len(target)])


def _set_small_input_tensor(engine: AIEngine, tensor: int, array: Array) -> None:
    target = _input_for(engine, tensor, array)
    target[:] = memoryview(array.data)[: len(target)]


def _input_for(engine: AIEngine, tensor: int, array: Array) -> memoryview:
    """Return the input tensor that is to get an array, if it is as long."""
    target = engine.input_tensor(tensor)
    padded = len(target) + -len(target) % WORD_BYTES  # hosts may pad to whole words
    if array.length not in (len(target), padded):
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"input tensor {tensor} has {len(target)} bytes, not {array.length}"
        )
    return target


async def _start_infer(engine: AIEngine, _tensor: int, array: Array) -> None:
    if array.length > WORD_BYTES:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"START_INFER takes no data, got {array.length} bytes")
    await infer(engine)


async def infer(engine: AIEngine) -> None:
    """Run the model, drive the GPIO outputs, and pass the outputs on along the chain."""
    engine.require_model()
    await engine.inference.invoke()
    engine.inferences += 1
    if engine.inference.output_count:
        for _ in engine.gpio.update_in_steps(engine.inference.output(0)):
            await trio.lowlevel.checkpoint()
    if engine.chain is not None:
        await _push_outputs(engine, engine.chain)


async def _reset_variables(engine: AIEngine, _tensor: int, _array: Array) -> None:
    await engine.inference.reset_variables()


async def _push_outputs(engine: AIEngine, chain: ChanEnd) -> None:
    """Write each output to the next engine's input of the same number, and start that engine."""
    for number in range(engine.inference.output_count):
        data = engine.inference.output(number)
        _check_chained(await set_large(chain, Command.SET_INPUT_TENSOR, number, data))
    _check_chained(await set_command(chain, Command.START_INFER))


def _check_chained(status: Status) -> None:
    if status:
        raise CommandFailed(status, f"the chained engine answered {status!r}")


def _room(memory: ModelMemory) -> Callable[[AIEngine], int]:
    """Bytes that a model may have in a memory of an engine."""
    if memory is ModelMemory.ARENA:
        return lambda engine: engine.inference.arena_bytes
    return lambda engine: engine.inference.external_bytes


async def _load(
    engine: AIEngine, model: ModelBytes, memory: ModelMemory, in_place: "InPlaceImage | None" = None
) -> None:
    await engine.inference.load_model(model, memory, in_place)
    await acquisition.stream_by_itself(engine)


def _set_model(memory: ModelMemory) -> "SetAction":
    async def set_model(engine: AIEngine, _tensor: int, array: Array) -> None:
        try:
            if array.overflowed:
                from aisrv.inference.memory import model_shortage

                await engine.inference.unload_model()
                raise model_shortage(array.length, len(array.data), memory)
            await _load(engine, array.data, memory)
        finally:
            await engine.model_changed()

    return set_model


def _set_model_from_flash(memory: ModelMemory) -> "SetAction":
    async def set_model_from_flash(engine: AIEngine, _tensor: int, _array: Array) -> None:
        if engine.flash is None:
            raise CommandFailed(Status.ERROR_BAD_CMD, "the engine has no flash")
        try:
            await engine.inference.unload_model()
            try:
                found = await _read_from_flash(engine.flash, engine.window, _room(memory)(engine))
            except FlashReadError as error:
                raise CommandFailed(Status.ERROR_MODEL_ERR, f"{memory.name} memory: {error}") from None
            if isinstance(found, ModelBytes):
                await _load(engine, found, memory)
            else:
                await _load(engine, found.image, memory, found)
        finally:
            await engine.model_changed()

    return set_model_from_flash


async def _read_from_flash(
    flash: "FlashChannel", window: "Window | None", limit: int
) -> "ModelBytes | InPlaceImage":
    """Read the engine's model, or, where it has none, the relocatable image in another segment.

    With a window that image runs in place.
    """
    try:
        model: ModelBytes = await flash.read_model(limit)
    except FlashReadError as error:
        if error.code != FlashFailure.ABSENT:
            raise
        model = bytearray()
    if model:
        return model
    from flash_server.client.images import open_image, read_image
    from flash_server.image.headers import IMAGE_PARTS

    sizes = await flash.read_sizes()
    if not any(sizes[part] for part in IMAGE_PARTS):
        raise FlashReadError(FlashFailure.ABSENT, FAILURE_TEXTS[FlashFailure.ABSENT])
    return await (read_image(flash, limit) if window is None else open_image(flash, window))


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
    setting = GpioThreshold.unpack_from(array.data)
    if setting.index >= GPIO_COUNT:
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"there is no GPIO output {setting.index}; an engine has {GPIO_COUNT}"
        )
    engine.gpio.thresholds[setting.index] = setting.threshold


SetAction = Callable[[AIEngine, int, Array], Awaitable[None]]


def _small(_engine: AIEngine) -> int:
    return SMALL


class SetHandler(Struct, frozen=True):
    """The handler of a SET, and the most bytes of data that it takes."""

    run: SetAction
    limit: Callable[[AIEngine], int] = _small
    at_once: Callable[[AIEngine, int, Array], None] | None = None
    """The same for data of up to AT_ONCE bytes, where that needs no other task."""


def _largest_input(engine: AIEngine) -> int:
    inference = engine.inference
    return max((len(inference.input(i)) + WORD_BYTES for i in range(inference.input_count)), default=0)


SET_HANDLERS: Final[dict[int, SetHandler]] = {
    Command.SET_INPUT_TENSOR: SetHandler(_set_input_tensor, _largest_input, _set_small_input_tensor),
    Command.START_INFER: SetHandler(_start_infer),
    Command.SET_MODEL_ARENA: SetHandler(_set_model(ModelMemory.ARENA), _room(ModelMemory.ARENA)),
    Command.SET_MODEL_EXT: SetHandler(_set_model(ModelMemory.EXT), _room(ModelMemory.EXT)),
    Command.SET_MODEL_ARENA_FLASH: SetHandler(_set_model_from_flash(ModelMemory.ARENA)),
    Command.SET_MODEL_EXT_FLASH: SetHandler(_set_model_from_flash(ModelMemory.EXT)),
    Command.SET_OUTPUT_GPIO_EN: SetHandler(_set_gpio_enable),
    Command.SET_OUTPUT_GPIO_THRESH: SetHandler(_set_gpio_threshold),
    Command.SET_OUTPUT_GPIO_MODE: SetHandler(_set_gpio_mode),
    Command.START_ACQUIRE_SINGLE: SetHandler(acquisition.start_single),
    Command.START_ACQUIRE_STREAM: SetHandler(acquisition.start_stream),
    Command.START_ACQUIRE_SET_I2C: SetHandler(acquisition.set_i2c),
    Command.SET_SENSOR_TENSOR: SetHandler(acquisition.set_sensor_tensor, acquisition.frame_limit),
}
"""The SET commands of the AI server."""

IOSERVER_SET_HANDLERS: Final[dict[int, SetHandler]] = {
    **SET_HANDLERS,
    RESET_VARIABLES: SetHandler(_reset_variables),
}
"""Those of an engine behind the ioserver protocol, whose hosts cannot name the code that is added."""


async def _refuse(_engine: AIEngine, _tensor: int, _array: Array) -> None:
    raise CommandFailed(Status.ERROR_BAD_CMD, "the engine does not know this command")


UNKNOWN_SET: Final = SetHandler(_refuse)
