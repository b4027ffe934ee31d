"""Exchanges of the USB/IP client: several requests and their answers at once, and all that may go wrong."""

import signal
import socket
import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.protocol.usbip import Submit, SubmitReply, UnlinkReply, UrbStatus
from host_tools.errors import TransferError, TransferStall, TransferTimeout
from tests.support.amounts import in_ci
from tests.support.peers.usbip_peers import DEADLINE, Peer, connected

SIZES = [0, 1, 3, 4, 511, 512, 513, 1024]
IN, OUT = 0x81, 0x01
SOON = 0.05
"""Seconds of a time-out that is meant to pass."""


def replies_of(requests: list[Submit], data: bytes) -> bytes:
    """What a sound device answers: it took each OUT request, and the IN request brings `data`."""
    return b"".join(
        bytes(SubmitReply(request.seqnum, 0, len(data) if request.direction else request.length))
        + (data if request.direction else b"")
        for request in requests
    )


@given(
    outs=st.lists(st.sampled_from(SIZES), max_size=3),
    answer=st.sampled_from(SIZES),
    cuts=st.lists(st.integers(0, 1500), max_size=4),
)
@settings(max_examples=in_ci(60, every_day=20), deadline=None)
def test_exchange_whose_answers_come_in_pieces(outs: list[int], answer: int, cuts: list[int]) -> None:
    data = bytes(i % 251 for i in range(answer))
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        for _ in range(2):
            requests = []
            for _ in range(len(outs) + 1):
                request, content = peer.submit()
                requests.append(request)
                seen.append(content)
            answers = replies_of(requests, data)
            places = sorted({0, len(answers), *(cut for cut in cuts if cut < len(answers))})
            for start, stop in pairwise(places):
                peer.send(answers[start:stop])

    writes = [bytes([size % 256]) * size for size in outs]
    with connected(script) as connection:
        for _ in range(2):
            buffer = bytearray(1024)
            requests = [(OUT, write) for write in writes] + [(IN, buffer)]
            assert connection.transact(requests, DEADLINE) == answer
            assert buffer[:answer] == data
            assert not any(buffer[answer:])
    assert seen == [*writes, b""] * 2


def test_exchange_that_ends_with_a_write_tells_what_it_took() -> None:
    def script(peer: Peer) -> None:
        peer.reply(peer.submit()[0])
        peer.reply(peer.submit()[0], actual=2)

    with connected(script) as connection:
        assert connection.transact([(OUT, b"whole")], DEADLINE) == 5
        assert connection.transact([(OUT, b"in part")], DEADLINE) == 2


@pytest.mark.parametrize("status", [UrbStatus.STALL, UrbStatus.OVERFLOW])
def test_failure_of_an_exchange_takes_the_rest_back(status: int) -> None:
    unlinked: list[int] = []

    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(3)]
        peer.send(SubmitReply(requests[0].seqnum, 0, 3), SubmitReply(requests[1].seqnum, status, 0))
        unlinked.append(peer.answer_unlink(UrbStatus.UNLINKED).target)
        peer.reply(peer.submit()[0])

    with connected(script) as connection:
        with pytest.raises(TransferError) as caught:
            connection.transact([(OUT, b"one"), (OUT, b"two"), (IN, bytearray(512))], DEADLINE)
        assert (caught.value.status, caught.value.writes_done) == (status, 1)
        assert connection.bulk_out(OUT, b"next", DEADLINE) == 4
    assert unlinked == [3]


@pytest.mark.parametrize("failed", [0, 1])
def test_failure_among_the_answers_that_come_in_one_piece(failed: int) -> None:
    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(2)]
        statuses = [UrbStatus.STALL if index == failed else 0 for index in range(2)]
        peer.send(SubmitReply(1, statuses[0], requests[0].length), SubmitReply(2, statuses[1], 0))

    with connected(script) as connection:
        with pytest.raises(TransferStall) as caught:
            connection.transact([(OUT, b"one"), (IN, bytearray(512))], DEADLINE)
        assert caught.value.writes_done == failed


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_exchange_that_times_out(answered: int) -> None:
    """Whichever answers came before count; the others are taken back, and the connection stays."""
    unlinked: list[int] = []

    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(3)]
        for request in requests[:answered]:
            peer.reply(request)
        unlinked.extend(peer.answer_unlink(UrbStatus.UNLINKED).target for _ in requests[answered:])
        peer.reply(peer.submit()[0], b"next")

    with connected(script) as connection:
        with pytest.raises(TransferTimeout):
            connection.transact([(OUT, b"one"), (OUT, b"two"), (IN, bytearray(512))], SOON)
        assert connection.bulk_in(IN, 512, DEADLINE) == b"next"
    assert unlinked == [1, 2, 3][answered:]


def test_last_answer_of_an_exchange_comes_just_before_its_unlink() -> None:
    def script(peer: Peer) -> None:
        write, read = peer.submit()[0], peer.submit()[0]
        peer.reply(write)
        unlink = peer.unlink()
        peer.reply(read, b"late")
        peer.send(UnlinkReply(unlink.seqnum, 0))

    buffer = bytearray(512)
    with connected(script) as connection:
        assert connection.transact([(OUT, b"one"), (IN, buffer)], SOON) == 4
    assert buffer[:5] == b"late\0"


def test_interrupted_exchange_takes_its_requests_back() -> None:
    messages: list[int] = []

    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(2)]
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        messages.extend(peer.answer_unlink(UrbStatus.UNLINKED).target for _ in requests)
        peer.reply(peer.submit()[0], b"next")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with connected(script) as connection:
            with pytest.raises(KeyboardInterrupt):
                connection.transact([(OUT, b"one"), (IN, bytearray(512))], DEADLINE)
            assert connection.bulk_in(IN, 512, DEADLINE) == b"next"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert messages == [1, 2]


def test_exchange_interrupted_right_after_it_was_sent() -> None:
    """The interrupt comes before the client could note that anything was sent."""

    class Interrupted:
        """The socket of a connection; its first send ends with an interrupt, when all is sent."""

        def __init__(self, peer: socket.socket) -> None:
            self._peer = peer
            self._sends = 0

        def sendmsg(self, parts: list[bytes]) -> int:
            sent = self._peer.sendmsg(parts)
            self._sends += 1
            if self._sends == 1:
                raise KeyboardInterrupt
            return sent

        def __getattr__(self, name: str) -> object:
            return getattr(self._peer, name)

    unlinked: list[int] = []

    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(2)]
        unlinked.extend(peer.answer_unlink(UrbStatus.UNLINKED).target for _ in requests)
        peer.reply(peer.submit()[0], b"next")

    with connected(script) as connection:
        connection._socket = Interrupted(connection._socket)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            connection.transact([(OUT, b"one"), (IN, bytearray(512))], DEADLINE)
        assert connection.bulk_in(IN, 512, DEADLINE) == b"next"
    assert unlinked == [1, 2]


def test_another_thread_gets_through_while_an_exchange_waits() -> None:
    """The second thread's request goes out, and its answer reaches it, although the first one reads."""
    asked = threading.Event()

    def script(peer: Peer) -> None:
        write, read = peer.submit()[0], peer.submit()[0]
        asked.set()
        control, _ = peer.submit()
        peer.reply(control, b"quick")
        answered.wait(DEADLINE)
        peer.reply(write)
        peer.reply(read, b"slow")

    answered = threading.Event()
    buffer = bytearray(512)
    moved: list[int] = []
    with connected(script) as connection:
        waiting = threading.Thread(
            target=lambda: moved.append(connection.transact([(OUT, b"one"), (IN, buffer)], DEADLINE))
        )
        waiting.start()
        assert asked.wait(DEADLINE)
        assert connection.control_in(bytes(SetupPacket(0xC0, 1, 0, 0, 5)), 5, DEADLINE) == b"quick"
        answered.set()
        waiting.join(DEADLINE)
    assert (moved, bytes(buffer[:5])) == ([4], b"slow\0")


def test_exchange_where_the_sequence_numbers_begin_anew() -> None:
    numbers: list[int] = []

    def script(peer: Peer) -> None:
        for _ in range(3):
            requests = [peer.submit()[0] for _ in range(2)]
            numbers.extend(request.seqnum for request in requests)
            peer.send(replies_of(requests, b"data"))

    with connected(script) as connection:
        connection._seqnum = 0xFFFFFFFC
        for _ in range(3):
            assert connection.transact([(OUT, b"one"), (IN, bytearray(512))], DEADLINE) == 4
    assert numbers == [0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF, 1, 2, 3]
