"""Pins and peripherals in board files: what they become, and each wrong setting by its line."""

import pytest

from aisrv.addons.pins.board import Pins
from aisrv.addons.pins.specs import PeripheralKind, PeripheralSpec, PinSpec, signals_of
from aisrv.board import Board, BoardError, SensorSpec
from aisrv.board.drawing import draw_board
from aisrv.board.toml_file import parse_board

SENSOR = """
[[peripherals]]
name = "temperature"
kind = "i2c-target"
address = 0x48
registers = "memory"
stretch = 2.5

[[pins]]
port = "1A"
to = "temperature.scl"

[[pins]]
port = "X1D02"
to = "temperature.sda"
tile = 1
"""


def pins_of(text: str) -> Pins:
    pins = parse_board(text).part(Pins)
    assert pins is not None
    return pins


def test_a_peripheral_and_its_pins() -> None:
    spec = PeripheralSpec(
        name="temperature",
        kind=PeripheralKind.I2C_TARGET,
        address=0x48,
        registers="memory",
        stretch=2.5,
    )
    scl = PinSpec(port="1A", to="temperature.scl")
    sda = PinSpec(port="X1D02", to="temperature.sda", tile=1)
    assert pins_of(SENSOR) == Pins(peripherals=(spec,), pins=(scl, sda))
    assert signals_of((scl, sda), spec) == {"scl": scl, "sda": sda}


def test_a_peripheral_of_one_signal_needs_no_name_of_it() -> None:
    board = pins_of('[[peripherals]]\nname = "red"\nkind = "led"\n[[pins]]\nport = "4A.3"\nto = "red"\n')
    assert signals_of(board.pins, board.peripherals[0]) == {"pin": board.pins[0]}


def test_several_peripherals_may_be_on_one_pin() -> None:
    both = SENSOR + SENSOR.replace("temperature", "light").replace("0x48", "0x49")
    assert [pin.port for pin in pins_of(both).pins] == ["1A", "X1D02"] * 2


def test_pins_are_drawn() -> None:
    board = parse_board(SENSOR + '[[pins]]\nport = "4B.2"\nstimulus = "noise.vcd"\n')
    assert draw_board(board).splitlines()[-4:] == [
        "pins",
        "  tile 0  1A     temperature scl, i2c-target",
        "  tile 1  X1D02  temperature sda, i2c-target",
        "  tile 0  4B.2   driven by noise.vcd",
    ]


def led(settings: str, pins: str = '[[pins]]\nport = "1A"\nto = "red"') -> str:
    return f'[[peripherals]]\nname = "red"\nkind = "led"\n{settings}\n{pins}\n'


def of_kind(kind: str, settings: str) -> str:
    return f'[[peripherals]]\nname = "p"\nkind = "{kind}"\n{settings}\n'


WRONG = [
    ('[[pins]]\nport = "1Q"\nto = "red"', "2: pins[0].port", "pin '1Q': a pin is named as X0D12, D12, 1E"),
    ('[[pins]]\nport = "4A"\nto = "red"', "2: pins[0].port", "4A has several: write 4A.0 for its first"),
    ('[[pins]]\nport = "X1D02"\nto = "red"', "1: pins[0].tile", "X1D02 is a pin of tile 1, not 0"),
    ('[[pins]]\nport = "1A"\ntile = 2\nto = "r"', "3: pins[0].tile", "the pin 1A is on tile 2"),
    ('[[pins]]\nport = "1A"', "1: pins[0]", "nothing is on the pin 1A: give to, or stimulus"),
    ('[[pins]]\nport = "1A"\nstimulus = "a.txt"', "3: pins[0].stimulus", "its name ends in .vcd or .csv"),
    ('[[pins]]\nport = "1A"\nto = "red"', "3: pins[0].to", "unknown peripheral 'red'; there are none"),
    (led("", '[[pins]]\nport = "1A"\nto = "red.x"'), "7: pins[0].to", "is no signal: red has pin"),
    (led("", '[[pins]]\nport = "1A"\nto = "red"\n' * 2), "10: pins[1].to", "red.pin is on two pins"),
    (led("", ""), "1: peripherals[0]", 'no pin is to its pin; add [[pins]] with to = "red.pin"'),
    (led("baud = 9600"), "4: peripherals[0].baud", "a peripheral of kind led has no baud; it has active"),
    (led('active = "on"'), "4: peripherals[0].active", "active is one of low, high, not 'on'"),
    (led("") + led("", ""), "9: peripherals[1].name", "two peripherals are called 'red'"),
    (of_kind("led", "").replace('"p"', '"a b"'), "2: peripherals[0].name", "letters, digits, - and _"),
    (of_kind("laser", ""), "3: peripherals[0].kind", "'laser' is not known here"),
    (of_kind("uart", "baud = 0"), "4: peripherals[0].baud", "baud is 1 to 25000000, not 0"),
    (of_kind("uart", ""), "1: peripherals[0]", "no pin is to its rx or tx"),
    (of_kind("uart", "bits = 4"), "4: peripherals[0].bits", "bits is 5 to 9, not 4"),
    (of_kind("i2s-source", ""), "1: peripherals[0]", "a peripheral of kind i2s-source needs input"),
    (of_kind("i2c-target", "address = 128"), "4: peripherals[0].address", "address is 0 to 127, not 128"),
    (
        of_kind("i2c-target", 'registers = "gc2145"\naddress = 1'),
        "5: peripherals[0].address",
        "have an address of their own",
    ),
    (of_kind("i2c-target", 'registers = "sensor"'), "4: peripherals[0].registers", "the board has no sensor"),
    (
        of_kind("i2c-target", 'registers = "own"'),
        "4: peripherals[0].registers",
        "a class of yours as module:",
    ),
    (of_kind("spi-port", ""), "1: peripherals[0]", "the board has no SPI port; add [spi]"),
    (of_kind("spi-target", 'answer = "9g"'), "4: peripherals[0].answer", "answer is bytes in hexadecimal"),
    (of_kind("spi-target", "mode = 4"), "4: peripherals[0].mode", "mode is 0 to 3, not 4"),
    (of_kind("button", "presses = [2, 1]"), "4: peripherals[0].presses", "seconds from 0 on, which ascend"),
    (of_kind("button", "bounces = [0]"), "4: peripherals[0].bounces", "bounces is ticks above 0"),
]


@pytest.mark.parametrize(("text", "place", "message"), WRONG, ids=[place for _, place, _ in WRONG])
def test_a_wrong_setting_is_named_with_its_line(text: str, place: str, message: str) -> None:
    with pytest.raises(BoardError) as caught:
        parse_board(text)
    assert str(caught.value).startswith(f"board.toml:{place}: ")
    assert message in str(caught.value)


def test_the_sensor_s_registers_and_the_spi_port_are_those_of_the_board() -> None:
    wires = (PinSpec(port="1A", to="a.scl"), PinSpec(port="1B", to="a.sda"))
    spec = PeripheralSpec(name="a", kind=PeripheralKind.I2C_TARGET, registers="sensor")
    pins = Pins(pins=wires, peripherals=(spec,))
    assert Board(parts=(pins,), sensor=SensorSpec(1, "pattern:bars")).part(Pins) == pins
