"""A whole device on a Jacdac bus: its engines by Jacdac, and the same engines by other ways."""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trio

from aisrv import digits
from aisrv.addons.jacdac.board import Jacdac
from aisrv.addons.jacdac.bus.bus import QUEUE_FRAMES
from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.board import KIB, Board, EngineSpec, FlashSpec
from aisrv.board.catalog import BOARDS
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from tests.support.benches.jacdac_core import floats
from tests.support.models import networks
from tests.support.peers.jacdac_client import CLIENT, DEVICE, BusClient, jacdac_device

MODEL = digits.model_bytes()
IMAGES = [image for image, _ in digits.test_images()[:4]]
RUNNER = 2
ON_FLASH = replace(BOARDS["with-flash"], parts=(Jacdac(),))
TWO = Board(
    engines=(EngineSpec(tile=0, arena_bytes=200 * KIB), EngineSpec(tile=1)),
    parts=(Jacdac(protocol_test=True),),
)


def as_floats(image: bytes) -> bytes:
    """The numbers that an image stands for: scale 1/240, zero point -128."""
    return ((np.frombuffer(image, "i1").astype("f4") + 128) / 240).astype("<f4").tobytes()


def result(image: bytes) -> bytes:
    """The engine's own result as the numbers that it stands for: scale 1/256, zero point -128."""
    output = np.frombuffer(networks.run(MODEL, image)[0], "i1").astype("f4")
    return ((output + 128) / 256).astype("<f4").tobytes()


async def test_upload_and_predict_equal_the_engines_own_result() -> None:
    async with jacdac_device() as (device, _, client):
        assert await client.upload(RUNNER, MODEL) == ""
        assert device.engines[0].inference.model is not None
        assert await client.predict(RUNNER, *map(as_floats, IMAGES)) == [result(i) for i in IMAGES]
        assert await client.get(RUNNER, 0x101) == result(IMAGES[-1])
        _, timings = await get_command(device.local[0], Command.GET_TIMINGS)
        ticks = sum(struct.unpack(f"<{len(timings) // 4}I", timings))
        assert await client.get(RUNNER, 0x182) == struct.pack("<I", ticks // 100)
        assert await client.get(RUNNER, 0x180) == struct.pack("<4H", 1, 8, 8, 1)
        assert await client.get(RUNNER, 0x188) == b"\1"


async def test_model_of_another_client_shows_at_once() -> None:
    async with jacdac_device() as (device, _, client):
        await device.load_model(MODEL)
        assert await client.report(RUNNER, 0x1184) == struct.pack("<I", len(MODEL))
        assert await client.report(RUNNER, 0x1185) == b""
        assert await client.predict(RUNNER, as_floats(IMAGES[0])) == [result(IMAGES[0])]
        assert await set_command(device.local[0], Command.SET_MODEL_ARENA, 0, b"nonsense")
        assert await client.report(RUNNER, 0x1184) == bytes(4)
        assert b"SET_MODEL_ARENA" in await client.report(RUNNER, 0x1185)


async def test_model_of_jacdac_shows_to_other_clients() -> None:
    async with jacdac_device() as (device, _, client):
        await client.upload(RUNNER, MODEL)
        status, length = await get_command(device.local[0], Command.GET_INPUT_TENSOR_LENGTH)
        assert (status, length) == (Status.OKAY, struct.pack("<I", 64))


@pytest.mark.parametrize("model", [b"no model at all!", MODEL[:5000], MODEL[:4] + b"TFL4" + MODEL[8:]])
async def test_file_that_does_not_load_leaves_no_model(model: bytes) -> None:
    async with jacdac_device() as (device, _, client):
        await client.upload(RUNNER, MODEL)
        error = await client.upload(RUNNER, model)
        assert "SET_MODEL_ARENA" in error
        assert device.engines[0].inference.model is None
        assert await client.upload(RUNNER, MODEL) == ""


async def test_short_upload_leaves_no_model_in_ram_or_flash() -> None:
    async with jacdac_device(ON_FLASH) as (device, _, client):
        await client.upload(RUNNER, MODEL)
        port = await client.call(RUNNER, 0x80, struct.pack("<I", len(MODEL)))
        await client.pipe(int.from_bytes(port, "little"), MODEL[:-1])
        await client.report(RUNNER, 0x1184)
        expected = f"set_model: {len(MODEL) - 1} bytes came of a model of {len(MODEL)}"
        assert (await client.report(RUNNER, 0x1185)).decode() == expected
        assert device.engines[0].inference.model is None
        assert await set_command(device.local[0], Command.SET_MODEL_ARENA_FLASH)


async def test_model_is_kept_in_flash_and_loaded_by_a_reset() -> None:
    async with jacdac_device(ON_FLASH) as (device, _, client):
        assert await client.upload(RUNNER, MODEL) == ""
        assert await set_command(device.local[0], Command.SET_MODEL_ARENA, 0, b"other")
        await client.report(RUNNER, 0x1184)
        client.send(0, 0x82)
        while await client.report(RUNNER, 0x1184) != struct.pack("<I", len(MODEL)):
            pass
        assert await client.predict(RUNNER, as_floats(IMAGES[1])) == [result(IMAGES[1])]


async def test_other_parts_of_the_image_stay(tmp_path: Path) -> None:
    from flash_server.image import DataPartition, EngineImage

    board = replace(
        ON_FLASH,
        flashes=(FlashSpec(path=tmp_path / "chip.bin"),),
        engines=(replace(ON_FLASH.engines[0], boot=None),),
    )
    old = DataPartition((EngineImage(networks.adding_network(1, 1, 3), b"parameters!!", None, b"xip data"),))
    async with jacdac_device(board) as (device, _, client):
        await device.loaders[0].write_data(0, old.build())
        await device.loaders[0].reload()
        assert await client.upload(RUNNER, MODEL) == ""
        window = await device.open_window(0)
        assert await window.read(0, 8) == b"xip data"
        assert not await set_command(device.local[0], Command.SET_MODEL_ARENA_FLASH)


async def test_inputs_of_the_aggregator_are_kept_in_flash(tmp_path: Path) -> None:
    board = replace(
        ON_FLASH,
        flashes=(FlashSpec(path=tmp_path / "chip.bin"),),
        engines=(replace(ON_FLASH.engines[0], boot=None),),
    )
    inputs = struct.pack("<HHIQIBBBb", 20, 4, 0, 0, 0x1F140409, 0, 12, 0xA0, 20)
    async with jacdac_device(board) as (device, _, client):
        client.send(1, 0x2080, inputs)
        assert await client.get(1, 0x080) == inputs
        await client.upload(RUNNER, MODEL)
        while (await device.loaders[0].read_data(7 * KIB * KIB - 4096, 4)) != b"jdsa":  # noqa: ASYNC110
            await trio.sleep(0.01)
    async with jacdac_device(board) as (_, _, client):
        assert await client.get(1, 0x080) == inputs


async def test_each_engine_has_a_runner() -> None:
    async with jacdac_device(TWO) as (_, _, client):
        assert await client.upload(3, MODEL) == ""
        assert await client.get(2, 0x184) == bytes(4)
        assert await client.predict(3, as_floats(IMAGES[0])) == [result(IMAGES[0])]
        assert await client.get(4, 0x109) == b"protocol test"


async def test_samples_of_a_sensor_run_the_model() -> None:
    sensor = 0x5E5E
    async with jacdac_device() as (_, bus, client):
        await client.upload(RUNNER, MODEL)
        peer = bus.join("sensor")
        peer.send(report_frame(sensor, ServicePacket(0, 0, struct.pack("<HBBI", 0x0701, 1, 0, 0x1F140409))))
        entry = struct.pack("<QIBBBb", 0, 0x1F140409, 0, 8, 0xA0, 20)
        client.send(1, 0x2080, struct.pack("<HHI", 10, 32, 0) + entry)
        client.send(RUNNER, 0x2080, b"\4\0")
        await client.get(RUNNER, 0x080)
        for number in range(6):
            reading = struct.pack("<2i", number << 20, 0)
            peer.send(report_frame(sensor, ServicePacket(1, 0x1101, reading)))
            await trio.sleep(0.011)
        outputs = await client.report(RUNNER, 0x1101)
        assert len(outputs) == 40
        assert await client.get(1, 0x101) != floats(0, 0)


async def test_announces_go_on_while_an_engine_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with jacdac_device() as (device, _, client):

        async def hang(*_: object) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(device.engines[0].inference, "load_model", hang)
        port = await client.call(RUNNER, 0x80, struct.pack("<I", len(MODEL)))
        await client.pipe(int.from_bytes(port, "little"), MODEL)
        for _ in range(2):
            await client.report(0, 0)
        assert await client.get(RUNNER, 0x185) == b"loading"
        assert await client.call(RUNNER, 0x80, struct.pack("<I", 4)) == bytes(2)


async def test_slow_peer_loses_its_own_frames_only() -> None:
    async with jacdac_device() as (_, bus, client):
        slow = bus.join("slow")
        for _ in range(QUEUE_FRAMES // 2 + 5):
            assert await client.get(0, 0x181) != b""
        assert slow.lost >= 10


async def test_echo_of_our_own_frames_is_dropped() -> None:
    async with jacdac_device() as (_, bus, client):
        echo = bus.join("echo")
        echo.send(report_frame(DEVICE, ServicePacket(0, 0, struct.pack("<HBB", 0x0701, 1, 0))))
        assert await client.get(0, 0x181) != b""


async def test_peers_reach_each_other() -> None:
    async with jacdac_device() as (_, bus, client):
        frame = report_frame(CLIENT, ServicePacket(1, 0x1101, b"hello"))
        other = BusClient(bus.join("other"), CLIENT)
        client.peer.send(frame)
        assert await other.report(1, 0x1101) == b"hello"
        client.peer.send(frame[:-1])
        client.peer.leave()
        client.peer.leave()
        assert client.peer not in bus.peers
