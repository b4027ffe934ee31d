"""The device: announces, ACKs, registers, multicast, events and what it drops."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.jacdac.wire.frame import (
    ACK_INDEX,
    Frame,
    ServicePacket,
    command_frame,
    multicast_frame,
    report_frame,
)
from aisrv.addons.jacdac.wire.service_tables import CONTROL, MODEL_RUNNER, PROTOCOL_TEST, SENSOR_AGGREGATOR
from tests.support.benches.jacdac_core import CLIENT, DEVICE, MS, RUNNER, ScriptedCore
from tests.support.benches.jacdac_core import PROTOCOL_TEST as TEST_INDEX


def announces(core: ScriptedCore) -> list[bytes]:
    return [f.packets[0].payload for f in core.sent if f.packets[0][:2] == (0, 0)]


def acks(core: ScriptedCore) -> list[int]:
    return [f.packets[0].command for f in core.sent if f.packets[0].service == ACK_INDEX]


def test_announce_lists_the_services() -> None:
    core = ScriptedCore()
    core.at(500)
    (payload,) = announces(core)
    assert payload == struct.pack("<HBBIII", 0x0F02, 1, 0, 0x1D90E1C5, 0x140F9A78, 0x16C7466A)


def test_restart_counter_stays_at_15() -> None:
    core = ScriptedCore()
    core.at(9500)
    assert [payload[0] for payload in announces(core)] == [*range(2, 16), *[15] * 5]


def test_announce_counts_reports_and_stops_at_255() -> None:
    core = ScriptedCore()
    for _ in range(3):
        core.get(0, 0x180)
    core.at(500)
    assert announces(core)[-1][2] == 4
    for _ in range(300):
        core.get(0, 0x180)
    core.at(1000)
    assert announces(core)[-1][2] == 255


def test_reset_begins_again_with_the_restart_counter() -> None:
    core = ScriptedCore()
    core.at(2000)
    core.command(0, 0x82)
    core.at(2500)
    assert announces(core)[-1][0] == 1


def test_services_command_announces_at_once() -> None:
    core = ScriptedCore()
    core.device.receive(command_frame(DEVICE, [ServicePacket(0, 0)]))
    assert len(announces(core)) == 1


def test_ack_comes_first_and_once_a_frame() -> None:
    core = ScriptedCore()
    frame = command_frame(DEVICE, [ServicePacket(0, 0x1180), ServicePacket(0, 0x1181)], ack=True)
    core.device.receive(frame)
    assert [f.packets[0].service for f in core.sent] == [ACK_INDEX, 0, 0]
    assert acks(core) == [int.from_bytes(frame[:2], "little")]


def test_unknown_command_is_reported_not_implemented() -> None:
    core = ScriptedCore()
    frame = command_frame(DEVICE, [ServicePacket(RUNNER, 0x1777)])
    core.device.receive(frame)
    (answer,) = core.take()
    assert answer.packets == (ServicePacket(RUNNER, 0x0003, b"\x77\x17" + frame[:2]),)


@pytest.mark.parametrize("command", [0x2101, 0x2180, 0x2186, 0x0082, 0x9000])
def test_what_a_service_cannot_do_is_not_implemented(command: int) -> None:
    (answer,) = ScriptedCore().command(RUNNER, command, b"\1")
    assert answer.packets[0].command == 0x0003


def test_command_to_a_service_that_is_not_there_is_dropped() -> None:
    assert ScriptedCore().command(4, 0x1180) == []


def test_unknown_command_by_multicast_is_not_reported() -> None:
    core = ScriptedCore()
    core.device.receive(multicast_frame(MODEL_RUNNER.service_class, ServicePacket(0x3D, 0x1777)))
    assert core.take() == []


def test_get_by_multicast_is_answered_by_each_service_of_the_class() -> None:
    core = ScriptedCore()
    core.device.receive(multicast_frame(MODEL_RUNNER.service_class, ServicePacket(0x3D, 0x1186)))
    (answer,) = core.take()
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
    core = ScriptedCore()
    core.device.receive(data)
    assert core.sent == []


def test_watchdog_by_multicast_resets() -> None:
    core = ScriptedCore()
    core.at(2000)
    core.device.receive(multicast_frame(0, ServicePacket(0x3D, 0x2080, struct.pack("<I", 300 * MS))))
    assert core.get(0, 0x080) == struct.pack("<I", 300 * MS)
    core.at(2299)
    core.at(2500)
    assert announces(core)[-1][0] == 1
    assert core.get(0, 0x080) == bytes(4)


def test_watchdog_that_is_switched_off_does_not_reset() -> None:
    core = ScriptedCore()
    core.set(0, 0x080, struct.pack("<I", 300 * MS))
    core.set(0, 0x080, bytes(4))
    core.at(1000)
    assert announces(core)[-1][0] == 3


def test_uptime_is_in_microseconds() -> None:
    core = ScriptedCore()
    core.at(1234.5)
    assert core.get(0, 0x186) == struct.pack("<Q", 1234500)


def test_flood_ping_sends_numbered_reports() -> None:
    core = ScriptedCore()
    core.command(0, 0x83, struct.pack("<IIB", 3, 0xFFFFFFFF, 5))
    core.sent.clear()
    core.command(0, 0x83, struct.pack("<IIB", 3, 0xFFFFFFFF, 5))
    core.at(10)
    payloads = core.reports(core.sent, 0x83)
    assert payloads == [struct.pack("<I", n) + bytes(range(5)) for n in (0, 1)]


def test_flood_ping_of_a_hostile_size_fits_a_packet() -> None:
    core = ScriptedCore()
    (frame,) = core.command(0, 0x83, struct.pack("<IIB", 1, 0, 255))
    assert len(frame.packets[0].payload) == 232


def test_short_settings_are_extended_and_long_ones_cut() -> None:
    core = ScriptedCore()
    for payload, value in ((b"\xfe", -2), (b"\1\0\0\0\xff", 1)):
        core.set(TEST_INDEX, 0x083, payload)
        assert core.get(TEST_INDEX, 0x083) == struct.pack("<i", value)
    core.set(TEST_INDEX, 0x082, b"\xfe")
    assert core.get(TEST_INDEX, 0x182) == struct.pack("<I", 254)
    core.set(TEST_INDEX, 0x082, b"")
    assert core.get(TEST_INDEX, 0x182) == struct.pack("<I", 254)


def test_setting_of_a_wrong_structure_is_ignored() -> None:
    core = ScriptedCore()
    assert core.set(TEST_INDEX, 0x086, b"\1\2\3") == []
    assert core.get(TEST_INDEX, 0x086) == bytes(8)


def test_event_is_sent_three_times_with_one_number() -> None:
    core = ScriptedCore()
    core.set(TEST_INDEX, 0x081, b"\1")
    core.set(TEST_INDEX, 0x081, b"\0")
    core.sent.clear()
    core.set(TEST_INDEX, 0x082, b"\7\0\0\0")
    times = []
    for ms in range(130):
        core.sent.clear()
        core.at(ms)
        times += [ms for f in core.sent if f.packets[0].command == 0x8000 | 2 << 8 | 0x82]
    assert times == [20, 100]


def test_event_counter_has_seven_bits() -> None:
    core = ScriptedCore()
    commands = []
    for number in range(130):
        (frame,) = core.set(TEST_INDEX, 0x081, bytes((number & 1,)))
        commands.append(frame.packets[0].command)
    assert [command >> 8 & 0x7F for command in commands] == [*range(128), 0, 1]


def test_base_registers_of_every_service() -> None:
    core = ScriptedCore()
    assert core.get(RUNNER, 0x109) == b"engine 0"
    assert core.get(RUNNER, 0x103) == bytes(4)
    core.set(RUNNER, 0x009, b"mine")
    assert core.get(RUNNER, 0x009) == b"mine"


@pytest.mark.parametrize("spec", [CONTROL, MODEL_RUNNER, SENSOR_AGGREGATOR, PROTOCOL_TEST])
def test_every_register_of_the_tables_is_answered(spec: object) -> None:
    core = ScriptedCore()
    index = {CONTROL: 0, SENSOR_AGGREGATOR: 1, MODEL_RUNNER: 2, PROTOCOL_TEST: 3}
    for each, number in index.items():
        if each is spec:
            for register in each.registers:
                register.packing.unpack(core.get(number, register.code))


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
    core = ScriptedCore()
    for number, (device, packets, is_command) in enumerate(frames):
        data = command_frame(device, packets, ack=True) if is_command else report_frame(device, *packets)
        core.device.receive(data)
        core.at(10 * number)
    core.at(20_000)
    assert core.get(0, 0x181)
    assert all(Frame.from_bytes(bytes(frame)) for frame in core.sent)
