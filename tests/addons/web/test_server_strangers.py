"""Connections that have shown no token cannot keep the page from those that have one."""

from contextlib import AsyncExitStack, suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.web.server import PAGES
from tests.support.benches.served_page import TOKEN, Page, hello, opened, served

GENEROUS = 30.0


async def connect(page: Page, stack: AsyncExitStack, data: bytes = b"") -> trio.SocketStream:
    """A connection that sends something and stays."""
    stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", page.port))
    await stream.send_all(data)
    await wait_all_tasks_blocked()
    return stream


def request(page: Page, line: str, *headers: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: 127.0.0.1:{page.port}", *headers, "", ""]).encode()


async def is_open(stream: trio.SocketStream) -> bool:
    """Whether the server has not ended a connection, once what it said is read."""
    with trio.move_on_after(0.05), suppress(trio.BrokenResourceError):
        while await stream.receive_some(65536):
            pass
        return False
    return True


async def test_the_oldest_without_a_token_is_closed_for_the_next() -> None:
    async with served() as page, AsyncExitStack() as stack:
        streams = [await connect(page, stack) for _ in range(PAGES)]
        assert await is_open(streams[0])
        for number in range(3):
            await connect(page, stack)
            assert not await is_open(streams[number])
            assert await is_open(streams[number + 1])
            assert page.server.peers == PAGES


@pytest.mark.parametrize("begun", ["", "GET / HT", "GET /socket"])
async def test_strangers_do_not_hold_the_page(begun: str) -> None:
    """Neither in their first request nor after a file or the upgrade, whose token has not come."""
    async with served() as page, AsyncExitStack() as stack:
        upgrade = request(
            page,
            "GET /socket",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version: 13",
        )
        data = upgrade if begun == "GET /socket" else begun.encode()
        for _ in range(PAGES + 10):
            await connect(page, stack, data)
        with trio.fail_after(GENEROUS):
            assert (await page.ask("/"))[0] == 200
            async with opened(page, hello()) as socket:
                await socket.message()
                assert page.server.peers == PAGES


async def test_who_has_shown_the_token_stays() -> None:
    async with served() as page, AsyncExitStack() as stack:
        socket = await stack.enter_async_context(opened(page, hello()))
        await socket.message()
        post = request(page, "POST /do/gpio?device=1-1&on=1", f"X-Aisrv-Token: {TOKEN}", "Content-Length: 0")
        doing = await connect(page, stack, post)
        file = await connect(page, stack, request(page, "GET /"))
        for _ in range(2 * PAGES):
            await connect(page, stack)
        assert page.server.peers == PAGES
        assert not await is_open(file)
        assert await is_open(doing)
        page.device.engines[0].inferences += 1
        with trio.fail_after(GENEROUS):
            await socket.message()


async def test_where_all_have_shown_the_token_the_next_is_turned_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as page, AsyncExitStack() as stack:
        for _ in range(PAGES):
            socket = await stack.enter_async_context(opened(page, hello()))
            await socket.message()
        assert not await is_open(await connect(page, stack))
        assert page.server.peers == PAGES
    assert f"turned away: there are {PAGES} already" in caplog.text
