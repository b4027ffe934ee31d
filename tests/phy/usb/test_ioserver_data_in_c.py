"""XMOS's `ioserver.c`, unmodified, in the place of our ioserver data task: the same tests, answer for answer.

The source is no part of this project: `AISRV_XMOS_SOURCES` names a folder with a checkout of
`lib_tflite_micro`. What stands between it and the engines is `tests/firmware/programs/ioserver_models.c`.
Left out are tests of what our task does where the firmware would stop: docs/reference/ioserver.md.
"""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.firmware.c_tile import CTile
from aisrv.firmware.compiler import Program, Unit, build
from aisrv.firmware.tile_process import TileProcess
from aisrv.xcore.node import Node, open_node
from phy.usb.firmware_bus import FirmwareBus
from phy.usb.urb import TransferStatus
from tests.phy.usb import test_ioserver_data as ours
from tests.phy.usb.test_ioserver_data import (
    GET_LENGTH,
    GET_OUTPUT,
    IN,
    INVOKE,
    OUT,
    READ,
    SET_INPUT,
    assert_still_right,
    send,
    write_input,
)
from tests.support.c_programs import kept_programs, need_compiler
from tests.support.device_time import on_virtual_time
from tests.support.paths import ROOT
from tests.support.scripted_engine import BAD_CMD, Recorded, ScriptedDevice, ScriptedEngine
from tests.support.usb_host import pattern
from tests.support.xmos_sources import xmos_checkout

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")

MODELS = ROOT / "tests/firmware/programs/ioserver_models.c"

SAME = (
    ours.test_input_reaches_the_engine_whole,
    ours.test_input_may_be_padded_to_whole_words,
    ours.test_output_reaches_the_host_in_whole_words,
    ours.test_output_that_fills_its_last_packet_ends_with_an_empty_one,
    ours.test_input_may_come_in_many_requests,
    ours.test_invoke_takes_one_packet_whatever_it_is,
    ours.test_next_command_waits_while_a_model_runs,
    ours.test_models_by_number,
    ours.test_empty_packet_is_no_warning,
    ours.test_reset_while_a_model_runs,
)
"""Tests of the task in Python that hold for the one in C."""


@asynccontextmanager
async def device_in_c(engines: int = 1) -> AsyncIterator[ScriptedDevice]:
    """A device whose USB side is `ioserver.c`, with a scripted engine for each model; configured."""
    source = xmos_checkout("lib_tflite_micro") / "lib_tflite_micro"
    unit = Unit((source / "src/ioserver.c", MODELS), (f"MODELS={engines}",), (source / "api",))
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
    xmos_checkout("lib_tflite_micro")
    monkeypatch.setattr(ours, "ioserver_device", device_in_c)


def on_time_that_stands(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test while time stands as long as C runs."""

    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        on_virtual_time(partial(test, **fixtures))

    return run


for _test in SAME:
    globals()[_test.__name__] = on_time_that_stands(_test)


@on_time_that_stands
async def test_a_packet_of_another_length_is_no_command(capfd: pytest.CaptureFixture[str]) -> None:
    async with device_in_c() as device:
        for size in (1, 2, 4, 511, 512):
            await device.host.write(bytes(size))
        await assert_still_right(device)
    assert capfd.readouterr().out == "".join(f"Bad cmd length: {size}\n" for size in (1, 2, 4, 511, 512))


@on_time_that_stands
async def test_a_command_that_there_is_not_reaches_the_model_alone(capfd: pytest.CaptureFixture[str]) -> None:
    async with device_in_c() as device:
        for command in (0, 4, 9, 255):
            await send(device, command)
        await assert_still_right(device)
    assert capfd.readouterr().out == "".join(
        f"Unknown command (ioserver): {command}\n" for command in (0, 4, 9, 255)
    )


@on_time_that_stands
async def test_a_model_that_there_is_not_is_model_0(capfd: pytest.CaptureFixture[str]) -> None:
    async with device_in_c(2) as device:
        device.engines[0].answers[GET_OUTPUT] = b"zero"
        await send(device, READ, 7)
        assert await device.host.read(512) == b"zero"
    assert capfd.readouterr().out == "7 model not available, using 0\n\n"


@on_time_that_stands
async def test_a_reset_does_not_end_an_output_whose_rest_goes_to_the_next_host() -> None:
    async with device_in_c() as device:
        device.engine.answers[GET_OUTPUT] = pattern(1024)
        await send(device, READ)
        assert await device.host.read(512) == pattern(1024)[:512]
        await device.host.plug_in()
        assert [await device.host.read(512) for _ in range(2)] == [pattern(1024)[512:], b""]
        await assert_still_right(device)


@pytest.mark.parametrize("endpoint", [OUT, IN])
def test_clear_feature_on_endpoint_1_traps_and_halts_the_core_of_endpoint_0(
    endpoint: int, caplog: pytest.LogCaptureFixture
) -> None:
    need_compiler("addr2line")

    async def main() -> None:
        async with device_in_c() as device:
            await device.host.clear_halt(endpoint)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1) as patience:
                await device.host.is_halted(endpoint)
            assert patience.cancelled_caught
            # The endpoints are another core's.
            ours.has_input(device, 4)
            await write_input(device, b"data")
            await send(device, INVOKE)
            await device.host.write(b"")
            device.engine.answers[GET_OUTPUT] = b"answer"
            await send(device, READ)
            assert await device.host.read(512) == b"answer\0\0"
            assert device.engine.commands[:2] == [Recorded(GET_LENGTH, 0), Recorded(SET_INPUT, 0, b"data")]

    on_virtual_time(main)
    (message,) = caplog.messages
    assert "core 2 (ioserver_usb_ep0) trapped at tick" in message
    assert "in chan_out_word on 0x" in message
    assert ": ILLEGAL_RESOURCE (4): chan_out_word on 0x" in message
    assert message.endswith(", in ioserver_usb_ep0 at ioserver.c:152; the core is halted")


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
