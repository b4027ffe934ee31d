"""A device of the ioserver protocol in C, in the place of our ioserver data task: the same tests.

It is `tests/addons/firmware/programs/ioserver.c`. Left out are tests that read the log, and that the device
waits until both halts are cleared: this one waits at each endpoint for its own.
"""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from aisrv.addons.firmware.c_tile import CTile
from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.tile_process import TileProcess
from aisrv.addons.firmware.usb_bus import FirmwareBus
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.xcore.node import Node, open_node
from phy.usb.urb import TransferStatus
from tests.phy.usb import test_ioserver_data as ours
from tests.phy.usb.test_ioserver_data import (
    GET_LENGTH,
    GET_OUTPUT,
    IN,
    OUT,
    READ,
    WRITE,
    assert_still_right,
    send,
    write_input,
)
from tests.support.amounts import share
from tests.support.benches.c_programs import kept_programs, need_compiler
from tests.support.benches.device_time import on_virtual_time
from tests.support.benches.scripted_engine import BAD_CMD, Recorded, ScriptedDevice, ScriptedEngine
from tests.support.paths import ROOT
from tests.support.peers.usb_host import pattern

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")

SOURCE = ROOT / "tests/addons/firmware/programs/ioserver.c"

SAME = (
    ours.test_input_reaches_the_engine_whole,
    ours.test_input_may_be_padded_to_whole_words,
    ours.test_output_reaches_the_host_in_whole_words,
    ours.test_output_that_fills_its_last_packet_ends_with_an_empty_one,
    ours.test_input_may_come_in_many_requests,
    ours.test_invoke_takes_one_packet_whatever_it_is,
    ours.test_next_command_waits_while_a_model_runs,
    ours.test_reset_reaches_its_model_with_or_without_an_empty_packet,
    ours.test_exit_resets_every_model_and_the_device_stays,
    ours.test_models_by_number,
    ours.test_read_of_an_output_that_there_is_not_fails,
    ours.test_inference_that_fails_halts,
    ours.test_no_data_halt,
    ours.test_too_many_data_halt_and_nothing_of_them_counts,
    ours.test_empty_packet_is_no_warning,
    ours.test_reset_in_the_middle_of_an_input,
    ours.test_reset_in_the_middle_of_an_output,
    ours.test_reset_between_invoke_and_its_packet,
    ours.test_reset_while_a_model_runs,
    ours.test_reset_clears_halts,
)
"""Tests of the task in Python that hold for the one in C."""


@asynccontextmanager
async def device_in_c(engines: int = 1) -> AsyncIterator[ScriptedDevice]:
    """A device whose USB side is in C, with a scripted engine for each model; configured."""
    unit = Unit((SOURCE,), (f"MODELS={engines}",))
    program = build(Program((unit,), ("usb_device",)), need_compiler("gcc"))
    with TileProcess(program, 1) as process:
        async with open_node(on_trap="halt") as node:
            yield await _started(node, process, engines)
            node.stop()


async def _started(node: Node, process: TileProcess, engines: int) -> ScriptedDevice:
    bus = FirmwareBus()
    scripted = [ScriptedEngine() for _ in range(engines)]
    ends = []
    for engine in scripted:
        channel = node.channel(node.tiles[1], node.tiles[0])
        ends.append(channel.a)
        node.tiles[0].start(engine.run, channel.b)
    run = partial(CTile(node.tiles[1], process, bus).run, 0, 0, "usb_device", ends)
    node.tiles[1].start(run, name="usb_device")
    await bus.wait_connected()
    host = InProcessHost(bus)
    await host.plug_in()
    return ScriptedDevice(node, bus, host, scripted)


@pytest.fixture(autouse=True)
def _in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "ioserver_device", device_in_c)


def on_time_that_stands(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test while time stands as long as C runs."""

    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        on_virtual_time(partial(test, **fixtures))

    return run


def some_cases_every_day(test: Callable[..., None]) -> Callable[..., None]:
    """Let a share of a test's cases run every day."""

    def shared(mark: pytest.Mark) -> pytest.Mark:
        if mark.name != "parametrize":
            return mark
        names, cases = mark.args
        if not isinstance(names, str):
            cases = [pytest.param(*case) for case in cases]
        return pytest.mark.parametrize(names, share(cases, one_in=4)).mark

    test.pytestmark = [shared(mark) for mark in getattr(test, "pytestmark", [])]  # type: ignore[attr-defined]
    return test


for _test in SAME:
    globals()[_test.__name__] = some_cases_every_day(on_time_that_stands(_test))


@on_time_that_stands
async def test_a_packet_of_another_length_is_no_command(capfd: pytest.CaptureFixture[str]) -> None:
    async with device_in_c() as device:
        for size in (1, 2, 4, 511, 512):
            await device.host.write(bytes(size))
        await assert_still_right(device)
    lines = [f"a command has 3 bytes, not {size}\n" for size in (1, 2, 4, 511, 512)]
    assert capfd.readouterr().out == "".join(lines)


@on_time_that_stands
async def test_a_command_that_there_is_not_reaches_no_model(capfd: pytest.CaptureFixture[str]) -> None:
    async with device_in_c() as device:
        for command in (0, 4, 9, 255):
            await send(device, command)
        await assert_still_right(device)
        assert len(device.engine.commands) == 4
    lines = [f"there is no command {command}\n" for command in (0, 4, 9, 255)]
    assert capfd.readouterr().out == "".join(lines)


@on_time_that_stands
async def test_a_model_that_there_is_not_is_model_0(capfd: pytest.CaptureFixture[str]) -> None:
    async with device_in_c(2) as device:
        device.engines[0].answers[GET_OUTPUT] = b"zero"
        await send(device, READ, 7)
        assert await device.host.read(512) == b"zero"
    assert capfd.readouterr().out == "there is no model 7: model 0 it is\n"


@pytest.mark.parametrize("size", [0, 64, 512])
def test_a_write_to_an_input_that_there_is_not_fails_before_its_data(size: int) -> None:
    async def main() -> None:
        async with device_in_c() as device:
            device.engine.statuses[GET_LENGTH] = BAD_CMD
            await send(device, WRITE, 0, 9)
            with pytest.raises(TransferFailed) as failure:
                await device.host.write(pattern(size))
            assert (failure.value.status, failure.value.transferred) == (TransferStatus.STALL, 0)
            await ours.clear_both(device)
            await assert_still_right(device)

    on_virtual_time(main)


@pytest.mark.parametrize(("size", "sent"), [(64, 63), (513, 512), (2, 1)])
def test_too_few_data_halt_after_them(size: int, sent: int) -> None:
    async def main() -> None:
        async with device_in_c() as device:
            ours.has_input(device, size)
            await write_input(device, pattern(sent))
            await ours.assert_halted(device)
            assert device.engine.commands == [Recorded(GET_LENGTH, 0)]
            await ours.clear_both(device)
            await assert_still_right(device)

    on_virtual_time(main)


@on_time_that_stands
async def test_a_failure_halts_both_endpoints() -> None:
    async with device_in_c() as device:
        device.engine.statuses[GET_OUTPUT] = BAD_CMD
        await send(device, READ, 0, 9)
        with pytest.raises(TransferFailed) as failure:
            await device.host.read(512)
        assert failure.value.status is TransferStatus.STALL
        assert await device.host.is_halted(OUT)
        assert await device.host.is_halted(IN)
