"""Registers of the user's own on an I2C target's pins, and what goes wrong in them."""

import logging
from pathlib import Path

import pytest

from aisrv.addons.pins.board import Pins
from aisrv.addons.pins.own_registers import OwnRegisters
from aisrv.board import BoardError
from aisrv.board.toml_file import parse_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.i2c import I2cNak
from tests.support.benches.simulation import simulated
from tests.support.peers.i2c_controller import I2cController

BOARD = """
[[engines]]
arena = 0

[[peripherals]]
name = "own"
kind = "i2c-target"
registers = "{module}:Own"

[[pins]]
port = "1A"
to = "own.scl"

[[pins]]
port = "1B"
to = "own.sda"
"""

OWN = """
from aisrv.protocol.i2c import I2cNak

class Own:
    address = 0x33

    def __init__(self):
        self.values = {}

    def write(self, register, value):
        if register == 9:
            raise I2cNak("read only")
        self.values[register] = value

    def read(self, register):
        return self.values[register]
"""


@simulated
async def test_they_are_read_and_written_on_the_pins(tmp_path: Path) -> None:
    (tmp_path / "own_pins.py").write_text(OWN)
    board = parse_board(BOARD.format(module="own_pins"), directory=tmp_path)
    async with open_device(board, runner=inline) as device:
        tile = device.node.tiles[0]
        controller = I2cController(tile.pin("1A"), tile.pin("1B"))
        await controller.wait(1000)
        await controller.start()
        assert [await controller.write(byte) for byte in (0x66, 8, 0xA5, 1)] == [True, True, True, False]
        await controller.start()
        assert [await controller.write(byte) for byte in (0x66, 8)] == [True, True]
        await controller.start()
        assert await controller.write(0x67)
        assert await controller.read(last=True) == 0xA5
        await controller.stop()


@pytest.mark.parametrize("value", ["nothing", 256, -1, None, 1.5])
def test_what_is_wrong_in_them_is_logged_and_not_acknowledged(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Own:
        address = 1

        def read(self, register: int) -> object:
            return value

        def write(self, register: int, byte: int) -> None:
            raise LookupError("mine")

    registers = OwnRegisters("own", Own())
    with pytest.raises(I2cNak):
        registers.read(0x20)
    with pytest.raises(I2cNak, match="LookupError: mine"):
        registers.write(0x21, 0)
    assert caplog.records[0].message.startswith("own: read of register 0x20: ")
    assert caplog.records[1].message == "own: write of register 0x21: LookupError: mine"


def test_a_nak_of_theirs_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Own:
        address = 1

        def write(self, register: int, byte: int) -> None:
            raise I2cNak("no")

    with caplog.at_level(logging.INFO), pytest.raises(I2cNak, match="no"):
        OwnRegisters("own", Own()).write(0, 0)
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no module 'own_{number}'"),
        ("Own = 3", "the module 'own_{number}' has no class 'Own'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("class Own:\n    def __init__(self): 1 / 0", "Own() cannot be made: ZeroDivisionError"),
        ("class Own:\n    pass", "Own.address is 0 to 127, not None"),
        ("class Own:\n    address = 1\n    def read(self, register): ...", "Own has no method write"),
    ],
)
def test_a_class_that_is_none_is_an_error_of_the_board(
    text: str | None, message: str, tmp_path: Path
) -> None:
    name = f"own_{abs(hash(text))}"
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    pins = parse_board(BOARD.format(module=name), directory=tmp_path).part(Pins)
    assert pins is not None
    with pytest.raises(BoardError) as caught:
        OwnRegisters.load(pins, 0)
    assert str(caught.value).startswith("board.toml:5: peripherals[0]: ")
    assert message.replace("own_{number}", name) in str(caught.value)
