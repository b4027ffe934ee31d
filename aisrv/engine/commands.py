"""The commands of the AI engine: how each is answered or carried out.

Those of models are in `models`, those of the sensor in `acquisition`. Source: "XCORE AI server: numbers and
wire behavior", section Commands.
"""

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import aisrv.engine.acquisition
import aisrv.engine.models  # noqa: F401 - they make their functions handlers
from aisrv.engine.handlers import (
    GETS,
    SETS,
    GetHandler,
    SetHandler,
    answers,
    carries_out,
    check_all_handled,
)
from aisrv.engine.state import INTERPRETER, AIEngine, CommandFailed
from aisrv.model.values import Tensor
from aisrv.protocol.commands import GPIO_COUNT, SERVER_ID, Command, GpioMode, GpioThreshold, Status
from aisrv.protocol.engine_channel import RESET_VARIABLES, set_command, set_large
from aisrv.protocol.memory_map import MemoryMap
from aisrv.xcore.channels.array import Array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.runtime import let_others_run
from aisrv.xcore.tokens import WORD_BYTES
from aisrv.xcore.traced import traced_wait

if TYPE_CHECKING:
    from aisrv.protocol.tensor_descriptions import TensorDescription


def _word(value: int) -> bytes:
    return value.to_bytes(WORD_BYTES, "little")


# GET commands: what they answer.


@answers(Command.NONE, Command.HELLO)
def _nothing(_engine: AIEngine, _tensor: int) -> bytes:
    return b""


@answers(Command.GET_STATUS)
def _status(engine: AIEngine, _tensor: int) -> bytes:
    status, engine.errors = engine.errors, Status.OKAY
    return _word(status)


@answers(Command.GET_ID)
def _id(_engine: AIEngine, _tensor: int) -> bytes:
    return _word(SERVER_ID)


@answers(Command.GET_SPEC)
def _spec(engine: AIEngine, _tensor: int) -> bytes:
    return bytes(engine.spec())


@answers(Command.GET_TIMINGS)
def _timings(engine: AIEngine, _tensor: int) -> bytes:
    engine.require_model()
    timings = engine.inference.timings
    return struct.pack(f"<{len(timings)}I", *timings)


@answers(Command.GET_DEBUG_LOG)
def _debug_log(engine: AIEngine, _tensor: int) -> bytes:
    return bytes(engine.log)


answers(Command.GET_INPUT_TENSOR)(AIEngine.input_tensor)
answers(Command.GET_OUTPUT_TENSOR)(AIEngine.output_tensor)


@answers(Command.GET_INPUT_TENSOR_LENGTH)
def _input_tensor_length(engine: AIEngine, tensor: int) -> bytes:
    return _word(len(engine.input_tensor(tensor)))


@answers(Command.GET_OUTPUT_TENSOR_LENGTH)
def _output_tensor_length(engine: AIEngine, tensor: int) -> bytes:
    return _word(len(engine.output_tensor(tensor)))


@answers(Command.GET_OUTPUT_GPIO_EN)
def _gpio_enabled(engine: AIEngine, _tensor: int) -> bytes:
    return _word(engine.gpio.enabled)


@answers(Command.GET_OUTPUT_GPIO_MODE)
def _gpio_mode(engine: AIEngine, _tensor: int) -> bytes:
    return _word(engine.gpio.mode)


@answers(Command.GET_OUTPUT_GPIO_THRESH)
def _gpio_thresholds(engine: AIEngine, _tensor: int) -> bytes:
    return struct.pack(f"{GPIO_COUNT}b", *engine.gpio.thresholds)


@answers(Command.GET_BOOT)
def _boot(engine: AIEngine, _tensor: int) -> bytes:
    return engine.boot_report


@answers(Command.GET_MEMORY)
def _memory(engine: AIEngine, _tensor: int) -> bytes:
    inference = engine.inference
    return bytes(inference.memory_map or MemoryMap(inference.arena_bytes, inference.external_bytes))


@answers(Command.GET_TENSORS)
def _tensors(engine: AIEngine, _tensor: int) -> bytes:
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


@answers(Command.GET_TIMING_BANDS)
def _timing_bands(engine: AIEngine, _tensor: int) -> bytes:
    return engine.inference.timing_bands


@answers(Command.GET_PROFILE)
async def _profile(engine: AIEngine, _tensor: int) -> bytes:
    """Carry out the firmware's print_profiler_summary, whose output is the debug log."""
    engine.require_model()
    summary = await engine.inference.print_profiler_summary()
    engine.log.write(summary)
    return summary.encode()


@answers(Command.GET_OPERATORS)
async def _operators(engine: AIEngine, _tensor: int) -> bytes:
    engine.require_model()
    return await engine.inference.operator_names()


# SET commands: what they do with their data.


def _largest_input(engine: AIEngine) -> int:
    inference = engine.inference
    return max((len(inference.input(i)) + WORD_BYTES for i in range(inference.input_count)), default=0)


def _set_small_input_tensor(engine: AIEngine, tensor: int, array: Array) -> None:
    target = _input_for(engine, tensor, array)
    target[:] = memoryview(array.data)[: len(target)]


@carries_out(Command.SET_INPUT_TENSOR, _largest_input, at_once=_set_small_input_tensor)
async def _set_input_tensor(engine: AIEngine, tensor: int, array: Array) -> None:
    target = _input_for(engine, tensor, array)
    await engine.fill_input(tensor, memoryview(array.data)[: len(target)])


def _input_for(engine: AIEngine, tensor: int, array: Array) -> memoryview:
    """Return the input tensor that is to get an array, if it is as long."""
    target = engine.input_tensor(tensor)
    padded = len(target) + -len(target) % WORD_BYTES  # hosts may pad to whole words
    if array.length not in (len(target), padded):
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"input tensor {tensor} has {len(target)} bytes, not {array.length}"
        )
    return target


@carries_out(Command.START_INFER)
async def _start_infer(engine: AIEngine, _tensor: int, array: Array) -> None:
    if array.length > WORD_BYTES:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"START_INFER takes no data, got {array.length} bytes")
    await infer(engine)


async def infer(engine: AIEngine) -> None:
    """Run the model, drive the GPIO outputs, and pass the outputs on along the chain."""
    engine.require_model()
    await traced_wait(engine.inference.invoke(), "invoke", INTERPRETER)
    engine.inferences += 1
    if engine.inference.output_count:
        for _ in engine.gpio.update_in_steps(engine.inference.output(0)):
            await let_others_run()
    if engine.chain is not None:
        await _push_outputs(engine, engine.chain)


async def _push_outputs(engine: AIEngine, chain: ChanEnd) -> None:
    """Write each output to the next engine's input of the same number, and start that engine."""
    for number in range(engine.inference.output_count):
        data = engine.inference.output(number)
        _check_chained(await set_large(chain, Command.SET_INPUT_TENSOR, number, data))
    _check_chained(await set_command(chain, Command.START_INFER))


def _check_chained(status: Status) -> None:
    if status:
        raise CommandFailed(status, f"the chained engine answered {status!r}")


def _setting(array: Array) -> int:
    """Read a setting, which hosts send as one to four bytes."""
    if not 1 <= array.length <= WORD_BYTES:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"a setting has 1 to 4 bytes, not {array.length}")
    return int.from_bytes(array.data, "little")


@carries_out(Command.SET_OUTPUT_GPIO_EN)
async def _set_gpio_enable(engine: AIEngine, _tensor: int, array: Array) -> None:
    enabled = _setting(array)
    if enabled > 1:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"GPIO enable is 0 or 1, not {enabled}")
    engine.gpio.enabled = bool(enabled)


@carries_out(Command.SET_OUTPUT_GPIO_MODE)
async def _set_gpio_mode(engine: AIEngine, _tensor: int, array: Array) -> None:
    mode = _setting(array)
    if mode not in list(GpioMode):
        raise CommandFailed(Status.ERROR_BAD_CMD, f"GPIO mode is 0 (none) or 1 (max), not {mode}")
    engine.gpio.mode = GpioMode(mode)


@carries_out(Command.SET_OUTPUT_GPIO_THRESH)
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


async def _reset_variables(engine: AIEngine, _tensor: int, _array: Array) -> None:
    await engine.inference.reset_variables()


check_all_handled()

GET_HANDLERS: Final[Mapping[int, GetHandler]] = GETS
SET_HANDLERS: Final[Mapping[int, SetHandler]] = SETS
"""The handlers of all commands of the AI server."""

IOSERVER_SET_HANDLERS: Final[Mapping[int, SetHandler]] = {
    **SET_HANDLERS,
    RESET_VARIABLES: SetHandler(_reset_variables),
}
"""Those of an engine behind the ioserver protocol, whose hosts cannot name the code that is added."""
