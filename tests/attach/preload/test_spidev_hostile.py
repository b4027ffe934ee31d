"""Clients of a spidev node's preload socket that misbehave."""

import struct

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.support.benches.spi_echo import echo
from tests.support.peers.preloaded_spidev import PreloadedSpidev, spidev_preloaded
from tests.support.peers.preloaded_usb import IOCTL, READ, WRITE
from tests.support.peers.spidev_messages import MESSAGE_OF_1, MESSAGE_OF_2, ioc_transfer

ARRAY, DATA, ANSWER = 0x10000, 0x20000, 0x30000
EFAULT, EINVAL, ENOTTY, EMSGSIZE = 14, 22, 25, 90


async def works(server: PreloadedSpidev) -> None:
    """Assert that a new client is served, from a high chip select on."""
    client = await server.open()
    client.memory[DATA] = b"abc"
    assert await client.call(WRITE, DATA, 3) == (3, 0)
    assert await client.call(READ, ANSWER, 2) == (2, 0)
    assert client.memory[ANSWER] == echo(bytes(2))
    await client.close()


async def test_message_cut_at_any_byte() -> None:
    async with spidev_preloaded() as server:
        for cut in range(25):
            client = await server.open()
            await client.stream.send_all(struct.pack("<3Q", WRITE, DATA, 3)[:cut])
            await client.close()
            await server.unused()
        assert server.slave.transfers == []
        await works(server)


async def test_memory_cut_at_any_byte() -> None:
    raw = ioc_transfer(DATA, ANSWER, 20)
    async with spidev_preloaded() as server:
        for cut in range(len(raw) + 20):
            client = await server.open()
            await client.send(IOCTL, MESSAGE_OF_1, ARRAY)
            assert struct.unpack("<3Q", await client.receive(24)) == (5, ARRAY, 32)
            await client.stream.send_all(raw[:cut])
            if cut >= len(raw):
                assert struct.unpack("<3Q", await client.receive(24)) == (5, DATA, 20)
                await client.stream.send_all(bytes(cut - len(raw)))
            await client.close()
            await server.unused()
        assert server.slave.transfers == []
        await works(server)


async def test_memory_of_several_transfers_is_asked_for_at_once() -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        await client.send(IOCTL, MESSAGE_OF_2, ARRAY)
        await client.receive(24)
        await client.stream.send_all(ioc_transfer(DATA, 0, 2) + ioc_transfer(DATA + 2, 0, 1))
        assert struct.unpack("<6Q", await client.receive(48)) == (5, DATA, 2, 5, DATA + 2, 1)
        await client.stream.send_all(b"ab" + b"c")
        assert struct.unpack("<3Q", await client.receive(24)) == (3, 3, 0)
        assert server.slave.transactions == [b"abc"]
        await client.close()


@pytest.mark.parametrize("command", [0, 2, 3, 9, 0xFF, 2**63])
async def test_unknown_command_ends_the_connection(command: int) -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        with pytest.raises(EOFError):
            await client.call(command)
        await client.close()
        await works(server)


@pytest.mark.parametrize("size", [4097, 2**31, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("command", [READ, WRITE])
async def test_absurd_size(command: int, size: int) -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        assert await client.call(command, DATA, size) == (-1, EMSGSIZE)
        await client.close()
        assert server.slave.transfers == []


@pytest.mark.parametrize(
    ("raw", "errno"),
    [
        (ioc_transfer(DATA, 0, 0xFFFFFFFF), EMSGSIZE),
        (ioc_transfer(0, ANSWER, 0xFFFFFFFF), EMSGSIZE),
        (ioc_transfer(0, 0, 0xFFFFFFFF), EMSGSIZE),
        (ioc_transfer(0, 0, (1 << 20) + 1), EMSGSIZE),
        (ioc_transfer(1, 0, 1), EFAULT),
        (ioc_transfer(0, 1, 1), EFAULT),
        (ioc_transfer(2**64 - 1, 0, 4), EFAULT),
        (ioc_transfer(0, 2**63, 4), EFAULT),
    ],
)
async def test_absurd_transfer(raw: bytes, errno: int) -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        client.memory[ARRAY] = raw
        assert await client.ioctl(MESSAGE_OF_1, ARRAY) == (-1, errno)
        await client.close()
        assert server.slave.transfers == []
        await works(server)


async def test_largest_message_without_buffers() -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        client.memory[ARRAY] = ioc_transfer(0, 0, 1 << 20)
        assert await client.ioctl(MESSAGE_OF_1, ARRAY) == (1 << 20, 0)
        assert server.slave.transactions == [bytes(1 << 20)]
        await client.close()


async def test_empty_transfer_needs_no_memory() -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        client.memory[ARRAY] = ioc_transfer(1, 1, 0)
        assert await client.ioctl(MESSAGE_OF_1, ARRAY) == (0, 0)
        assert server.slave.transactions == [b""]
        await client.close()


async def test_client_that_leaves_with_chip_select_low_lets_it_go_high() -> None:
    async with spidev_preloaded() as server:
        client = await server.open()
        client.memory |= {ARRAY: ioc_transfer(DATA, 0, 3, cs_change=1), DATA: b"abc"}
        assert await client.ioctl(MESSAGE_OF_1, ARRAY) == (3, 0)
        assert server.slave.sent == b"abc"
        await client.close()
        await wait_all_tasks_blocked()
        assert (server.slave.transactions, server.slave.sent) == ([b"abc"], b"")
        await works(server)
