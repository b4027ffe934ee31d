"""URBs: data that come in any pieces are the same data, and take little more memory than they have bytes."""

import random
import tracemalloc
from typing import Final

import pytest

from phy.usb.urb import OutUrb
from tests.support.peers.usb_host import pattern

LENGTH: Final = 1 << 16


@pytest.mark.parametrize("seed", range(20))
def test_data_are_the_same_in_any_pieces(seed: int) -> None:
    """Views change after `keep`; whole packets are taken in between, some of them in parts of a piece."""
    numbers = random.Random(seed)
    data, sent = pattern(LENGTH), 0
    urb = OutUrb(LENGTH, lambda _status, _taken: None)
    taken: list[bytes] = []
    while sent < LENGTH:
        view = memoryview(bytearray(data[sent : sent + numbers.choice((1, 2, 511, 512, 5000))]))
        urb.feed(view if numbers.random() < 0.8 else bytes(view))
        sent += len(view)
        if numbers.random() < 0.3:
            urb.take(512 * numbers.randrange(1, 12), taken)
        urb.keep()
        view[:] = bytes(len(view))
    urb.take(LENGTH, taken)
    assert b"".join(taken) == data


@pytest.mark.parametrize("size", [2, 48, 512])
def test_small_pieces_take_little_more_memory_than_their_bytes(size: int) -> None:
    urb = OutUrb(LENGTH, lambda _status, _taken: None)
    buffer = memoryview(bytearray(size))
    tracemalloc.start()
    try:
        for _ in range(LENGTH // size):
            urb.feed(buffer[:])
            urb.keep()
        assert tracemalloc.get_traced_memory()[0] < 1.2 * LENGTH
    finally:
        tracemalloc.stop()
