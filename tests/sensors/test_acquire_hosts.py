"""The sensor as hosts see it over SPI and USB, side by side, before one engine. Frame n is at n s."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost
from aisrv.engine.state import AIEngine
from aisrv.protocol.commands import Command, FrameRegion
from aisrv.protocol.engine_channel import MODEL_CHANGED, OUTPUT_CHANGED, Watcher
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.tokens import Control
from phy.spi.bus import SpiBus
from phy.spi.shared_memory import SharedMemory
from phy.spi.slave import spi_slave
from phy.spi.spi_buffer import spi_buffer
from phy.usb.aisrv_data import UsbData
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.benches import spi_master as spi
from tests.support.benches.camera_device import (
    FLAT,
    FRAME_BYTES,
    PICTURE,
    CameraDevice,
    Host,
    PacedSource,
    camera,
    doubled,
    frame_data,
    image_of,
)
from tests.support.benches.simulation import simulated
from tests.support.benches.spi_master import Master

STREAM, GET_MODE = 0x8E, 0x0E
PART = FrameRegion(1, 3, 2, 4, 2, 2)


@dataclass
class Hosts:
    """An SPI master and a USB host of the classic dialect, beside a local client."""

    device: CameraDevice
    spi: Master
    usb: InProcessHost

    @property
    def local(self) -> Host:
        return self.device.host

    async def usb_set(self, command: int, data: bytes = b"") -> None:
        """A SET; the next command finds it done."""
        await self.usb.write(bytes((command, 0, 0)))
        await self.usb.write(data, zero_packet=True)

    async def usb_get(self, command: int) -> bytes:
        await self.usb.write(bytes((command, 0, 0)))
        return await self.usb.read(4096)

    async def spi_word(self, number: int) -> int:
        return int(struct.unpack("<6I", await self.spi.read(spi.GET_SPEC, 24))[number])


@asynccontextmanager
async def hosts(model: bytes | None = PICTURE, **options: object) -> AsyncIterator[Hosts]:
    """Run a camera with both layers."""
    bus, usb, memory = SpiBus(), UsbBus(aisrv_descriptors()), SharedMemory()

    def extend(node: Node, engine: AIEngine, clients: list[ChanEnd]) -> None:
        here, there = node.tiles
        to_slave, to_engine = node.channel(there, there), node.channel(there, here)
        changes, of_usb = node.channel(there, here), node.channel(there, here)
        engine.watchers.append(Watcher(changes.b))
        clients += [to_engine.b, of_usb.b]
        there.start(spi_slave, bus, memory, to_slave.a)
        there.start(spi_buffer, memory, to_slave.b, to_engine.a, changes.a)
        there.start(usb_ep0, usb)
        there.start(UsbData(usb.out_endpoint, usb.in_endpoint, [of_usb.a], "usb").run, name="usb_data")

    async with camera(model, extend=extend, **options) as device:  # type: ignore[arg-type]  # passed on
        host = InProcessHost(usb)
        await host.plug_in()
        await wait_all_tasks_blocked()
        yield Hosts(device, Master(bus), host)


# SPI alone.


@simulated
async def test_sixth_word_of_the_spec_is_the_bytes_of_a_frame() -> None:
    async with hosts() as on:
        assert await on.spi_word(5) == FRAME_BYTES
        assert await on.spi_word(2) == 12
        assert len(await on.usb_get(Command.GET_SPEC)) == 20


@simulated
async def test_sixth_word_stays_when_the_model_changes() -> None:
    async with hosts(None, source=PacedSource(5, 3)) as on:
        assert await on.spi_word(5) == 45
        await on.local.load(FLAT)
        await wait_all_tasks_blocked()
        assert (await on.spi_word(2), await on.spi_word(5)) == (12, 45)


@simulated
async def test_board_without_a_sensor_has_no_frame_bytes_and_no_error() -> None:
    async with hosts(sensor=False) as on:
        assert await on.spi_word(5) == 0
        assert await on.spi.status() == 0
        assert await on.local.word(Command.GET_STATUS) == 0


@simulated
async def test_spi_shows_busy_and_sensing_while_the_frame_is_exposed() -> None:
    async with hosts() as on:
        await on.spi.bus.transfer(bytes((spi.ACQUIRE_SINGLE,)))
        for time in (0.0, 0.25, 0.999):
            await trio.sleep_until(time)
            assert await on.spi.status() == spi.BUSY | spi.SENSING
        await trio.sleep_until(1.001)
        assert await on.spi.status() == 0
        assert await on.spi.read(spi.GET_OUTPUT, FRAME_BYTES + 1) == frame_data(1) + b"\0"


@pytest.mark.parametrize(
    ("region", "padding"),
    [*((None, size) for size in (0, 1, 3, 12, 511)), *((PART, size) for size in (0, 1, 4, 100, 500))],
)
@simulated
async def test_both_forms_over_spi_may_be_padded(region: FrameRegion | None, padding: int) -> None:
    async with hosts() as on:
        data = b"" if region is None else bytes(region)
        await on.spi.bus.transfer(bytes((spi.ACQUIRE_SINGLE,)) + data + bytes(padding))
        await trio.sleep_until(1.5)
        assert await on.spi.status() == 0
        assert await on.local.get(Command.GET_INPUT_TENSOR) == image_of(1, region)


@simulated
async def test_frame_is_read_until_the_next_inference() -> None:
    async with hosts() as on:
        await on.spi.bus.transfer(bytes((spi.ACQUIRE_SINGLE,)))
        await trio.sleep_until(1.5)
        assert await on.spi.read(spi.GET_OUTPUT, FRAME_BYTES) == frame_data(1)
        await on.spi.write(spi.START_INFER)
        assert await on.spi.read(spi.GET_OUTPUT, 13) == doubled(image_of(1)) + b"\0"


@pytest.mark.parametrize("region", [replace(PART, end_x=5), replace(PART, end_x=1), replace(PART, width=9)])
@simulated
async def test_refused_region_shows_in_status_and_log_and_leaves_the_output(region: FrameRegion) -> None:
    async with hosts() as on:
        await on.spi.write(spi.START_INFER)
        before = await on.spi.read(spi.GET_OUTPUT, 64)
        await on.spi.write(spi.ACQUIRE_SINGLE, bytes(region))
        assert await on.spi.status() == spi.BAD_CMD
        assert (await on.spi.read(spi.GET_DEBUG_LOG, 100)).startswith(b"START_ACQUIRE_SINGLE: ")
        assert await on.spi.read(spi.GET_OUTPUT, 64) == before
        assert trio.current_time() == 0


@simulated
async def test_failing_sensor_shows_in_the_status_when_busy_clears() -> None:
    async with hosts(source=PacedSource(failures={1})) as on:
        await on.spi.bus.transfer(bytes((spi.ACQUIRE_SINGLE,)))
        await trio.sleep_until(0.5)
        assert await on.spi.status() == spi.BUSY | spi.SENSING
        await trio.sleep_until(1.5)
        assert await on.spi.status() == spi.INFER_ERR
        assert b"no frame at 1" in await on.spi.read(spi.GET_DEBUG_LOG, 100)


# Notifications.


@simulated
async def test_notifications_that_nobody_takes_are_one_token_of_each_kind_and_hold_nobody_up() -> None:
    async with open_node() as node:
        channel = node.channel(*node.tiles)
        watcher = Watcher(channel.b)
        for _ in range(20):
            await watcher.notify(MODEL_CHANGED)
            await watcher.notify(OUTPUT_CHANGED)
        assert [await channel.a.inct(), await channel.a.inct()] == [MODEL_CHANGED, OUTPUT_CHANGED]
        assert not channel.a.ready
        await watcher.notify(MODEL_CHANGED)
        assert not channel.a.ready
        await channel.a.outct(Control.ACK)
        await watcher.notify(OUTPUT_CHANGED)
        assert not channel.a.ready
        await watcher.notify(MODEL_CHANGED)
        assert await channel.a.inct() == MODEL_CHANGED


# SPI beside USB.


@simulated
async def test_stream_started_over_usb_is_seen_over_both() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        for second in range(1, 6):
            await trio.sleep_until(second + 0.5)
            assert await on.spi.read(spi.GET_OUTPUT, 12) == doubled(image_of(second))
            assert await on.usb_get(spi.GET_OUTPUT) == doubled(image_of(second))
            assert await on.spi.status() == 0  # hosts wait while SENSING is set: a stream has no end
            assert await on.usb_get(GET_MODE) == b"\1\0\0\0"
            assert trio.current_time() == second + 0.5


@simulated
async def test_single_frame_over_spi_ends_the_stream_of_usb() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        await trio.sleep_until(2.5)
        await on.spi.bus.transfer(bytes((spi.ACQUIRE_SINGLE,)))
        await trio.sleep_until(6.5)
        assert await on.usb_get(GET_MODE) == bytes(4)
        assert await on.spi.read(spi.GET_OUTPUT, FRAME_BYTES) == frame_data(3)
        assert await on.usb_get(spi.GET_OUTPUT) == doubled(image_of(2))


@simulated
async def test_inference_over_spi_in_a_stream_has_the_latest_frames_result() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        await trio.sleep_until(3.5)
        await on.spi.write(spi.START_INFER)
        assert await on.spi.status() == 0
        assert await on.spi.read(spi.GET_OUTPUT, 12) == doubled(image_of(3))


@simulated
async def test_stream_goes_on_while_spi_sets_an_input_and_shows_up_to_date_afterwards() -> None:
    """The engine waits for the rest of the set; then it takes the latest frame."""
    async with hosts() as on:
        await on.usb_set(STREAM)
        await trio.sleep_until(1.5)
        await on.spi.write(spi.SET_INPUT, bytes(512))
        await trio.sleep_until(4.5)
        assert await on.spi.read(spi.GET_OUTPUT, 12) == doubled(image_of(1))
        await on.spi.write(spi.SET_INPUT)  # 512 bytes are not an input
        assert await on.spi.status() == spi.BAD_CMD
        await trio.sleep_until(4.75)
        assert await on.spi.read(spi.GET_OUTPUT, 12) == doubled(image_of(2))
        await trio.sleep_until(5.5)
        assert await on.spi.read(spi.GET_OUTPUT, 12) == doubled(image_of(5))


@simulated
async def test_model_set_over_usb_in_a_stream_is_seen_over_spi_with_its_outputs() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        await trio.sleep_until(1.5)
        await on.usb_set(Command.SET_MODEL_ARENA, PICTURE)
        await wait_all_tasks_blocked()
        assert await on.spi.read(spi.GET_OUTPUT, 12) == bytes(12)
        await trio.sleep_until(2.5)
        assert await on.spi.read(spi.GET_OUTPUT, 12) == doubled(image_of(2))
        assert await on.spi.status() == 0


@simulated
async def test_model_lost_in_a_stream_shows_no_error_over_spi() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        await trio.sleep_until(1.5)
        assert await on.local.put(Command.SET_MODEL_ARENA, b"nonsense") == spi.MODEL_ERR
        await trio.sleep_until(3.5)
        assert await on.spi.read(spi.GET_OUTPUT, 12) == bytes(12)
        assert await on.spi.status() == 0
        assert await on.local.word(GET_MODE) == 0


# Hosts that give up.


@simulated
async def test_bus_reset_during_an_exposure_leaves_all_ready() -> None:
    async with hosts() as on:
        await on.usb_set(0x8C)
        await trio.sleep_until(0.5)
        await on.usb.plug_in()
        await trio.sleep_until(1.5)
        assert await on.usb_get(Command.GET_INPUT_TENSOR) == image_of(1)
        await on.usb_set(0x8C)
        assert await on.usb_get(Command.GET_INPUT_TENSOR) == image_of(2)


@simulated
async def test_bus_reset_leaves_the_stream() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        await trio.sleep_until(1.5)
        await on.usb.plug_in()
        await trio.sleep_until(3.5)
        assert await on.usb_get(spi.GET_OUTPUT) == doubled(image_of(3))


@simulated
async def test_bus_reset_in_the_middle_of_a_frame_that_is_set_leaves_the_latest() -> None:
    source = PacedSource(20, 20)
    async with hosts(source=source) as on:
        await on.usb.write(bytes((Command.SET_SENSOR_TENSOR, 0, 0)))
        await on.usb.write(b"x" * 1024)
        await on.usb.plug_in()
        assert await on.usb_get(Command.GET_SENSOR_TENSOR) == bytes(1200)


@simulated
async def test_read_of_a_frame_that_is_given_up_leaves_all_ready() -> None:
    async with hosts() as on:
        await on.usb_set(STREAM)
        await on.usb.write(bytes((Command.GET_SENSOR_TENSOR, 0, 0)))
        await trio.sleep_until(1.5)
        await on.usb.plug_in()
        assert await on.usb_get(Command.GET_SENSOR_TENSOR) == frame_data(1)


@simulated
async def test_refusal_is_a_status_in_the_design_dialect_and_halts_nothing() -> None:
    async with hosts() as on:
        await on.usb.write(struct.pack("<III", Command.START_ACQUIRE_SINGLE, 0, 0))
        await on.usb.write(bytes(12), zero_packet=True)
        assert await on.usb.read(512) == struct.pack("<I", spi.BAD_CMD)
        assert await on.usb_get(GET_MODE) == bytes(4)
