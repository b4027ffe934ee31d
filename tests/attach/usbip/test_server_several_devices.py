"""Several real devices behind one server: none of them waits for another one's host."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.server import BUS_DEVICES, UsbipServer, export_all
from aisrv.board import Board
from aisrv.device.device import open_devices
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from tests.support.oracles.process_resources import count_tasks
from tests.support.peers.usbip_host import Answer, UsbipHost, submit_in, submit_out

GET_STATUS = b"\x01\0\0"
GET_DEBUG_LOG = b"\x0f\0\0"
SET_INPUT_TENSOR = b"\x83\0\0"
SET_MODEL_ARENA = b"\x86\0\0"
LOG_BYTES = 2048

FIRST, SECOND = 0x10001, 0x10002
TIMES = 100
GENEROUS = 20.0
"""Seconds for a test's exchanges, which take a fraction of one."""


@dataclass
class Devices:
    """Devices that are served."""

    port: int
    tasks: int

    async def attach(self, number: int) -> UsbipHost:
        host = UsbipHost(await trio.open_tcp_stream("127.0.0.1", self.port))
        await host.attach(f"1-{number}")
        return host


@asynccontextmanager
async def served(count: int) -> AsyncIterator[Devices]:
    """Serve real devices; at the end no task of a connection may be left."""
    async with open_devices([Board()] * count) as devices, trio.open_nursery() as nursery:
        server = UsbipServer(export_all([device.usb for device in devices]))
        _, port = await nursery.start(server.serve, "127.0.0.1", 0)
        await wait_all_tasks_blocked()
        with trio.fail_after(GENEROUS):
            tasks = count_tasks()
            try:
                yield Devices(port, tasks)
            finally:
                UsbipHost.close_all()
            await wait_all_tasks_blocked(0.01)
            assert count_tasks() == tasks
        nursery.cancel_scope.cancel()


async def get_status(host: UsbipHost, devid: int) -> None:
    """Ask a device for its status, which is OKAY: a word of zeros."""
    await host.send(submit_out(1, GET_STATUS, devid=devid), submit_in(2, 512, devid=devid))
    answers = sorted(await host.answers(2), key=lambda answer: answer.seqnum)
    assert answers == [Answer(3, 1, 0, 3), Answer(3, 2, 0, 4, bytes(4))]


async def test_each_device_answers_for_itself() -> None:
    async with served(3) as devices:
        hosts = [await devices.attach(number) for number in (1, 2, 3)]
        unknown = b"\x7f\0\0"
        assert await hosts[1].ask(submit_out(1, unknown, devid=SECOND)) == Answer(3, 1, 0, 3)
        # The classic framing tells of an unknown command by a halt: on that device, on no other.
        assert (await hosts[1].ask(submit_in(2, 512, devid=SECOND))).status == -32
        await get_status(hosts[0], FIRST)
        await get_status(hosts[2], 0x10003)


@pytest.mark.plain_time("it counts turns of transfers that take no time")
async def test_flood_of_small_requests_at_one_device_leaves_the_other_its_turn() -> None:
    """Between two answers of the one device, the other takes no more than two buffers full of requests."""
    taken = 0
    async with served(2) as devices, trio.open_nursery() as nursery:
        flooding, asking = await devices.attach(1), await devices.attach(2)

        async def flood() -> None:
            await flooding.send(submit_out(1, SET_INPUT_TENSOR))
            number = 1
            while True:
                batch = [submit_out(number := number + 1, bytes(512)) for _ in range(64)]
                await flooding.send(*batch)

        async def count() -> None:
            nonlocal taken
            while True:
                assert (await flooding.answer()).status == 0
                taken += 1

        nursery.start_soon(flood)
        nursery.start_soon(count)
        while taken < 1000:
            await get_status(asking, SECOND)
        most, before = 0, taken
        for _ in range(TIMES):
            await get_status(asking, SECOND)
            most, before = max(most, taken - before), taken
        nursery.cancel_scope.cancel()
    assert most <= 1000


async def test_host_that_never_reads_leaves_the_other_alone() -> None:
    """Its answers, 4 MB and more, fill the socket and then wait in the server."""
    async with served(2) as devices, trio.open_nursery() as nursery:
        silent, asking = await devices.attach(1), await devices.attach(2)
        sent = 0

        async def never_read() -> None:
            nonlocal sent
            while True:
                messages = [
                    message
                    for number in range(sent + 1, sent + 129, 2)
                    for message in (submit_out(number, GET_DEBUG_LOG), submit_in(number + 1, 2 * LOG_BYTES))
                ]
                await silent.stream.send_all(b"".join(messages))
                sent += 128

        nursery.start_soon(never_read)
        while sent < 4096:
            await get_status(asking, SECOND)
        for _ in range(TIMES):
            await get_status(asking, SECOND)
        nursery.cancel_scope.cancel()


async def test_hosts_killed_in_mid_transfer_disturb_no_other() -> None:
    async with served(2) as devices:
        asking = await devices.attach(2)
        for round_ in range(20):
            dying = await devices.attach(1)
            assert await dying.ask(submit_out(1, SET_MODEL_ARENA)) == Answer(3, 1, 0, 3)
            whole = submit_out(2, bytes(256 * 1024))
            await dying.stream.send_all(whole[: 48 + 12_345 * round_])
            await get_status(asking, SECOND)
            dying.reset()
            await get_status(asking, SECOND)
            await wait_all_tasks_blocked()
        await get_status(await devices.attach(1), FIRST)


@pytest.mark.parametrize("count", [1, 2, BUS_DEVICES])
def test_devices_of_one_bus(count: int) -> None:
    records = [each.record for each in export_all([UsbBus(aisrv_descriptors())] * count)]
    assert [record.busid for record in records] == [f"1-{port}" for port in range(1, count + 1)]
    assert [record.devid for record in records] == list(range(0x10001, 0x10001 + count))


def test_bus_that_is_full_is_followed_by_another() -> None:
    records = [each.record for each in export_all([UsbBus(aisrv_descriptors())] * (2 * BUS_DEVICES + 1))]
    assert [(r.busid, r.devid) for r in records[126:129]] == [
        ("1-127", 0x1007F),
        ("2-1", 0x20001),
        ("2-2", 0x20002),
    ]
    assert (records[-1].busid, records[-1].devid) == ("3-1", 0x30001)
    assert len({record.path for record in records}) == len(records)


def test_no_devices() -> None:
    assert export_all([]) == []
