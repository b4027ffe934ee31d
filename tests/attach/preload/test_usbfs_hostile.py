"""Clients of the preload socket that misbehave: torn messages, absurd numbers, calls that make no sense."""

import gc
import logging
import os
import struct

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.preload import usbfs_node
from aisrv.attach.preload.wire import Command, Message, WireError
from phy.usb.bus import UsbBus
from tests.support.benches.listeners import end_of
from tests.support.benches.usb_firmware import idle, loopback, source
from tests.support.peers.http_requests import requests
from tests.support.peers.preloaded_usb import (
    CLAIM,
    CONTROL,
    DATA_ADDRESS,
    DISCARD,
    EAGAIN,
    EBUSY,
    EFAULT,
    EINVAL,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOTTY,
    IOCTL,
    POINTER_ADDRESS,
    READ,
    READ_MEMORY,
    REAP,
    RELEASE,
    RESET,
    SUBMIT,
    URB_ADDRESS,
    WRITE,
    PreloadedUsb,
    assert_unused,
    preloaded,
    urb,
)
from tests.support.peers.usbip_host import DEVICE_DESCRIPTOR

OTHER_URB = 0x20000
UINT_ADDRESS = 0x100
CONFIGURATION_DESCRIPTOR = "0902200001010080fa0904000002ffffff030705010200020107058102000201"
SHORT_NOT_OK, ZERO_PACKET = 1, 0x40


async def works(server: PreloadedUsb) -> None:
    """Assert that a new client of the loopback firmware is served."""
    client = await server.open()
    assert await client.submit(urb(0x01, 3), b"abc") == (0, 0)
    await wait_all_tasks_blocked()
    assert await client.reap() == (URB_ADDRESS, 0, 3)
    assert await client.submit(urb(0x81, 512)) == (0, 0)
    await wait_all_tasks_blocked()
    assert await client.reap() == (URB_ADDRESS, 0, 3)
    assert client.memory[DATA_ADDRESS] == b"abc"
    await client.close()


async def test_message_cut_at_any_byte() -> None:
    message = struct.pack("<3Q", IOCTL, SUBMIT, URB_ADDRESS)
    async with preloaded(loopback) as server:
        for cut in range(len(message) + 1):
            client = await server.open()
            await client.stream.send_all(message[:cut])
            await client.close()
            assert_unused(server)
        await works(server)


async def test_memory_cut_at_any_byte() -> None:
    raw = urb(0x01, 20)
    async with preloaded(loopback) as server:
        for cut in range(len(raw) + 20):
            client = await server.open()
            await client.send(IOCTL, SUBMIT, URB_ADDRESS)
            assert struct.unpack("<3Q", await client.receive(24)) == (READ_MEMORY, URB_ADDRESS, 56)
            await client.stream.send_all(raw[:cut])
            if cut >= len(raw):
                assert struct.unpack("<3Q", await client.receive(24)) == (READ_MEMORY, DATA_ADDRESS, 20)
                await client.stream.send_all(bytes(cut - len(raw)))
            await client.close()
            assert_unused(server)
        await works(server)


async def test_message_in_single_bytes() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        for byte in struct.pack("<3Q", IOCTL, 0x551F, 0):
            await client.stream.send_all(bytes((byte,)))
            await wait_all_tasks_blocked()
        assert struct.unpack("<3Q", await client.receive(24)) == (3, 3, 0)
        await client.close()


@pytest.mark.parametrize("command", [0, 2, 3, 9, 0xFF, 2**63])
async def test_unknown_command_ends_the_connection(command: int) -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        with pytest.raises(EOFError):
            await client.call(command)
        await client.close()
        await works(server)


@pytest.mark.parametrize("code", [0, 0x5401, 0x550C, 0x55FF, 0x4008550C, 0xC0185500, 0xFFFFFFFF, 2**63])
async def test_unknown_ioctl(code: int) -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert await client.ioctl(code, 1) == (-1, ENOTTY)
        await client.close()


@pytest.mark.parametrize("code", [SUBMIT, REAP, CLAIM, RELEASE, 0x8004551A, 0x40085511, 0xC0105512])
async def test_null_pointer(code: int) -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        assert await client.ioctl(code, 0) == (-1, EFAULT)
        await client.close()


@pytest.mark.parametrize(
    ("raw", "errno"),
    [
        (urb(0x01, -1), EINVAL),
        (urb(0x01, -(2**31)), EINVAL),
        (urb(0x01, 1, buffer=0), EINVAL),
        (urb(0x01, 1, flags=0x100), EINVAL),
        (urb(0x01, 1, kind=0), EINVAL),
        (urb(0x01, 1, kind=1), EINVAL),
        (urb(0x01, 1, kind=4), EINVAL),
        (urb(0x01, 2**31 - 1), ENOMEM),
        (urb(0x81, 2**31 - 1), ENOMEM),
        (urb(0x81, 16 << 20), ENOMEM),
        (urb(0x02, 1), ENOENT),
        (urb(0x00, 1), ENOENT),
        (urb(0x00, 7, kind=CONTROL), EINVAL),
        (urb(0x01, 8, kind=CONTROL), EINVAL),
        (urb(0x00, 2**31 - 1, kind=CONTROL), ENOMEM),
    ],
)
async def test_request_that_is_refused(raw: bytes, errno: int) -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert await client.submit(raw) == (-1, errno)
        assert server.node.memory == 0
        await client.close()
        await works(server)


async def test_control_transfer_longer_than_its_buffer() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        setup = bytes.fromhex("8006000100001200")
        assert await client.submit(urb(0x80, 8 + 17, kind=CONTROL), setup) == (-1, EINVAL)
        assert await client.submit(urb(0x80, 8 + 18, kind=CONTROL), setup) == (0, 0)
        await wait_all_tasks_blocked()
        assert await client.reap() == (URB_ADDRESS, 0, 18)
        assert client.memory[DATA_ADDRESS + 8].hex() == "12010002ffffff40b1205ea1001001020001"
        await client.close()


async def test_memory_of_all_requests_is_bounded() -> None:
    async with preloaded(idle) as server:
        client, other = await server.open(), await server.open()
        for number in range(15):
            assert await client.submit(urb(0x81, 1 << 20), at=URB_ADDRESS + 64 * number) == (0, 0)
        setup = bytes.fromhex("0009010000000000")
        assert await other.submit(urb(0, 1 << 20, kind=CONTROL), setup) == (-1, ENOMEM)
        assert await client.ioctl(DISCARD, URB_ADDRESS) == (0, 0)
        assert await other.submit(urb(0, 1 << 20, kind=CONTROL), setup) == (-1, ENOMEM), "not reaped yet"
        assert await client.reap() == (URB_ADDRESS, -ENOENT, 0)
        assert await other.submit(urb(0, 1 << 20, kind=CONTROL), setup) == (0, 0)
        await client.close()
        await other.close()


async def test_more_requests_than_may_be_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbfs_node, "MOST_PENDING", 3)
    async with preloaded(idle) as server:
        client = await server.open()
        for number in range(3):
            assert await client.submit(urb(0x81, 1), at=URB_ADDRESS + 64 * number) == (0, 0)
        assert await client.submit(urb(0x81, 1), at=URB_ADDRESS + 64 * 3) == (-1, ENOMEM)
        assert await client.ioctl(DISCARD, URB_ADDRESS) == (0, 0)
        assert await client.submit(urb(0x81, 1), at=URB_ADDRESS + 64 * 3) == (0, 0)
        await client.close()


@pytest.mark.parametrize(
    "raw", [urb(0x81, 1), urb(0x01, 1), urb(0x80, 26, kind=CONTROL)], ids=["in", "out", "control"]
)
async def test_requests_leave_no_garbage(raw: bytes) -> None:
    """The collector, which stops the process, has nothing to find."""
    setup = bytes.fromhex("8006000100001200")
    async with preloaded(source) as server:
        client = await server.open()
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                assert await client.submit(raw, setup) == (0, 0)
                await wait_all_tasks_blocked()
                if await client.ioctl(DISCARD, URB_ADDRESS) != (0, 0):  # of the data that nobody takes
                    assert server.node.memory
                await client.reap()
            assert gc.collect() < 50
        finally:
            gc.enable()
        await client.close()


async def test_same_request_twice() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        assert await client.submit(urb(0x81, 512)) == (0, 0)
        assert await client.submit(urb(0x81, 512)) == (-1, EINVAL)
        await client.close()


async def test_reaping_and_discarding_nothing() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        assert await client.ioctl(REAP, 0x5000) == (-1, EAGAIN)
        assert await client.ioctl(DISCARD, URB_ADDRESS) == (-1, EINVAL)
        await client.close()


async def test_discarding_what_is_done() -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert await client.submit(urb(0x01, 1), b"x") == (0, 0)
        await wait_all_tasks_blocked()
        assert await client.ioctl(DISCARD, URB_ADDRESS) == (-1, EINVAL)
        assert await client.reap() == (URB_ADDRESS, 0, 1)
        await client.close()


async def test_request_taken_back_says_what_had_come() -> None:
    async def half(bus: UsbBus) -> None:
        await bus.in_endpoint.set_buffer(bytes(range(256)) * 2, last=False)

    async with preloaded(half) as server:
        client = await server.open()
        assert await client.submit(urb(0x81, 2048)) == (0, 0)
        await wait_all_tasks_blocked()
        assert await client.ioctl(DISCARD, URB_ADDRESS) == (0, 0)
        assert await client.reap() == (URB_ADDRESS, -ENOENT, 512)
        assert client.memory[DATA_ADDRESS] == bytes(range(256)) * 2
        await client.close()


async def test_short_packet_where_none_is_allowed() -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert await client.submit(urb(0x01, 3), b"abc") == (0, 0)
        await wait_all_tasks_blocked()
        await client.reap()
        assert await client.submit(urb(0x81, 512, flags=SHORT_NOT_OK)) == (0, 0)
        await wait_all_tasks_blocked()
        assert await client.reap() == (URB_ADDRESS, -121, 3)
        await client.close()


async def test_zero_packet_flag() -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert await client.submit(urb(0x01, 512, flags=ZERO_PACKET), bytes(512)) == (0, 0)
        assert await client.submit(urb(0x81, 1024), at=OTHER_URB) == (0, 0)
        await wait_all_tasks_blocked()
        assert await client.reap() == (URB_ADDRESS, 0, 512)
        assert await client.reap() == (OTHER_URB, 0, 512)
        await client.close()


async def test_node_is_writable_only_while_a_request_can_be_reaped() -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert not server.writable()
        assert await client.submit(urb(0x81, 512)) == (0, 0)
        await wait_all_tasks_blocked()
        assert not server.writable()
        assert await client.submit(urb(0x01, 1), b"x", at=OTHER_URB) == (0, 0)
        await wait_all_tasks_blocked()
        assert server.writable()
        await client.reap()
        assert server.writable()
        await client.reap()
        assert not server.writable()
        await client.close()


async def test_requests_of_two_clients_do_not_mix() -> None:
    async with preloaded(loopback) as server:
        first, second = await server.open(), await server.open()
        assert await first.submit(urb(0x01, 1), b"x") == (0, 0)
        await wait_all_tasks_blocked()
        assert await second.ioctl(REAP, 0x5000) == (-1, EAGAIN)
        assert await second.submit(urb(0x81, 512)) == (-1, EBUSY)
        assert await first.reap() == (URB_ADDRESS, 0, 1)
        await first.close()
        assert await second.submit(urb(0x81, 512)) == (0, 0)
        await wait_all_tasks_blocked()
        assert await second.reap() == (URB_ADDRESS, 0, 1)
        await second.close()


async def test_interface_that_is_not_there_or_not_claimed() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        client.memory[UINT_ADDRESS] = struct.pack("<I", 1)
        assert await client.ioctl(CLAIM, UINT_ADDRESS) == (-1, EINVAL)
        client.memory[UINT_ADDRESS] = bytes(4)
        assert await client.ioctl(RELEASE, UINT_ADDRESS) == (-1, EINVAL)
        assert await client.ioctl(CLAIM, UINT_ADDRESS) == (0, 0)
        assert await client.ioctl(CLAIM, UINT_ADDRESS) == (0, 0)
        assert await client.ioctl(RELEASE, UINT_ADDRESS) == (0, 0)
        await client.close()


async def test_configuration_of_a_claimed_device_or_one_that_is_not_there() -> None:
    set_configuration = 0x80045505
    async with preloaded(idle) as server:
        client = await server.open()
        client.memory[UINT_ADDRESS] = struct.pack("<I", 2)
        assert await client.ioctl(set_configuration, UINT_ADDRESS) == (-1, EINVAL)
        client.memory[UINT_ADDRESS] = bytes(4)
        assert await client.ioctl(CLAIM, UINT_ADDRESS) == (0, 0)
        assert await client.ioctl(set_configuration, UINT_ADDRESS) == (-1, EBUSY)
        assert await client.ioctl(RELEASE, UINT_ADDRESS) == (0, 0)
        assert await client.ioctl(set_configuration, UINT_ADDRESS) == (0, 0)
        assert server.bus.configuration == 0
        assert await client.submit(urb(0x81, 512)) == (-1, ENOENT)
        assert await client.ioctl(RESET) == (0, 0)
        assert server.bus.configuration == 1
        await client.close()


async def test_reset_ends_requests() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        assert await client.submit(urb(0x81, 512)) == (0, 0)
        assert await client.ioctl(RESET) == (0, 0)
        assert await client.reap() == (URB_ADDRESS, -108, 0)
        await client.close()


async def test_device_that_left_its_bus_and_comes_back() -> None:
    async with preloaded(loopback) as server:
        client = await server.open()
        assert await client.submit(urb(0x81, 512)) == (0, 0)
        server.bus.unplug()
        await wait_all_tasks_blocked()
        for _ in range(2):
            assert await client.ioctl(RESET) == (-1, ENODEV)
            assert await client.ioctl(CLAIM, 0x100) == (-1, ENODEV)
            server.bus.plug()
            await wait_all_tasks_blocked()
            assert server.node.device_number == 3
        assert await client.reap() == (URB_ADDRESS, -108, 0)
        assert await client.ioctl(REAP, POINTER_ADDRESS) == (-1, ENODEV)
        await client.close()
        await works(server)


async def test_reading_the_node() -> None:
    async with preloaded(idle) as server:
        client = await server.open()
        whole = DEVICE_DESCRIPTOR.hex() + CONFIGURATION_DESCRIPTOR
        assert await client.call(READ, DATA_ADDRESS, 1) == (1, 0)
        assert client.memory[DATA_ADDRESS].hex() == whole[:2]
        assert await client.call(READ, DATA_ADDRESS, 2**63) == (49, 0)
        assert client.memory[DATA_ADDRESS].hex() == whole[2:]
        assert await client.call(READ, DATA_ADDRESS, 512) == (0, 0)
        assert await client.call(READ, DATA_ADDRESS, 0) == (0, 0)
        assert await client.call(WRITE, DATA_ADDRESS, 512) == (-1, EINVAL)
        await client.close()


async def test_client_that_does_not_read_what_it_reaped_holds_nobody_up() -> None:
    async def big(bus: UsbBus) -> None:
        await bus.in_endpoint.set_buffer(bytes(8 << 20))
        await loopback(bus)

    async with preloaded(big) as server:
        client = await server.open()
        assert await client.submit(urb(0x81, 9 << 20)) == (0, 0)
        await wait_all_tasks_blocked()
        await client.send(IOCTL, REAP, 0x5000)
        await wait_all_tasks_blocked()
        other = await server.open()
        assert await other.ioctl(0x551F) == (3, 0)
        await other.close()
        await client.close()
        await works(server)


# The messages as values.


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_message_there_and_back(command: int, first: int, second: int) -> None:
    raw = struct.pack("=3Q", command, first, second)
    assert Message.from_bytes(raw) == Message(command, first, second)
    assert bytes(Message.from_bytes(raw)) == raw


def test_negative_result_is_a_word() -> None:
    assert bytes(Message(Command.DONE, -1, 22)) == struct.pack("=QqQ", 3, -1, 22)


@pytest.mark.parametrize("size", [0, 1, 8, 23, 25, 48])
def test_message_of_another_size(size: int) -> None:
    with pytest.raises(WireError, match=f"has 24 bytes, not {size}"):
        Message.from_bytes(bytes(size))


async def test_no_http_request_is_a_call(caplog: pytest.LogCaptureFixture) -> None:
    """To each socket of the emulated system: those of the nodes, and the one of all other files."""
    async with preloaded(loopback) as server:
        sockets = [path for path in server.preload.directory.rglob("*") if path.is_socket()]
        assert len(sockets) > 1
        for path in sockets:
            for _, request in requests(80, "token"):
                try:
                    stream = await trio.open_unix_socket(os.fspath(path))
                except OSError:  # one that nobody may open
                    break
                async with stream:
                    await stream.send_all(request)
                    await stream.send_eof()
                    assert b"HTTP" not in await end_of(stream)
        await wait_all_tasks_blocked()
        await works(server)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
