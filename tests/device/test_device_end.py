"""The end of a device: what it held is free at once, without Python's garbage collector."""

import gc
import logging
import sys
import weakref
from collections.abc import Iterator

import pytest
import trio

from aisrv.board import Board, TaskSpec
from aisrv.device.device import open_device, open_devices
from aisrv.inference.process.inline import inline
from aisrv.xcore.node import Node, open_node
from tests.support.benches.simulation import settle, simulated

DEADLOCKED = Board(
    tasks=(
        TaskSpec("left", "tests.device.test_device_deadlock:wait_for_a_word", ends={"c": "right.c"}),
        TaskSpec("right", "tests.device.test_device_deadlock:wait_for_a_word"),
    )
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Collect no garbage within the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="frames of contextlib hold what they raise there")
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("board", [Board(), Board(spi=None), DEADLOCKED])
@pytest.mark.parametrize("seconds", [0, 3])
def test_devices_that_have_ended_are_no_garbage(board: Board, seconds: float) -> None:
    nodes: list[weakref.ref[object]] = []

    @simulated
    async def program() -> None:
        async with open_devices([board] * 2, runner=inline) as devices:
            nodes.extend(weakref.ref(device.node.runtime) for device in devices)
            await trio.sleep(seconds)
        del devices

    program()
    assert [node() for node in nodes] == [None, None]


@pytest.mark.usefixtures("no_collector")
def test_a_device_that_has_ended_alone_is_no_garbage() -> None:
    nodes: list[weakref.ref[object]] = []

    @simulated
    async def program() -> None:
        async with open_device(runner=inline) as device:
            nodes.append(weakref.ref(device.node.runtime))
            await settle()
        del device

    program()
    assert nodes[0]() is None


class _Memory:
    """What a core holds."""


@simulated
async def test_a_core_that_is_stopped_keeps_nothing_until_the_last_one_has_ended() -> None:
    held: list[weakref.ref[_Memory]] = []

    async def core() -> None:
        memory = _Memory()
        held.append(weakref.ref(memory))
        await trio.sleep_forever()
        del memory

    async def slow(node: Node) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                assert held[0]() is None
                held.clear()

    async with open_node() as node:
        node.tiles[0].start(core)
        node.tiles[0].start(slow, node)
        await settle()
        assert held[0]() is not None
        node.stop()
    assert not held


def test_devices_share_a_watch_for_deadlocks(caplog: pytest.LogCaptureFixture) -> None:
    tasks: list[str] = []

    @simulated
    async def program() -> None:
        async with open_devices([DEADLOCKED] * 3, runner=inline):
            await trio.sleep(0.1)
            nursery = trio.lowlevel.current_task().child_nurseries[-1]
            tasks.extend(task.name for task in nursery.child_tasks)
            await trio.sleep(3)

    with caplog.at_level(logging.ERROR, "aisrv.xcore"):
        program()
    assert tasks.count("deadlock watch") == 1
    assert ["left -> right -> left" in message for message in caplog.messages] == [True] * 3
