"""Streams: an engine acquires and infers until stopped, and answers clients meanwhile. Frame n is at n s."""

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.inference.errors import InvokeError
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import abandon_set, begin_set
from aisrv.sensors.image.frame import Encoding
from aisrv.sensors.registers import GenericSensor
from tests.support.amounts import in_ci
from tests.support.benches.camera_device import (
    BAD_CMD,
    FLAT,
    FRAME_BYTES,
    GRAY,
    OKAY,
    PICTURE,
    CameraDevice,
    PacedSource,
    camera,
    doubled,
    frame_data,
    image_of,
)
from tests.support.benches.simulation import simulated

INFER_ERR, NO_MODEL, MODEL_ERR = Status.ERROR_INFER_ERR, Status.ERROR_NO_MODEL, Status.ERROR_MODEL_ERR
SINGLE, STREAM = Command.START_ACQUIRE_SINGLE, Command.START_ACQUIRE_STREAM
GET_OUTPUT, GET_SENSOR, GET_MODE = (
    Command.GET_OUTPUT_TENSOR,
    Command.GET_SENSOR_TENSOR,
    Command.GET_ACQUIRE_MODE,
)
ENDED = "the stream ends"


async def assert_at(device: CameraDevice, second: int, *, output: bytes) -> None:
    """Between two frames the output is that of the earlier one."""
    await trio.sleep_until(second + 0.5)
    assert await device.host.get(GET_OUTPUT) == output
    assert trio.current_time() == second + 0.5  # the answer did not wait for a frame


@simulated
async def test_stream_infers_on_each_frame_as_it_comes() -> None:
    async with camera(PICTURE) as device:
        assert await device.host.put(STREAM) == OKAY
        assert trio.current_time() == 0
        await assert_at(device, 0, output=bytes(12))
        for second in range(1, 8):
            await assert_at(device, second, output=doubled(image_of(second)))
        assert device.source.taken == [1, 2, 3, 4, 5, 6, 7]


@simulated
async def test_stream_of_samples_infers_on_each() -> None:
    async with camera(FLAT, source=PacedSource(12, 1, Encoding.SAMPLES)) as device:
        await device.host.put(STREAM)
        for second in (1, 2, 3):
            await assert_at(device, second, output=doubled(frame_data(second, 12)))


@simulated
async def test_all_clients_are_answered_at_once_while_streaming() -> None:
    async with camera(PICTURE, registers=GenericSensor(0x10)) as device:
        await device.host.put(STREAM)
        await trio.sleep_until(3.25)
        for host in (device.host, device.other):
            assert await host.word(Command.GET_ID) == 0x12345678
            assert await host.word(GET_MODE) == 1
            assert await host.get(Command.GET_INPUT_TENSOR) == image_of(3)
            assert await host.get(GET_SENSOR) == frame_data(3)
            assert await host.put(Command.START_ACQUIRE_SET_I2C, b"\x10\x01\x40") == OKAY
            assert await host.put(Command.SET_OUTPUT_GPIO_EN, b"\1") == OKAY
            assert await host.word(Command.GET_STATUS) == 0
        assert trio.current_time() == 3.25


@simulated
async def test_single_frame_ends_the_stream_and_takes_the_frame_that_is_being_exposed() -> None:
    async with camera(PICTURE) as device:
        await device.host.put(STREAM)
        await trio.sleep_until(2.5)
        assert await device.other.put(SINGLE) == OKAY
        assert trio.current_time() == 3
        assert await device.host.get(Command.GET_INPUT_TENSOR) == image_of(3)
        assert await device.host.get(GET_OUTPUT) == doubled(image_of(2))
        await trio.sleep_until(10)
        assert device.source.taken == [1, 2, 3]
        assert await device.host.put(SINGLE) == OKAY
        assert await device.host.get(Command.GET_INPUT_TENSOR) == image_of(11)


@pytest.mark.parametrize("size", [5, 12, 512, 1000])
@simulated
async def test_stream_takes_no_data(size: int) -> None:
    async with camera(PICTURE) as device:
        assert await device.host.put(STREAM, bytes(size)) == BAD_CMD
        assert await device.host.word(GET_MODE) == 0


@simulated
async def test_gpio_follows_the_stream() -> None:
    async with camera(PICTURE) as device:
        seen = []
        device.engines[0].gpio.observe(lambda levels: seen.append((trio.current_time(), levels)))
        await device.host.put(Command.SET_OUTPUT_GPIO_EN, b"\1")
        await device.host.put(STREAM)
        expected = []
        last: tuple[bool, ...] = (False,) * 4
        for second in range(1, 14):
            output = memoryview(doubled(image_of(second))).cast("b")
            levels = tuple(value > -128 for value in output[:4])
            if levels != last:
                expected.append((float(second), levels))
                last = levels
        await trio.sleep_until(13.5)
        assert seen == expected
        assert len(seen) > 1


@simulated
async def test_register_that_is_set_in_a_stream_holds_from_the_next_frame_on() -> None:
    async with camera(PICTURE, registers=GenericSensor(0x10)) as device:
        await device.host.put(STREAM)
        await assert_at(device, 1, output=doubled(image_of(1)))
        await device.other.put(Command.START_ACQUIRE_SET_I2C, b"\x10\x03\x02")
        await assert_at(device, 1, output=doubled(image_of(1)))
        await assert_at(device, 2, output=b"\x7f" * 12)
        await device.other.put(Command.START_ACQUIRE_SET_I2C, b"\x10\x03\x00")
        await assert_at(device, 3, output=doubled(image_of(3)))


# Models that change.


@simulated
async def test_model_that_is_set_in_a_stream_gets_the_next_frame() -> None:
    async with camera(PICTURE) as device:
        await device.host.put(STREAM)
        await trio.sleep_until(1.5)
        await device.other.load(GRAY)
        assert await device.host.get(GET_OUTPUT) == bytes(4)
        await assert_at(device, 2, output=doubled(image_of(2)[0::3]))


@pytest.mark.parametrize(("model", "status"), [(FLAT, BAD_CMD), (b"nonsense", NO_MODEL)])
@simulated
async def test_model_without_a_place_for_a_picture_ends_the_stream(model: bytes, status: Status) -> None:
    async with camera(PICTURE) as device:
        await device.host.put(STREAM)
        await trio.sleep_until(1.5)
        await device.other.put(Command.SET_MODEL_ARENA, model)
        await device.host.word(Command.GET_STATUS)
        await trio.sleep_until(5)
        assert await device.host.word(GET_MODE) == 0
        assert await device.host.word(Command.GET_STATUS) == status
        assert (await device.host.log())[-1].endswith(ENDED)
        assert device.source.taken == [1, 2]
        await device.host.load(PICTURE)
        assert await device.host.put(STREAM) == OKAY
        await assert_at(device, 6, output=doubled(image_of(6)))


# Failures.


@simulated
async def test_failing_sensor_ends_the_stream_with_a_line() -> None:
    async with camera(PICTURE, source=PacedSource(failures={3})) as device:
        await device.host.put(STREAM)
        await assert_at(device, 3, output=doubled(image_of(2)))
        assert await device.host.word(GET_MODE) == 0
        assert await device.host.word(Command.GET_STATUS) == INFER_ERR
        reason = "START_ACQUIRE_STREAM: the sensor has no frame: no frame at 3; the stream ends"
        assert await device.host.log() == [reason]
        await trio.sleep_until(10)
        assert device.source.taken == [1, 2, 3]
        assert await device.host.put(STREAM) == OKAY
        await assert_at(device, 11, output=doubled(image_of(11)))


@simulated
async def test_failing_inference_is_counted_and_the_stream_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with camera(PICTURE) as device:
        inference = device.engines[0].inference

        async def fails_at_2() -> None:
            if trio.current_time() == 2:
                raise InvokeError("it is two")
            await inference.__class__.invoke(inference)

        monkeypatch.setattr(inference, "invoke", fails_at_2)
        await device.host.put(STREAM)
        await assert_at(device, 2, output=doubled(image_of(1)))
        assert await device.host.word(Command.GET_STATUS) == INFER_ERR
        assert await device.host.log() == ["START_ACQUIRE_STREAM: it is two"]
        assert await device.host.word(GET_MODE) == 1
        await assert_at(device, 3, output=doubled(image_of(3)))
        assert await device.host.word(Command.GET_STATUS) == 0


# Slow inferences.


def _slow_down(device: CameraDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each inference take 3.5 seconds."""
    inference = device.engines[0].inference

    async def slow() -> None:
        await trio.sleep(3.5)
        await inference.__class__.invoke(inference)

    monkeypatch.setattr(inference, "invoke", slow)


@simulated
async def test_frames_that_come_while_the_engine_works_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next frame is exposed during an inference, and waits; later ones are left out."""
    async with camera(PICTURE) as device:
        _slow_down(device, monkeypatch)
        await device.host.put(STREAM)  # 1 to 4.5 on frame 1, then to 8 on frame 2, then to 11.5 on frame 5
        await trio.sleep_until(13)
        assert device.source.taken == [1, 2, 5, 9, 12]


@simulated
async def test_command_waits_for_one_inference_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the engine is slower than the sensor, so that a frame waits whenever an inference ends."""
    async with camera(PICTURE) as device:
        _slow_down(device, monkeypatch)
        await device.host.put(STREAM)
        for second, number in ((8, 2), (11.5, 5), (15, 9), (18.5, 12), (22, 16)):
            await trio.sleep_until(second - 3)
            assert await device.host.get(GET_OUTPUT) == doubled(image_of(number))
            assert trio.current_time() == second


@simulated
async def test_host_that_holds_an_engine_does_not_hold_the_sensor() -> None:
    """A host stops in the middle of a model: its engine waits, the other goes on."""
    async with camera(PICTURE, engines=2) as device:
        for hosts in device.hosts:
            await hosts[0].put(STREAM)
        await trio.sleep_until(2.5)
        await begin_set(device.other.c, Command.SET_INPUT_TENSOR, 0)
        await device.other.c.outwords(bytes(4))
        await trio.sleep_until(6.5)
        assert await device.hosts[1][0].get(GET_OUTPUT) == doubled(image_of(6))
        await abandon_set(device.other.c)
        await trio.sleep_until(6.75)
        assert await device.host.get(GET_OUTPUT) == doubled(image_of(6))  # the latest, not one of then
        await assert_at(device, 7, output=doubled(image_of(7)))


# Several engines.


@simulated
async def test_engines_share_the_frames_of_one_sensor() -> None:
    async with camera(PICTURE, engines=3) as device:
        await device.hosts[0][0].put(STREAM)
        await device.hosts[2][0].put(STREAM)
        await trio.sleep_until(2.5)
        assert await device.hosts[0][0].get(GET_OUTPUT) == doubled(image_of(2))
        assert await device.hosts[1][0].get(GET_OUTPUT) == bytes(12)
        assert await device.hosts[2][0].get(GET_OUTPUT) == doubled(image_of(2))
        assert await device.hosts[1][0].put(SINGLE) == OKAY
        assert trio.current_time() == 3
        assert await device.hosts[1][0].get(Command.GET_INPUT_TENSOR) == image_of(3)
        assert device.source.taken == [1, 2, 3]
        modes = [await hosts[0].word(GET_MODE) for hosts in device.hosts]
        assert modes == [1, 0, 1]


@simulated
async def test_acquisitions_at_one_time_get_one_frame() -> None:
    async with camera(PICTURE, engines=4) as device:
        async with trio.open_nursery() as nursery:
            for hosts in device.hosts:
                nursery.start_soon(hosts[0].put, SINGLE)
        assert trio.current_time() == 1
        assert device.source.taken == [1]
        for hosts in device.hosts:
            assert await hosts[0].get(Command.GET_INPUT_TENSOR) == image_of(1)


@simulated
async def test_failing_sensor_ends_all_streams_on_it() -> None:
    async with camera(PICTURE, engines=2, source=PacedSource(failures={2})) as device:
        for hosts in device.hosts:
            await hosts[0].put(STREAM)
        await trio.sleep_until(5)
        for hosts in device.hosts:
            assert await hosts[0].word(GET_MODE) == 0
            assert (await hosts[0].log())[-1].endswith(ENDED)


# Random commands.

ACTIONS = ("single", "part", "bad", "stream", "infer", "picture", "nonsense", "wait", "wait", "fail", "set")


@settings(max_examples=in_ci(60, every_day=20))
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1)), max_size=25))
def test_random_commands_leave_what_a_model_of_them_says(actions: list[tuple[str, int]]) -> None:
    """Against a model in plain variables: mode, model, input, output, latest frame and frames taken."""

    @simulated
    async def trial() -> None:
        async with camera(PICTURE) as device:
            streams, loaded, input_, output = False, True, bytes(12), bytes(12)
            latest, taken = bytes(FRAME_BYTES), 0
            for action, client in actions:
                host = device.hosts[0][client]
                now = int(trio.current_time())
                if action in ("single", "part"):
                    region = b"" if action == "single" else b"\0\0\4\0\0\0\4\0\2\0\2\0"
                    status = await host.put(SINGLE, region)
                    if not loaded and action == "single":
                        assert status == NO_MODEL
                        continue
                    failed = now + 1 in device.source.failures
                    assert status == (INFER_ERR if failed else OKAY)
                    streams = False
                    taken += 1
                    if not failed:
                        latest = frame_data(now + 1)
                        input_ = image_of(now + 1) if loaded else input_
                    await trio.sleep(0.5)
                elif action == "bad":
                    assert await host.put(SINGLE, b"\1\0" * 6) == BAD_CMD
                elif action == "stream":
                    assert await host.put(STREAM) == (OKAY if loaded else NO_MODEL)
                    streams = streams or loaded
                elif action == "infer":
                    assert await host.put(Command.START_INFER) == (OKAY if loaded else NO_MODEL)
                    output = doubled(input_) if loaded else output
                elif action == "picture":
                    assert await host.put(Command.SET_MODEL_ARENA, PICTURE) == OKAY
                    loaded, input_, output = True, bytes(12), bytes(12)
                elif action == "nonsense":
                    assert await host.put(Command.SET_MODEL_ARENA, b"nonsense") == MODEL_ERR
                    loaded = False
                elif action == "set":
                    latest = bytes([client]) * FRAME_BYTES
                    assert await host.put(Command.SET_SENSOR_TENSOR, latest) == OKAY
                elif action == "fail":
                    device.source.failures.add(now + 1)
                else:
                    await trio.sleep_until(now + 1.5)
                    if streams:
                        taken += 1
                        failed = now + 1 in device.source.failures
                        latest = latest if failed else frame_data(now + 1)
                        streams = loaded and not failed
                        if streams:
                            input_ = image_of(now + 1)
                            output = doubled(input_)
                assert await host.word(GET_MODE) == streams
                assert await host.get(GET_SENSOR) == latest
                assert len(device.source.taken) == taken
                if loaded:
                    assert await host.get(Command.GET_INPUT_TENSOR) == input_
                    assert await host.get(GET_OUTPUT) == output

    trial()
