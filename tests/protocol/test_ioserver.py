"""Wire values of the ioserver protocol: the firmware's codes, golden bytes, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import ProtocolError
from aisrv.protocol.ioserver import IoserverCommand, IoserverPacket, padded_length

BYTES = st.integers(0, 255)


def test_codes_are_those_of_the_firmware_header() -> None:
    codes = {command.name: command.value for command in IoserverCommand}
    assert codes == {"INVOKE": 1, "TENSOR_SEND_OUTPUT": 2, "TENSOR_RECV_INPUT": 3, "RESET": 7, "EXIT": 8}


@pytest.mark.parametrize(
    ("packet", "wire"),
    [
        (IoserverPacket(1), "01 00 00"),
        (IoserverPacket(2, model=1, tensor=3), "02 01 03"),
        (IoserverPacket(3, model=255, tensor=254), "03 ff fe"),
        (IoserverPacket(8), "08 00 00"),
    ],
)
def test_packet_is_command_model_tensor(packet: IoserverPacket, wire: str) -> None:
    assert bytes(packet) == bytes.fromhex(wire)
    assert IoserverPacket.from_bytes(bytes.fromhex(wire)) == packet


@given(command=BYTES, model=BYTES, tensor=BYTES)
def test_any_three_bytes_are_a_packet(command: int, model: int, tensor: int) -> None:
    wire = bytes((command, model, tensor))
    assert bytes(IoserverPacket.from_bytes(wire)) == wire


@pytest.mark.parametrize("length", [0, 1, 2, 4, 12, 511, 512])
def test_packet_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"has 3 bytes, not {length}$"):
        IoserverPacket.from_bytes(bytes(length))


@pytest.mark.parametrize("packet", [IoserverPacket(256), IoserverPacket(1, -1), IoserverPacket(1, 0, 256)])
def test_value_past_a_byte_is_refused(packet: IoserverPacket) -> None:
    with pytest.raises(ProtocolError, match=re.escape(f"{packet} does not fit")):
        bytes(packet)


@pytest.mark.parametrize(
    ("length", "padded"), [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8), (511, 512), (512, 512), (513, 516)]
)
def test_tensors_cross_in_whole_words(length: int, padded: int) -> None:
    assert padded_length(length) == padded
