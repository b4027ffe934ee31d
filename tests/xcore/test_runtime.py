"""The runtime that the resources of a node share: resource ids, and the count of the cores that can run."""

import pytest
import trio

from aisrv.xcore.channels.channel import chan_in_word
from aisrv.xcore.node import open_node
from aisrv.xcore.select import select
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import settle, simulated, sole_error


@simulated
async def test_every_resource_of_a_node_is_handed_its_runtime() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        timer = node.tiles[1].allocate_timer()
        assert {a.runtime, b.runtime, timer.runtime, timer.after(1).runtime} == {node.runtime}
        assert list(node.runtime.switch) == [a, b]
        a.free()
        assert list(node.runtime.switch) == [b]


@simulated
async def test_cores_count_as_runnable_until_they_park() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        timer = node.tiles[0].allocate_timer()
        node.tiles[1].start(chan_in_word, b, name="parked")
        node.tiles[0].start(timer.wait_after, timer.now() + 1000, name="timed")
        node.tiles[0].start(lambda: select(a, node.tiles[0].allocate_timer().after(1000)), name="bounded")
        assert node.runtime.runnable == 3
        await settle()
        assert node.runtime.runnable == 2
        assert [core.name for core in node.runtime.cores] == ["timed", "bounded", "parked"]
        await trio.sleep(1)
        assert (node.runtime.runnable, [core.name for core in node.runtime.cores]) == (0, ["parked"])
        node.stop()


def test_a_core_of_another_node_has_no_access_to_a_tile_of_the_same_number() -> None:
    @simulated
    async def program() -> None:
        async with open_node() as one, open_node() as other:
            block = one.tiles[0].memory.allocate("tensor", 4)

            async def read() -> None:
                block.access()

            other.tiles[0].start(read)

    with pytest.raises(ExceptionGroup) as error:
        program()
    assert sole_error(error.value, Trap).kind is TrapKind.LOAD_STORE
