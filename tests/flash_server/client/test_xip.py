"""The window on a segment: bytes as they are in flash, and counters as a cache of that shape has them."""

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from flash_server.client.cache import XCORE_AI_CACHE, CacheCounters, CacheGeometry, WindowError
from flash_server.client.flash_channel import FlashChannel
from flash_server.client.xip import open_window
from flash_server.image.headers import Part
from flash_server.protocol import FlashFailure, FlashReadError
from tests.support.amounts import in_ci
from tests.support.benches.flash_node import VERSION, FlashNode, Parts, flash_node, image, refused

XIP = bytes(index * 11 + (index >> 8) & 0xFF for index in range(1000))
OPERATORS = bytes(range(100))
# the model after the XIP segment ends it at its last byte
DATA = image([Parts(b"model", None, OPERATORS, XIP), Parts(b"end")], VERSION)
DIRECT_MAPPED = CacheGeometry(size=128, ways=1, line_bytes=32)
TWO_WAYS = CacheGeometry(size=128, ways=2, line_bytes=32)


async def counters(node: FlashNode, geometry: CacheGeometry, *addresses: int) -> tuple[int, int]:
    """Hits and misses of reading a byte at each address in turn."""
    window = await open_window(node.engines[0], Part.XIP, geometry)
    for address in addresses:
        assert await window.read(address, 1) == XIP[address : address + 1]
    return window.counters.hits, window.counters.misses


# Geometry.


def test_default_is_the_cache_of_the_xcore_ai() -> None:
    assert (XCORE_AI_CACHE.size, XCORE_AI_CACHE.ways, XCORE_AI_CACHE.line_bytes) == (256, 8, 32)
    assert XCORE_AI_CACHE.sets == 1


@pytest.mark.parametrize(("shape", "sets"), [((128, 1, 32), 4), ((128, 2, 32), 2), ((16384, 4, 64), 64)])
def test_number_of_sets(shape: tuple[int, int, int], sets: int) -> None:
    assert CacheGeometry(*shape).sets == sets


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 1, 32), "cache size of 0"),
        ((96, 1, 32), "cache size of 96"),
        ((128, 3, 32), "cache ways of 3"),
        ((128, -1, 32), "cache ways of -1"),
        ((128, 1, 24), "cache line of 24"),
        ((128, 1, 2), "cache line of 2 bytes: it must hold a word"),
        ((128, 8, 32), "cache of 128 bytes: one set of 8 ways has 256"),
    ],
)
def test_geometry_that_no_cache_has(shape: tuple[int, int, int], message: str) -> None:
    with pytest.raises(WindowError, match=message):
        CacheGeometry(*shape)


# Counters, worked by hand. Lines of 32 bytes: address 64 is in line 2.


async def test_line_is_filled_once() -> None:
    async with flash_node(DATA) as node:
        assert await counters(node, XCORE_AI_CACHE, 0, 1, 31, 32, 0, 63) == (4, 2)


async def test_lines_of_one_set_drive_each_other_out_where_there_is_one_way() -> None:
    """Four sets: lines 0, 4 and 8 share the first."""
    async with flash_node(DATA) as node:
        assert await counters(node, DIRECT_MAPPED, 0, 128, 0, 128) == (0, 4)
        assert await counters(node, DIRECT_MAPPED, 0, 32, 64, 96, 0, 32, 64, 96) == (4, 4)


async def test_two_ways_keep_two_lines_of_a_set_and_replace_the_least_recently_used() -> None:
    """Two sets: lines 0, 2, 4 share the first. Using line 0 again makes line 2 the one to go."""
    async with flash_node(DATA) as node:
        assert await counters(node, TWO_WAYS, 0, 64, 0, 64) == (2, 2)
        assert await counters(node, TWO_WAYS, 0, 64, 0, 128, 0, 64) == (2, 4)
        assert await counters(node, TWO_WAYS, 0, 64, 128, 0) == (0, 4)


async def test_eight_lines_fit_and_a_ninth_drives_out_the_first() -> None:
    async with flash_node(DATA) as node:
        eight = [32 * line for line in range(8)]
        assert await counters(node, XCORE_AI_CACHE, *eight, *eight) == (8, 8)
        assert await counters(node, XCORE_AI_CACHE, *eight, 256, 0, 32) == (0, 11)


async def test_all_counters_of_reads_across_lines() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0])
        assert await window.read(30, 4) == XIP[30:34]
        assert window.counters == CacheCounters(hits=0, misses=2, bytes_read=4, bytes_filled=64)
        assert await window.read(0, 100) == XIP[:100]
        assert window.counters == CacheCounters(hits=2, misses=4, bytes_read=104, bytes_filled=128)
        assert await window.read(998, 2) == XIP[998:]
        assert window.counters == CacheCounters(hits=2, misses=5, bytes_read=106, bytes_filled=136)


async def test_read_longer_than_the_cache() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0])
        assert await window.read(0, 1000) == XIP
        assert (window.counters.hits, window.counters.misses) == (0, 32)


async def test_cached_read_never_waits_and_counts_only_hits() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0])
        assert window.read_cached(0, 4) is None
        assert window.counters == CacheCounters()
        await window.read_word(0)
        assert window.read_cached(28, 4) == XIP[28:32]
        assert window.read_cached(30, 4) is None
        assert window.read_cached(-1, 1) is None
        assert window.read_cached(0, -1) is None
        assert window.counters == CacheCounters(hits=1, misses=1, bytes_read=8, bytes_filled=32)


async def test_hit_makes_its_line_the_most_recently_used_by_either_way_of_reading() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0], Part.XIP, TWO_WAYS)
        await window.read(0, 1)
        await window.read(64, 1)
        assert window.read_cached(0, 1) == XIP[:1]
        await window.read(128, 1)
        assert window.read_cached(0, 1) == XIP[:1]
        assert window.read_cached(64, 1) is None


async def test_cached_read_finds_lines_of_every_set() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0], Part.XIP, DIRECT_MAPPED)
        await window.read(0, 128)
        assert [window.read_cached(start, 32) for start in (96, 64, 32, 0)] == [
            XIP[start : start + 32] for start in (96, 64, 32, 0)
        ]


# Bounds.


@pytest.mark.parametrize(
    ("address", "size"), [(1000, 1), (999, 2), (0, 1001), (1001, 0), (-1, 1), (-4, 8), (0, -1), (1 << 32, 1)]
)
async def test_nothing_outside_of_the_segment_is_read(address: int, size: int) -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0])
        await window.read(992, 8)
        before = window.counters.misses
        with pytest.raises(WindowError, match="the window on xip has 0x3e8 bytes"):
            await window.read(address, size)
        assert window.counters.misses == before


async def test_nothing_is_read_at_the_end() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0])
        assert await window.read(1000, 0) == b""
        assert window.counters == CacheCounters()


async def test_words() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0], Part.OPERATORS)
        assert await window.read_word(4) == 0x07060504
        assert await window.read_word(96) == 0x63626160
        for address in (1, 2, 3):
            with pytest.raises(WindowError, match="multiple of 4"):
                await window.read_word(address)
        with pytest.raises(WindowError, match="the window on operators"):
            await window.read_word(100)


async def test_windows_that_cannot_be_opened() -> None:
    async with flash_node(image([Parts(b"model")])) as node:
        with pytest.raises(WindowError, match="no xip for this engine"):
            await open_window(node.engines[0])
        with pytest.raises(WindowError, match="the model has no window"):
            await open_window(node.engines[0], Part.MODEL)
    async with flash_node() as node:
        with refused(FlashFailure.NO_IMAGE):
            await open_window(node.engines[0])


# Misses that fail, and flash that changes.


async def test_cancelled_miss_leaves_the_window_in_order() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(node.engines[0])
        await window.read(0, 4)
        with trio.move_on_after(0) as scope:
            await window.read(0, 100)
        assert scope.cancelled_caught
        assert await window.read(0, 1000) == XIP


async def test_changed_flash_is_seen_after_invalidate() -> None:
    async with flash_node(DATA, loaders=1) as node:
        window = await open_window(node.engines[0])
        assert await window.read(0, 4) == XIP[:4]
        await node.loaders[0].write_data(0, DATA.replace(XIP, bytes(1000)))
        await node.loaders[0].reload()
        assert await window.read(0, 4) == XIP[:4]
        window.invalidate()
        assert await window.read(0, 4) == bytes(4)


async def test_failing_server_fails_the_read_only() -> None:
    async with flash_node(DATA, loaders=1) as node:
        window = await open_window(node.engines[0])
        await window.read(0, 4)
        await node.loaders[0].write_data(0, DATA)
        with pytest.raises(FlashReadError):
            await window.read(32, 4)
        assert await window.read(0, 4) == XIP[:4]
        await node.loaders[0].reload()
        assert await window.read(32, 4) == XIP[32:36]


async def test_two_windows_of_one_task_have_caches_of_their_own() -> None:
    async with flash_node(DATA) as node:
        xip, operators = (
            await open_window(node.engines[0]),
            await open_window(node.engines[0], Part.OPERATORS),
        )
        assert await xip.read(0, 8) == XIP[:8]
        assert await operators.read(0, 8) == OPERATORS[:8]
        assert xip.counters.misses == operators.counters.misses == 1


# Any reads through any cache.


class _Model:
    """A cache as a list of line numbers for each set, the least recently used first."""

    def __init__(self, geometry: CacheGeometry) -> None:
        self._geometry = geometry
        self._sets: list[list[int]] = [
            [] for _ in range(geometry.size // geometry.ways // geometry.line_bytes)
        ]
        self.hits = self.misses = 0

    def touch(self, address: int, size: int) -> None:
        for line in sorted({byte // self._geometry.line_bytes for byte in range(address, address + size)}):
            lines = self._sets[line % len(self._sets)]
            if line in lines:
                self.hits += 1
                lines.remove(line)
            else:
                self.misses += 1
                if len(lines) == self._geometry.ways:
                    lines.pop(0)
            lines.append(line)


GEOMETRIES = st.builds(
    lambda line, ways, sets: CacheGeometry(1 << line + ways + sets, 1 << ways, 1 << line),
    st.integers(2, 7),
    st.integers(0, 3),
    st.integers(0, 3),
)
READS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 80)), max_size=60)


@given(GEOMETRIES, READS)
@settings(max_examples=in_ci(60, every_day=20))
def test_any_reads_are_slices_of_the_segment_and_counted_as_by_a_simple_cache(
    geometry: CacheGeometry, reads: list[tuple[int, int]]
) -> None:
    async def run() -> None:
        async with flash_node(DATA) as node:
            window = await open_window(node.engines[0], Part.XIP, geometry)
            model = _Model(geometry)
            for address, wanted in reads:
                size = min(wanted, 1000 - address)
                assert await window.read(address, size) == XIP[address : address + size]
                model.touch(address, size)
                assert (window.counters.hits, window.counters.misses) == (model.hits, model.misses)

    trio.run(run)


async def test_window_is_told_its_segment_and_size() -> None:
    async with flash_node(DATA) as node:
        window = await open_window(FlashChannel(node.ends[0]), Part.OPERATORS)
        assert (window.part, window.size) == (Part.OPERATORS, 100)
