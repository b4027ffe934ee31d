"""UNLINK over USB/IP: each request ends once, whatever the moment."""

import random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.benches.usb_firmware import idle, loopback
from tests.support.peers.usbip_host import (
    DEVICE_DESCRIPTOR,
    ECONNRESET,
    GET_DEVICE_DESCRIPTOR,
    Answer,
    control_in,
    served,
    submit_in,
    submit_out,
    unlink,
)

GET_STATUS = bytes.fromhex("8000000000000200")


@pytest.mark.parametrize("request_bytes", [submit_in(1, 512), submit_out(1, b"data"), submit_out(1, b"")])
@pytest.mark.parametrize("together", [False, True])
async def test_unlink_of_a_pending_request(request_bytes: bytes, together: bool) -> None:
    async with served(idle) as server:
        host = await server.attach()
        if together:
            await host.send(request_bytes, unlink(2, 1))
        else:
            await host.send(request_bytes)
            await wait_all_tasks_blocked()
            await host.send(unlink(2, 1))
        assert await host.answer() == Answer(4, 2, ECONNRESET)
        assert (server.bus.out_endpoint.pending, server.bus.in_endpoint.pending) == (0, 0)
        assert await host.leave() == b""


async def test_unlink_of_a_request_that_is_done() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(submit_out(1, b"x")) == Answer(3, 1, 0, 1)
        assert await host.ask(unlink(2, 1)) == Answer(4, 2, 0)
        assert await host.leave() == b""


@pytest.mark.parametrize("target", [0, 2, 77, 0xFFFFFFFF])
async def test_unlink_of_an_unknown_request(target: int) -> None:
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(unlink(2, target)) == Answer(4, 2, 0)
        await host.works()


async def test_unlink_twice() -> None:
    async with served(idle) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512), unlink(2, 1), unlink(3, 1))
        assert await host.answers(2) == [Answer(4, 2, ECONNRESET), Answer(4, 3, 0)]


async def test_unlinked_in_request_takes_no_data() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512), unlink(2, 1), submit_out(3, b"kept"), submit_in(4, 512))
        assert await host.answers(3) == [
            Answer(4, 2, ECONNRESET),
            Answer(3, 3, 0, 4),
            Answer(3, 4, 0, 4, b"kept"),
        ]


async def test_unlinked_request_of_many() -> None:
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(*(submit_in(number, 512) for number in (1, 2, 3)))
        assert await host.ask(unlink(4, 2)) == Answer(4, 4, ECONNRESET)
        for seqnum, waiting in ((5, 1), (6, 3)):
            await host.send(submit_out(seqnum, b"x"))
            assert await host.answers(2) == [Answer(3, seqnum, 0, 1), Answer(3, waiting, 0, 1, b"x")]


async def test_unlink_of_a_control_transfer_in_hand() -> None:
    """Endpoint 0 answers later; the host must not hear of it after the UNLINK has been confirmed."""
    async with served(loopback) as server:
        host = await server.attach()
        await host.send(control_in(1, GET_STATUS), unlink(2, 1))
        assert await host.answer() == Answer(4, 2, ECONNRESET)
        await host.works()
        assert await host.leave() == b""


async def test_seqnum_of_an_unlinked_control_transfer_may_be_used_at_once() -> None:
    async with served(idle) as server:
        host = await server.attach()
        await host.send(control_in(1, GET_STATUS), unlink(2, 1), control_in(1, GET_DEVICE_DESCRIPTOR))
        assert await host.answers(2) == [
            Answer(4, 2, ECONNRESET),
            Answer(3, 1, 0, 18, DEVICE_DESCRIPTOR),
        ]
        assert await host.leave() == b""


async def test_unlink_races_answer_each_request_once() -> None:
    """Whatever the moment, a request ends by one RET_SUBMIT, or by RET_UNLINK with -104 and no RET_SUBMIT."""
    rng = random.Random(0xA15E)
    async with served(loopback) as server:
        host = await server.attach()
        ended = []
        for start in range(10, 2000, 4):
            messages = [submit_in(start, 512), submit_out(start + 1, b"x"), unlink(start + 2, start)]
            cut = rng.randrange(4)
            await host.send(*messages[:cut])
            for _ in range(rng.randrange(3)):
                await trio.lowlevel.checkpoint()
            await host.send(*messages[cut:])
            got = [await host.answer(), await host.answer()]
            while got[-1].seqnum != start + 2:
                got.append(await host.answer())
            statuses = {each.seqnum: (each.message, each.status) for each in got}
            assert len(statuses) == len(got)
            unlinked = statuses[start + 2] == (4, ECONNRESET)
            assert unlinked == (start not in statuses)
            ended.append(unlinked)
            if start + 1 not in statuses:
                assert await host.answer() == Answer(3, start + 1, 0, 1)
            if unlinked:
                assert await host.ask(submit_in(start + 3, 512)) == Answer(3, start + 3, 0, 1, b"x")
        assert set(ended) == {True, False}
