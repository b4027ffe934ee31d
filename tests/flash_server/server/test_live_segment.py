"""Memory of stored bytes that code runs from: it follows the chip, and is fixed in size and access."""

import fcntl
import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flash_server.image.nibbles import SWAP
from flash_server.server.live_segment import LiveSegment

START, SIZE, PARTITION = 40, 60, 160
CHANGES = st.lists(
    st.tuples(st.integers(0, PARTITION - 1), st.binary(min_size=1, max_size=80)).map(
        lambda change: (change[0], change[1][: PARTITION - change[0]])
    ),
    max_size=8,
)


def segment(*, swapped: bool = False, size: int = SIZE) -> LiveSegment:
    return LiveSegment("engine 0", START, size, swapped=swapped, release=lambda: None)


@given(CHANGES, st.booleans())
def test_it_holds_what_the_partition_holds(changes: list[tuple[int, bytes]], swapped: bool) -> None:
    live = segment(swapped=swapped)
    partition = bytearray(PARTITION)
    met = 0
    for at, data in changes:
        live.store(at, data)
        partition[at : at + len(data)] = data
        met += any(START <= byte < START + SIZE for byte in range(at, at + len(data)))
    stored = bytes(partition[START : START + SIZE])
    assert live.memory[:SIZE] == (stored.translate(SWAP) if swapped else stored)
    assert not any(live.memory[SIZE:])
    assert live.changes == met
    live.close()


@given(CHANGES, st.booleans())
def test_two_stretches_have_pages_of_their_own(changes: list[tuple[int, bytes]], swapped: bool) -> None:
    live = LiveSegment("engine 0", 100, 30, (10, 20), swapped=swapped, release=lambda: None)
    partition = bytearray(PARTITION)
    met = 0
    for at, data in changes:
        live.store(at, data)
        partition[at : at + len(data)] = data
        met += not {*range(at, at + len(data))}.isdisjoint({*range(100, 130), *range(10, 30)})
    stored = bytes(partition).translate(SWAP) if swapped else bytes(partition)
    assert live.places == (0, 4096)
    assert live.memory[:30] + live.memory[4096:4116] == stored[100:130] + stored[10:30]
    assert not any(live.memory[30:4096] + live.memory[4116:])
    assert (len(live.memory), live.changes) == (2 * 4096, met)
    live.close()


@pytest.mark.parametrize(("size", "pages"), [(0, 1), (1, 1), (4096, 1), (4097, 2)])
def test_its_file_has_whole_pages(size: int, pages: int) -> None:
    live = segment(size=size)
    assert (len(live.memory), os.fstat(live.descriptor).st_size) == (pages * 4096, pages * 4096)
    live.close()


def test_who_gets_the_file_can_neither_write_nor_resize_it() -> None:
    live = segment()
    with pytest.raises(PermissionError):
        mmap.mmap(live.descriptor, 4096)
    with pytest.raises(PermissionError):
        os.pwrite(live.descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(live.descriptor, 0)
    theirs = mmap.mmap(live.descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
    live.store(START, b"new")
    assert theirs[:3] == b"new"
    live.close()


def test_the_end_is_told_once() -> None:
    ends: list[None] = []
    live = LiveSegment("engine 0", START, SIZE, swapped=False, release=lambda: ends.append(None))
    live.close()
    live.close()
    assert len(ends) == 1


def test_nobody_who_has_the_file_adds_a_seal() -> None:
    live = segment()
    with pytest.raises(PermissionError):
        fcntl.fcntl(live.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    live.close()
