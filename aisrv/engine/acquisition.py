"""Acquisition: frames of a sensor into input tensor 0 of an engine, one by one or in a stream.

Source: "XCORE AI server: numbers and wire behavior", section Commands. All that can be refused is checked
before the sensor is asked, so that a command that is refused overwrites nothing and changes no mode.
Devices without a sensor do not import what knows pictures.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aisrv.engine.handlers import answers, carries_out
from aisrv.engine.state import AIEngine, CommandFailed
from aisrv.model import Tensor, TensorType
from aisrv.protocol.commands import AcquireMode, Command, FrameRegion, RegisterWrite, Status
from aisrv.xcore.tokens import WORD_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aisrv.sensors.acquire_channel import AcquireChannel, FrameFormat, ImageRequest
    from aisrv.xcore.channels.array import Array

LARGEST_SIDE: Final = 0xFFFF
"""Pixels: a region gives its target size in 16 bits."""


# GET commands.


@answers(Command.GET_ACQUIRE_MODE)
def _acquire_mode(engine: AIEngine, _tensor: int) -> bytes:
    return engine.acquire_mode.to_bytes(WORD_BYTES, "little")


@answers(Command.GET_SENSOR_TENSOR_LENGTH)
def _sensor_tensor_length(engine: AIEngine, _tensor: int) -> bytes:
    return _frame_bytes(engine).to_bytes(WORD_BYTES, "little")


@answers(Command.GET_SENSOR_FORMAT)
def _sensor_format(engine: AIEngine, _tensor: int) -> bytes:
    return b"" if engine.frames is None else bytes(engine.frames)


@answers(Command.GET_SENSOR_TENSOR)
async def _sensor_tensor(engine: AIEngine, _tensor: int) -> bytes:
    async with _refusals():
        return await _sensor(engine)[0].frame()


# SET commands.


@carries_out(Command.START_ACQUIRE_SINGLE)
async def _start_single(engine: AIEngine, _tensor: int, array: Array) -> None:
    """Acquire one frame; ends a stream."""
    sensor, frames = _sensor(engine)
    request = _part(engine, frames, bytes(array.data)) if array.length else _whole(engine, frames)
    engine.acquire_mode = AcquireMode.SINGLE
    async with _refusals():
        await sensor.expose()
        if engine.inference.input_count:
            await _load(engine, sensor, request)


@carries_out(Command.START_ACQUIRE_STREAM)
async def _start_stream(engine: AIEngine, _tensor: int, array: Array) -> None:
    """Start a stream, which `take_frame` continues."""
    if array.length > WORD_BYTES:
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"START_ACQUIRE_STREAM takes no data, got {array.length} bytes"
        )
    await _stream(engine)


async def _stream(engine: AIEngine) -> None:
    sensor, frames = _sensor(engine)
    _whole(engine, frames)
    engine.acquire_mode = AcquireMode.STREAM
    async with _refusals():
        await sensor.ask()


async def stream_by_itself(engine: AIEngine) -> None:
    """Start the stream of a board whose engines do so with a model; why none starts is in the debug log."""
    if not engine.starts_stream:
        return
    try:
        await _stream(engine)
    except CommandFailed as failure:
        engine.log.write(f"no stream: {failure}")


def _frame_limit(engine: AIEngine) -> int:
    return _frame_bytes(engine) + WORD_BYTES  # padded


@carries_out(Command.SET_SENSOR_TENSOR, _frame_limit)
async def _set_sensor_tensor(engine: AIEngine, _tensor: int, array: Array) -> None:
    sensor, frames = _sensor(engine)
    if array.overflowed:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"a frame has {frames.nbytes} bytes, not {array.length}")
    async with _refusals():
        await sensor.write_frame(bytes(array.data))


@carries_out(Command.START_ACQUIRE_SET_I2C)
async def _set_i2c(engine: AIEngine, _tensor: int, array: Array) -> None:
    sensor, _ = _sensor(engine)
    if not 3 <= array.length <= WORD_BYTES:
        raise CommandFailed(
            Status.ERROR_BAD_CMD, f"address, register and value are 3 bytes, not {array.length}"
        )
    write = RegisterWrite.unpack_from(array.data)
    async with _refusals():
        await sensor.set_i2c(write.address, write.register, write.value)
    engine.log.write(f"I2C 0x{write.address:02x}: register 0x{write.register:02x} = 0x{write.value:02x}")


# A stream.


async def take_frame(engine: AIEngine) -> None:
    """Put the frame that has come into the input tensor, and ask for the next, which is exposed meanwhile."""
    sensor, frames = _sensor(engine)
    async with _refusals():
        await sensor.await_frame()
        await _load(engine, sensor, _whole(engine, frames))  # the model may have changed since the last
        await sensor.ask()


def _sensor(engine: AIEngine) -> tuple[AcquireChannel, FrameFormat]:
    if engine.sensor is None or engine.frames is None:
        raise CommandFailed(Status.ERROR_BAD_CMD, "the board has no sensor")
    return engine.sensor, engine.frames


def _frame_bytes(engine: AIEngine) -> int:
    return 0 if engine.frames is None else engine.frames.nbytes


async def _load(engine: AIEngine, sensor: AcquireChannel, request: ImageRequest | None) -> None:
    data = await (sensor.frame() if request is None else sensor.image(request))
    await engine.fill_input(0, data)


def _whole(engine: AIEngine, frames: FrameFormat) -> ImageRequest | None:
    """What of a frame fills input tensor 0: all of it at the tensor's size; None for samples as they are."""
    from aisrv.sensors.acquire_channel import ImageRequest
    from aisrv.sensors.image.frame import Encoding

    room = len(engine.input_tensor(0))
    if frames.encoding is Encoding.SAMPLES:
        if frames.nbytes != room:
            raise CommandFailed(
                Status.ERROR_BAD_CMD, f"{frames.nbytes} bytes of samples, input tensor 0 has {room}"
            )
        return None
    tensor = _input(engine)
    if tensor is None:
        raise CommandFailed(Status.ERROR_BAD_CMD, "the engine has no model that says how large a picture is")
    if not _is_picture(tensor):
        raise CommandFailed(
            Status.ERROR_BAD_CMD,
            f"input tensor 0 is {tensor.type.name} {list(tensor.shape)}: "
            "a whole frame goes into INT8 [1, height, width, 1 or 3]",
        )
    _, height, width, channels = tensor.shape
    return ImageRequest(frames.whole(width, height), channels)


def _part(engine: AIEngine, frames: FrameFormat, data: bytes) -> ImageRequest:
    """Which part of a frame a host wants, in the input tensor's channels where that is a picture."""
    from aisrv.sensors.acquire_channel import ImageRequest
    from aisrv.sensors.image.frame import Encoding
    from aisrv.sensors.image.image_path import check_region

    tensor = _input(engine)
    if frames.encoding is Encoding.SAMPLES:
        raise CommandFailed(Status.ERROR_BAD_CMD, "the sensor gives samples, which have no regions")
    if tensor is not None and tensor.type is not TensorType.INT8:
        raise CommandFailed(Status.ERROR_BAD_CMD, f"input tensor 0 is {tensor.type.name}: pixels are INT8")
    channels = tensor.shape[3] if tensor is not None and _is_picture(tensor) else 3
    room = len(engine.inference.input(0)) if engine.inference.input_count else None
    try:
        region = FrameRegion.from_bytes(data)
        check_region(region, frames.width, frames.height, room, channels)
    except ValueError as error:
        raise CommandFailed(Status.ERROR_BAD_CMD, str(error)) from None
    return ImageRequest(region, channels)


def _input(engine: AIEngine) -> Tensor | None:
    model = engine.inference.model
    return model.input_tensors[0] if model is not None and model.input_tensors else None


def _is_picture(tensor: Tensor) -> bool:
    """Return whether a tensor is one picture, in color or gray, as the image path makes them."""
    match tensor.shape:
        case (1, height, width, 1 | 3):
            return tensor.type is TensorType.INT8 and max(height, width) <= LARGEST_SIDE
    return False


@asynccontextmanager
async def _refusals() -> AsyncIterator[None]:
    """Turn a refusal of the acquire task into a command failure."""
    from aisrv.sensors.acquire_channel import AcquireError

    try:
        yield
    except AcquireError as error:
        raise CommandFailed(error.status, str(error)) from None
