"""Hits and misses of an image that runs in place."""

import signal

import pytest

from aisrv.addons.kernels.relocatable.fetches import count_fetches
from aisrv.model.relocatable.container import Image, offset
from aisrv.model.relocatable.errors import RuntimeFailure
from flash_server.client.cache import CacheGeometry
from tests.support.models.relocatable import DIGITS_M33, digits_image, read

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")


def test_a_cache_larger_than_the_image_fills_each_line_once() -> None:
    image = Image.from_bytes(digits_image())
    small, large = count_fetches(image), count_fetches(image, CacheGeometry(65536, 4, 32))
    assert small.hits + small.misses == large.hits + large.misses
    assert small.misses > 10_000
    assert large.misses <= -(-len(digits_image()) // 32)
    assert large.bytes_filled == 32 * large.misses
    assert small.bytes_read == large.bytes_read > 7752  # each weight at least once


def test_an_image_without_weights() -> None:
    with pytest.raises(RuntimeFailure, match="no weights"):
        count_fetches(Image.from_bytes(read(DIGITS_M33)))


def test_ctrl_c_ends_a_run_that_is_counted() -> None:
    endless = bytearray(digits_image())
    entry = offset(Image.from_bytes(endless).header.run) - 1
    endless[entry : entry + 2] = b"\xfe\xe7"  # b .
    alarm = signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            count_fetches(Image.from_bytes(endless))
    finally:
        signal.signal(signal.SIGALRM, alarm)
    assert signal.getsignal(signal.SIGINT) == before
