"""The spidev node without any attachment: values, and what happens to its settings and its bus."""

import struct
from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.spidev.file import SpidevNode
from aisrv.attach.spidev.ioctls import (
    Ioctl,
    Region,
    SpidevError,
    SpiIocTransfer,
    message_size,
)
from tests.support.benches.spi_echo import EchoSlave, echo

EINVAL, ENOTTY, EFAULT, EMSGSIZE = 22, 25, 14, 90
ARRAY, DATA, ANSWER = 0x1000, 0x2000, 0x3000


class Memory:
    """A program's memory; regions are found by their address."""

    def __init__(self, contents: dict[int, bytes]) -> None:
        self.contents = contents

    async def fetch(self, reads: Sequence[Region], writes: Sequence[Region]) -> list[bytes]:
        for each in (*reads, *writes):
            if each.size and not each.address:
                raise SpidevError(EFAULT)
        return [self.contents[each.address][: each.size] if each.size else b"" for each in reads]

    def store(self, region: Region, data: bytes) -> None:
        assert len(data) == region.size
        self.contents[region.address] = data


# Values.


def test_transfer_has_the_layout_of_the_kernels_header() -> None:
    raw = struct.pack("<QQIIHBBBBBB", 0x1122, 0x3344, 5, 6, 7, 8, 9, 1, 2, 3, 0)
    assert len(raw) == 32
    assert SpiIocTransfer.from_bytes(raw) == SpiIocTransfer(0x1122, 0x3344, 5, 6, 7, 8, 9, 1, 2, 3)


@given(st.binary(min_size=31, max_size=31))
def test_transfer_there_and_back(raw: bytes) -> None:
    assert bytes(SpiIocTransfer.from_bytes(raw + b"\0")) == raw + b"\0"


@pytest.mark.parametrize("size", [0, 31, 33])
def test_transfer_of_another_size(size: int) -> None:
    with pytest.raises(ValueError, match=f"has 32 bytes, not {size}"):
        SpiIocTransfer.from_bytes(bytes(size))


@pytest.mark.parametrize(("count", "code"), [(0, 0x40006B00), (1, 0x40206B00), (511, 0x7FE06B00)])
def test_message_codes(count: int, code: int) -> None:
    assert message_size(code) == count * 32


@pytest.mark.parametrize(
    ("code", "errno"),
    [
        (0x40016B00, EINVAL),
        (0x401F6B00, EINVAL),
        (0x7FFF6B00, EINVAL),
        (0x80206B00, ENOTTY),
        (0xC0206B00, ENOTTY),
        (0x00206B00, ENOTTY),
        (0x40206B06, ENOTTY),
        (0x40206A00, ENOTTY),
        (0, ENOTTY),
        (0xFFFFFFFF, ENOTTY),
    ],
)
def test_codes_that_are_no_messages(code: int, errno: int) -> None:
    with pytest.raises(SpidevError) as raised:
        message_size(code)
    assert raised.value.errno == errno


# Settings.


async def test_files_share_the_settings_and_the_last_close_resets_the_speed() -> None:
    node = SpidevNode(EchoSlave().bus)
    first, second = node.open(), node.open()
    await first.ioctl(Ioctl.WR_MAX_SPEED_HZ, DATA, Memory({DATA: struct.pack("I", 1000)}))
    await first.ioctl(Ioctl.WR_MODE, DATA, Memory({DATA: b"\3"}))
    await first.close()
    assert (node.max_speed_hz, node.mode) == (1000, 3)
    await second.close()
    assert (node.max_speed_hz, node.mode) == (50_000_000, 3)


async def test_refused_setting_changes_nothing() -> None:
    node = SpidevNode(EchoSlave().bus)
    file = node.open()
    await file.ioctl(Ioctl.WR_MODE, DATA, Memory({DATA: b"\1"}))
    with pytest.raises(SpidevError):
        await file.ioctl(Ioctl.WR_MODE32, DATA, Memory({DATA: struct.pack("I", 0x10000)}))
    assert node.mode == 1


# The bus.


async def test_chip_select_goes_high_when_the_last_file_is_closed() -> None:
    slave = EchoSlave()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.run)
        node = SpidevNode(slave.bus)
        file, other = node.open(), node.open()
        array = bytes(SpiIocTransfer(tx_buf=DATA, rx_buf=ANSWER, length=3, cs_change=1))
        memory = Memory({ARRAY: array, DATA: b"abc"})
        assert await file.ioctl(0x40206B00, ARRAY, memory) == 3
        assert memory.contents[ANSWER] == echo(b"abc")
        await file.close()
        assert (slave.transactions, slave.sent) == ([], b"abc")
        await other.close()
        assert (slave.transactions, slave.sent) == ([b"abc"], b"")
        nursery.cancel_scope.cancel()


async def test_close_with_chip_select_high_clocks_nothing() -> None:
    slave = EchoSlave()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.run)
        file = SpidevNode(slave.bus).open()
        assert await file.read(2) == echo(bytes(2))
        await file.close()
        assert len(slave.transfers) == 1
        nursery.cancel_scope.cancel()


async def test_absurd_length_takes_no_memory_and_clocks_nothing() -> None:
    file = SpidevNode(EchoSlave().bus).open()
    array = b"".join(bytes(SpiIocTransfer(length=0xFFFFFFFF)) for _ in range(511))
    with pytest.raises(SpidevError) as raised:
        await file.ioctl(0x7FE06B00, ARRAY, Memory({ARRAY: array}))
    assert raised.value.errno == EMSGSIZE


async def test_cancelled_message_leaves_the_bus_usable() -> None:
    slave = EchoSlave()
    file = SpidevNode(slave.bus).open()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_when_blocked, scope)
            await file.write(b"never")
        nursery.start_soon(slave.run)
        assert await file.write(b"now") == 3
        assert slave.transactions == [b"now"]
        nursery.cancel_scope.cancel()


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()
