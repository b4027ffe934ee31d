"""Deadlocks inside a device, whose other cores run on: found, named, and reported once."""

import logging
import signal
import sys
from pathlib import Path

import pytest
import trio

from aisrv.board import Board, TaskSpec
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.monitor.snapshot import DeviceMonitor
from aisrv.monitor.values import Peer
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word
from aisrv.xcore.lock import Lock
from aisrv.xcore.node import open_node
from aisrv.xcore.select import select
from aisrv.xcore.traps import ecall
from tests.support.benches.simulation import settle, simulated
from tests.support.programs import start_process

HERE = "tests.device.test_device_deadlock"
BOARD = Board(
    serial="LAB-1",
    tasks=(
        TaskSpec("left", f"{HERE}:wait_for_a_word", ends={"c": "right.c"}),
        TaskSpec("right", f"{HERE}:wait_for_a_word"),
    ),
)


async def wait_for_a_word(c: ChanEnd) -> None:
    """A task that inputs before it would output, as its peer does."""
    await chan_in_word(c)


def _line(core: int, name: str, end: int, fed_by: int, other: int, peer: str) -> str:
    return (
        f"  tile 0 core {core} ({name}): chan_in_word on chanend 0x80000{end}02 "
        f"(destination 0x80000{fed_by}02, 0 tokens buffered, "
        f"fed by chanend 0x80000{fed_by}02 of tile 0 core {other} ({peer}))"
    )


def test_deadlock_of_two_tasks_is_logged_once_and_the_engine_serves(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def program() -> None:
        async with open_device(BOARD, runner=inline) as device:
            for _ in range(3):
                await trio.sleep(10)
                status, _ = await get_command(device.local[0], Command.GET_ID)
                assert not status
            state = DeviceMonitor("1-1", device, {}).snapshot()
            assert state.deadlock == "left -> right -> left"
            peers = {core.name: core.peers for tile in state.tiles for core in tile.cores}
            assert (peers["left"], peers["right"]) == ((Peer(0, "right"),), (Peer(0, "left"),))

    with caplog.at_level(logging.ERROR, "aisrv.xcore"):
        program()
    assert caplog.messages == [
        "\n".join(
            (
                "LAB-1: 2 cores can never run again, as only each other could wake them:",
                _line(1, "left", 5, 6, 2, "right"),
                _line(2, "right", 6, 5, 1, "left"),
                "  cycle: left -> right -> left",
            )
        )
    ]


@simulated
async def test_healthy_device_has_none() -> None:
    async with open_device(runner=inline) as device:
        await trio.sleep(5)
        assert device.node.runtime.find_deadlock() is None
        assert DeviceMonitor("1-1", device, {}).snapshot().deadlock == ""


@simulated
async def test_core_that_the_outside_may_wake_is_in_no_deadlock() -> None:
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        node.tiles[1].start(wait_for_a_word, b)
        await settle()
        assert node.runtime.find_deadlock() is None
        await a.outct(1)
        node.stop()


@simulated
async def test_select_is_in_a_deadlock_only_where_all_its_events_are() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        a, b = node.channel(tile, tile)
        _, d = node.channel(tile, tile)

        async def choose(b: ChanEnd, *others: ChanEnd) -> None:
            await select(b, *others)

        tile.start(wait_for_a_word, a, name="left")
        tile.start(choose, b, d, name="right")
        await settle()
        assert node.runtime.find_deadlock() is None  # somebody may output to the other end of d
        node.stop()
    async with open_node() as node:
        tile = node.tiles[0]
        a, b = node.channel(tile, tile)
        tile.start(wait_for_a_word, a, name="left")
        tile.start(choose, b, name="right")
        await settle()
        deadlock = node.runtime.find_deadlock()
        assert deadlock is not None
        assert deadlock.path == "left -> right -> left"
        node.stop()


@simulated
async def test_locks_taken_in_opposite_order_are_a_deadlock() -> None:
    async def take(first: Lock, second: Lock) -> None:
        await first.acquire()
        await trio.sleep(1)
        await second.acquire()

    async with open_node() as node:
        tile = node.tiles[0]
        one, two = tile.allocate_lock(), tile.allocate_lock()
        tile.start(take, one, two, name="left")
        tile.start(take, two, one, name="right")
        await trio.sleep(2)
        assert node.report().splitlines()[1:] == [
            "  tile 0 core 0 (left): lock_acquire on lock 0x80000105 (held by tile 0 core 1 (right))",
            "  tile 0 core 1 (right): lock_acquire on lock 0x80000005 (held by tile 0 core 0 (left))",
            "2 cores can never run again, as only each other could wake them:",
            "  tile 0 core 0 (left): lock_acquire on lock 0x80000105 (held by tile 0 core 1 (right))",
            "  tile 0 core 1 (right): lock_acquire on lock 0x80000005 (held by tile 0 core 0 (left))",
            "  cycle: left -> right -> left",
        ]
        node.stop()


@simulated
async def test_core_that_waits_for_a_halted_one_can_never_run_again() -> None:
    async def give_up(c: ChanEnd) -> None:
        ecall(f"gives up, and leaves {c.name}")

    async with open_node(on_trap="halt") as node:
        a, b = node.channel(*node.tiles)
        node.tiles[0].start(wait_for_a_word, a, name="left")
        node.tiles[1].start(give_up, b, name="right")
        await settle()
        deadlock = node.runtime.find_deadlock()
        assert deadlock is not None
        assert (deadlock.path, deadlock.cycle) == ("left", ())
        assert "of tile 1 core 0 (right), which is halted)" in str(deadlock)
        node.stop()


@simulated
async def test_report_names_who_holds_a_route_even_if_it_has_ended() -> None:
    async def hold(c: ChanEnd) -> None:
        await c.outuchar(1)

    async with open_node() as node:
        tile = node.tiles[0]
        sink, first, second = (tile.allocate_chanend() for _ in range(3))
        first.setd(sink)
        second.setd(sink)
        tile.start(hold, first, name="early")
        await settle()
        tile.start(hold, second, name="late")
        await settle()
        assert node.report().splitlines()[1] == (
            "  tile 0 core 0 (late): outuchar on chanend 0x80000202 "
            "(waits for a route to chanend 0x80000002, "
            "held by chanend 0x80000102 of tile 0 core 0 (early), which has ended)"
        )
        assert node.runtime.find_deadlock() is None  # whoever has that end now may close the route
        node.stop()


@simulated
async def test_core_that_waits_on_a_bus_is_reported_as_waiting() -> None:
    async with open_device(runner=inline) as device:
        await trio.sleep(1)
        lines = [line.strip().partition(": ")[2] for line in device.node.report().splitlines()]
        assert "get_setup on endpoint 0" in lines
        assert "get_buffer on endpoint 0x01" in lines


def test_sigquit_prints_the_report(tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text(
        '[[engines]]\n[[tasks]]\nname = "left"\n'
        f'task = "{HERE}:wait_for_a_word"\nends = {{ c = "right.c" }}\n'
        f'[[tasks]]\nname = "right"\ntask = "{HERE}:wait_for_a_word"\n'
    )
    arguments = ["run", "--port", "0", "--board", str(tmp_path / "board.toml")]
    with start_process([sys.executable, "-m", "aisrv", *arguments]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGQUIT)
        lines: list[str] = []
        while not (lines and "cycle" in lines[-1]):
            lines.append(process.stderr.readline().rstrip())
        process.terminate()
        process.communicate()
    assert lines[-1] == "  cycle: left -> right -> left"
    assert process.returncode == 0
