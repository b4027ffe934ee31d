"""Linear buffers, step by step."""

import numpy as np
import pytest

from aisrv.addons.graph.nodes.arcs import ArcBuffer, jitter_for_size


def arc(size: int, producer: int, consumer: int) -> ArcBuffer:
    return ArcBuffer(0, np.zeros(size, np.uint8), producer, consumer)


def put(buffer: ArcBuffer, data: bytes) -> None:
    buffer.writable()[: len(data)] = np.frombuffer(data, np.uint8)
    buffer.produce(len(data))


def test_a_write_that_leaves_room_for_a_frame_sets_no_align() -> None:
    buffer = arc(8, 4, 4)
    put(buffer, b"abcd")
    assert (buffer.align, buffer.free, buffer.has_room) == (False, 4, True)


def test_a_write_that_leaves_no_room_sets_align() -> None:
    buffer = arc(7, 4, 4)
    put(buffer, b"abcd")
    assert (buffer.align, buffer.has_room) == (True, False)


def test_a_read_with_align_moves_the_rest_to_the_base() -> None:
    buffer = arc(7, 4, 2)
    put(buffer, b"abcd")
    buffer.consume(2)
    assert (buffer.read, buffer.write, buffer.align) == (0, 2, False)
    assert buffer.readable().tobytes() == b"cd"


def test_a_read_without_align_moves_nothing() -> None:
    buffer = arc(8, 4, 2)
    put(buffer, b"abcd")
    buffer.consume(2)
    assert (buffer.read, buffer.write) == (2, 4)


def test_nothing_moves_while_read_is_0() -> None:
    buffer = arc(7, 4, 2)
    put(buffer, b"abcd")
    buffer.realign()
    assert (buffer.read, buffer.write, buffer.align) == (0, 4, True)


def test_overlapping_bytes_are_moved_right() -> None:
    buffer = arc(8, 8, 1)
    put(buffer, b"abcdefgh")
    buffer.consume(1)
    assert buffer.readable().tobytes() == b"bcdefgh"


def test_words_are_those_of_the_binary_graph() -> None:
    buffer = ArcBuffer(0, np.zeros(64, np.uint8), 64, 64, address=0xB8)
    buffer.produce(64)
    buffer.collision = 9
    assert buffer.words() == (0xB8, 64, 0, 0x09400040)


@pytest.mark.parametrize(
    ("size", "producer", "consumer", "factor"),
    [(64, 64, 64, None), (32, 32, 2, None), (100, 100, 70, 1.6), (159, 100, 70, 1.6), (160, 100, 70, None)],
)
def test_a_buffer_that_can_dead_lock_names_a_factor(
    size: int, producer: int, consumer: int, factor: float | None
) -> None:
    assert jitter_for_size(size, producer, consumer) == factor
