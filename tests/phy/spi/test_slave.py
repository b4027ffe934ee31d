"""The SPI slave on its bus: several transfers, several messages, and answers while all is busy."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from phy.spi.bus import LARGEST_MESSAGE, SpiError, SpiTransfer
from tests.support.benches import spi_master as spi
from tests.support.benches.scripted_engine import Recorded, ScriptedEngine
from tests.support.benches.spi_master import spi_device
from tests.support.peers.usb_host import pattern


def status_read() -> SpiTransfer:
    return SpiTransfer(bytes((spi.GET_STATUS,)) + bytes(6))


def shown(status: int) -> bytes:
    return bytes(3) + status.to_bytes(4, "little")


# Transfers and messages.


async def test_message_of_several_transactions_answers_each() -> None:
    async with spi_device() as device:
        transfers = [SpiTransfer(bytes((spi.GET_ID,)) + bytes(6)), SpiTransfer(b""), status_read()]
        assert await device.bus.message(transfers) == [bytes(3) + spi.ID, b"", shown(0)]


async def test_bytes_are_counted_as_they_are_clocked() -> None:
    async with spi_device() as device:
        before = device.bus.clocked
        await device.bus.message([SpiTransfer(bytes(7)), SpiTransfer(b""), SpiTransfer(bytes(5))])
        assert device.bus.clocked == before + 12


async def test_message_of_no_transfers_answers_none() -> None:
    async with spi_device() as device:
        assert await device.bus.message([]) == []
        assert await device.read(spi.GET_ID, 4) == spi.ID


@pytest.mark.parametrize("places", [(1,), (3,), (4,), (1, 2, 3, 4, 5, 6), (0, 0, 7), (2, 6)])
async def test_read_may_span_transfers(places: tuple[int, ...]) -> None:
    async with spi_device() as device:
        message = spi.cut(bytes((spi.GET_ID,)) + bytes(6), *places)
        assert b"".join(await device.bus.message(message)) == bytes(3) + spi.ID


async def test_read_may_span_messages() -> None:
    async with spi_device() as device:
        miso = await device.bus.message([SpiTransfer(bytes((spi.GET_ID,)), deselect=False)])
        miso += await device.bus.message([SpiTransfer(bytes(4), deselect=False)])
        miso += await device.bus.message([SpiTransfer(bytes(3))])
        assert miso == [bytes(1), bytes(2) + spi.ID[:2], spi.ID[2:] + bytes(1)]


async def test_write_that_spans_messages_acts_at_its_end() -> None:
    async with spi_device() as device:
        await device.bus.message(spi.cut(bytes((spi.SET_INPUT,)) + pattern(100), 1, 50, deselect=False))
        await wait_all_tasks_blocked()
        assert device.commands() == []
        await device.bus.message(spi.cut(pattern(200)[100:], 30))
        await wait_all_tasks_blocked()
        assert device.commands() == [Recorded(spi.SET_INPUT, 0, pattern(200))]


async def test_write_acts_when_its_master_goes_away() -> None:
    async with spi_device() as device:
        await device.bus.message([SpiTransfer(bytes((spi.SET_INPUT, 1, 2, 3)), deselect=False)])
        await device.bus.release()
        await wait_all_tasks_blocked()
        assert device.commands() == [Recorded(spi.SET_INPUT, 0, bytes((1, 2, 3)))]


async def test_transaction_that_never_ends_is_not_kept() -> None:
    async with spi_device() as device:
        await device.bus.message([SpiTransfer(bytes((spi.SET_INPUT,)), deselect=False)])
        for _ in range(4):
            await device.bus.message([SpiTransfer(bytes(LARGEST_MESSAGE), deselect=False)])
        await device.bus.release()
        await wait_all_tasks_blocked()
        assert (len(device.memory.block), device.memory.block_length) == (512, 4 * LARGEST_MESSAGE)
        assert await device.status() == spi.BAD_CMD


async def test_a_message_too_large_is_the_masters_error() -> None:
    async with spi_device() as device:
        with pytest.raises(SpiError, match="1048577 bytes"):
            await device.bus.transfer(bytes(LARGEST_MESSAGE + 1))
        assert await device.read(spi.GET_ID, 4) == spi.ID


@pytest.mark.parametrize("size", [0, 1, 2, 3])
async def test_short_read_leaves_the_slave_ready_for_the_next(size: int) -> None:
    async with spi_device() as device:
        assert await device.transfer(bytes((spi.GET_ID, 0, 0))[:size]) == bytes(size)
        assert await device.read(spi.GET_ID, 4) == spi.ID


async def test_second_write_of_a_message_meets_a_busy_device() -> None:
    async with spi_device() as device:
        await device.bus.message(
            [SpiTransfer(bytes((spi.SET_INPUT, 1))), SpiTransfer(bytes((spi.SET_INPUT, 2))), status_read()]
        )
        await wait_all_tasks_blocked()
        assert device.commands() == [Recorded(spi.SET_INPUT, 0, b"\x01")]


async def test_busy_is_there_in_the_same_message() -> None:
    async with spi_device() as device:
        start = SpiTransfer(bytes((spi.START_INFER,)))
        assert await device.bus.message([start, status_read()]) == [bytes(1), shown(spi.BUSY)]


# A cancelled master.


async def test_message_cancelled_before_it_was_clocked_did_nothing() -> None:
    async with spi_device() as device:
        with trio.CancelScope() as scope:
            scope.cancel()
            await device.bus.transfer(bytes((spi.SET_INPUT, 1, 2)))
        await wait_all_tasks_blocked()
        assert scope.cancelled_caught
        assert device.commands() == []
        assert await device.status() == 0


async def test_message_cancelled_while_it_waits_was_clocked_whole_or_not_at_all() -> None:
    async with spi_device() as device:
        for byte in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(device.bus.message, spi.cut(bytes((spi.SET_INPUT, byte, 1)), 1, 2))
                await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            await wait_all_tasks_blocked()
            assert device.commands() in ([], [Recorded(spi.SET_INPUT, 0, bytes((byte, 1)))])
            assert await device.status() == 0


# While others are busy.


async def test_status_is_answered_while_the_engine_works() -> None:
    async with spi_device() as device:
        device.engine.hold()
        await device.write(spi.START_INFER)
        for _ in range(3):
            assert await device.status() == spi.BUSY
        device.engine.release()
        await wait_all_tasks_blocked()
        assert await device.status() == 0


async def test_status_is_answered_before_the_engine_ever_answered() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with spi_device(engine) as device:
        assert await device.status() == 0
        await device.write(spi.START_INFER)
        assert await device.status() == spi.BUSY
        engine.release()
        await wait_all_tasks_blocked()
        assert await device.status() == 0
        assert device.commands() == [Recorded(spi.START_INFER, 0, b"")]


async def test_what_comes_while_busy_is_refused_and_changes_nothing() -> None:
    async with spi_device() as device:
        device.engine.hold()
        await device.write(spi.START_INFER)
        before = (device.memory.block, device.memory.block_length)
        for command in (spi.SET_INPUT, spi.SET_ARENA, spi.START_INFER, spi.SET_SERVER, 0x7F):
            await device.write(command, pattern(512))
            assert await device.status() == spi.BUSY | spi.BAD_CMD
            assert await device.status() == spi.BUSY
        assert await device.read(spi.GET_ID, 4) == bytes(4)
        assert await device.status() == spi.BUSY | spi.BAD_CMD
        assert (device.memory.block, device.memory.block_length) == before
        device.engine.release()
        await wait_all_tasks_blocked()
        assert device.commands() == [Recorded(spi.START_INFER, 0, b"")]


@pytest.mark.parametrize("hello", [b"\x00", b"\x55", b"\xaa", b"\xab", b"\x55" * 600])
async def test_hello_while_busy_is_no_error(hello: bytes) -> None:
    async with spi_device() as device:
        device.engine.hold()
        await device.write(spi.START_INFER)
        assert await device.transfer(hello) == bytes(len(hello))
        assert await device.status() == spi.BUSY
