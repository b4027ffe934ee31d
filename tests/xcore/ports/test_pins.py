"""The pins of a tile by name, and the table from ports to pins."""

import pytest

from aisrv.xcore.node import open_node
from aisrv.xcore.ports.map import PIN_NUMBERS, PORT_IDS, PORT_PINS, pin_number, port_name
from aisrv.xcore.traps import SizeError
from tests.support.benches.simulation import simulated


@simulated
async def test_a_tile_has_64_pins_by_name() -> None:
    async with open_node() as node:
        pins = node.tiles[1].pins
        assert len(pins) == len(list(pins)) == 64
        assert list(pins)[:2] == ["X1D00", "X1D01"]
        assert pins["X1D12"] is pins["D12"] is pins["1E"] is pins["1E.0"] is pins["XS1_PORT_1E"]
        assert pins["4A.2"] is pins["8A.6"] is pins["32A.26"] is pins["X1D08"]
        assert [pin.name for pin in pins.made] == ["X1D12", "X1D08"]


@pytest.mark.parametrize(
    "name", ["", "X0D12", "1Q", "4A", "4A.4", "8E.0", "X1D44", "D71", "Y1D02", "4A.-1", "X1D"]
)
@simulated
async def test_other_names_are_refused(name: str) -> None:
    async with open_node() as node:
        with pytest.raises(SizeError, match="pin"):
            node.tiles[1].pin(name)


def test_a_tile_has_29_ports_and_each_port_its_pins() -> None:
    assert len(PORT_IDS) == len(PORT_PINS) == 29
    assert all(len(set(pins)) == len(pins) == int(name[:-1]) for name, pins in PORT_PINS.items())
    assert {name: resource_id >> 16 for name, resource_id in PORT_IDS.items()} == {
        name: len(pins) for name, pins in PORT_PINS.items()
    }
    assert len(PIN_NUMBERS) == 64


def test_wide_ports_are_made_of_narrow_ones() -> None:
    assert PORT_PINS["16A"] == PORT_PINS["8A"] + PORT_PINS["8B"]
    assert PORT_PINS["16B"] == PORT_PINS["8C"] + PORT_PINS["8D"]
    for wide, parts in {"8A": ("4A", "4B"), "8B": ("4C", "4D"), "8C": ("4E", "4F")}.items():
        assert set(PORT_PINS[wide]) == set(PORT_PINS[parts[0]]) | set(PORT_PINS[parts[1]])


@pytest.mark.parametrize(
    ("port", "name"),
    [("1A", "1A"), ("XS1_PORT_32A", "32A"), (0x10200, "1A"), (0x10000, "1B"), (0x100100, "16B")],
)
def test_ports_are_found_by_name_and_resource_id(port: str | int, name: str) -> None:
    assert port_name(port) == name


@pytest.mark.parametrize("port", ["1Z", 0x10210, "", "PORT_1A", 0])
def test_other_ports_are_refused(port: str | int) -> None:
    with pytest.raises(SizeError, match="port"):
        port_name(port)


def test_pins_of_ports_as_in_the_data_sheets() -> None:
    names = ["1A", "1D", "1G", "1P", "4B.0", "4C.3", "4F.0", "8D.7", "16B.8", "32A.0", "32A.19", "32A.31"]
    assert [pin_number(name) for name in names] == [0, 11, 22, 39, 4, 21, 28, 43, 36, 49, 70, 21]
