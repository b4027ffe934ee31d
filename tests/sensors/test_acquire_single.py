"""Single frames: what an engine's sensor commands put where, and what they refuse."""

import struct

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.inference.buffer_engine import BufferEngine
from aisrv.protocol.commands import Command, FrameRegion, Status
from aisrv.sensors.image.frame import Encoding, RawFrame
from aisrv.sensors.registers import GenericSensor
from tests.support.amounts import in_ci
from tests.support.benches.camera_device import (
    BAD_CMD,
    FLAT,
    FLOAT,
    FRAME_BYTES,
    GRAY,
    OKAY,
    PICTURE,
    SIZE,
    Host,
    PacedSource,
    camera,
    doubled,
    doubling_network,
    frame_data,
    image_of,
)
from tests.support.benches.simulation import simulated

INFER_ERR = Status.ERROR_INFER_ERR
NO_MODEL = Status.ERROR_NO_MODEL
SINGLE, STREAM = Command.START_ACQUIRE_SINGLE, Command.START_ACQUIRE_STREAM
GET_INPUT, GET_SENSOR = Command.GET_INPUT_TENSOR, Command.GET_SENSOR_TENSOR
PART = FrameRegion(1, 3, 2, 4, 2, 2)


# What goes where.


@simulated
async def test_short_form_puts_the_whole_frame_into_the_input_tensor() -> None:
    async with camera(PICTURE) as device:
        assert await device.host.put(SINGLE) == OKAY
        assert trio.current_time() == 1
        assert await device.host.get(GET_INPUT) == image_of(1)
        assert await device.host.get(GET_SENSOR) == frame_data(1)


@simulated
async def test_region_puts_its_part_of_the_frame_into_the_input_tensor() -> None:
    async with camera(PICTURE) as device:
        assert await device.host.put(SINGLE, bytes(PART)) == OKAY
        assert await device.host.get(GET_INPUT) == image_of(1, PART)


@simulated
async def test_acquired_frame_is_inferred_on_by_start_infer() -> None:
    async with camera(PICTURE) as device:
        await device.host.put(SINGLE)
        assert await device.host.get(Command.GET_OUTPUT_TENSOR) == bytes(12)
        assert await device.host.put(Command.START_INFER) == OKAY
        assert await device.host.get(Command.GET_OUTPUT_TENSOR) == doubled(image_of(1))


@simulated
async def test_model_of_one_channel_gets_gray() -> None:
    async with camera(GRAY) as device:
        assert await device.host.put(SINGLE) == OKAY
        assert await device.host.get(GET_INPUT) == image_of(1)[0::3]
        assert await device.host.put(SINGLE, bytes(PART)) == OKAY
        assert await device.host.get(GET_INPUT) == image_of(2, PART)[0::3]


@simulated
async def test_target_smaller_than_the_tensor_fills_its_beginning() -> None:
    region = FrameRegion(0, 4, 0, 4, 1, 2)
    async with camera(PICTURE) as device:
        await device.host.put(Command.SET_INPUT_TENSOR, b"x" * 12)
        assert await device.host.put(SINGLE, bytes(region)) == OKAY
        assert await device.host.get(GET_INPUT) == image_of(1, region) + b"x" * 6


@simulated
async def test_region_goes_into_a_tensor_that_is_no_picture_as_rgb() -> None:
    async with camera(FLAT) as device:
        assert await device.host.put(SINGLE, bytes(PART)) == OKAY
        assert await device.host.get(GET_INPUT) == image_of(1, PART)


@simulated
async def test_region_without_a_model_goes_into_the_sensor_tensor_alone() -> None:
    async with camera() as device:
        assert await device.host.get(GET_SENSOR) == bytes(FRAME_BYTES)
        assert await device.host.put(SINGLE, bytes(FrameRegion(0, 4, 0, 4, 65535, 65535))) == OKAY
        assert await device.host.get(GET_SENSOR) == frame_data(1)


@simulated
async def test_sensor_tensor_can_be_set_until_the_next_frame() -> None:
    async with camera(PICTURE) as device:
        mine = bytes(range(100, 100 + FRAME_BYTES))
        assert await device.host.put(Command.SET_SENSOR_TENSOR, mine) == OKAY
        assert await device.host.get(GET_SENSOR) == mine
        await device.host.put(SINGLE)
        assert await device.host.get(GET_SENSOR) == frame_data(1)


@simulated
async def test_sensor_tensor_of_an_odd_size_may_be_padded() -> None:
    source = PacedSource(3, 3)  # 27 bytes
    async with camera(source=source) as device:
        assert await device.host.put(Command.SET_SENSOR_TENSOR, b"a" * 27 + b"p") == OKAY
        assert await device.host.get(GET_SENSOR) == b"a" * 27


@pytest.mark.parametrize(
    "size", [0, 1, 3, 4, FRAME_BYTES - 1, FRAME_BYTES + 1, FRAME_BYTES + 4, 511, 512, 513, 1024, 100_000]
)
@simulated
async def test_sensor_tensor_of_another_size_is_refused(size: int) -> None:
    async with camera() as device:
        assert await device.host.put(Command.SET_SENSOR_TENSOR, bytes([7]) * size) == BAD_CMD
        assert await device.host.log() == [f"SET_SENSOR_TENSOR: a frame has {FRAME_BYTES} bytes, not {size}"]
        assert await device.host.get(GET_SENSOR) == bytes(FRAME_BYTES)


@simulated
async def test_length_of_the_sensor_tensor_is_that_of_a_frame() -> None:
    async with camera() as device:
        assert await device.host.word(Command.GET_SENSOR_TENSOR_LENGTH) == FRAME_BYTES
        assert len(await device.host.get(Command.GET_SPEC)) == 20


# An engine without a model, whose buffer is both input and output.


def buffer_engine() -> BufferEngine:
    return BufferEngine(arena_bytes=65536, external_bytes=0, buffer_bytes=20)


@simulated
async def test_engine_that_needs_no_model_takes_a_region_into_its_buffer() -> None:
    async with camera(inference=buffer_engine()) as device:
        assert await device.host.put(SINGLE, bytes(PART)) == OKAY
        assert await device.host.get(Command.GET_OUTPUT_TENSOR) == image_of(1, PART) + bytes(8)
        assert await device.host.put(SINGLE, bytes(FrameRegion(0, 4, 0, 4, 7, 1))) == BAD_CMD


@simulated
async def test_engine_that_needs_no_model_has_no_size_for_a_whole_frame() -> None:
    async with camera(inference=buffer_engine()) as device:
        assert await device.host.put(SINGLE) == BAD_CMD
        assert "the engine has no model" in (await device.host.log())[0]


@simulated
async def test_engine_that_needs_no_model_streams_samples() -> None:
    source = PacedSource(20, 1, Encoding.SAMPLES)
    async with camera(inference=buffer_engine(), source=source) as device:
        assert await device.host.put(STREAM) == OKAY
        await trio.sleep_until(3.5)
        assert await device.host.get(Command.GET_OUTPUT_TENSOR) == frame_data(3, 20)


# Samples.


@simulated
async def test_samples_are_the_input_tensor_as_they_are() -> None:
    async with camera(FLAT, source=PacedSource(12, 1, Encoding.SAMPLES)) as device:
        assert await device.host.put(SINGLE) == OKAY
        assert await device.host.get(GET_INPUT) == frame_data(1, 12)
        assert await device.host.get(GET_SENSOR) == frame_data(1, 12)


@pytest.mark.parametrize("size", [1, 11, 13])
@simulated
async def test_samples_of_another_length_are_refused(size: int) -> None:
    async with camera(FLAT, source=PacedSource(size, 1, Encoding.SAMPLES)) as device:
        assert await device.host.put(SINGLE) == BAD_CMD
        assert f"{size} bytes of samples, input tensor 0 has 12" in (await device.host.log())[0]
        assert device.source.taken == []


@simulated
async def test_samples_have_no_regions() -> None:
    async with camera(FLAT, source=PacedSource(12, 1, Encoding.SAMPLES)) as device:
        assert await device.host.put(SINGLE, bytes(FrameRegion(0, 4, 0, 1, 2, 1))) == BAD_CMD
        assert "no regions" in (await device.host.log())[0]


# What is refused.


async def refused_and_untouched(host: Host, data: bytes, status: Status = BAD_CMD) -> str:
    """Try an acquisition that must change nothing; returns the reason."""
    before = await host.get(GET_SENSOR)
    errors = await host.word(Command.GET_STATUS)
    assert errors == 0
    assert await host.put(SINGLE, data) == status
    assert await host.word(Command.GET_STATUS) == status
    assert await host.get(GET_SENSOR) == before
    log = await host.log()
    return log[-1].removeprefix("START_ACQUIRE_SINGLE: ")


@settings(max_examples=in_ci(150, every_day=30))
@given(
    st.tuples(*[st.sampled_from((0, 1, 2, 3, 4, 5, 255, 256, 65535)) | st.integers(0, 65535)] * 6),
    st.sampled_from((PICTURE, GRAY, FLAT)),
)
def test_any_region_is_taken_whole_or_refused_whole(words: tuple[int, ...], model: bytes) -> None:
    start_x, end_x, start_y, end_y, width, height = words
    channels, room = (1, 4) if model is GRAY else (3, 12)
    fits = start_x < end_x <= 4 and start_y < end_y <= 4 and 0 < width * height * channels <= room

    @simulated
    async def trial() -> None:
        async with camera(model) as device:
            before = b"x" * room
            await device.host.put(Command.SET_INPUT_TENSOR, before)
            status = await device.host.put(SINGLE, struct.pack("<6H", *words))
            assert status == (OKAY if fits else BAD_CMD)
            expected = image_of(1, FrameRegion(*words))[:: 3 // channels] if fits else b""
            assert await device.host.get(GET_INPUT) == expected + before[len(expected) :]
            assert device.source.taken == ([1] if fits else [])
            assert await device.host.get(GET_SENSOR) == (frame_data(1) if fits else bytes(FRAME_BYTES))

    trial()


@pytest.mark.parametrize("size", [1, 3, 4, 11, 13, 16, 511, 512, 513, 1024, 100_000])
@simulated
async def test_region_of_another_length_is_refused(size: int) -> None:
    async with camera(PICTURE) as device:
        data = (bytes(PART) * (size // 12 + 1))[:size]
        assert "a region has 12 bytes" in await refused_and_untouched(device.host, data)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (FLAT, "INT8 [1, 12]"),
        (FLOAT, "FLOAT32 [1, 2, 2, 3]"),
        (doubling_network(1, 2, 2, 2), "INT8 [1, 2, 2, 2]"),
        (doubling_network(1, 2, 2, 4), "INT8 [1, 2, 2, 4]"),
        (doubling_network(2, 2, 2, 3), "INT8 [2, 2, 2, 3]"),
        (doubling_network(2, 2, 3), "INT8 [2, 2, 3]"),
    ],
)
@pytest.mark.parametrize("command", [SINGLE, STREAM])
@simulated
async def test_whole_frame_needs_a_picture_as_input(command: Command, model: bytes, shape: str) -> None:
    async with camera(model) as device:
        assert await device.host.put(command) == BAD_CMD
        expected = f"{command.name}: input tensor 0 is {shape}: a whole frame goes into INT8"
        assert (await device.host.log())[0].startswith(expected)
        assert device.source.taken == []
        assert await device.host.word(Command.GET_ACQUIRE_MODE) == 0


@simulated
async def test_region_is_refused_for_a_tensor_of_floats() -> None:
    async with camera(FLOAT) as device:
        assert "FLOAT32" in await refused_and_untouched(device.host, bytes(PART))


@pytest.mark.parametrize("command", [SINGLE, STREAM])
@simulated
async def test_whole_frame_needs_a_model(command: Command) -> None:
    async with camera() as device:
        assert await device.host.put(command) == NO_MODEL
        assert await device.host.log() == [f"{command.name}: no model is loaded"]
        assert await device.host.word(Command.GET_ACQUIRE_MODE) == 0


SETS = (SINGLE, STREAM, Command.START_ACQUIRE_SET_I2C, Command.SET_SENSOR_TENSOR)


@pytest.mark.parametrize("command", SETS)
@pytest.mark.parametrize("size", [0, 3, 12, 48, 1000])
@simulated
async def test_board_without_a_sensor_refuses(command: Command, size: int) -> None:
    async with camera(PICTURE, sensor=False) as device:
        assert await device.host.put(command, bytes(size)) == BAD_CMD
        assert len(await device.host.log()) == 1


@simulated
async def test_board_without_a_sensor_has_no_frame_to_get() -> None:
    async with camera(PICTURE, sensor=False) as device:
        assert await device.host.refused(GET_SENSOR) == BAD_CMD
        assert await device.host.log() == ["GET_SENSOR_TENSOR: the board has no sensor"]


@simulated
async def test_frame_of_a_board_without_a_sensor_has_no_bytes() -> None:
    async with camera(sensor=False) as device:
        assert await device.host.word(Command.GET_SENSOR_TENSOR_LENGTH) == 0
        assert await device.host.word(Command.GET_STATUS) == 0


# A sensor that fails.


@simulated
async def test_failing_sensor_is_an_inference_error_and_the_next_frame_is_good() -> None:
    async with camera(PICTURE, source=PacedSource(failures={1, 2})) as device:
        await device.host.put(Command.SET_INPUT_TENSOR, b"x" * 12)
        for number in (1, 2):
            assert await device.host.put(SINGLE) == INFER_ERR
            log = await device.host.log()
            assert log[-1] == f"START_ACQUIRE_SINGLE: the sensor has no frame: no frame at {number}"
            assert await device.host.get(GET_INPUT) == b"x" * 12
            assert await device.host.get(GET_SENSOR) == bytes(FRAME_BYTES)
        assert await device.host.put(SINGLE) == OKAY
        assert await device.host.get(GET_INPUT) == image_of(3)


@simulated
async def test_failing_sensor_fails_an_acquisition_without_a_model_too() -> None:
    async with camera(source=PacedSource(failures={1})) as device:
        assert await device.host.put(SINGLE, bytes(PART)) == INFER_ERR


@pytest.mark.parametrize(
    "frame",
    [
        RawFrame(SIZE, SIZE + 1, Encoding.RGB, bytes(FRAME_BYTES)),
        RawFrame(SIZE, SIZE, Encoding.BAYER_RGGB, bytes(FRAME_BYTES)),
        RawFrame(SIZE, SIZE, Encoding.RGB, bytes(FRAME_BYTES - 1)),
        RawFrame(SIZE, SIZE, Encoding.RGB, bytes(FRAME_BYTES + 1)),
        RawFrame(SIZE, SIZE, Encoding.RGB, b""),
    ],
)
@simulated
async def test_frame_that_is_not_as_promised_counts_as_none(frame: RawFrame) -> None:
    async with camera(PICTURE, source=PacedSource(broken={1: frame})) as device:
        assert await device.host.put(SINGLE) == INFER_ERR
        assert "it promised 4x4 rgb in 48" in (await device.host.log())[0]
        assert await device.host.get(GET_SENSOR) == bytes(FRAME_BYTES)


# I2C.


@simulated
async def test_register_that_is_set_changes_the_next_frame() -> None:
    async with camera(PICTURE, registers=GenericSensor(0x10)) as device:
        assert await device.host.put(Command.START_ACQUIRE_SET_I2C, bytes((0x10, 3, 2))) == OKAY
        assert await device.host.log() == ["I2C 0x10: register 0x03 = 0x02"]
        assert await device.host.get(GET_SENSOR) == bytes(FRAME_BYTES)
        assert await device.host.put(SINGLE) == OKAY
        assert await device.host.get(GET_SENSOR) == b"\xff" * FRAME_BYTES
        assert await device.host.get(GET_INPUT) == b"\x7f" * 12


@pytest.mark.parametrize("address", [0x00, 0x0F, 0x11, 0x20, 0x7F, 0x80, 0x90, 0xFF])
@simulated
async def test_unknown_address_is_not_acknowledged(address: int) -> None:
    async with camera(PICTURE, registers=GenericSensor(0x10)) as device:
        assert await device.host.put(Command.START_ACQUIRE_SET_I2C, bytes((address, 3, 2))) == BAD_CMD
        assert await device.host.log() == [
            f"START_ACQUIRE_SET_I2C: NAK: no device at address 0x{address:02x} (there are: 0x10)"
        ]
        await device.host.put(SINGLE)
        assert await device.host.get(GET_SENSOR) == frame_data(1)


@simulated
async def test_sensor_without_registers_acknowledges_nothing() -> None:
    async with camera() as device:
        assert await device.host.put(Command.START_ACQUIRE_SET_I2C, bytes((0x10, 3, 2))) == BAD_CMD


@pytest.mark.parametrize("size", [0, 1, 2, 5, 511, 512, 513, 1024])
@simulated
async def test_i2c_write_of_another_length_is_refused(size: int) -> None:
    async with camera(registers=GenericSensor(0x10)) as device:
        assert await device.host.put(Command.START_ACQUIRE_SET_I2C, bytes([0x10] * size)) == BAD_CMD
        assert f"are 3 bytes, not {size}" in (await device.host.log())[0]


@simulated
async def test_i2c_write_may_be_padded_to_a_word() -> None:
    async with camera(registers=GenericSensor(0x10)) as device:
        assert await device.host.put(Command.START_ACQUIRE_SET_I2C, bytes((0x10, 3, 2, 0))) == OKAY
