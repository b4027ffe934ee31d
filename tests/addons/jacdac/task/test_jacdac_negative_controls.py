"""What no client should send, to a device with a real engine: the stated answer, and the device lives on."""

import binascii
import struct

import pytest
import trio

from aisrv import digits
from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    PIPE_INDEX,
    Frame,
    ServicePacket,
    command_frame,
    multicast_frame,
    report_frame,
)
from aisrv.addons.jacdac.wire.service_spec import EVENT
from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER
from tests.support.peers.jacdac_client import DEVICE, BusClient, jacdac_device

RUNNER = 2
MODEL = digits.model_bytes()
GET = command_frame(DEVICE, [ServicePacket(RUNNER, 0x1186)])


def sealed(rest: bytes) -> bytes:
    return binascii.crc_hqx(rest, 0xFFFF).to_bytes(2, "little") + rest


def of_size(size: int, data: int) -> bytes:
    """A frame to the device that says `size` and has `data` bytes."""
    return sealed(bytes((size, 1)) + DEVICE.to_bytes(8, "little") + GET[12:].ljust(data, b"\0")[:data])


def pipe(port: int, counter: int, data: bytes = b"", flags: int = 0) -> ServicePacket:
    return ServicePacket(PIPE_INDEX, port << 7 | flags | counter, data)


async def answers(client: BusClient, *frames: bytes) -> list[ServicePacket]:
    """Send frames; return what the device says until it answers a last get, without announces and events."""
    found: list[ServicePacket] = []

    def is_last(frame: Frame, packet: ServicePacket) -> bool:
        if frame.device != DEVICE or frame.is_command or packet[:2] == (0, 0):
            return False
        if packet.service != RUNNER or not packet.command & EVENT:
            found.append(packet)
        return packet[:2] == (0, 0x1185)

    for frame in (*frames, command_frame(DEVICE, [ServicePacket(0, 0x1185)])):
        client.peer.send(frame)
    await client.next_packet(is_last)
    return found[:-1]


async def model_size(client: BusClient) -> int:
    return int.from_bytes(await client.get(RUNNER, 0x184), "little")


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(bytes((GET[0] ^ 1,)) + GET[1:], id="CRC flipped"),
        pytest.param(of_size(4, 5), id="longer than it says"),
        pytest.param(of_size(8, 4), id="shorter than it says"),
        pytest.param(sealed(GET[2:12] + b"\1" + GET[13:]), id="packet past the end"),
        *[pytest.param(of_size(size, max(size, 4)), id=f"size {size}") for size in (0, 3, 241, 255)],
        pytest.param(sealed(GET[2:3] + b"\x81" + GET[4:]), id="flag 0x80"),
        pytest.param(command_frame(DEVICE + 1, [ServicePacket(RUNNER, 0x1186)], ack=True), id="foreign id"),
        pytest.param(report_frame(DEVICE, ServicePacket(RUNNER, 0x1186)), id="echo"),
        pytest.param(
            multicast_frame(MODEL_RUNNER.service_class, ServicePacket(0x3D, 0x1777)), id="multicast"
        ),
    ],
)
async def test_frame_gets_no_answer(frame: bytes) -> None:
    async with jacdac_device() as (_, _, client):
        assert await client.upload(RUNNER, MODEL) == ""
        assert await answers(client, frame) == []
        assert await model_size(client) == len(MODEL)


async def test_pipe_packets_out_of_place_are_acknowledged_and_dropped() -> None:
    async with jacdac_device() as (_, _, client):
        assert await client.upload(RUNNER, MODEL) == ""
        report = await client.call(RUNNER, 0x80, struct.pack("<I", 8))
        port = int.from_bytes(report, "little")
        packets = [
            pipe(port, 0, b"1234"),
            pipe(port, 0, b"1234"),  # repeated
            pipe(port, 7, b"9999"),  # wrong
            pipe(port ^ 256, 0, b"nobody"),
        ]
        frames = [command_frame(DEVICE, [packet], ack=True) for packet in packets]
        crcs = [int.from_bytes(frame[:2], "little") for frame in frames]
        assert await answers(client, *frames) == [(ACK_INDEX, crc, b"") for crc in crcs]
        assert await model_size(client) == len(MODEL)


@pytest.mark.parametrize("sent", [len(MODEL) - 1, len(MODEL) + 1])
async def test_upload_of_another_size_leaves_no_model(sent: int) -> None:
    async with jacdac_device() as (_, _, client):
        assert await client.upload(RUNNER, MODEL) == ""
        report = await client.call(RUNNER, 0x80, struct.pack("<I", len(MODEL)))
        await client.pipe(int.from_bytes(report, "little"), (MODEL + b"!")[:sent])
        while (await client.get(RUNNER, 0x185)) == b"loading":
            await trio.lowlevel.checkpoint()
        assert await client.get(RUNNER, 0x185) == (
            f"set_model: {sent} bytes came of a model of {len(MODEL)}".encode()
        )
        assert await model_size(client) == 0


async def test_data_after_the_end_change_nothing() -> None:
    async with jacdac_device() as (_, _, client):
        report = await client.call(RUNNER, 0x80, struct.pack("<I", len(MODEL)))
        port = int.from_bytes(report, "little")
        await client.pipe(port, MODEL)
        number = -(-len(MODEL) // 224) + 1
        late = command_frame(DEVICE, [pipe(port, number & 0x1F, b"late")], ack=True)
        assert (ACK_INDEX, int.from_bytes(late[:2], "little"), b"") in await answers(client, late)
        while (await client.get(RUNNER, 0x185)) == b"loading":
            await trio.lowlevel.checkpoint()
        assert await model_size(client) == len(MODEL)
