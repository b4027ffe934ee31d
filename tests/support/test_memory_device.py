"""The stand-in for hardware says what the wire document says; each test is one sentence of it."""

import pytest

from tests.support.memory_device import Device, Engine, Nak, Stall

MODEL = b"\0\0\0\0TFL3"


def answer(device: Device) -> bytes:
    data = b""
    while True:
        packet = device.in_packet()
        data += packet
        if len(packet) < 512:
            return data


def test_classic_id_has_no_status_word() -> None:
    device = Device()
    device.out_packet(b"\x10\0\0")
    assert device.in_packet() == b"\x78\x56\x34\x12"
    with pytest.raises(Nak):
        device.in_packet()


def test_design_id_follows_a_status_word() -> None:
    device = Device()
    device.out_packet(bytes.fromhex("10000000 00000000 00000000"))
    assert [device.in_packet(), device.in_packet()] == [bytes(4), b"\x78\x56\x34\x12"]


@pytest.mark.parametrize("length", [0, 1, 2, 4, 11, 13, 512])
def test_another_length_is_no_command(length: int) -> None:
    device = Device()
    device.out_packet(b"\x10".ljust(length, b"\0"))
    with pytest.raises(Nak):
        device.in_packet()


@pytest.mark.parametrize("size", [0, 511, 512, 513, 1024])
def test_an_answer_ends_with_a_short_packet(size: int) -> None:
    device = Device(Engine(outputs=[size]))
    for packet in (b"\x86\0\0", MODEL, b"\x05\0\0"):
        device.out_packet(packet)
    lengths = [len(device.in_packet()) for _ in range(size // 512 + 1)]
    assert lengths == [512] * (size // 512) + [size % 512]


def test_a_set_ends_with_a_short_packet_which_may_be_empty() -> None:
    device = Device(Engine(inputs=[512]))
    for packet in (b"\x86\0\0", MODEL, b"\x83\0\0", b"x" * 512):
        device.out_packet(packet)
    assert device.engine.input_data == [bytes(512)]
    device.out_packet(b"")
    assert device.engine.input_data == [b"x" * 512]


def test_classic_failure_halts_both_endpoints_until_both_are_cleared() -> None:
    device = Device()
    device.out_packet(b"\x05\0\0")
    with pytest.raises(Stall):
        device.in_packet()
    with pytest.raises(Stall):
        device.out_packet(b"\x10\0\0")
    device.clear_halt(0x01)
    with pytest.raises(Nak):
        device.out_packet(b"\x10\0\0")
    device.clear_halt(0x81)
    device.out_packet(b"\x01\0\0")
    assert device.in_packet() == b"\x04\0\0\0"


def test_design_failure_is_a_status_word_without_data_and_without_halts() -> None:
    device = Device()
    device.out_packet(b"\x05" + bytes(11))
    assert device.in_packet() == b"\x04\0\0\0"
    device.out_packet(b"\x10" + bytes(11))
    assert device.in_packet() == bytes(4)


def test_an_engine_that_does_not_exist_is_a_bad_command() -> None:
    device = Device()
    device.out_packet(bytes.fromhex("01000000 01000000 00000000"))
    assert device.in_packet() == b"\x20\0\0\0"


def test_reading_the_status_clears_the_errors() -> None:
    device = Device()
    device.out_packet(b"\x05" + bytes(11))
    answer(device)
    seen = []
    for _ in range(2):
        device.out_packet(b"\x01" + bytes(11))
        answer(device)
        seen.append(answer(device))
    assert seen == [b"\x04\0\0\0", bytes(4)]


def test_set_configuration_abandons_the_command_and_keeps_the_model() -> None:
    device = Device()
    device.out_packet(b"\x86\0\0")
    device.out_packet(MODEL)
    device.out_packet(b"\x83\0\0")
    device.configure()
    device.out_packet(b"\x10\0\0")
    assert device.in_packet() == b"\x78\x56\x34\x12"
    assert device.engine.model == MODEL
