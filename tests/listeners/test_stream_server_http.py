"""HTTP to each listener of the product: whatever the method, it ends its connection and leaves nothing."""

import gc
import logging
import tracemalloc
from typing import Final

import pytest
import trio

from aisrv.listeners.failures import KEPT, Failures
from aisrv.listeners.stream_server import StreamServer
from tests.support.benches.listeners import Listening, each_listener, end_of, listening, until_peers
from tests.support.peers.http_requests import requests

TOKEN: Final = "token"
"""That of the page's listener in the table."""
GROWTH: Final = 1500
"""Bytes of memory that a request may leave, on average: Trio keeps up to 1,000 deadlines that are past."""
TIMES: Final = 5


async def answer_to(place: Listening, request: bytes) -> bytes:
    """All that a listener says to a peer that sends a request and nothing more."""
    async with await trio.open_tcp_stream("127.0.0.1", place.port) as stream:
        try:
            await stream.send_all(request)
            await stream.send_eof()
        except trio.BrokenResourceError:  # it has left already
            pass
        return await end_of(stream)


@each_listener
async def test_no_method_fails_a_listener(kind: type[StreamServer], caplog: pytest.LogCaptureFixture) -> None:
    """What a listener failed of would be raised at the end of the block."""
    async with listening(kind) as place:
        for method, request in requests(place.port, TOKEN):
            answer = await answer_to(place, request)
            if not kind.TAKES_HTTP:
                assert b"HTTP" not in answer, method
                continue
            head, _, body = answer.partition(b"\r\n\r\n")
            if head:
                assert head.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 101")), (method, answer)
            if method == "HEAD" and b" 400 " not in head:  # what cannot be read has no method
                assert body == b""
        await until_peers(place.server, 0)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@each_listener
async def test_no_method_leaves_memory(kind: type[StreamServer], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # what is logged would be kept in memory
    async with listening(kind) as place:
        named = list(requests(place.port, TOKEN))
        sent = [request for number, (name, request) in enumerate(named) if name == "HEAD" or number % 10 == 0]

        async def send_all() -> int:
            for request in sent * TIMES:
                await answer_to(place, request)
            await until_peers(place.server, 0)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        await answer_to(place, sent[0])
        tracemalloc.start()
        try:
            before = await send_all()
            grown = await send_all() - before
        finally:
            tracemalloc.stop()
    assert grown < GROWTH * len(sent) * TIMES


def fail_often(times: int) -> None:
    with Failures(logging.getLogger("tests")) as failures:
        for number in range(times):
            with failures.contain(f"number {number}"):
                raise ValueError("of a peer")
        assert len(failures) == times


@pytest.mark.parametrize(
    ("times", "text"),
    [(KEPT, "devices failed"), (KEPT + 5, "devices failed; 5 more errors are in the log alone")],
)
def test_the_first_failures_are_kept_and_the_others_counted(times: int, text: str) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        fail_often(times)
    assert raised.value.message == text
    names = [str(each).partition(" failed")[0] for each in raised.value.exceptions]
    assert names == [f"number {number}" for number in range(KEPT)]
