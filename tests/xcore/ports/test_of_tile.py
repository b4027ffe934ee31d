"""The ports of a tile: found by name and id, made when asked for, and no cost where there are none."""

import sys

import pytest

from aisrv.xcore.node import open_node
from aisrv.xcore.traps import SizeError
from tests.support.benches.simulation import simulated
from tests.support.programs import run_process


def test_a_node_without_ports_loads_none_of_their_modules() -> None:
    script = """
import sys, trio
from aisrv.xcore.node import open_node
from aisrv.xcore.timed.classes import TIMED
async def run():
    for classes in ({}, {"classes": TIMED}):
        async with open_node(**classes) as node:
            node.channel(*node.tiles)
trio.run(run)
names = ("alarms", "clockblock", "edges", "pin", "pins", "port", "ports", "timed_port", "wire")
print([name for name in names if f"aisrv.xcore.{name}" in sys.modules])
"""
    assert run_process([sys.executable, "-c", script], check=True).stdout == "[]\n"


@simulated
async def test_a_port_is_one_object_by_all_of_its_names() -> None:
    async with open_node() as node:
        tile = node.tiles[1]
        port = tile.port("1A")
        assert port is tile.port("XS1_PORT_1A") is tile.port(0x10200)
        assert port is not node.tiles[0].port("1A")
        assert (port.name, port.resource_id, port.width, port.tile) == ("port 1A", 0x10200, 1, 1)
        assert [pin.name for pin in tile.port("4A").pins] == ["X1D02", "X1D03", "X1D08", "X1D09"]
        assert not port.is_enabled
        for other in ("1Q", 0x10201):
            with pytest.raises(SizeError, match="port"):
                tile.port(other)
