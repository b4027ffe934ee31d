"""Hosts that die at random moments: the device stays, and nothing of them is left."""

import gc
import logging
import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.connection import Connection
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board
from aisrv.device.device import Device, ModelRefused, open_devices
from tests.support.amounts import amount
from tests.support.usbip_host import (
    CLEAR_HALT_IN,
    CLEAR_HALT_OUT,
    GET_DEVICE_DESCRIPTOR,
    SET_CONFIGURATION,
    Answer,
    UsbipHost,
    control_in,
    control_out,
    count_descriptors,
    count_tasks,
    request_import,
    submit_in,
    submit_out,
    unlink,
)

KILLS = amount(1000, every_day=50)
"""Hosts that die."""

WARM_UP = 20
"""Hosts that die before memory is first measured: what is kept once is there then."""

BYTES_IN_ALL = 48 * 1024
"""Growth that is none: the debug log, and tables that grow to a size; after 1000 hosts or 3000, 33 kB."""

GET_STATUS, GET_ID = b"\x01\0\0", b"\x10\0\0"


def requests(dice: random.Random) -> bytes:
    """Some requests of a host, not all of which make sense."""
    messages = []
    for seqnum in range(1, dice.randrange(2, 20)):
        command = bytes((dice.choice((0x01, 0x0F, 0x10, 0x08, 0x83, 0x86, 0x91, 0x7F)), 0, 0))
        size = dice.choice((0, 1, 3, 4, 511, 512, 513, 1024, 70_000))
        messages.append(
            dice.choice(
                (
                    submit_out(seqnum, command),
                    submit_out(seqnum, dice.randbytes(size)),
                    submit_in(seqnum, dice.choice((0, 512, 4096, 100_000))),
                    unlink(seqnum, dice.randrange(1, 20)),
                    control_in(seqnum, GET_DEVICE_DESCRIPTOR),
                    control_out(seqnum, dice.choice((SET_CONFIGURATION, CLEAR_HALT_IN, CLEAR_HALT_OUT))),
                )
            )
        )
    return b"".join(messages)


async def die(port: int, dice: random.Random) -> None:
    """Be a host that stops within what it has to say: broken off, or closed with answers unread or read."""
    host = UsbipHost(await trio.open_tcp_stream("127.0.0.1", port))
    if dice.random() < 0.8:
        await host.attach()
        said = requests(dice)
    else:
        said = request_import()
    await host.stream.send_all(said[: dice.randrange(len(said) + 1)])
    if dice.random() < 0.7:
        await wait_all_tasks_blocked()
    if dice.random() < 0.3:
        with trio.move_on_after(0):
            await host.stream.receive_some(dice.randrange(1, 4096))
    if dice.random() < 0.5:
        host.reset()
    else:
        await host.stream.aclose()
    await wait_all_tasks_blocked()


async def assert_sound(port: int) -> None:
    """A new host gets the device, as if it had just been plugged in."""
    host = UsbipHost(await trio.open_tcp_stream("127.0.0.1", port))
    await host.attach()
    await get(host, 1, GET_STATUS)  # errors are remembered until they are read
    assert await get(host, 3, GET_STATUS) == bytes(4)
    assert await get(host, 5, GET_ID) == b"\x78\x56\x34\x12"
    await host.leave()
    await host.stream.aclose()
    await wait_all_tasks_blocked()


async def get(host: UsbipHost, seqnum: int, command: bytes) -> bytes:
    """Carry out a command that reads a word; uses two numbers."""
    await host.send(submit_out(seqnum, command), submit_in(seqnum + 1, 512))
    out, into = sorted(await host.answers(2), key=lambda answer: answer.seqnum)
    assert (out, into.status) == (Answer(3, seqnum, 0, 3), 0)
    return into.data


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Device, int]]:
    async with open_devices([Board()]) as (device,), trio.open_nursery() as nursery:
        server = UsbipServer(export_all([device.usb]))
        _, port = await nursery.start(server.serve, "127.0.0.1", 0)
        await wait_all_tasks_blocked()
        yield device, port
        nursery.cancel_scope.cancel()


def allocated() -> int:
    """Bytes that Python has allocated, and has not to keep for garbage."""
    UsbipHost.close_all()
    # Trio drops deadlines that no longer hold when a thousand have gathered, or when they come due.
    GLOBAL_RUN_CONTEXT.runner.deadlines._prune()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def connections() -> int:
    """Connections that are alive as objects."""
    gc.collect()
    return sum(type(each) is Connection for each in gc.get_objects())


@pytest.mark.in_full
async def test_hosts_killed_at_random_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # what is logged would be kept in memory
    dice = random.Random(20)
    async with served() as (device, port):
        with pytest.raises(ModelRefused):
            await device.load_model(b"")  # so that the parser is imported
        for _ in range(WARM_UP):
            await die(port, dice)
            await assert_sound(port)
        tasks, descriptors = count_tasks(), count_descriptors()
        tracemalloc.start()
        try:
            await die(port, dice)
            await assert_sound(port)
            before = allocated()
            for _ in range(KILLS):
                await die(port, dice)
                await assert_sound(port)
                assert (count_tasks(), count_descriptors()) == (tasks, descriptors)
            growth = allocated() - before
        finally:
            tracemalloc.stop()
        assert connections() == 0
        assert bytes(device.engines[0].log).count(b"the engine does not know this command") > 1
        assert (device.usb.out_endpoint.pending, device.usb.in_endpoint.pending) == (0, 0)
        assert growth < BYTES_IN_ALL
