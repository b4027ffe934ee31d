"""Pipes between two ends over a link that loses, repeats and delays frames."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.jacdac.wire.frame import Frame, ack_frame
from aisrv.addons.jacdac.wire.pipes import InPipe, InPipes, OutPipe, PipeArgument
from aisrv.addons.jacdac.wire.timers import Timers

OWNER = 0xABCDEF


class Link:
    """A sender and a receiver; `lose` decides for each frame and each ACK whether it is lost."""

    def __init__(self, lose: Callable[[], bool]) -> None:
        self.received = bytearray()
        self.closed = False
        self.ended = False
        self.timers = Timers()
        self.pipes = InPipes()
        self._lose = lose
        port = self.pipes.open(InPipe(self.received.extend, self._close))
        self.sender = OutPipe(PipeArgument(OWNER, port), self.timers, self._carry, self._end)

    def _close(self) -> None:
        self.closed = True

    def _end(self) -> None:
        self.ended = True

    def _carry(self, data: bytes) -> None:
        if self._lose():
            return
        frame = Frame.from_bytes(data)
        self.pipes.receive(frame.packets[0])
        if not self._lose():
            ack = Frame.from_bytes(ack_frame(OWNER, frame.crc))
            self.timers.after(500, lambda: self.sender.acknowledge(OWNER, ack.packets[0].command))

    def run(self) -> None:
        while (deadline := self.timers.next_deadline) is not None:
            self.timers.advance(deadline)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 223, 224, 225, 448, 511, 512, 513, 1024, 20_000])
def test_data_arrive_whole(size: int) -> None:
    link = Link(lambda: False)
    data = random.Random(size).randbytes(size)
    assert link.sender.write(data)
    link.sender.close()
    link.run()
    assert (bytes(link.received), link.closed, link.ended) == (data, True, True)


@given(st.randoms(use_true_random=False), st.lists(st.binary(max_size=600), max_size=6))
def test_losses_only_cost_time_or_the_pipe(chance: random.Random, pieces: list[bytes]) -> None:
    link = Link(lambda: chance.random() < 0.15)
    for piece in pieces:
        link.sender.write(piece)
    link.sender.close()
    link.run()
    sent = b"".join(pieces)
    assert link.ended
    assert sent.startswith(link.received)
    if link.closed:
        assert link.received == sent


def test_receiver_that_is_not_there_ends_the_pipe() -> None:
    link = Link(lambda: True)
    link.sender.write(b"data")
    link.run()
    assert link.ended
    assert link.timers.now == 340_000
    assert not link.sender.write(b"more")


def test_ack_of_another_device_or_frame_counts_for_nothing() -> None:
    link = Link(lambda: True)
    link.sender.write(b"data")
    link.sender.acknowledge(OWNER + 1, 0)
    link.sender.acknowledge(OWNER, 12345)
    link.run()
    assert link.received == b""
    assert link.ended


def test_queue_is_bounded() -> None:
    link = Link(lambda: True)
    assert link.sender.write(bytes(64 * 1024))
    assert not link.sender.write(b"1")


def test_ports_are_used_again_as_late_as_possible() -> None:
    pipes = InPipes()
    ports = [pipes.open(InPipe(lambda _: None, lambda: None)) for _ in range(512)]
    assert ports == [*range(1, 512), 0]
    pipes.close(7)
    assert pipes.open(InPipe(lambda _: None, lambda: None)) == 7
