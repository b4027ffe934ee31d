"""The Sensor Aggregator on virtual time: binding, times of samples, streaming, and wrong settings."""

import struct

import pytest

from aisrv.protocol.jacdac.frame import Frame, ServicePacket, report_frame
from tests.support.jacdac_rig import AGGREGATOR, CoreRig, floats

ACCELEROMETER = 0x1F140409
BUTTON = 0x1473A263
FIRST, SECOND = 0x5E5E5E5E, 0x6E6E6E6E


def entry(
    service_class: int = ACCELEROMETER,
    *,
    device: int = 0,
    index: int = 0,
    size: int = 12,
    type: int = 0xA0,  # noqa: A002 - the field's name
    shift: int = 20,
) -> bytes:
    return struct.pack("<QIBBBb", device, service_class, index, size, type, shift)


def inputs(*entries: bytes, interval: int = 20, window: int = 4) -> bytes:
    return struct.pack("<HHI", interval, window, 0) + b"".join(entries)


def read(rig: CoreRig, ms: float, *raw: int, device: int = FIRST, index: int = 1) -> None:
    rig.at(ms)
    payload = struct.pack(f"<{len(raw)}i", *raw)
    rig.device.receive(report_frame(device, ServicePacket(index, 0x1101, payload)))


def bound(**fields: int) -> CoreRig:
    rig = CoreRig()
    rig.announce(FIRST, ACCELEROMETER)
    rig.set(AGGREGATOR, 0x080, inputs(entry(), **fields))
    return rig


def samples(rig: CoreRig) -> int:
    return int.from_bytes(rig.get(AGGREGATOR, 0x180), "little")


def test_setting_configures_the_sensor() -> None:
    rig = CoreRig()
    rig.announce(FIRST, BUTTON, ACCELEROMETER)
    (frame,) = rig.set(AGGREGATOR, 0x080, inputs(entry()))
    assert (frame.device, frame.is_command) == (FIRST, True)
    assert frame.packets == (
        ServicePacket(2, 0x2004, struct.pack("<I", 20)),
        ServicePacket(2, 0x2003, b"\xff"),
    )


def test_each_announce_keeps_the_sensor_streaming() -> None:
    rig = bound()
    rig.take()
    rig.announce(FIRST, ACCELEROMETER)
    (frame,) = rig.take()
    assert frame.packets == (ServicePacket(1, 0x2003, b"\xff"),)


def test_sensor_that_comes_later_is_bound() -> None:
    rig = CoreRig()
    rig.set(AGGREGATOR, 0x080, inputs(entry()))
    assert rig.take() == []
    rig.announce(FIRST, ACCELEROMETER)
    assert any(p.command == 0x2004 for f in rig.take() for p in f.packets)


def test_reading_becomes_a_sample_of_floats() -> None:
    rig = bound()
    assert rig.get(AGGREGATOR, 0x181) == b"\x0c"
    read(rig, 0, 0, 0, 0)
    assert samples(rig) == 0  # the first reading starts the clock
    read(rig, 20, 1 << 20, -(1 << 19), 3 << 20)
    assert samples(rig) == 1
    assert rig.get(AGGREGATOR, 0x101) == floats(1, -0.5, 3)


@pytest.mark.parametrize(
    ("passed", "count"), [(13, 0), (14, 1), (20, 1), (26, 1), (27, 2), (40, 3), (1000, 6)]
)
def test_samples_for_the_time_that_passed(passed: int, count: int) -> None:
    rig = bound()
    read(rig, 0, 0, 0, 0)
    read(rig, passed, 1 << 20, 0, 0)
    assert samples(rig) == count


def test_missed_readings_repeat_the_old_sample() -> None:
    rig = bound()
    read(rig, 0, 0, 0, 0)
    read(rig, 20, 1 << 20, 0, 0)
    rig.set(AGGREGATOR, 0x081, struct.pack("<I", 10))
    rig.take()
    read(rig, 60, 2 << 20, 0, 0)
    assert rig.reports(rig.take(), 0x1101) == [floats(1, 0, 0)] * 2 + [floats(2, 0, 0)]


def test_streaming_counts_down() -> None:
    rig = bound()
    rig.set(AGGREGATOR, 0x081, b"\2")
    for number in range(5):
        read(rig, 20 * number, number << 20, 0, 0)
    assert rig.reports(rig.take(), 0x1101) == [floats(1, 0, 0), floats(2, 0, 0)]
    assert rig.get(AGGREGATOR, 0x081) == bytes(4)


def test_streaming_by_the_code_of_jacdac_python() -> None:
    rig = bound()
    rig.set(AGGREGATOR, 0x003, b"\7")
    assert rig.get(AGGREGATOR, 0x081) == struct.pack("<I", 7)


def test_several_inputs_in_order() -> None:
    rig = CoreRig()
    rig.announce(FIRST, ACCELEROMETER)
    rig.announce(SECOND, BUTTON)
    button = entry(BUTTON, size=2, type=0x10, shift=16)
    rig.set(AGGREGATOR, 0x080, inputs(button, entry()))
    assert rig.get(AGGREGATOR, 0x181) == b"\x10"
    read(rig, 0, 1 << 20, 2 << 20, 3 << 20)
    rig.device.receive(report_frame(SECOND, ServicePacket(1, 0x1101, struct.pack("<H", 0x8000))))
    read(rig, 20, 4 << 20, 5 << 20, 6 << 20)
    assert rig.get(AGGREGATOR, 0x101) == floats(0.5, 4, 5, 6)


def test_input_of_a_device_and_a_service_index() -> None:
    rig = CoreRig()
    rig.announce(FIRST, ACCELEROMETER, ACCELEROMETER)
    rig.announce(SECOND, ACCELEROMETER, ACCELEROMETER)
    (frame,) = rig.set(AGGREGATOR, 0x080, inputs(entry(device=SECOND, index=2)))
    assert (frame.device, frame.packets[0].service) == (SECOND, 2)
    read(rig, 0, 9, 9, 9, device=FIRST)
    read(rig, 20, 9, 9, 9, device=FIRST)
    assert samples(rig) == 0


def test_last_value_of_a_sensor_that_is_gone_stays() -> None:
    rig = CoreRig()
    rig.announce(FIRST, ACCELEROMETER)
    rig.announce(SECOND, BUTTON)
    rig.set(AGGREGATOR, 0x080, inputs(entry(BUTTON, size=1, type=0x08, shift=0), entry()))
    rig.device.receive(report_frame(SECOND, ServicePacket(1, 0x1101, b"\7")))
    rig.at(1500)
    rig.announce(FIRST, ACCELEROMETER)
    rig.at(2500)
    assert SECOND not in rig.device.neighbors
    read(rig, 2500, 0, 0, 0)
    read(rig, 2520, 1 << 20, 0, 0)
    assert rig.get(AGGREGATOR, 0x101) == floats(7, 1, 0, 0)


def test_identical_setting_changes_nothing() -> None:
    rig = bound()
    read(rig, 0, 0, 0, 0)
    read(rig, 20, 0, 0, 0)
    assert rig.set(AGGREGATOR, 0x080, inputs(entry())) == []
    assert samples(rig) == 1
    rig.set(AGGREGATOR, 0x080, inputs(entry(), window=5))
    assert samples(rig) == 0
    assert rig.kept == [inputs(entry()), inputs(entry(), window=5)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        inputs(entry())[:-1],
        inputs(entry()) + b"\0",
        inputs(entry(), interval=0),
        inputs(entry(type=0x40)),
        inputs(entry(size=10)),
        inputs(entry(size=0)),
        inputs(entry(size=236)),
    ],
    ids=["empty", "cut", "long", "interval 0", "type", "not whole", "size 0", "over 232"],
)
def test_setting_that_makes_no_sense_is_ignored(data: bytes) -> None:
    rig = bound()
    rig.set(AGGREGATOR, 0x080, data)
    assert rig.get(AGGREGATOR, 0x080) == inputs(entry())
    assert rig.kept == [inputs(entry())]


def test_short_reading_counts_as_zeros() -> None:
    rig = bound()
    read(rig, 0, 0, 0, 0)
    rig.at(20)
    rig.device.receive(report_frame(FIRST, ServicePacket(1, 0x1101, struct.pack("<i", 1 << 20))))
    assert rig.get(AGGREGATOR, 0x101) == floats(1, 0, 0)


def test_setting_that_was_kept_is_taken_again() -> None:
    rig = CoreRig()
    rig.aggregator.restore(inputs(entry()))
    assert rig.get(AGGREGATOR, 0x080) == inputs(entry())
    assert rig.kept == []


def test_announces_of_many_devices_are_not_remembered_without_end() -> None:
    rig = CoreRig()
    for number in range(300):
        rig.announce(number + 1, ACCELEROMETER)
    assert len(list(rig.device.neighbors.ids())) == 256
    assert all(isinstance(frame, Frame) for frame in rig.take())
