"""Frames: golden bytes of jacdac-ts, every way to be no frame, and round trips."""

import binascii
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.jacdac.wire.frame import (
    Frame,
    FrameError,
    FrameFlags,
    ServicePacket,
    ack_frame,
    command_frame,
    multicast_frame,
    report_frame,
)

DEVICE = 0xE5175E7EA1
ACKED = FrameFlags.COMMAND | FrameFlags.ACK_REQUESTED

# Made by jacdac-ts 1.33.7.
GOLDEN = [
    (
        "0f0f1000a17e5e17e50000010c00000005070300c5e1901d789a0f14",
        Frame(
            0x010000E5175E7EA1,
            (ServicePacket(0, 0, struct.pack("<HBBII", 0x0705, 3, 0, 0x1D90E1C5, 0x140F9A78)),),
        ),
    ),
    ("43c60403a17e5e17e500000100028611", Frame(0x010000E5175E7EA1, (ServicePacket(2, 0x1186),), ACKED)),
    ("29dc0400a17e5e17e5000001003f43c6", Frame(0x010000E5175E7EA1, (ServicePacket(0x3F, 0xC643),))),
    (
        "27460c03a17e5e17e5000001083e007e0102030405060708",
        Frame(0x010000E5175E7EA1, (ServicePacket(0x3E, 252 << 7, bytes(range(1, 9))),), ACKED),
    ),
    (
        "f89f1001a17e5e17e50000010c0281000123456789abcdef05000000",
        Frame(
            0x010000E5175E7EA1,
            (ServicePacket(2, 0x81, bytes.fromhex("0123456789abcdef05000000")),),
            FrameFlags.COMMAND,
        ),
    ),
    (
        "b8cd1800a17e5e17e500000104028411102700000202801007000000030285116f6b2100",
        Frame(
            0x010000E5175E7EA1,
            (
                ServicePacket(2, 0x1184, struct.pack("<I", 10000)),
                ServicePacket(2, 0x1080, struct.pack("<H", 7)),
                ServicePacket(2, 0x1185, b"ok!"),
            ),
        ),
    ),
]


@pytest.mark.parametrize(("text", "frame"), GOLDEN)
def test_golden_frame_is_read(text: str, frame: Frame) -> None:
    data = bytes.fromhex(text)
    assert Frame.from_bytes(data) == frame._replace(crc=int.from_bytes(data[:2], "little"))


@pytest.mark.parametrize(("text", "frame"), GOLDEN)
def test_golden_frame_is_written(text: str, frame: Frame) -> None:
    assert bytes(frame).hex() == text


def test_ack_of_a_golden_frame() -> None:
    assert ack_frame(0x010000E5175E7EA1, 0xC643).hex() == GOLDEN[2][0]


def test_crc_is_that_of_the_protocol() -> None:
    assert binascii.crc_hqx(b"123456789", 0xFFFF) == 0x29B1


def test_padding_behind_the_last_packet_is_optional() -> None:
    frame = sealed(bytes.fromhex("07000000000000000000") + bytes.fromhex("03028511") + b"ok!")
    assert Frame.from_bytes(frame).packets == (ServicePacket(2, 0x1185, b"ok!"),)


def test_upper_bits_of_the_index_are_dropped() -> None:
    frame = sealed(bytes.fromhex("04000000000000000000") + bytes.fromhex("00c28611"))
    assert Frame.from_bytes(frame).packets == (ServicePacket(2, 0x1186),)


def test_class_of_a_multicast_frame() -> None:
    frame = Frame.from_bytes(multicast_frame(0x140F9A78, ServicePacket(0x3D, 0x1186)))
    assert frame.device == 0xAAAAAAAA140F9A78
    assert frame.multicast_class == 0x140F9A78
    assert frame.is_command


def sealed(rest: bytes) -> bytes:
    """Put the CRC before the rest of a frame."""
    return binascii.crc_hqx(rest, 0xFFFF).to_bytes(2, "little") + rest


def with_size(size: int, data: bytes) -> bytes:
    return sealed(bytes((size, 0)) + bytes(8) + data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "16 bytes or more, not 0"),
        (bytes(15), "16 bytes or more, not 15"),
        (with_size(0, bytes(4)), "4 to 240 bytes, not 0"),
        (with_size(3, bytes(4)), "4 to 240 bytes, not 3"),
        (with_size(241, bytes(241)), "4 to 240 bytes, not 241"),
        (with_size(255, bytes(255)), "4 to 240 bytes, not 255"),
        (with_size(8, bytes(4)), "has 20, not 16"),
        (with_size(4, bytes(5)), "has 16, not 17"),
        (with_size(4, bytes.fromhex("01000000")), "ends at 17, past the frame's end at 16"),
        (with_size(6, bytes(6)), "the packet at 16 has no room for its header"),
        (sealed(bytes((4, 0x80)) + bytes(12)), "later version"),
        (bytes.fromhex("44c60403a17e5e17e500000100028611"), "the CRC is 0xc643, the frame says 0xc644"),
    ],
)
def test_no_frame(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        Frame.from_bytes(data)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 232, 236])
def test_payload_sizes_come_back(size: int) -> None:
    packet = ServicePacket(1, 0x80, bytes(size))
    assert Frame.from_bytes(command_frame(DEVICE, [packet])).packets == (packet,)


def test_payload_that_is_too_long_cannot_be_written() -> None:
    with pytest.raises(FrameError, match="237 bytes"):
        command_frame(DEVICE, [ServicePacket(1, 0x80, bytes(237))])


def test_frame_without_packets_cannot_be_written() -> None:
    with pytest.raises(FrameError, match="0 bytes"):
        command_frame(DEVICE, [])


PACKETS = st.lists(
    st.builds(ServicePacket, st.integers(0, 63), st.integers(0, 0xFFFF), st.binary(max_size=40)),
    min_size=1,
    max_size=5,
)


@given(st.integers(0, 2**64 - 1), PACKETS, st.booleans())
def test_frames_come_back(device: int, packets: list[ServicePacket], ack: bool) -> None:
    frame = Frame.from_bytes(command_frame(device, packets, ack=ack))
    assert (frame.device, frame.packets) == (device, tuple(packets))
    assert bool(frame.flags & FrameFlags.ACK_REQUESTED) is ack


@given(st.binary(max_size=300))
def test_any_bytes_are_a_frame_or_a_frame_error(data: bytes) -> None:
    for candidate in (data, sealed(data), sealed(bytes((max(len(data) - 10, 0) & 0xFF,)) + data[1:])):
        try:
            frame = Frame.from_bytes(candidate)
        except FrameError:
            continue
        assert Frame.from_bytes(bytes(frame)).packets == frame.packets


@given(PACKETS, st.data())
def test_a_flipped_bit_is_noticed(packets: list[ServicePacket], data: st.DataObject) -> None:
    frame = bytearray(command_frame(DEVICE, packets))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        Frame.from_bytes(bytes(frame))


@given(st.integers(0, 0x3F), st.integers(0, 0xFFFF), st.binary(max_size=236))
def test_report_of_one_packet_is_written_as_any_frame(index: int, command: int, payload: bytes) -> None:
    packet = ServicePacket(index, command, payload)
    assert report_frame(0x1122334455667788, packet) == bytes(Frame(0x1122334455667788, (packet,)))


def test_report_that_is_too_long_cannot_be_written() -> None:
    with pytest.raises(FrameError, match="237 bytes does not fit"):
        report_frame(1, ServicePacket(1, 2, bytes(237)))
