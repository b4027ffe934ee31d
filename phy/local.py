"""The local physical layer: how code on the xcore itself uses an engine, under the firmware's names.

`c` is a channel end that is a client of one engine, so no function takes an engine number. Each runs
one command and returns when the engine has answered; an engine that serves another client is waited for.
One task at a time may use an end. Any status but OKAY raises `LocalError`. A time-out may cancel any of
them: the engine runs what has begun, or forgets it as a whole, and the next command waits for that.

Sources: the design document, section Local channel ends (`aisrv_local_get_output_tensor`,
`aisrv_local_acquire_single`, `aisrv_local_start_inference`; the other functions complete them in the same
style); "XCORE AI server: numbers and wire behavior", section Commands.
"""

import struct
from typing import Final, Literal

from aisrv.protocol.commands import (
    GPIO_COUNT,
    AcquireMode,
    AisrvPacket,
    Command,
    FrameRegion,
    GpioMode,
    GpioThreshold,
    ProtocolError,
    RegisterWrite,
    Spec,
    Status,
)
from aisrv.protocol.engine_channel import get_command, set_large
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.tokens import WORD_BYTES

Buffer = bytes | bytearray | memoryview
Memory = Literal["arena", "ext"]

_SET_MODEL: Final[dict[Memory, Command]] = {
    "arena": Command.SET_MODEL_ARENA,
    "ext": Command.SET_MODEL_EXT,
}
_SET_MODEL_FLASH: Final[dict[Memory, Command]] = {
    "arena": Command.SET_MODEL_ARENA_FLASH,
    "ext": Command.SET_MODEL_EXT_FLASH,
}


class LocalError(Exception):
    """A command that the engine answered with a status other than OKAY."""

    def __init__(self, command: Command, status: Status) -> None:
        super().__init__(f"{command.name}: the engine answered {status!r}")
        self.command: Final = command
        self.status: Final = status


async def _get(c: ChanEnd, command: Command, tensor: int = 0) -> bytes:
    status, data = await get_command(c, command, tensor)
    if status:
        raise LocalError(command, status)
    return data


async def _get_word(c: ChanEnd, command: Command, tensor: int = 0) -> int:
    data = await _get(c, command, tensor)
    if len(data) != WORD_BYTES:
        raise ProtocolError(f"{command.name}: the answer has {len(data)} bytes, not {WORD_BYTES}")
    return int.from_bytes(data, "little")


async def _set(c: ChanEnd, command: Command, data: Buffer = b"", tensor: int = 0) -> None:
    status = await set_large(c, command, tensor, bytes(data))
    if status:
        raise LocalError(command, status)


def _packed(command: Command, packet: AisrvPacket) -> bytes:
    try:
        return bytes(packet)
    except ProtocolError as error:
        raise ValueError(f"{command.name}: {error}") from None


# What the design document names.


async def aisrv_local_get_output_tensor(c: ChanEnd, tensor: int = 0) -> bytes:
    """Return an output tensor: zeros before the first inference, then the result of the last."""
    return await _get(c, Command.GET_OUTPUT_TENSOR, tensor)


async def aisrv_local_acquire_single(
    c: ChanEnd, start_x: int, end_x: int, start_y: int, end_y: int, width: int, height: int
) -> None:
    """Acquire a frame: a region of the sensor in pixels, scaled to `width` by `height` into the input tensor.

    Each number is 0 to 65535; ValueError otherwise, and the engine is not asked. The region goes from
    `start_x` and `start_y` up to `end_x` and `end_y`, which are excluded.
    """
    command = Command.START_ACQUIRE_SINGLE
    await _set(c, command, _packed(command, FrameRegion(start_x, end_x, start_y, end_y, width, height)))


async def aisrv_local_start_inference(c: ChanEnd) -> None:
    """Run the model on its inputs; returns when the outputs are there, those of chained engines too."""
    await _set(c, Command.START_INFER)


# Models.


async def aisrv_local_load_model(c: ChanEnd, model: Buffer, memory: Memory = "arena") -> None:
    """Set the model, a `.tflite` file, in memory "arena" or "ext". A refused one leaves the engine empty."""
    await _set(c, _SET_MODEL[memory], model)


async def aisrv_local_load_model_from_flash(c: ChanEnd, memory: Memory = "arena") -> None:
    """Set the model that the flash holds for this engine, in memory "arena" or "ext"."""
    await _set(c, _SET_MODEL_FLASH[memory])


async def aisrv_local_get_spec(c: ChanEnd) -> Spec:
    """Return the words that describe hardware and model."""
    return Spec.from_bytes(await _get(c, Command.GET_SPEC))


async def aisrv_local_get_timings(c: ChanEnd) -> tuple[int, ...]:
    """Return the ticks of 10 ns of each operator in the last inference. ProtocolError for no whole words."""
    data = await _get(c, Command.GET_TIMINGS)
    if len(data) % WORD_BYTES:
        raise ProtocolError(f"GET_TIMINGS: the answer has {len(data)} bytes, which are not whole words")
    return struct.unpack(f"<{len(data) // WORD_BYTES}I", data)


# Tensors.


async def aisrv_local_set_input_tensor(c: ChanEnd, data: Buffer, tensor: int = 0) -> None:
    """Set an input tensor to `data`, of its length or padded to whole words."""
    await _set(c, Command.SET_INPUT_TENSOR, data, tensor)


async def aisrv_local_get_input_tensor(c: ChanEnd, tensor: int = 0) -> bytes:
    """Return an input tensor."""
    return await _get(c, Command.GET_INPUT_TENSOR, tensor)


async def aisrv_local_get_input_tensor_length(c: ChanEnd, tensor: int = 0) -> int:
    """Return the bytes of an input tensor."""
    return await _get_word(c, Command.GET_INPUT_TENSOR_LENGTH, tensor)


async def aisrv_local_get_output_tensor_length(c: ChanEnd, tensor: int = 0) -> int:
    """Return the bytes of an output tensor."""
    return await _get_word(c, Command.GET_OUTPUT_TENSOR_LENGTH, tensor)


# The server.


async def aisrv_local_get_status(c: ChanEnd) -> Status:
    """Return the error bits of all clients' commands since they were last read, and clear them."""
    return Status(await _get_word(c, Command.GET_STATUS))


async def aisrv_local_get_debug_log(c: ChanEnd) -> str:
    """Return the text of the debug log, without the NULs that pad it."""
    return (await _get(c, Command.GET_DEBUG_LOG)).rstrip(b"\0").decode(errors="replace")


async def aisrv_local_get_id(c: ChanEnd) -> int:
    """Return the id of the server, 0x12345678."""
    return await _get_word(c, Command.GET_ID)


# Sensors.


async def aisrv_local_acquire_frame(c: ChanEnd) -> None:
    """Acquire the whole frame of the sensor at the input tensor's size; ends a stream."""
    await _set(c, Command.START_ACQUIRE_SINGLE)


async def aisrv_local_acquire_stream(c: ChanEnd) -> None:
    """Acquire frames one after the other, and infer on each, until a single frame is acquired."""
    await _set(c, Command.START_ACQUIRE_STREAM)


async def aisrv_local_get_acquire_mode(c: ChanEnd) -> AcquireMode:
    """Return whether single frames or a stream are acquired."""
    return AcquireMode(await _get_word(c, Command.GET_ACQUIRE_MODE))


async def aisrv_local_set_i2c(c: ChanEnd, address: int, register: int, value: int) -> None:
    """Write `value` to a register of the sensor at an I2C address; each is 0 to 255, ValueError otherwise."""
    command = Command.START_ACQUIRE_SET_I2C
    await _set(c, command, _packed(command, RegisterWrite(address, register, value)))


async def aisrv_local_get_sensor_tensor(c: ChanEnd) -> bytes:
    """Return the sensor's frame."""
    return await _get(c, Command.GET_SENSOR_TENSOR)


async def aisrv_local_get_sensor_tensor_length(c: ChanEnd) -> int:
    """Return the bytes of a sensor's frame, 0 without a sensor."""
    return await _get_word(c, Command.GET_SENSOR_TENSOR_LENGTH)


async def aisrv_local_set_sensor_tensor(c: ChanEnd, data: Buffer) -> None:
    """Put `data` in the place of the sensor's frame."""
    await _set(c, Command.SET_SENSOR_TENSOR, data)


# GPIO outputs.


async def aisrv_local_get_output_gpio_en(c: ChanEnd) -> bool:
    """Return whether inferences drive the outputs."""
    return bool(await _get_word(c, Command.GET_OUTPUT_GPIO_EN))


async def aisrv_local_set_output_gpio_en(c: ChanEnd, enabled: bool) -> None:
    """Set whether inferences drive the outputs: `enabled`."""
    await _set(c, Command.SET_OUTPUT_GPIO_EN, bytes((enabled,)))


async def aisrv_local_get_output_gpio_thresh(c: ChanEnd) -> tuple[int, ...]:
    """Return the threshold of each output, -128 to 127. ProtocolError for another number of thresholds."""
    data = await _get(c, Command.GET_OUTPUT_GPIO_THRESH)
    if len(data) != GPIO_COUNT:
        raise ProtocolError(f"GET_OUTPUT_GPIO_THRESH: {len(data)} thresholds, there are {GPIO_COUNT} outputs")
    return struct.unpack(f"{GPIO_COUNT}b", data)


async def aisrv_local_set_output_gpio_thresh(c: ChanEnd, index: int, threshold: int) -> None:
    """Set the threshold of output `index`, -128 to 127; ValueError otherwise."""
    command = Command.SET_OUTPUT_GPIO_THRESH
    await _set(c, command, _packed(command, GpioThreshold(index, threshold)))


async def aisrv_local_get_output_gpio_mode(c: ChanEnd) -> GpioMode:
    """Return how the outputs are driven."""
    return GpioMode(await _get_word(c, Command.GET_OUTPUT_GPIO_MODE))


async def aisrv_local_set_output_gpio_mode(c: ChanEnd, mode: GpioMode) -> None:
    """Set how the outputs are driven."""
    await _set(c, Command.SET_OUTPUT_GPIO_MODE, bytes((mode,)))
