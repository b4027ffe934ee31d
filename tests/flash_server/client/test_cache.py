"""The lines of a cache that holds no bytes: those of a window, access for access."""

from hypothesis import given
from hypothesis import strategies as st

from flash_server.client.cache import CacheGeometry, LineCache


def test_worked_by_hand() -> None:
    cache = LineCache(CacheGeometry(64, 2, 32))
    for address, size in ((0, 4), (30, 4), (64, 1), (0, 1), (64, 32)):
        cache.touch(address, size)
    # line 0 misses; 0 hits and 1 misses; 2 misses and drives 0 out; 0 misses and drives 1 out; 2 hits
    assert (cache.counters.hits, cache.counters.misses) == (2, 4)
    assert (cache.counters.bytes_read, cache.counters.bytes_filled) == (42, 128)


@given(st.lists(st.integers(0, 1000), max_size=50))
def test_each_line_is_a_hit_or_a_miss(addresses: list[int]) -> None:
    cache = LineCache(CacheGeometry(128, 1, 32))
    held: dict[int, int] = {}
    hits = 0
    for address in addresses:
        cache.touch(address, 1)
        line = address // 32
        hits += held.get(line % 4) == line
        held[line % 4] = line
    assert cache.counters.hits == hits
    assert cache.counters.misses == len(addresses) - hits
