"""The SPI buffer: what reaches the engine of a master's writes, and what the shared memory has afterwards."""

import logging

import pytest
from trio.testing import wait_all_tasks_blocked

from aisrv.protocol.engine_channel import MODEL_CHANGED
from aisrv.xcore.tokens import Control
from tests.support.benches import spi_master as spi
from tests.support.benches.scripted_engine import Recorded, ScriptedEngine
from tests.support.benches.spi_master import Server, SpiDevice, spi_device
from tests.support.peers.usb_host import pattern

SETS = (spi.SET_ARENA, spi.SET_EXT, spi.SET_INPUT)
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 509, 510, 511, 512, 513, 514, 515, 1023, 1024, 1025, 2048, 100_000, 100_003)


async def assert_results(device: SpiDevice, output: bytes, timings: bytes) -> None:
    assert await device.read(spi.GET_OUTPUT, 12) == output.ljust(12, b"\0")
    assert await device.read(spi.GET_TIMINGS, 18) == timings.ljust(18, b"\0")


# At start.


async def test_spec_has_a_sixth_word_and_the_id_is_the_engines() -> None:
    async with spi_device() as device:
        assert await device.read(spi.GET_SPEC, 24) == spi.SPEC + bytes(4)
        assert await device.read(spi.GET_ID, 4) == spi.ID
        await assert_results(device, b"", b"")
        assert await device.read(spi.GET_DEBUG_LOG, 40) == bytes(40)
        assert await device.status() == 0


# Sets.


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("command", SETS, ids=hex)
async def test_set_reaches_the_engine_whole(command: int, size: int) -> None:
    async with spi_device() as device:
        assert await device.set(command, pattern(size)) == 0
        assert device.commands() == [Recorded(command, 0, pattern(size))]


async def test_blocks_are_passed_on_as_they_come() -> None:
    async with spi_device() as device:
        asked = list(device.engine.commands)
        await device.write(spi.SET_ARENA, pattern(512))
        assert device.engine.commands == asked  # not at its end
        await device.write(spi.SET_ARENA, b"")
        assert device.commands() == [Recorded(spi.SET_ARENA, 0, pattern(512))]


async def test_sets_follow_each_other() -> None:
    async with spi_device() as device:
        for data in (pattern(512), b"", pattern(700)):
            assert await device.set(spi.SET_INPUT, data) == 0
        expected = [Recorded(spi.SET_INPUT, 0, data) for data in (pattern(512), b"", pattern(700))]
        assert device.commands() == expected


async def test_reads_in_the_middle_of_a_set_do_not_disturb_it() -> None:
    async with spi_device() as device:
        await device.write(spi.SET_ARENA, pattern(512))
        assert await device.read(spi.GET_ID, 4) == spi.ID
        assert await device.read(spi.GET_SPEC, 20) == spi.SPEC
        await device.write(spi.HELLO)
        await device.write(0x7F)
        await device.write(spi.SET_ARENA, b"end")
        assert device.commands() == [Recorded(spi.SET_ARENA, 0, pattern(512) + b"end")]
        assert await device.status() == spi.BAD_CMD  # of 0x7F alone


@pytest.mark.parametrize("size", [513, 1024, 5000])
async def test_block_that_is_too_long_is_dropped(size: int) -> None:
    async with spi_device() as device:
        await device.write(spi.SET_INPUT, pattern(size))
        assert device.commands() == []
        assert await device.status() == spi.BAD_CMD
        assert await device.set(spi.SET_INPUT, b"next") == 0
        assert device.commands() == [Recorded(spi.SET_INPUT, 0, b"next")]


async def test_block_that_is_too_long_ends_its_set() -> None:
    async with spi_device() as device:
        await device.write(spi.SET_INPUT, pattern(512))
        await device.write(spi.SET_INPUT, pattern(513))
        assert await device.status() == spi.BAD_CMD
        assert device.commands() == [Recorded(spi.SET_INPUT, 0, pattern(512), abandoned=True)]


@pytest.mark.parametrize("size", [0, 5, 512])
@pytest.mark.parametrize("command", [spi.SET_INPUT, spi.SET_EXT], ids=hex)
async def test_another_write_gives_the_set_up(
    command: int, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with spi_device() as device:
        with caplog.at_level(logging.WARNING, "phy.spi"):
            await device.write(spi.SET_ARENA, pattern(512))
            assert await device.set(command, pattern(size)) == 0
        assert device.commands() == [
            Recorded(spi.SET_ARENA, 0, pattern(512), abandoned=True),
            Recorded(command, 0, pattern(size)),
        ]
    assert len(caplog.messages) == 1
    assert "SET_MODEL_ARENA was given up" in caplog.messages[0]


# What is refreshed.


@pytest.mark.parametrize("command", [spi.SET_ARENA, spi.SET_EXT], ids=hex)
@pytest.mark.parametrize("status", [0, spi.MODEL_ERR])
async def test_model_brings_its_spec_and_no_results(command: int, status: int) -> None:
    async with spi_device() as device:
        await device.write(spi.START_INFER)
        await assert_results(device, spi.OUTPUT, spi.TIMINGS)
        device.engine.answers[spi.GET_SPEC] = spi.OTHER_SPEC
        device.engine.statuses[command] = status
        assert await device.set(command, pattern(600)) == status
        assert await device.read(spi.GET_SPEC, 24) == spi.OTHER_SPEC + bytes(4)
        await assert_results(device, b"", b"")


@pytest.mark.parametrize("padding", [b"", b"\0", bytes(4), bytes(512), bytes(513), pattern(2000)])
async def test_inference_brings_output_and_timings_whatever_follows_the_command(padding: bytes) -> None:
    async with spi_device() as device:
        await device.write(spi.START_INFER, padding)
        assert await device.status() == 0
        await assert_results(device, spi.OUTPUT, spi.TIMINGS)
        assert device.commands() == [Recorded(spi.START_INFER, 0, b"")]


async def test_results_are_there_before_busy_clears() -> None:
    async with spi_device() as device:
        device.engine.hold()
        await device.write(spi.START_INFER)
        device.engine.release()
        status = spi.BUSY
        while status & spi.BUSY:  # no turn is given to the others but by the bus
            status = await device.status()
        await assert_results(device, spi.OUTPUT, spi.TIMINGS)


async def test_model_without_outputs_is_asked_for_none() -> None:
    spec = spi.SPEC[:12] + bytes(4) + spi.SPEC[16:]
    async with spi_device(ScriptedEngine(answers={spi.GET_SPEC: spec})) as device:
        await device.write(spi.START_INFER)
        asked = {each.command for each in device.engine.commands}
        assert {spi.START_INFER, spi.GET_TIMINGS} <= asked
        assert spi.GET_OUTPUT not in asked
        await assert_results(device, b"", spi.TIMINGS)


# Failures.


@pytest.mark.parametrize("status", [spi.NO_MODEL, spi.MODEL_ERR, spi.INFER_ERR, spi.BAD_CMD, 0x3C])
async def test_failure_shows_in_the_status_once_and_in_the_debug_log(status: int) -> None:
    async with spi_device() as device:
        device.engine.statuses[spi.START_INFER] = status
        await device.write(spi.START_INFER)
        assert await device.read(spi.GET_ID, 4) == spi.ID
        assert await device.status() == status
        assert await device.status() == 0
        assert await device.read(spi.GET_DEBUG_LOG, 2048) == spi.LOG


async def test_errors_within_one_action_add_up() -> None:
    """The model is refused, and so is the question for the spec after it."""
    async with spi_device() as device:
        device.engine.statuses[spi.SET_ARENA] = spi.MODEL_ERR
        device.engine.statuses[spi.GET_SPEC] = spi.BAD_CMD
        assert await device.set(spi.SET_ARENA, b"model") == spi.MODEL_ERR | spi.BAD_CMD


async def test_failure_shows_no_earlier_than_busy_clears() -> None:
    async with spi_device() as device:
        device.engine.statuses[spi.START_INFER] = spi.NO_MODEL
        device.engine.hold()
        await device.write(spi.START_INFER)
        device.engine.release()
        seen = [await device.status()]
        while seen[-1] == spi.BUSY:
            seen.append(await device.status())
        assert set(seen[:-1]) == {spi.BUSY}
        assert seen[-1] == spi.NO_MODEL


async def test_bits_that_are_no_errors_do_not_come_from_an_engine() -> None:
    async with spi_device() as device:
        device.engine.statuses[spi.START_INFER] = 0x47
        await device.write(spi.START_INFER)
        assert await device.status() == spi.NO_MODEL


# Acquisition.


async def test_status_is_sensing_while_an_acquisition_lasts() -> None:
    async with spi_device() as device:
        device.engine.hold()
        await device.write(spi.ACQUIRE_SINGLE)
        assert [await device.status(), await device.status()] == [spi.BUSY | spi.SENSING] * 2
        device.engine.release()
        await wait_all_tasks_blocked()
        assert await device.status() == 0


@pytest.mark.parametrize(
    ("sent", "reached"), [(b"", b""), (bytes(3), b""), (bytes(512), b""), (pattern(12), pattern(12))]
)
async def test_acquisition_takes_a_region_and_drops_padding(sent: bytes, reached: bytes) -> None:
    async with spi_device() as device:
        await device.write(spi.ACQUIRE_SINGLE, sent)
        assert device.commands() == [Recorded(spi.ACQUIRE_SINGLE, 0, reached)]
        assert await device.status() == 0


async def test_what_the_layer_refuses_is_in_the_debug_log_for_hosts_on_usb_too() -> None:
    async with spi.spi_and_usb() as (master, device):
        await master.write(0x7F)
        await master.write(spi.SET_INPUT, bytes(513))
        assert await master.set(spi.SET_SERVER, b"firmware") & spi.BAD_CMD
        log = bytes(device.engines[0].log).rstrip(b"\0").decode().splitlines()
        assert log[:3] == [
            "SPI: command 0x7f refused: SPI has no such command",
            "SPI: SET_INPUT_TENSOR refused: 513 bytes, a block has at most 512",
            "SPI: SET_SERVER refused: the board has no flash",
        ]
        assert b"SPI: command 0x7f refused" in await master.read(spi.GET_DEBUG_LOG, 2048)


# The server image.


@pytest.mark.parametrize("size", [0, 511, 512, 1025])
async def test_server_image_without_a_place_is_drained_and_refused(size: int) -> None:
    async with spi_device() as device:
        assert await device.set(spi.SET_SERVER, pattern(size)) == spi.BAD_CMD
        assert device.commands() == []
        assert await device.read(spi.GET_ID, 4) == spi.ID


@pytest.mark.parametrize("status", [0, spi.BAD_CMD])
async def test_server_image_goes_to_its_place(status: int) -> None:
    server = Server(status)
    async with spi_device(server=server) as device:
        assert await device.set(spi.SET_SERVER, pattern(1027)) == status
        assert device.commands() == []
    blocks = [("data", pattern(1027)[:512]), ("data", pattern(1027)[512:1024])]
    assert server.calls == [("begin", b""), *blocks, ("end", pattern(1027)[1024:])]


async def test_server_image_that_is_given_up_is_told_so() -> None:
    server = Server()
    async with spi_device(server=server) as device:
        await device.write(spi.SET_SERVER, pattern(512))
        await device.write(spi.START_INFER)
        assert await device.status() == 0
        assert device.commands() == [Recorded(spi.START_INFER, 0, b"")]
    assert server.calls == [("begin", b""), ("data", pattern(512)), ("abandon", b"")]


# Notifications of the engine's model.


async def test_notification_is_acknowledged_and_brings_the_spec_and_no_results() -> None:
    async with spi_device() as device:
        await device.write(spi.START_INFER)
        device.engine.answers[spi.GET_SPEC] = spi.OTHER_SPEC
        for _ in range(2):
            await device.notifications.outct(MODEL_CHANGED)
            await device.notifications.chkct(Control.ACK)
        await wait_all_tasks_blocked()
        assert await device.read(spi.GET_SPEC, 24) == spi.OTHER_SPEC + bytes(4)
        await assert_results(device, b"", b"")
        assert await device.status() == 0


async def test_notification_in_the_middle_of_a_set_waits_for_its_end() -> None:
    async with spi_device() as device:
        await device.write(spi.SET_INPUT, pattern(512))
        device.engine.answers[spi.GET_SPEC] = spi.OTHER_SPEC
        await device.notifications.outct(MODEL_CHANGED)
        assert await device.read(spi.GET_SPEC, 20) == spi.SPEC
        assert not device.notifications.ready
        await device.write(spi.SET_INPUT, b"end")
        assert await device.read(spi.GET_SPEC, 20) == spi.OTHER_SPEC
        await device.notifications.chkct(Control.ACK)
        assert device.commands() == [Recorded(spi.SET_INPUT, 0, pattern(512) + b"end")]


@pytest.mark.parametrize(
    ("command", "output", "timings"),
    [(spi.START_INFER, spi.OUTPUT, spi.TIMINGS), (spi.ACQUIRE_SINGLE, b"frame", b"")],
)
async def test_notification_before_results_leaves_them(command: int, output: bytes, timings: bytes) -> None:
    """The model changes while the command waits for the engine: the results are those of the new model."""
    async with spi_device(ScriptedEngine(answers={spi.GET_SENSOR: b"frame"})) as device:
        device.engine.hold()
        await device.write(command)
        await device.notifications.outct(MODEL_CHANGED)
        device.engine.answers[spi.GET_SPEC] = spi.OTHER_SPEC
        device.engine.release()
        await wait_all_tasks_blocked()
        await device.notifications.chkct(Control.ACK)
        assert await device.read(spi.GET_SPEC, 20) == spi.OTHER_SPEC
        await assert_results(device, output, timings)
