"""Wire values: golden bytes of the wire document, round trips, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import (
    ENDPOINT_IN,
    ENDPOINT_OUT,
    PACKET_SIZE,
    SERVER_ID,
    STATUS_ERRORS,
    AcquireMode,
    Command,
    CommandPacket,
    Dialect,
    GpioMode,
    ProtocolError,
    Spec,
    Status,
    is_set,
)
from docs.generate.member_docs import member_docs

# "XCORE AI server: numbers and wire behavior", section Commands. Those of ours are on the reference page.
CODES = {
    "NONE": 0x00,
    "GET_STATUS": 0x01,
    "GET_INPUT_TENSOR": 0x03,
    "SET_INPUT_TENSOR": 0x83,
    "START_INFER": 0x84,
    "GET_OUTPUT_TENSOR": 0x05,
    "SET_MODEL_ARENA": 0x86,
    "SET_MODEL_EXT": 0x87,
    "SET_MODEL_ARENA_FLASH": 0x96,
    "SET_MODEL_EXT_FLASH": 0x97,
    "SET_SERVER": 0x04,
    "GET_SPEC": 0x08,
    "GET_TIMINGS": 0x09,
    "GET_INPUT_TENSOR_LENGTH": 0x0A,
    "GET_OUTPUT_TENSOR_LENGTH": 0x0B,
    "START_ACQUIRE_SINGLE": 0x8C,
    "START_ACQUIRE_STREAM": 0x8E,
    "START_ACQUIRE_SET_I2C": 0x8F,
    "GET_ACQUIRE_MODE": 0x0E,
    "GET_SENSOR_TENSOR": 0x0D,
    "SET_SENSOR_TENSOR": 0x8D,
    "GET_DEBUG_LOG": 0x0F,
    "GET_ID": 0x10,
    "GET_OUTPUT_GPIO_EN": 0x11,
    "SET_OUTPUT_GPIO_EN": 0x91,
    "GET_OUTPUT_GPIO_THRESH": 0x12,
    "SET_OUTPUT_GPIO_THRESH": 0x92,
    "GET_OUTPUT_GPIO_MODE": 0x13,
    "SET_OUTPUT_GPIO_MODE": 0x93,
    "HELLO": 0x55,
}


def test_command_codes() -> None:
    ours = {name for name, text in member_docs(Command).items() if text.startswith("Ours:")}
    assert {command.name: command.value for command in Command if command.name not in ours} == CODES


def test_status_bits() -> None:
    assert {status.name: status.value for status in Status} == {
        "BUSY": 0x01,
        "SENSING": 0x02,
        "ERROR_NO_MODEL": 0x04,
        "ERROR_MODEL_ERR": 0x08,
        "ERROR_INFER_ERR": 0x10,
        "ERROR_BAD_CMD": 0x20,
    }
    assert (Status.OKAY.value, STATUS_ERRORS.value) == (0, 0x3C)


def test_other_numbers() -> None:
    assert (SERVER_ID, PACKET_SIZE, ENDPOINT_OUT, ENDPOINT_IN) == (0x12345678, 512, 0x01, 0x81)
    assert [(mode.name, mode.value) for mode in AcquireMode] == [("SINGLE", 0), ("STREAM", 1)]
    assert [(mode.name, mode.value) for mode in GpioMode] == [("NONE", 0), ("MAX", 1)]


@pytest.mark.parametrize("code", [0x80, 0x83, 0xFF, 0x180, 0xFFFFFFFF])
def test_bit_7_says_that_the_host_writes(code: int) -> None:
    assert is_set(code)


@pytest.mark.parametrize("code", [0x00, 0x04, 0x7F, 0x100, 0xFFFFFF7F])
def test_without_bit_7_the_host_reads(code: int) -> None:
    assert not is_set(code)


# Command packets, section USB framing.


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        (bytes.fromhex("83 01 02"), CommandPacket(0x83, 1, 2, Dialect.CLASSIC)),
        (bytes.fromhex("ff ff ff"), CommandPacket(0xFF, 0xFF, 0xFF, Dialect.CLASSIC)),
        (bytes.fromhex("08000000 01000000 02000000"), CommandPacket(8, 1, 2, Dialect.DESIGN)),
        (
            bytes.fromhex("78563412 ffffffff 00000080"),
            CommandPacket(0x12345678, 0xFFFFFFFF, 1 << 31, Dialect.DESIGN),
        ),
    ],
)
def test_command_packet_bytes(data: bytes, packet: CommandPacket) -> None:
    assert bytes(packet) == data
    assert CommandPacket.from_bytes(data) == packet


@pytest.mark.parametrize("command", [0x00, 0x10, 0x83, 0xFF])
def test_a_command_alone_is_a_classic_packet_for_engine_0_and_tensor_0(command: int) -> None:
    assert CommandPacket.from_bytes(bytes((command,))) == CommandPacket(command, 0, 0, Dialect.CLASSIC)


def test_command_packet_is_classic_for_engine_0_and_tensor_0_by_default() -> None:
    assert bytes(CommandPacket(Command.GET_ID)) == b"\x10\0\0"


@pytest.mark.parametrize("length", [0, 2, 4, 11, 13, 511, 512, 513])
def test_command_packet_of_another_length(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"^a command packet has 1, 3 or 12 bytes, not {length}$"):
        CommandPacket.from_bytes(bytes(length))


@pytest.mark.parametrize(
    ("packet", "framing"),
    [
        (CommandPacket(0x100), "classic"),
        (CommandPacket(1, 256), "classic"),
        (CommandPacket(1, 0, -1), "classic"),
        (CommandPacket(1, 0, 1 << 32, Dialect.DESIGN), "design"),
        (CommandPacket(-1, 0, 0, Dialect.DESIGN), "design"),
    ],
)
def test_number_that_does_not_fit_the_framing(packet: CommandPacket, framing: str) -> None:
    with pytest.raises(ProtocolError, match=re.escape(f"{packet} does not fit the {framing} framing: ")):
        bytes(packet)


@given(st.binary(min_size=3, max_size=3) | st.binary(min_size=12, max_size=12))
def test_command_packet_round_trip(data: bytes) -> None:
    assert bytes(CommandPacket.from_bytes(data)) == data


# Spec words, section Commands, GET_SPEC.

SPEC = Spec(1, 2, 512, 8192, 16384, 0x00010002, 0x00030004, 0x00050006)
SPEC_BYTES = bytes.fromhex(
    "01 02 0002"  # word 0: kind of server, tiles, KiB internal memory per tile
    "0020 0040"  # word 1: KiB flash, KiB external memory
    "02000100"  # word 2: input bytes
    "04000300"  # word 3: output bytes
    "06000500"  # word 4: number of timings
)


def test_spec_bytes() -> None:
    assert bytes(SPEC) == SPEC_BYTES
    assert Spec.from_bytes(SPEC_BYTES) == SPEC


def test_sixth_word_is_the_size_of_the_sensor_frame() -> None:
    spec = Spec.from_bytes(SPEC_BYTES + bytes.fromhex("00840300"))
    assert spec.sensor_bytes == 0x00038400
    assert bytes(spec) == SPEC_BYTES + bytes.fromhex("00840300")


def test_sensor_frame_of_no_bytes_still_has_its_word() -> None:
    assert bytes(Spec(sensor_bytes=0)) == bytes(24)
    assert bytes(Spec()) == bytes(20)


@pytest.mark.parametrize("length", [0, 1, 4, 19, 21, 23, 25, 28])
def test_spec_of_another_length(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"^a spec has 20 or 24 bytes, not {length}$"):
        Spec.from_bytes(bytes(length))


@pytest.mark.parametrize(
    "spec",
    [
        Spec(server_kind=256),
        Spec(tiles=-1),
        Spec(internal_kib=65536),
        Spec(flash_kib=65536),
        Spec(external_kib=65536),
        Spec(input_bytes=1 << 32),
        Spec(timing_count=-1),
        Spec(sensor_bytes=1 << 32),
        Spec(sensor_bytes=-1),
    ],
)
def test_number_that_does_not_fit_the_spec_words(spec: Spec) -> None:
    with pytest.raises(
        ProtocolError, match=re.escape(f"{spec} does not fit the ") + "(20 bytes|six words) of a spec: "
    ):
        bytes(spec)


@given(st.binary(min_size=20, max_size=20) | st.binary(min_size=24, max_size=24))
def test_spec_round_trip(data: bytes) -> None:
    assert bytes(Spec.from_bytes(data)) == data
