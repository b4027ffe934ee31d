"""The I2C bus: who is addressed, who acknowledges, and what the log has."""

import logging

import pytest

from aisrv.protocol.i2c import I2cNak
from aisrv.sensors.i2c import I2cBus
from aisrv.sensors.registers import Gc2145, GenericSensor


def test_write_reaches_the_device_at_the_address_alone() -> None:
    first, second = GenericSensor(0x10), GenericSensor(0x11)
    I2cBus((first, second)).write(0x11, 2, 99)
    assert (first.read(2), second.read(2)) == (16, 99)


def test_read_comes_from_the_device_at_the_address() -> None:
    bus = I2cBus((GenericSensor(0x10), Gc2145()))
    assert (bus.read(0x3C, 0xF0), bus.read(0x3C, 0xF1), bus.read(0x10, 0)) == (0x21, 0x45, 0x5A)


@pytest.mark.parametrize("address", [0x00, 0x3B, 0x3D, 0x78, 0x79, 0x7F, 0x80, 0xBC, 0xFF])
def test_unknown_address_is_not_acknowledged(address: int) -> None:
    bus = I2cBus((Gc2145(),))
    with pytest.raises(I2cNak, match=rf"0x{address:02x} \(there are: 0x3c\)"):
        bus.write(address, 0, 0)
    with pytest.raises(I2cNak, match=f"0x{address:02x}"):
        bus.read(address, 0)


def test_empty_bus_acknowledges_nothing() -> None:
    with pytest.raises(I2cNak, match="none"):
        I2cBus().write(0x10, 0, 0)


@pytest.mark.parametrize("address", [-1, 0x80, 0x3C * 2 + 0x80])
def test_address_has_seven_bits(address: int) -> None:
    with pytest.raises(ValueError, match="seven bits"):
        I2cBus((GenericSensor(address),))


def test_two_devices_have_two_addresses() -> None:
    with pytest.raises(ValueError, match="one address"):
        I2cBus((GenericSensor(0x10), GenericSensor(0x10)))


def test_every_write_is_logged_acknowledged_or_not(caplog: pytest.LogCaptureFixture) -> None:
    bus = I2cBus((GenericSensor(0x10),))
    with caplog.at_level(logging.INFO, "aisrv.sensors.i2c"):
        bus.write(0x10, 1, 2)
        for address, register in ((0x10, 9), (0x20, 1)):
            with pytest.raises(I2cNak):
                bus.write(address, register, 3)
    assert caplog.messages == [
        "write 0x10 register 0x01 = 0x02",
        "write 0x10 register 0x09 = 0x03: NAK, the sensor has no register 0x09",
        "write 0x20 register 0x01 = 0x03: NAK, no device at address 0x20 (there are: 0x10)",
    ]
