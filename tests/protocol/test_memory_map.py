"""The map of an engine's memory: its regions and its words."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import ProtocolError
from aisrv.protocol.memory_map import MemoryMap, MemoryRegion, ModelMemory

ARENA, EXT = ModelMemory.ARENA, ModelMemory.EXT
IN_ARENA = MemoryMap(1000, 500, ARENA, 100, head_bytes=200, tail_bytes=50)
OUTSIDE = MemoryMap(1000, 500, EXT, 100, head_bytes=200, tail_bytes=50)
EMPTY = MemoryMap(1000, 500)


@pytest.mark.parametrize(
    ("memory_map", "arena", "external"),
    [
        (
            IN_ARENA,
            {
                "model": MemoryRegion(ARENA, 0, 100),
                "head": MemoryRegion(ARENA, 100, 200),
                "free": MemoryRegion(ARENA, 300, 650),
                "tail": MemoryRegion(ARENA, 950, 50),
            },
            {"free": MemoryRegion(EXT, 0, 500)},
        ),
        (
            OUTSIDE,
            {
                "head": MemoryRegion(ARENA, 0, 200),
                "free": MemoryRegion(ARENA, 200, 750),
                "tail": MemoryRegion(ARENA, 950, 50),
            },
            {"model": MemoryRegion(EXT, 0, 100), "free": MemoryRegion(EXT, 100, 400)},
        ),
    ],
)
def test_regions(
    memory_map: MemoryMap, arena: dict[str, MemoryRegion], external: dict[str, MemoryRegion]
) -> None:
    assert memory_map.regions(ARENA) == arena
    assert memory_map.regions(EXT) == external


def test_without_a_model_all_is_free() -> None:
    assert EMPTY.arena_free == MemoryRegion(ARENA, 0, 1000)
    assert EMPTY.external_free == MemoryRegion(EXT, 0, 500)
    assert EMPTY.model.size == 0


def test_words() -> None:
    assert bytes(IN_ARENA) == struct.pack("<6I", 1000, 500, 1, 100, 200, 50)
    assert bytes(OUTSIDE) == struct.pack("<6I", 1000, 500, 2, 100, 200, 50)
    assert bytes(EMPTY) == struct.pack("<6I", 1000, 500, 0, 0, 0, 0)


sizes = st.integers(0, 2**30 - 1)


@given(sizes, sizes, sizes, st.sampled_from([ARENA, EXT]), sizes, sizes)
def test_words_and_back(free: int, head: int, tail: int, memory: ModelMemory, model: int, other: int) -> None:
    arena = head + free + tail + (model if memory is ARENA else 0)
    memory_map = MemoryMap(arena, model + other, memory, model, head, tail)
    assert MemoryMap.from_bytes(bytes(memory_map)) == memory_map
    for each in ModelMemory:
        regions = list(memory_map.regions(each).values())
        ends = [0, *(region.offset + region.size for region in regions)]
        assert [region.offset for region in regions] == ends[:-1]
        assert ends[-1] == (arena if each is ARENA else model + other)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 20, 23, 25, 28, 512])
def test_other_lengths_are_no_map(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"a memory map has 24 bytes, not {length}"):
        MemoryMap.from_bytes(bytes(length))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((1000, 500, 3, 0, 0, 0), "names memory 3, there are 0 to 2"),
        ((1000, 500, 0, 1, 0, 0), "without a model has sizes of one"),
        ((1000, 500, 0, 0, 1, 0), "without a model has sizes of one"),
        ((1000, 500, 0, 0, 0, 1), "without a model has sizes of one"),
        ((1000, 500, 1, 751, 200, 50), "the arena holds 1 bytes more than it has"),
        ((1000, 500, 2, 100, 951, 50), "the arena holds 1 bytes more than it has"),
        ((1000, 500, 2, 501, 200, 50), "the external memory holds 1 bytes more than it has"),
    ],
)
def test_words_that_contradict_themselves(words: tuple[int, ...], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        MemoryMap.from_bytes(struct.pack("<6I", *words))


def test_sizes_that_no_word_holds() -> None:
    with pytest.raises(ProtocolError, match="does not fit the 24 bytes of a memory map"):
        bytes(MemoryMap(2**32, 0))
