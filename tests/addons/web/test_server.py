"""The page's server: whom it refuses, what it serves, and what it does to a device."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from wsproto.events import CloseConnection

from aisrv import digits
from aisrv.addons.web.device.controls import CONTROLS, LARGEST_BODY, Controls, Target
from aisrv.addons.web.hub import Hub
from aisrv.addons.web.server import (
    HEADERS,
    KEEP_ALIVE_SECONDS,
    LARGEST_MESSAGE,
    NO_TOKEN,
    TOKEN_SECONDS,
    PageServer,
    page_files,
)
from aisrv.board import Board
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.listeners.websocket import LARGEST_REQUEST, REQUEST_SECONDS
from tests.support.benches.served_page import TOKEN, UPGRADE, Page, hello, opened, served


async def test_each_file_of_the_page_is_served_with_the_policy() -> None:
    async with served() as page:
        for path, file in page_files().items():
            answer = await page.send(f"GET {path} HTTP/1.0\r\nHost: localhost:{page.port}\r\n\r\n".encode())
            head, _, body = answer.partition(b"\r\n\r\n")
            assert body == file.data, path
            for name, value in HEADERS:
                assert name + b": " + value in head.lower().replace(value.lower(), value), name


CODE_OF_TEXT = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:"
)
COMMENTS = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
ELSEWHERE = r"\w+://(?!\$\{location\.host\})\S*|[\"'`(]//\S*"


@pytest.mark.parametrize("path", sorted(set(page_files()) - {"/"}))
def test_the_page_makes_no_code_of_text_and_asks_no_other_host(path: str) -> None:
    text = page_files()[path].data.decode()
    assert re.findall(CODE_OF_TEXT, text) == []
    plain = COMMENTS.sub("", text).replace("http://www.w3.org/2000/svg", "")  # the name of SVG's elements
    assert re.findall(ELSEWHERE, plain) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:PORT"}, 200),
        ({"Host": "[::1]:PORT"}, 200),
        ({"Host": "LOCALHOST:PORT"}, 200),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1:1"}, 403),
        ({"Host": "evil.example:PORT"}, 403),
        ({"Host": "127.0.0.1:PORT.evil.example"}, 403),
        ({"Host": "\xff:PORT"}, 403),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Origin": "http://localhost:PORT"}, 403),
        ({"Origin": "https://127.0.0.1:PORT"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 200),
    ],
)
async def test_names_and_origins(headers: dict[str, str], status: int) -> None:
    async with served() as page:
        given = {key: value.replace("PORT", str(page.port)) for key, value in headers.items()}
        assert (await page.ask("/", **given))[0] == status


async def test_a_page_for_other_machines_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    async with open_device(runner=inline) as device, trio.open_nursery() as nursery:
        server = PageServer(Hub([]), Controls({"1-1": Target(device, device.usb)}), TOKEN)
        await nursery.start(server.serve, "0.0.0.0")
        nursery.cancel_scope.cancel()
    warning = "a web page may come from other machines: listening on 0.0.0.0, with "
    assert caplog.messages == [warning + PageServer.PROTECTION]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_pages_of_other_sites_do_nothing(site: str) -> None:
    async with served() as page:
        asked = await page.ask("/do/reset?device=1-1", "POST", X_Aisrv_Token=TOKEN, Sec_Fetch_Site=site)
        upgrade = {key.replace("-", "_"): value for key, value in UPGRADE.items()}
        assert asked[0] == 403
        assert (await page.ask("/socket", Sec_Fetch_Site=site, **upgrade))[0] == 403


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", "\xff"])
async def test_nothing_is_done_without_the_token(token: str) -> None:
    async with served() as page:
        assert (await page.ask("/do/infer?device=1-1", "POST", X_Aisrv_Token=token))[0] == 403
        assert page.device.engines[0].errors == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1", 404),
        (b"GET /../server.py HTTP/1.1", 404),
        (b"GET /%2e%2e/server.py HTTP/1.1", 404),
        (b"GET //[ HTTP/1.1", 404),
        (b"GET http://[::1 HTTP/1.1", 404),
        (b"GET /do/infer HTTP/1.1", 404),
        (b"PUT / HTTP/1.1", 405),
        (b"OPTIONS * HTTP/1.1", 405),
        (b"GET /socket HTTP/1.1", 426),
        (b"POST /socket HTTP/1.1\r\nContent-Length: 0", 426),
        (b"GET /\xff HTTP/1.1", 400),
        (b"PRI * HTTP/2.0", 405),
        (b"nonsense", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20000, 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1", 413),
    ],
)
async def test_requests_that_are_refused(request_: bytes, status: int) -> None:
    async with served() as page:
        host = b"Host: 127.0.0.1:%d" % page.port
        answer = await page.send(request_ + b"\r\n" + host + b"\r\n\r\nx")
        assert answer.split()[1] == b"%d" % status
        assert (await page.ask("/"))[0] == 200


@pytest.mark.parametrize(("first", "second"), [("Host: {0}", "Host: {0}"), ("Origin: http://{0}",) * 2])
async def test_two_of_a_header_that_decides_are_refused(first: str, second: str) -> None:
    async with served() as page:
        host = f"127.0.0.1:{page.port}"
        lines = ["GET / HTTP/1.1", first.format(host), second.format(host)]
        if not first.startswith("Host"):
            lines.append(f"Host: {host}")
        answer = await page.send("\r\n".join([*lines, "", ""]).encode())
        assert answer.split()[1] == b"400"


def get(page: Page, path: str = "/page.css", *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{page.port}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def answer_of(stream: trio.SocketStream) -> tuple[bytes, bytes]:
    """The next answer on a connection: its head, and its body."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = await stream.receive_some(1)
        assert piece, got
        got += piece
    head = got[:-4].lower()
    size = int(head.partition(b"content-length: ")[2].split()[0])
    body = b""
    while len(body) < size:
        body += await stream.receive_some(size - len(body))
    return head, body


async def test_a_connection_takes_one_request_after_another() -> None:
    async with served() as page, await trio.open_tcp_stream("127.0.0.1", page.port) as stream:
        style = page_files()["/page.css"].data
        for _ in range(3):
            await stream.send_all(get(page))
            head, body = await answer_of(stream)
            assert body == style
            assert b"connection:" not in head
        post = (
            f"POST /do/infer?device=1-1 HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nX-Aisrv-Token: {TOKEN}\r\n"
        )
        reset = post.replace("infer", "reset").encode() + b"Content-Length: 0\r\n\r\n"
        await stream.send_all(reset + get(page) + reset)
        assert [(await answer_of(stream))[1] for _ in range(3)] == [b"done\n", style, b"done\n"]


async def test_a_connection_becomes_a_socket_after_other_requests() -> None:
    async with served() as page, await trio.open_tcp_stream("127.0.0.1", page.port) as stream:
        await stream.send_all(get(page))
        await answer_of(stream)
        await stream.send_all(get(page, "/socket", *(f"{key}: {value}" for key, value in UPGRADE.items())))
        assert (await stream.receive_some(1024)).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /page.css HTTP/1.1\r\nConnection: close", 200),
        (b"GET /page.css HTTP/1.0", 200),
        (b"GET /nothing HTTP/1.1", 404),
        (b"GET /page.css HTTP/1.1\r\nOrigin: http://evil.example", 403),
        (b"POST /do/infer HTTP/1.1\r\nContent-Length: 5", 403),
        (b"PUT /page.css HTTP/1.1", 405),
    ],
)
async def test_a_connection_ends_when_the_peer_wants_it_or_is_refused(request_: bytes, status: int) -> None:
    async with served() as page:
        host = b"\r\nHost: 127.0.0.1:%d\r\n\r\n" % page.port
        got = await page.send(request_ + host + get(page))
        assert got.count(b"HTTP/1.1 ") == 1
        assert got.split()[1] == b"%d" % status
        assert b"connection: close\r\n" in got.lower()


@pytest.mark.parametrize(("wait", "stays"), [(KEEP_ALIVE_SECONDS - 1, True), (KEEP_ALIVE_SECONDS + 1, False)])
def test_a_connection_waits_for_half_a_minute(wait: float, stays: bool) -> None:
    async def ask() -> None:
        async with served() as page, await trio.open_tcp_stream("127.0.0.1", page.port) as stream:
            await stream.send_all(get(page))
            await answer_of(stream)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(wait)
            await trio.testing.wait_all_tasks_blocked()
            if stays:
                await stream.send_all(get(page))
                await answer_of(stream)
            else:
                assert await stream.receive_some(1) == b""

    clock = trio.testing.MockClock()
    trio.run(ask, clock=clock)


@pytest.mark.parametrize("begun", [b"", b"GET / HT"])
def test_a_second_request_that_begins_comes_within_ten_seconds(begun: bytes) -> None:
    async def ask() -> None:
        async with served() as page, await trio.open_tcp_stream("127.0.0.1", page.port) as stream:
            await stream.send_all(get(page) + begun)
            await answer_of(stream)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(REQUEST_SECONDS + 1)
            await trio.testing.wait_all_tasks_blocked()
            if begun:
                assert await stream.receive_some(1) == b""
            else:
                await stream.send_all(get(page))
                await answer_of(stream)

    clock = trio.testing.MockClock()
    trio.run(ask, clock=clock)


@pytest.mark.parametrize("piece", [1, 1000, 1024, 100_000])
@pytest.mark.parametrize(("size", "status"), [(LARGEST_REQUEST, b"200"), (LARGEST_REQUEST + 1, b"400")])
async def test_the_size_of_a_head_is_limited(size: int, status: bytes, piece: int) -> None:
    async with served() as page:
        head = get(page, "/page.css", "Connection: close", "X: ")
        head = head[:-4] + b"x" * (size - len(head)) + head[-4:]
        async with await trio.open_tcp_stream("127.0.0.1", page.port) as stream:
            for at in range(0, len(head), piece):
                await stream.send_all(head[at : at + piece])
            assert (await answer_of(stream))[0].split()[1] == status


async def test_a_large_body_is_taken_in_any_pieces() -> None:
    async with served() as page:
        model = digits.model_bytes() + bytes(200_000)
        assert (await page.do("model", model))[0] == 200


@pytest.mark.parametrize(
    "first", ["", "{}", "[]", '{"token": "x", "see": "1-1"}', '{"token": 7, "see": null}', "\0"]
)
async def test_a_socket_without_the_token_is_closed(first: str) -> None:
    async with served() as page, opened(page, first) as socket:
        event = await socket.event()
        assert isinstance(event, CloseConnection)
        assert event.code == NO_TOKEN


async def test_a_message_that_is_too_long_ends_the_socket() -> None:
    async with served() as page, opened(page, hello()) as socket:
        await socket.message()
        await socket.send("x" * (LARGEST_MESSAGE + 1))
        while not isinstance(event := await socket.event(), CloseConnection):
            pass
        assert event.code == 1009


async def test_a_binary_message_ends_the_socket() -> None:
    async with served() as page, opened(page, hello()) as socket:
        await socket.message()
        await socket.send_binary(b"{}")
        while not isinstance(event := await socket.event(), CloseConnection):
            pass
        assert event.code == 1003


@pytest.mark.parametrize(("wait", "closed"), [(TOKEN_SECONDS - 0.1, False), (TOKEN_SECONDS + 0.1, True)])
def test_the_token_comes_within_five_seconds(wait: float, closed: bool) -> None:
    async def run() -> None:
        async with served() as page, opened(page, None) as socket:
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(wait)
            await trio.testing.wait_all_tasks_blocked()
            if closed:
                event = await socket.event()
                assert isinstance(event, CloseConnection)
                assert event.code == NO_TOKEN
            else:
                await socket.send(hello())
                assert (await socket.message())["board"]["name"] == "1-1"

    clock = trio.testing.MockClock()
    trio.run(run, clock=clock)


async def test_the_board_comes_first_then_its_state() -> None:
    async with served() as page, opened(page, hello()) as socket:
        board = (await socket.message())["board"]
        assert board["name"] == "1-1"
        assert board["tiles"]["1"]["tasks"][2] == "usb_data"
        assert "log" in await socket.message()
        state = (await socket.message())["patch"]
        assert state["cores"]["0.0"]["s"] == "waiting"
        assert state["cores"]["0.0"]["on"] == "usb_data or spi_buffer"


async def test_a_run_changes_what_is_shown() -> None:
    async with served() as page, opened(page, hello()) as socket:
        assert await page.do("model", digits.model_bytes()) == (200, "done")
        image = digits.test_images()[0]
        assert await page.do("input", image.image) == (200, "done")
        assert await page.do("infer") == (200, "done")
        engine: dict[str, Any] = {}
        while engine.get("n") != 1:
            engine |= (await socket.message()).get("patch", {}).get("engines", {}).get("0", {})
        best = max(engine["scores"], key=lambda score: score[1])
        assert best[0] == image.label
        assert page.view.pictures()[2, 0][:8] == bytes((2, 0, 8, 0, 8, 0, 0, 0))


async def test_resets_while_a_page_is_fed_end_that_page_alone() -> None:
    async with served() as page:
        for _ in range(10):
            async with opened(page, hello()) as socket:
                await socket.message()
                socket.reset()
            assert (await page.ask("/"))[0] == 200
        assert await page.do("model", digits.model_bytes()) == (200, "done")
        assert all(core.trap is None for tile in page.device.node.tiles for core in tile.cores)


async def test_the_grid_names_all_devices() -> None:
    async with served(Board(serial="<b>LAB</b>")) as page, opened(page, hello("grid")) as socket:
        assert await socket.message() == {"grid": True, "devices": ["1-1"]}
        assert (await socket.message())["patch"]["devices"]["1-1"]["serial"] == "<b>LAB</b>"


@pytest.mark.parametrize(
    ("name", "values", "body", "status", "text"),
    [
        ("infer", {}, b"", 409, "START_INFER: "),
        ("model", {}, b"no model", 409, "SET_MODEL_ARENA: "),
        ("gpio", {"on": "2"}, b"", 400, "on is a whole number from 0 to 1, not 2"),
        ("gpio", {}, b"", 400, "on is a whole number from 0 to 1"),
        ("threshold", {"output": "4", "value": "0"}, b"", 400, "output is a whole number from 0 to 3, not 4"),
        ("threshold", {"output": "0", "value": "x"}, b"", 400, "value is a whole number from -128 to 127"),
        ("infer", {"device": "2-9"}, b"", 404, "there is no such device"),
        ("infer", {"engine": "7"}, b"", 404, "there is no such engine"),
        ("infer", {"engine": "-1"}, b"", 404, "there is no such engine"),
        ("infer", {}, b"x", 413, "a body of more than 0 bytes"),
        ("nothing", {}, b"", 404, "there is no such control"),
    ],
)
async def test_what_a_control_refuses(
    name: str, values: dict[str, str], body: bytes, status: int, text: str
) -> None:
    async with served() as page:
        found, said = await page.do(name, body, **values)
        assert (found, said[: len(text)]) == (status, text)


SEEN: dict[str, tuple[dict[str, str], Callable[[Device], object], object]] = {
    "gpio": ({"on": "1"}, lambda device: device.engines[0].gpio.enabled, True),
    "gpio-mode": ({"max": "1"}, lambda device: device.engines[0].gpio.mode.name, "MAX"),
    "threshold": (
        {"output": "2", "value": "-7"},
        lambda device: device.engines[0].gpio.thresholds,
        [-128, -128, -7, -128],
    ),
}


@pytest.mark.parametrize("name", SEEN)
async def test_a_control_is_seen_at_the_device(name: str) -> None:
    values, seen, wanted = SEEN[name]
    async with served() as page:
        assert await page.do(name, **values) == (200, "done")
        assert seen(page.device) == wanted


async def test_a_reset_of_the_bus_reaches_it() -> None:
    async with served() as page:
        page.device.usb.reset()
        assert await page.do("reset") == (200, "done")


async def test_the_cable_is_pulled_and_put_in_again() -> None:
    async with served() as page:
        assert await page.do("unplug") == (200, "done")
        assert page.device.usb.is_unplugged
        assert await page.do("plug") == (200, "done")
        assert not page.device.usb.is_unplugged


def test_each_control_has_a_command_or_an_action() -> None:
    for name, control in CONTROLS.items():
        assert (control.command is None) is (control.action is not None), name
        assert control.most in (0, LARGEST_BODY), name


async def test_a_tab_that_is_closed_cancels_no_command() -> None:
    async with served() as page:
        for _ in range(20):
            stream = await trio.open_tcp_stream("127.0.0.1", page.port)
            data = digits.model_bytes()
            head = (
                f"POST /do/model?device=1-1 HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n"
                f"X-Aisrv-Token: {TOKEN}\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            await stream.send_all(head.encode() + data)
            await trio.testing.wait_all_tasks_blocked()
            await stream.aclose()
        assert await page.do("model", digits.model_bytes()) == (200, "done")
        assert all(core.trap is None for tile in page.device.node.tiles for core in tile.cores)
