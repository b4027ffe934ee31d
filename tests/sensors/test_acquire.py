"""The acquire task over its channel: the tokens that cross, what it refuses, and clients side by side."""

import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import FrameRegion, Status
from aisrv.sensors.acquire import SensorModel
from aisrv.sensors.acquire_channel import (
    FRAME,
    LARGEST_IMAGE,
    AcquireChannel,
    AcquireCommand,
    AcquireEnds,
    AcquireError,
    FrameFormat,
    ImageRequest,
)
from aisrv.sensors.image.frame import Encoding
from aisrv.sensors.registers import GenericSensor
from aisrv.xcore.channels.array import receive_array, send_array
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.traps import Trap
from tests.support.benches.camera_device import (
    FRAME_BYTES,
    Nearest,
    PacedSource,
    connect,
    frame_data,
    image_of,
    start_acquisition,
)
from tests.support.benches.simulation import simulated
from tests.support.benches.wires import Wiretap

WHOLE = FrameRegion(0, 4, 0, 4, 2, 2)


@dataclass
class Task:
    node: Node
    source: PacedSource
    clients: Sequence[AcquireChannel]
    ends: Sequence[AcquireEnds]
    raw: ChanEnd
    """The commands' end of one more client, for a test to speak the protocol itself."""
    raw_frames: ChanEnd

    async def ask(self, command: int, arguments: bytes = b"") -> tuple[int, bytes]:
        """Carry out a command token by token."""
        await chan_out_word(self.raw, command)
        await send_array(self.raw, arguments)
        status = await chan_in_word(self.raw)
        return status, bytes((await receive_array(self.raw, 1 << 24)).data)


@asynccontextmanager
async def task(
    clients: int = 1, source: PacedSource | None = None, registers: SensorModel | None = None
) -> AsyncIterator[Task]:
    source = source or PacedSource()
    async with open_node(seed=1) as node:
        here, there = node.tiles
        pairs = [connect(node, here, there) for _ in range(clients)]
        commands, frames = node.channel(here, there), node.channel(here, there)
        ends = [*(end for _, end in pairs), AcquireEnds(commands.b, frames.b)]
        start_acquisition(node, there, source, Nearest(), registers, ends)
        yield Task(node, source, [channel for channel, _ in pairs], ends, commands.a, frames.a)
        node.stop()


# Values.


@given(
    st.builds(
        FrameFormat, st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.sampled_from(list(Encoding))
    )
)
def test_frame_format_survives_the_wire(value: FrameFormat) -> None:
    assert FrameFormat.from_bytes(bytes(value)) == value


@given(
    st.builds(ImageRequest, st.builds(FrameRegion, *[st.integers(0, 0xFFFF)] * 6), st.sampled_from((1, 3)))
)
def test_image_request_survives_the_wire(value: ImageRequest) -> None:
    assert ImageRequest.from_bytes(bytes(value)) == value


@pytest.mark.parametrize("data", [b"", bytes(11), bytes(13), struct.pack("<3I", 1, 1, len(Encoding))])
def test_frame_format_of_other_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"format|encoding"):
        FrameFormat.from_bytes(data)


# The protocol.


@simulated
async def test_description_gives_size_and_encoding() -> None:
    async with task(source=PacedSource(6, 2, Encoding.YUV422)) as on:
        assert await on.ask(0) == (0, struct.pack("<3I", 6, 2, list(Encoding).index(Encoding.YUV422)))
        assert await on.clients[0].describe() == FrameFormat(6, 2, Encoding.YUV422)


@simulated
async def test_frame_is_announced_by_a_token_when_it_has_come() -> None:
    async with task() as on:
        assert await on.ask(1) == (0, b"")
        assert not on.raw_frames.ready
        await on.raw_frames.chkct(7)
        assert trio.current_time() == 1
        assert await on.ask(3) == (0, frame_data(1))


@simulated
async def test_failure_is_announced_by_another_token_and_explained() -> None:
    async with task(source=PacedSource(failures={1})) as on:
        await on.ask(1)
        await on.raw_frames.chkct(8)
        assert await on.ask(6) == (Status.ERROR_INFER_ERR, b"the sensor has no frame: no frame at 1")
        await on.ask(1)
        await on.raw_frames.chkct(7)
        assert await on.ask(6) == (0, b"")


@simulated
async def test_tokens_of_an_exposure_and_an_image() -> None:
    async with task() as on:
        with on.node.tracing(tap := Wiretap()):
            await on.clients[0].expose()
            await on.clients[0].image(ImageRequest(FrameRegion(0, 1, 0, 1, 1, 1)))
        commands, frames = on.ends[0]
        assert tap.sent(frames) == "7"
        # status 0, no data; then status 0 and three bytes, 10 to 12 less 128
        pixels = bytes(value ^ 0x80 for value in (10, 11, 12)).hex()
        words = tap.sent(commands).replace("END ", "").replace(" END", "")
        assert words == f"00000000 00000000 {pixels}"


@simulated
async def test_asking_twice_is_asking_once() -> None:
    async with task() as on:
        for _ in range(20):
            assert await on.ask(1) == (0, b"")
        await on.raw_frames.chkct(FRAME)
        await trio.sleep_until(5)
        assert not on.raw_frames.ready
        assert on.source.taken == [1]


@simulated
async def test_commands_are_answered_while_a_frame_is_exposed() -> None:
    async with task(registers=GenericSensor(0x10)) as on:
        await on.ask(1)
        assert await on.ask(0) == (0, bytes(FrameFormat(4, 4, Encoding.RGB)))
        assert await on.ask(3) == (0, bytes(FRAME_BYTES))
        assert await on.ask(5, b"\x10\x01\x40") == (0, b"")
        assert await on.ask(2, bytes(ImageRequest(WHOLE))) == (0, b"\x80" * 12)
        assert trio.current_time() == 0


# Refusals.


@pytest.mark.parametrize("command", [7, 8, 0x80, 0x12345678, 0xFFFFFFFF])
@simulated
async def test_unknown_command_is_refused(command: int) -> None:
    async with task() as on:
        status, reason = await on.ask(command, b"12345")
        assert (status, str(command) in reason.decode()) == (Status.ERROR_BAD_CMD, True)


@pytest.mark.parametrize("command", list(AcquireCommand))
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 12, 13, 14, 47, 48, 49, 511, 512, 513, 1024, 100_000])
@simulated
async def test_any_length_of_arguments_is_answered(command: AcquireCommand, size: int) -> None:
    async with task(registers=GenericSensor(0)) as on:
        status, data = await on.ask(command, bytes(size))
        assert status == 0 or (status == Status.ERROR_BAD_CMD and data)
        assert (await on.ask(0))[0] == 0


@given(st.builds(FrameRegion, *[st.sampled_from((0, 1, 3, 4, 5, 300, 65535))] * 6), st.sampled_from((1, 3)))
def test_hostile_region_gives_its_image_or_a_reason(region: FrameRegion, channels: int) -> None:
    inside = region.start_x < region.end_x <= 4 and region.start_y < region.end_y <= 4
    size = region.width * region.height * channels
    if inside and 1_000_000 < size <= LARGEST_IMAGE:
        return  # good, but a long time in this image path

    @simulated
    async def trial() -> None:
        async with task() as on:
            await on.clients[0].expose()
            status, data = await on.ask(AcquireCommand.FETCH_IMAGE, bytes(ImageRequest(region, channels)))
            if inside and 0 < size <= LARGEST_IMAGE:
                assert (status, data) == (0, image_of(1, region)[:: 3 // channels])
            else:
                assert status == Status.ERROR_BAD_CMD
                assert data

    trial()


@pytest.mark.parametrize(("width", "height"), [(65535, 65535), (4096, 1366), (65535, 86)])
@simulated
async def test_image_larger_than_the_task_makes_is_refused(width: int, height: int) -> None:
    async with task() as on:
        request = ImageRequest(FrameRegion(0, 4, 0, 4, width, height))
        status, reason = await on.ask(AcquireCommand.FETCH_IMAGE, bytes(request))
        assert (status, b"more than the 16777216" in reason) == (Status.ERROR_BAD_CMD, True)


@simulated
async def test_refusal_raises_with_status_and_reason_and_the_channel_goes_on() -> None:
    async with task() as on:
        client = on.clients[0]
        with pytest.raises(AcquireError, match="4 of the frame") as caught:
            await client.image(ImageRequest(FrameRegion(0, 5, 0, 4, 1, 1)))
        assert caught.value.status == Status.ERROR_BAD_CMD
        assert await client.frame() == bytes(FRAME_BYTES)


# The client.


@simulated
async def test_frame_that_came_before_does_not_count_as_a_new_one() -> None:
    async with task() as on:
        client = on.clients[0]
        await client.ask()
        await trio.sleep_until(5.5)
        assert client.frames.ready
        await client.expose()
        assert trio.current_time() == 6
        assert await client.frame() == frame_data(6)


@simulated
async def test_asking_while_a_frame_waits_asks_for_no_other() -> None:
    async with task() as on:
        client = on.clients[0]
        for _ in range(3):
            await client.ask()
            await trio.sleep(1.5)
        assert on.source.taken == [1]
        await client.await_frame()
        assert not client.frames.ready


@simulated
async def test_failure_that_came_before_does_not_count_either() -> None:
    async with task(source=PacedSource(failures={1})) as on:
        await on.clients[0].ask()
        await trio.sleep_until(1.5)
        await on.clients[0].expose()
        assert await on.clients[0].frame() == frame_data(2)


@simulated
async def test_failure_raises_and_the_next_exposure_is_good() -> None:
    async with task(source=PacedSource(failures={1})) as on:
        with pytest.raises(AcquireError, match="no frame at 1") as caught:
            await on.clients[0].expose()
        assert caught.value.status == Status.ERROR_INFER_ERR
        await on.clients[0].expose()
        assert await on.clients[0].frame() == frame_data(2)


# Several clients.


@simulated
async def test_one_frame_serves_all_who_wait_and_no_others() -> None:
    async with task(clients=3) as on:
        await on.clients[0].ask()
        await trio.sleep_until(0.5)
        await on.clients[2].ask()
        await trio.sleep_until(1.5)
        assert [client.frames.ready for client in on.clients] == [True, False, True]
        assert on.source.taken == [1]


@simulated
async def test_client_that_leaves_its_frame_does_not_hold_the_others() -> None:
    async with task(clients=2) as on:
        await on.clients[0].ask()
        for number in (1, 2, 3):
            await on.clients[1].expose()
            assert await on.clients[1].frame() == frame_data(number)


# The source.


@simulated
async def test_error_that_is_none_of_a_source_ends_the_node() -> None:
    class Buggy(PacedSource):
        async def frame(self) -> None:  # type: ignore[override]  # raises, so returns nothing
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with task(source=Buggy()) as on:
            await on.clients[0].expose()
    assert caught.group_contains(ZeroDivisionError)
    assert not caught.group_contains(Trap)
