"""The Sensor Aggregator on virtual time: binding, times of samples, streaming, and wrong settings."""

import struct

import pytest

from aisrv.addons.jacdac.wire.frame import Frame, ServicePacket, report_frame
from tests.support.benches.jacdac_core import AGGREGATOR, ScriptedCore, floats

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


def read(core: ScriptedCore, ms: float, *raw: int, device: int = FIRST, index: int = 1) -> None:
    core.at(ms)
    payload = struct.pack(f"<{len(raw)}i", *raw)
    core.device.receive(report_frame(device, ServicePacket(index, 0x1101, payload)))


def bound(**fields: int) -> ScriptedCore:
    core = ScriptedCore()
    core.announce(FIRST, ACCELEROMETER)
    core.set(AGGREGATOR, 0x080, inputs(entry(), **fields))
    return core


def samples(core: ScriptedCore) -> int:
    return int.from_bytes(core.get(AGGREGATOR, 0x180), "little")


def test_setting_configures_the_sensor() -> None:
    core = ScriptedCore()
    core.announce(FIRST, BUTTON, ACCELEROMETER)
    (frame,) = core.set(AGGREGATOR, 0x080, inputs(entry()))
    assert (frame.device, frame.is_command) == (FIRST, True)
    assert frame.packets == (
        ServicePacket(2, 0x2004, struct.pack("<I", 20)),
        ServicePacket(2, 0x2003, b"\xff"),
    )


def test_each_announce_keeps_the_sensor_streaming() -> None:
    core = bound()
    core.take()
    core.announce(FIRST, ACCELEROMETER)
    (frame,) = core.take()
    assert frame.packets == (ServicePacket(1, 0x2003, b"\xff"),)


def test_sensor_that_comes_later_is_bound() -> None:
    core = ScriptedCore()
    core.set(AGGREGATOR, 0x080, inputs(entry()))
    assert core.take() == []
    core.announce(FIRST, ACCELEROMETER)
    assert any(p.command == 0x2004 for f in core.take() for p in f.packets)


def test_reading_becomes_a_sample_of_floats() -> None:
    core = bound()
    assert core.get(AGGREGATOR, 0x181) == b"\x0c"
    read(core, 0, 0, 0, 0)
    assert samples(core) == 0  # the first reading starts the clock
    read(core, 20, 1 << 20, -(1 << 19), 3 << 20)
    assert samples(core) == 1
    assert core.get(AGGREGATOR, 0x101) == floats(1, -0.5, 3)


@pytest.mark.parametrize(
    ("passed", "count"), [(13, 0), (14, 1), (20, 1), (26, 1), (27, 2), (40, 3), (1000, 6)]
)
def test_samples_for_the_time_that_passed(passed: int, count: int) -> None:
    core = bound()
    read(core, 0, 0, 0, 0)
    read(core, passed, 1 << 20, 0, 0)
    assert samples(core) == count


def test_missed_readings_repeat_the_old_sample() -> None:
    core = bound()
    read(core, 0, 0, 0, 0)
    read(core, 20, 1 << 20, 0, 0)
    core.set(AGGREGATOR, 0x081, struct.pack("<I", 10))
    core.take()
    read(core, 60, 2 << 20, 0, 0)
    assert core.reports(core.take(), 0x1101) == [floats(1, 0, 0)] * 2 + [floats(2, 0, 0)]


def test_streaming_counts_down() -> None:
    core = bound()
    core.set(AGGREGATOR, 0x081, b"\2")
    for number in range(5):
        read(core, 20 * number, number << 20, 0, 0)
    assert core.reports(core.take(), 0x1101) == [floats(1, 0, 0), floats(2, 0, 0)]
    assert core.get(AGGREGATOR, 0x081) == bytes(4)


def test_streaming_by_the_code_of_jacdac_python() -> None:
    core = bound()
    core.set(AGGREGATOR, 0x003, b"\7")
    assert core.get(AGGREGATOR, 0x081) == struct.pack("<I", 7)


def test_several_inputs_in_order() -> None:
    core = ScriptedCore()
    core.announce(FIRST, ACCELEROMETER)
    core.announce(SECOND, BUTTON)
    button = entry(BUTTON, size=2, type=0x10, shift=16)
    core.set(AGGREGATOR, 0x080, inputs(button, entry()))
    assert core.get(AGGREGATOR, 0x181) == b"\x10"
    read(core, 0, 1 << 20, 2 << 20, 3 << 20)
    core.device.receive(report_frame(SECOND, ServicePacket(1, 0x1101, struct.pack("<H", 0x8000))))
    read(core, 20, 4 << 20, 5 << 20, 6 << 20)
    assert core.get(AGGREGATOR, 0x101) == floats(0.5, 4, 5, 6)


def test_input_of_a_device_and_a_service_index() -> None:
    core = ScriptedCore()
    core.announce(FIRST, ACCELEROMETER, ACCELEROMETER)
    core.announce(SECOND, ACCELEROMETER, ACCELEROMETER)
    (frame,) = core.set(AGGREGATOR, 0x080, inputs(entry(device=SECOND, index=2)))
    assert (frame.device, frame.packets[0].service) == (SECOND, 2)
    read(core, 0, 9, 9, 9, device=FIRST)
    read(core, 20, 9, 9, 9, device=FIRST)
    assert samples(core) == 0


def test_last_value_of_a_sensor_that_is_gone_stays() -> None:
    core = ScriptedCore()
    core.announce(FIRST, ACCELEROMETER)
    core.announce(SECOND, BUTTON)
    core.set(AGGREGATOR, 0x080, inputs(entry(BUTTON, size=1, type=0x08, shift=0), entry()))
    core.device.receive(report_frame(SECOND, ServicePacket(1, 0x1101, b"\7")))
    core.at(1500)
    core.announce(FIRST, ACCELEROMETER)
    core.at(2500)
    assert SECOND not in core.device.neighbors
    read(core, 2500, 0, 0, 0)
    read(core, 2520, 1 << 20, 0, 0)
    assert core.get(AGGREGATOR, 0x101) == floats(7, 1, 0, 0)


def test_identical_setting_changes_nothing() -> None:
    core = bound()
    read(core, 0, 0, 0, 0)
    read(core, 20, 0, 0, 0)
    assert core.set(AGGREGATOR, 0x080, inputs(entry())) == []
    assert samples(core) == 1
    core.set(AGGREGATOR, 0x080, inputs(entry(), window=5))
    assert samples(core) == 0
    assert core.kept == [inputs(entry()), inputs(entry(), window=5)]


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
    core = bound()
    core.set(AGGREGATOR, 0x080, data)
    assert core.get(AGGREGATOR, 0x080) == inputs(entry())
    assert core.kept == [inputs(entry())]


def test_short_reading_counts_as_zeros() -> None:
    core = bound()
    read(core, 0, 0, 0, 0)
    core.at(20)
    core.device.receive(report_frame(FIRST, ServicePacket(1, 0x1101, struct.pack("<i", 1 << 20))))
    assert core.get(AGGREGATOR, 0x101) == floats(1, 0, 0)


def test_setting_that_was_kept_is_taken_again() -> None:
    core = ScriptedCore()
    core.aggregator.restore(inputs(entry()))
    assert core.get(AGGREGATOR, 0x080) == inputs(entry())
    assert core.kept == []


def test_announces_of_many_devices_are_not_remembered_without_end() -> None:
    core = ScriptedCore()
    for number in range(300):
        core.announce(number + 1, ACCELEROMETER)
    assert len(list(core.device.neighbors.ids())) == 256
    assert all(isinstance(frame, Frame) for frame in core.take())
