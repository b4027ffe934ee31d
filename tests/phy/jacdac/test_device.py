"""The device: announces, ACKs, registers, multicast, events and what it drops."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.jacdac.frame import (
    ACK_INDEX,
    Frame,
    ServicePacket,
    command_frame,
    multicast_frame,
    report_frame,
)
from aisrv.protocol.jacdac.service_tables import CONTROL, MODEL_RUNNER, PROTOCOL_TEST, SENSOR_AGGREGATOR
from tests.support.jacdac_rig import CLIENT, DEVICE, MS, RUNNER, CoreRig
from tests.support.jacdac_rig import PROTOCOL_TEST as TEST_INDEX


def announces(rig: CoreRig) -> list[bytes]:
    return [f.packets[0].payload for f in rig.sent if f.packets[0][:2] == (0, 0)]


def acks(rig: CoreRig) -> list[int]:
    return [f.packets[0].command for f in rig.sent if f.packets[0].service == ACK_INDEX]


def test_announce_lists_the_services() -> None:
    rig = CoreRig()
    rig.at(500)
    (payload,) = announces(rig)
    assert payload == struct.pack("<HBBIII", 0x0F02, 1, 0, 0x1D90E1C5, 0x140F9A78, 0x16C7466A)


def test_restart_counter_stays_at_15() -> None:
    rig = CoreRig()
    rig.at(9500)
    assert [payload[0] for payload in announces(rig)] == [*range(2, 16), *[15] * 5]


def test_announce_counts_reports_and_stops_at_255() -> None:
    rig = CoreRig()
    for _ in range(3):
        rig.get(0, 0x180)
    rig.at(500)
    assert announces(rig)[-1][2] == 4
    for _ in range(300):
        rig.get(0, 0x180)
    rig.at(1000)
    assert announces(rig)[-1][2] == 255


def test_reset_begins_again_with_the_restart_counter() -> None:
    rig = CoreRig()
    rig.at(2000)
    rig.command(0, 0x82)
    rig.at(2500)
    assert announces(rig)[-1][0] == 1


def test_services_command_announces_at_once() -> None:
    rig = CoreRig()
    rig.device.receive(command_frame(DEVICE, [ServicePacket(0, 0)]))
    assert len(announces(rig)) == 1


def test_ack_comes_first_and_once_a_frame() -> None:
    rig = CoreRig()
    frame = command_frame(DEVICE, [ServicePacket(0, 0x1180), ServicePacket(0, 0x1181)], ack=True)
    rig.device.receive(frame)
    assert [f.packets[0].service for f in rig.sent] == [ACK_INDEX, 0, 0]
    assert acks(rig) == [int.from_bytes(frame[:2], "little")]


def test_unknown_command_is_reported_not_implemented() -> None:
    rig = CoreRig()
    frame = command_frame(DEVICE, [ServicePacket(RUNNER, 0x1777)])
    rig.device.receive(frame)
    (answer,) = rig.take()
    assert answer.packets == (ServicePacket(RUNNER, 0x0003, b"\x77\x17" + frame[:2]),)


@pytest.mark.parametrize("command", [0x2101, 0x2180, 0x2186, 0x0082, 0x9000])
def test_what_a_service_cannot_do_is_not_implemented(command: int) -> None:
    (answer,) = CoreRig().command(RUNNER, command, b"\1")
    assert answer.packets[0].command == 0x0003


def test_command_to_a_service_that_is_not_there_is_dropped() -> None:
    assert CoreRig().command(4, 0x1180) == []


def test_unknown_command_by_multicast_is_not_reported() -> None:
    rig = CoreRig()
    rig.device.receive(multicast_frame(MODEL_RUNNER.service_class, ServicePacket(0x3D, 0x1777)))
    assert rig.take() == []


def test_get_by_multicast_is_answered_by_each_service_of_the_class() -> None:
    rig = CoreRig()
    rig.device.receive(multicast_frame(MODEL_RUNNER.service_class, ServicePacket(0x3D, 0x1186)))
    (answer,) = rig.take()
    assert answer.packets == (ServicePacket(RUNNER, 0x1186, b"TFL3"),)


@pytest.mark.parametrize(
    "data",
    [
        command_frame(DEVICE + 1, [ServicePacket(0, 0x1180)], ack=True),
        report_frame(DEVICE, ServicePacket(0, 0x1180)),
        multicast_frame(0x11111111, ServicePacket(0, 0x1180)),
        command_frame(DEVICE, [ServicePacket(0, 0x1180)])[:-1],
        b"\0\0" + command_frame(DEVICE, [ServicePacket(0, 0x1180)])[2:],
    ],
    ids=["foreign id", "echo", "foreign class", "cut", "CRC"],
)
def test_frame_that_is_not_for_the_device_is_dropped(data: bytes) -> None:
    rig = CoreRig()
    rig.device.receive(data)
    assert rig.sent == []


def test_watchdog_by_multicast_resets() -> None:
    rig = CoreRig()
    rig.at(2000)
    rig.device.receive(multicast_frame(0, ServicePacket(0x3D, 0x2080, struct.pack("<I", 300 * MS))))
    assert rig.get(0, 0x080) == struct.pack("<I", 300 * MS)
    rig.at(2299)
    rig.at(2500)
    assert announces(rig)[-1][0] == 1
    assert rig.get(0, 0x080) == bytes(4)


def test_watchdog_that_is_switched_off_does_not_reset() -> None:
    rig = CoreRig()
    rig.set(0, 0x080, struct.pack("<I", 300 * MS))
    rig.set(0, 0x080, bytes(4))
    rig.at(1000)
    assert announces(rig)[-1][0] == 3


def test_uptime_is_in_microseconds() -> None:
    rig = CoreRig()
    rig.at(1234.5)
    assert rig.get(0, 0x186) == struct.pack("<Q", 1234500)


def test_flood_ping_sends_numbered_reports() -> None:
    rig = CoreRig()
    rig.command(0, 0x83, struct.pack("<IIB", 3, 0xFFFFFFFF, 5))
    rig.sent.clear()
    rig.command(0, 0x83, struct.pack("<IIB", 3, 0xFFFFFFFF, 5))
    rig.at(10)
    payloads = rig.reports(rig.sent, 0x83)
    assert payloads == [struct.pack("<I", n) + bytes(range(5)) for n in (0, 1)]


def test_flood_ping_of_a_hostile_size_fits_a_packet() -> None:
    rig = CoreRig()
    (frame,) = rig.command(0, 0x83, struct.pack("<IIB", 1, 0, 255))
    assert len(frame.packets[0].payload) == 232


def test_short_settings_are_extended_and_long_ones_cut() -> None:
    rig = CoreRig()
    for payload, value in ((b"\xfe", -2), (b"\1\0\0\0\xff", 1)):
        rig.set(TEST_INDEX, 0x083, payload)
        assert rig.get(TEST_INDEX, 0x083) == struct.pack("<i", value)
    rig.set(TEST_INDEX, 0x082, b"\xfe")
    assert rig.get(TEST_INDEX, 0x182) == struct.pack("<I", 254)
    rig.set(TEST_INDEX, 0x082, b"")
    assert rig.get(TEST_INDEX, 0x182) == struct.pack("<I", 254)


def test_setting_of_a_wrong_structure_is_ignored() -> None:
    rig = CoreRig()
    assert rig.set(TEST_INDEX, 0x086, b"\1\2\3") == []
    assert rig.get(TEST_INDEX, 0x086) == bytes(8)


def test_event_is_sent_three_times_with_one_number() -> None:
    rig = CoreRig()
    rig.set(TEST_INDEX, 0x081, b"\1")
    rig.set(TEST_INDEX, 0x081, b"\0")
    rig.sent.clear()
    rig.set(TEST_INDEX, 0x082, b"\7\0\0\0")
    times = []
    for ms in range(130):
        rig.sent.clear()
        rig.at(ms)
        times += [ms for f in rig.sent if f.packets[0].command == 0x8000 | 2 << 8 | 0x82]
    assert times == [20, 100]


def test_event_counter_has_seven_bits() -> None:
    rig = CoreRig()
    commands = []
    for number in range(130):
        (frame,) = rig.set(TEST_INDEX, 0x081, bytes((number & 1,)))
        commands.append(frame.packets[0].command)
    assert [command >> 8 & 0x7F for command in commands] == [*range(128), 0, 1]


def test_base_registers_of_every_service() -> None:
    rig = CoreRig()
    assert rig.get(RUNNER, 0x109) == b"engine 0"
    assert rig.get(RUNNER, 0x103) == bytes(4)
    rig.set(RUNNER, 0x009, b"mine")
    assert rig.get(RUNNER, 0x009) == b"mine"


@pytest.mark.parametrize("spec", [CONTROL, MODEL_RUNNER, SENSOR_AGGREGATOR, PROTOCOL_TEST])
def test_every_register_of_the_tables_is_answered(spec: object) -> None:
    rig = CoreRig()
    index = {CONTROL: 0, SENSOR_AGGREGATOR: 1, MODEL_RUNNER: 2, PROTOCOL_TEST: 3}
    for each, number in index.items():
        if each is spec:
            for register in each.registers:
                register.packing.unpack(rig.get(number, register.code))


FRAMES = st.binary(max_size=60)
PACKETS = st.lists(
    st.builds(
        ServicePacket,
        st.integers(0, 63),
        st.one_of(st.integers(0, 0xFFFF), st.sampled_from([0x80, 0x81, 0x2080, 0x1080, 0x2081, 0x83, 0x90])),
        st.binary(max_size=60),
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(st.tuples(st.sampled_from([DEVICE, CLIENT, 7]), PACKETS, st.booleans()), max_size=20))
def test_device_outlives_any_frames(frames: list[tuple[int, list[ServicePacket], bool]]) -> None:
    rig = CoreRig()
    for number, (device, packets, is_command) in enumerate(frames):
        data = command_frame(device, packets, ack=True) if is_command else report_frame(device, *packets)
        rig.device.receive(data)
        rig.at(10 * number)
    rig.at(20_000)
    assert rig.get(0, 0x181)
    assert all(Frame.from_bytes(bytes(frame)) for frame in rig.sent)
