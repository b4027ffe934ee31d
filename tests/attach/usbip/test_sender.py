"""The sending side of a connection, with a socket that takes little."""

import socket

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip.sender import Sender
from tests.support.peers.usbip_host import pattern


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


class More:
    """A device that has more to answer."""

    awaited = 1


def test_last_message_leaves_at_once(pair: Pair) -> None:
    with pair:
        pair.sender.put(b"head ", b"data")
        assert pair.far.recv(100) == b"head data"
        assert pair.sender.unsent_bytes == 0


async def test_message_before_others_leaves_by_the_task(pair: Pair) -> None:
    pair.sender.work = More()
    with pair:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pair.sender.run)
            for each in (b"first", b"second"):
                await wait_all_tasks_blocked()
                pair.sender.put(each)
                assert pair.nothing_arrived()
                assert await pair.receive(len(each)) == each
            nursery.cancel_scope.cancel()


async def test_last_message_takes_those_before_it_along(pair: Pair) -> None:
    """In the turn of the task that gives it, while the reader waits for more."""
    work = pair.sender.work = More()

    async def device() -> None:
        pair.sender.put(b"second ")
        assert pair.nothing_arrived()
        work.awaited = 0
        pair.sender.put(b"last")
        assert pair.far.recv(100) == b"first second last"

    with pair:
        async with trio.open_nursery() as nursery:
            pair.sender.gather()
            pair.sender.put(b"first ")
            nursery.start_soon(device)
            await pair.sender.gather_more()


async def test_last_message_waits_for_those_of_the_same_reading(pair: Pair) -> None:
    with pair:
        pair.sender.gather()
        pair.sender.put(b"one ")
        assert pair.nothing_arrived()
        assert await pair.sender.gather_more() == 0
        pair.sender.put(b"two")
        assert pair.far.recv(100) == b"one two"


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
        pair.far.close()
        pair.sender.put(b"to nobody")  # in the turn of some task of the device, which it does not concern
        with pytest.raises(BrokenPipeError):
            await pair.sender.run()
