"""A trap in one device of several: it halts its core, and touches nothing else."""

import logging
import signal
import sys
from pathlib import Path

import pytest
import trio

from aisrv.board import Board, TaskSpec
from aisrv.cli.serving import DeviceSet, first_error, run_devices
from aisrv.monitor.snapshot import core_status
from aisrv.monitor.values import CoreState
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_out_word
from aisrv.xcore.node import open_node
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import Trap, ecall
from tests.support.programs import Started, start_process

FAULTY = TaskSpec("faulty", "tests.device.test_device_traps:output_to_nobody", tile=1)
MESSAGE = "LINK_ERROR (1): output on chanend 0x80010502, which has no destination"


async def output_to_nobody(tile: Tile) -> None:
    """A task of a board that traps as soon as it outputs."""
    await chan_out_word(tile.allocate_chanend(), 1)


async def test_trap_halts_its_core_and_both_devices_serve_on(caplog: pytest.LogCaptureFixture) -> None:
    boards = [Board(serial="LAB-1", tasks=(FAULTY,)), Board(serial="LAB-2")]
    with caplog.at_level(logging.ERROR, "aisrv.xcore"):
        async with run_devices(DeviceSet(boards)) as ports:
            assert len(ports.devices) == 2
            for device in ports.devices:
                status, identity = await get_command(device.local[0], Command.GET_ID)
                assert (status, bytes(identity)) == (0, (0x12345678).to_bytes(4, "little"))
            (core,) = [core for core in ports.devices[0].node.tiles[1].cores if core.name == "faulty"]
            halted = core_status(core)
    assert (halted.state, halted.trap) == (
        CoreState.HALTED,
        f"chan_out_word on chanend 0x80010502: {MESSAGE}",
    )
    (line,) = caplog.messages
    assert line.startswith(f"LAB-1: tile 1 core {core.number} (faulty) trapped at tick ")
    assert line.endswith(f" in chan_out_word on chanend 0x80010502: {MESSAGE}; the core is halted")


async def test_on_trap_stop_ends_all_devices_with_the_place() -> None:
    boards = [Board(serial="LAB-1", tasks=(FAULTY,)), Board(serial="LAB-2")]
    message = ""
    try:
        async with run_devices(DeviceSet(boards, on_trap="raise")):
            await trio.sleep_forever()
    except* Trap as errors:
        message = first_error(errors)
    assert message.startswith(MESSAGE)
    assert "LAB-1: tile 1 core" in message


async def trap_in_a_child_task(c: ChanEnd) -> None:
    """A core whose child task traps."""

    async def send() -> None:
        await chan_out_word(c, 1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(send)


async def test_trap_of_a_child_task_halts_its_core(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "aisrv.xcore"):
        async with open_node(on_trap="halt") as node:
            node.tiles[0].start(trap_in_a_child_task, node.tiles[0].allocate_chanend())
    assert [line.split(" trapped")[0] for line in caplog.messages] == [
        "tile 0 core 0 (trap_in_a_child_task)",
    ]


async def test_trap_and_another_error_of_child_tasks_are_raised_together() -> None:
    async def fail() -> None:
        raise LookupError("a fault of the program")

    async def give_up() -> None:
        ecall("gives up")

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(give_up)

    with pytest.RaisesGroup(LookupError, Trap, flatten_subgroups=True):
        async with open_node() as node:
            node.tiles[0].start(both)


def _board(folder: Path) -> Path:
    board = folder / "board.toml"
    board.write_text(
        '[[engines]]\n[[tasks]]\nname = "faulty"\n'
        'task = "tests.device.test_device_traps:output_to_nobody"\ntile = 1\n'
    )
    return board


def _command(folder: Path, *options: str) -> Started:
    arguments = ["run", "--port", "0", "--board", str(_board(folder)), *options]
    return start_process([sys.executable, "-m", "aisrv", *arguments])


def test_run_logs_the_trap_and_goes_on_and_ends_with_1(tmp_path: Path) -> None:
    with _command(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("aisrv: ready at usbip:127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "(faulty) trapped at tick" in errors


def test_run_with_on_trap_stop_ends_with_an_error(tmp_path: Path) -> None:
    with _command(tmp_path, "--on-trap", "stop") as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "Error: LINK_ERROR (1)" in errors
    assert "(faulty) trapped at tick" in errors
