"""The sending side of a connection, with a socket that takes little."""

import socket

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.sender import Sender
from tests.support.usbip_host import pattern


class Pair:
    """A sender, and the socket that its messages arrive at."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        for each in (self.near, self.far):
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.sender = Sender(self.near)

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        self.near.close()
        self.far.close()

    async def receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            await trio.lowlevel.wait_readable(self.far)
            data += self.far.recv(size - len(data))
        return bytes(data)

    def nothing_arrived(self) -> bool:
        try:
            return not self.far.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True


@pytest.fixture
def pair() -> Pair:
    return Pair()


async def test_gathered_messages_leave_together(pair: Pair) -> None:
    with pair:
        pair.sender.gather()
        for each in (b"one", b"two", b"three"):
            pair.sender.put(each)
        assert pair.nothing_arrived()
        pair.sender.flush()
        assert pair.far.recv(100) == b"onetwothree"
        assert pair.sender.unsent_bytes == 0


async def test_message_put_alone_leaves_by_the_task(pair: Pair) -> None:
    with pair:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.sender.run)
            for each in (b"first", b"second"):
                await wait_all_tasks_blocked()
                pair.sender.put(each)
                assert pair.nothing_arrived()
                assert await pair.receive(len(each)) == each
            nursery.cancel_scope.cancel()


async def test_message_put_before_the_task_starts(pair: Pair) -> None:
    with pair:
        pair.sender.put(b"early")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.sender.run)
            assert await pair.receive(5) == b"early"
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("sizes", [[1_000_000], [48] * 5000, [48, 100_000] * 20, [1, 5000, 3] * 700])
async def test_everything_arrives_in_order(pair: Pair, sizes: list[int]) -> None:
    messages = [pattern(size, seed * 1000) for seed, size in enumerate(sizes)]
    with pair:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.sender.run)
            pair.sender.gather()
            for each in messages:
                pair.sender.put(each)
            pair.sender.flush()
            assert 0 < pair.sender.unsent_bytes < sum(sizes)
            assert await pair.receive(sum(sizes)) == b"".join(messages)
            await wait_all_tasks_blocked()
            assert pair.sender.unsent_bytes == 0
            assert pair.nothing_arrived()
            nursery.cancel_scope.cancel()


async def test_wait_below(pair: Pair) -> None:
    with pair:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.sender.run)
            pair.sender.put(bytes(100_000))
            await wait_all_tasks_blocked()
            relieved = False

            async def wait() -> None:
                nonlocal relieved
                await pair.sender.wait_below(20_000)
                relieved = True

            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not relieved
            received = 0
            while not relieved:
                received += len(await pair.receive(1000))
                await wait_all_tasks_blocked()
            assert pair.sender.unsent_bytes <= 20_000
            assert received < 100_000
            nursery.cancel_scope.cancel()


async def test_host_that_is_gone(pair: Pair) -> None:
    with pair:
        pair.sender.put(b"to nobody")
        pair.far.close()
        with pytest.raises(BrokenPipeError):
            await pair.sender.run()
