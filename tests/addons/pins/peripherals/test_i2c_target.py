"""The I2C target: registers by bits on its pins, as sigrok decodes them, and wrong controllers."""

from pathlib import Path

import pytest

from aisrv.addons.pins.peripherals.i2c_target import SPEEDS, I2cTarget
from aisrv.protocol.i2c import I2cNak
from aisrv.sensors.registers import GenericSensor
from tests.support.benches.pin_bench import Line, PinBench, pin_bench, sigrok
from tests.support.benches.simulation import simulated
from tests.support.peers.i2c_controller import I2cController

WRITE, READ = 0x20, 0x21
"""Address bytes of 0x10."""
GAIN = GenericSensor.GAIN
NOWHERE = 0x44


class Registers:
    """All registers but 0x44, with their numbers as values."""

    address = 0x10

    def __init__(self) -> None:
        self.values = bytearray(range(256))

    def write(self, register: int, value: int) -> None:
        if register == NOWHERE:
            raise I2cNak("nothing there")
        self.values[register] = value

    def read(self, register: int) -> int:
        if register == NOWHERE:
            raise I2cNak("nothing there")
        return self.values[register]


async def on(
    bench: PinBench, *, speed: str = "fast", stretch: int = 0, **times: int
) -> tuple[I2cTarget, Registers, I2cController]:
    """A target on pins 1A and 1B, and a controller."""
    scl, sda = bench.pins("1A", "1B")
    registers = Registers()
    target = I2cTarget("sensor", scl, sda, registers, speed=SPEEDS[speed], stretch=stretch)
    await bench.start(target)
    await bench.until(1000)
    return target, registers, I2cController(scl, sda, **times)


async def write(controller: I2cController, *data: int) -> list[bool]:
    await controller.start()
    acknowledged = [await controller.write(byte) for byte in data]
    await controller.stop()
    return acknowledged


async def read(controller: I2cController, register: int, count: int) -> list[int]:
    await controller.start()
    assert await controller.write(WRITE)
    assert await controller.write(register)
    await controller.start()
    assert await controller.write(READ)
    values = [await controller.read(last=at == count - 1) for at in range(count)]
    await controller.stop()
    return values


@pytest.mark.parametrize(
    ("speed", "times"),
    [
        ("standard", {"low": 560, "high": 480, "setup": 280}),
        ("fast", {}),
        ("fast-plus", {"low": 60, "high": 40, "setup": 20}),
    ],
)
@simulated
async def test_registers_are_written_and_read_at_each_speed(speed: str, times: dict[str, int]) -> None:
    async with pin_bench() as bench:
        target, registers, controller = await on(bench, speed=speed, **times)
        assert await write(controller, WRITE, 0x20, 0xA5, 0x5A) == [True] * 4
        assert registers.values[0x20:0x22] == b"\xa5\x5a"
        assert await read(controller, 0x1F, 4) == [0x1F, 0xA5, 0x5A, 0x22]
        assert list(target.violations) == []


@simulated
async def test_a_sensor_s_register_model_is_on_the_pins() -> None:
    async with pin_bench() as bench:
        scl, sda = bench.pins("1A", "1B")
        sensor = GenericSensor()
        await bench.start(I2cTarget("sensor", scl, sda, sensor))
        controller = I2cController(scl, sda)
        await write(controller, WRITE, GAIN, 33)
        assert sensor.read(GAIN) == 33
        assert await read(controller, 0, 1) == [GenericSensor.CHIP_ID]


@simulated
async def test_sigrok_reads_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    async with pin_bench(path, scl="1A", sda="1B") as bench:
        _, _, controller = await on(bench)
        await write(controller, WRITE, 0x20, 0xA5)
        assert await read(controller, 0x20, 2) == [0xA5, 0x21]
        await write(controller, 0x30, 1)
    lines = sigrok(path, "i2c:scl=scl:sda=sda", "i2c=addr-data")
    assert lines == [
        *("Start", "Write", "Address write: 10", "ACK", "Data write: 20", "ACK", "Data write: A5", "ACK"),
        *("Stop", "Start", "Write", "Address write: 10", "ACK", "Data write: 20", "ACK", "Start repeat"),
        *("Read", "Address read: 10", "ACK", "Data read: A5", "ACK", "Data read: 21", "NACK", "Stop"),
        *("Start", "Write", "Address write: 18", "NACK", "Data write: 01", "NACK", "Stop"),
    ]


@simulated
async def test_another_address_is_not_acknowledged_and_its_bytes_are_left_alone() -> None:
    async with pin_bench() as bench:
        target, registers, controller = await on(bench)
        assert await write(controller, 0x22, 0x20, 0xFF) == [False] * 3
        assert registers.values == bytes(range(256))
        assert list(target.violations) == []


@simulated
async def test_a_register_that_the_device_refuses_is_not_acknowledged() -> None:
    async with pin_bench() as bench:
        _, registers, controller = await on(bench)
        assert await write(controller, WRITE, NOWHERE - 1, 1, 2, 3) == [True, True, True, False, False]
        assert registers.values[NOWHERE - 1 : NOWHERE + 2] == bytes((1, NOWHERE, NOWHERE + 1))
        await controller.start()
        assert await controller.write(WRITE)
        assert await controller.write(NOWHERE)
        await controller.start()
        assert not await controller.write(READ)
        await controller.stop()
        assert await read(controller, NOWHERE - 1, 2) == [1, 0xFF]


@simulated
async def test_sda_changes_300_ns_after_the_clock_has_fallen() -> None:
    async with pin_bench() as bench:
        _, _, controller = await on(bench)
        scl, sda = bench.pins("1A", "1B")
        sda.keep("test", 0)
        scl.keep("test", 0)
        await controller.start()
        await controller.write(WRITE)
        await controller.write(0x01)
        await controller.wait(500)
        falls = [tick for tick, level in scl.changes(0) if not level]
        # One fall after the start, nine of the address: eight bits later the acknowledge begins.
        acknowledge, end = falls[17] + 30, falls[18] + 30
        assert list(sda.changes(falls[17])) == [(acknowledge, 0), (end, 1)]


@simulated
async def test_the_clock_is_stretched_after_each_acknowledge_and_the_bytes_stay() -> None:
    async with pin_bench() as bench:
        target, registers, controller = await on(bench, stretch=2000)
        started = controller.now
        assert await write(controller, WRITE, 0x20, 0xA5) == [True] * 3
        # A byte has nine bits of 250 ticks; of each stretch the controller's own low time is a part.
        assert controller.now - started > 3 * 9 * 250 + 3 * (2000 - 140)
        assert registers.values[0x20] == 0xA5
        assert await read(controller, 0x20, 2) == [0xA5, 0x21]
        assert list(target.violations) == []


@simulated
async def test_spikes_are_left_out_and_named() -> None:
    async with pin_bench() as bench:
        target, registers, controller = await on(bench)
        scl, sda = bench.pins("1A", "1B")
        noise = Line("noise", open_drain=True)
        await controller.start()
        start = controller.now
        sda.drive_run([0, 1], start + 600, 4, noise)  # SCL is high: it would be a start
        scl.drive_run([0, 1], start + 620, 4, noise)  # it would be a further bit
        assert await controller.write(WRITE)
        for byte in (0x20, 0x77):
            assert await controller.write(byte)
        await controller.stop()
        assert registers.values[0x20] == 0x77
        assert target.violations.rules == ["tSP", "tSP"]


@pytest.mark.parametrize(("ticks", "rules"), [(4, ["tSP"]), (5, [])])
@simulated
async def test_a_pulse_of_50_ns_is_no_spike(ticks: int, rules: list[str]) -> None:
    async with pin_bench() as bench:
        target, _, controller = await on(bench)
        bench.pins("1B")[0].drive_run([0, 1], controller.now + 100, ticks, controller.line)
        await controller.wait(1000)
        assert target.violations.rules == rules


WRONG = [
    ("tLOW", {"low": 125, "high": 130, "setup": 60}),
    ("tHIGH", {"low": 200, "high": 59, "setup": 60}),
    ("fSCL", {"low": 135, "high": 114, "setup": 60}),
    ("tSU;DAT", {"low": 140, "high": 110, "setup": 9}),
]


@pytest.mark.parametrize(("rule", "times"), WRONG, ids=[rule for rule, _ in WRONG])
@simulated
async def test_a_time_that_is_too_short_is_named(rule: str, times: dict[str, int]) -> None:
    async with pin_bench() as bench:
        target, _, controller = await on(bench, low=times["low"], high=times["high"], setup=times["setup"])
        await controller.start()
        await controller.write(WRITE)
        assert rule in target.violations.rules
        assert set(target.violations.rules) <= {rule, "fSCL", "tHD;STA", "tSU;STA"}


@simulated
async def test_the_message_of_a_violation_says_what_was_seen_and_what_is_required() -> None:
    async with pin_bench() as bench:
        target, _, controller = await on(bench, low=200, high=59, setup=60)
        await controller.start()
        await controller.bit(1)
        texts = [each.text for each in target.violations]
        assert "SCL was high for 590 ns, 600 ns or more are required" in texts


@pytest.mark.parametrize("bits", [1, 4, 7])
@simulated
async def test_a_stop_within_a_byte_is_named_and_the_next_transfer_is_right(bits: int) -> None:
    async with pin_bench() as bench:
        target, registers, controller = await on(bench)
        await controller.start()
        await controller.write(WRITE)
        for _ in range(bits):
            await controller.bit(0)
        await controller.stop()
        assert [each.text for each in target.violations] == [f"a stop after {bits} bits of a byte"]
        assert await write(controller, WRITE, 0x20, 0xA5) == [True] * 3
        assert registers.values[0x20] == 0xA5


@simulated
async def test_a_controller_that_does_not_acknowledge_ends_a_read() -> None:
    async with pin_bench() as bench:
        _, _, controller = await on(bench)
        await controller.start()
        for byte in (WRITE, 0x00):
            await controller.write(byte)
        await controller.start()
        await controller.write(READ)
        assert await controller.read(last=True) == 0x00
        assert await controller.read() == 0xFF  # nobody drives


@simulated
async def test_a_start_in_the_middle_of_a_read_frees_the_bus() -> None:
    async with pin_bench() as bench:
        target, _, controller = await on(bench)
        await controller.start()
        for byte in (WRITE, 0xF0):
            await controller.write(byte)
        await controller.start()
        await controller.write(READ)
        await controller.bit(1)
        await controller.bit(1)
        await controller.start()
        assert await controller.write(WRITE)
        await controller.stop()
        assert target.violations.rules == ["early end"]
