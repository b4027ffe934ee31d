"""A node makes its resources of the classes that it is given."""

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.core import Core
from aisrv.xcore.lock import Lock
from aisrv.xcore.node import open_node
from aisrv.xcore.resource_classes import PLAIN, ResourceClasses
from aisrv.xcore.runtime import Runtime
from aisrv.xcore.timer import Timer


class OwnRuntime(Runtime):
    """As any."""


class OwnCore(Core):
    """As any."""


class OwnEnd(ChanEnd):
    """As any."""


class OwnTimer(Timer):
    """As any."""


class OwnLock(Lock):
    """As any."""


OWN = ResourceClasses(OwnRuntime, OwnCore, OwnEnd, OwnTimer, OwnLock)


async def made_by(classes: ResourceClasses) -> list[type]:
    """The classes of what a node of these has, in the order of the fields."""
    async with open_node(classes=classes) as node:
        tile = node.tiles[1]
        resources = (
            node.runtime,
            tile.reserve_core("xud"),
            node.channel(tile, node.tiles[0]).a,
            tile.allocate_timer(),
            tile.allocate_lock(),
        )
        return [type(each) for each in resources]


async def test_a_node_is_made_of_the_classes_it_is_given() -> None:
    assert await made_by(OWN) == [OwnRuntime, OwnCore, OwnEnd, OwnTimer, OwnLock]


async def test_a_node_is_plain_unless_told() -> None:
    assert await made_by(PLAIN) == [Runtime, Core, ChanEnd, Timer, Lock]


async def test_words_cross_between_ends_of_another_class() -> None:
    async with open_node(classes=OWN) as node:
        a, b = node.channel(*node.tiles)
        await a.outuint(0x12345678)
        assert await b.inuint() == 0x12345678
