"""`aisrv-host web` as a process: its lines, its page, its errors and its end."""

import json
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, TextMessage
from wsproto.events import Request as WsRequest

from aisrv.attach.background import BackgroundDevice
from host_tools.client import AiServer
from tests.support.programs import HOST, TIMEOUT, Started, run_process, start_process

TOKEN = "t" * 32


@pytest.fixture(scope="module")
def device() -> Iterator[str]:
    with BackgroundDevice() as running:
        yield f"usbip:{running.usbip_address}"


@contextmanager
def serving(*words: str) -> Iterator[tuple[Started, str]]:
    """Run the command: its process, and its first line."""
    process = start_process([*HOST, *words])
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def page(device: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The device, and the address of its page."""
    token = tmp_path_factory.mktemp("page") / "token"
    token.write_text(f"{TOKEN}\n")
    with serving("web", "0", "--device", device, "--web-token", str(token)) as (process, ready):
        found = re.fullmatch(r"aisrv-host: ready at web:(http://127\.0\.0\.1:\d+/)\n", ready)
        assert found, ready
        assert process.stderr is not None
        assert process.stderr.readline() == f"aisrv-host: open {found[1]}#{TOKEN}\n"
        yield device, found[1]


def do(
    page: tuple[str, str],
    name: str,
    token: str = TOKEN,
    headers: Mapping[str, str] = MappingProxyType({}),
    **values: str,
) -> tuple[int, str]:
    """Ask for a control: the status of the answer, and its text."""
    query = urlencode({"device": page[0], **values})
    asked = Request(f"{page[1]}do/{name}?{query}", b"", {"X-Aisrv-Token": token, **headers}, method="POST")
    try:
        with urlopen(asked, timeout=TIMEOUT) as answer:
            return answer.status, answer.read().decode().strip()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode().strip()


class Page:
    """A page that looks at the device, as a WebSocket client of another project."""

    def __init__(self, peer: socket.socket, host: str) -> None:
        self._peer = peer
        self._client = WSConnection(ConnectionType.CLIENT)
        peer.sendall(self._client.send(WsRequest(host=host, target="/socket")))

    def send(self, text: str) -> None:
        self._peer.sendall(self._client.send(TextMessage(text)))

    def events(self) -> Iterator[Event]:
        while data := self._peer.recv(65536):
            self._client.receive_data(data)
            yield from self._client.events()


@contextmanager
def look(url: str, token: str = TOKEN) -> Iterator[Page]:
    """Open the page's WebSocket, and look at the device."""
    host = url.removeprefix("http://").rstrip("/")
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port)), timeout=TIMEOUT) as peer:
        page = Page(peer, host)
        assert isinstance(next(page.events()), AcceptConnection)
        page.send(json.dumps({"token": token, "see": ""}))
        yield page


def message(page: Page, member: str) -> Any:
    """The next message that has a member."""
    text = ""
    for event in page.events():
        if isinstance(event, TextMessage):
            text += event.data
            if event.message_finished:
                found, text = json.loads(text), ""
                if member in found:
                    return found[member]
    raise AssertionError(f"no {member}")


def test_the_page_is_served_with_its_modules(page: tuple[str, str]) -> None:
    for name, start in {"": b"<!doctype html>", "bus.js": b"//", "main.js": b"//"}.items():
        with urlopen(page[1] + name, timeout=TIMEOUT) as answer:
            assert answer.read().startswith(start)


def test_controls_need_the_token_and_reach_the_device(page: tuple[str, str]) -> None:
    assert do(page, "gpio", on="1") == (200, "done")
    assert do(page, "gpio", "wrong", on="0")[0] == 403
    assert do(page, "infer") == (409, "START_INFER: no model is loaded")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_pages_of_others_do_nothing(page: tuple[str, str], headers: dict[str, str]) -> None:
    assert do(page, "gpio", on="0") == (200, "done")
    assert do(page, "gpio", headers=headers, on="1")[0] == 403
    with look(page[1]) as socket_:
        assert message(socket_, "patch")["engines"]["0"]["gpio"][0] == 0


@pytest.mark.parametrize("words", [["info"], ["web", "0"]])
def test_a_second_program_is_told_that_the_device_is_in_use(page: tuple[str, str], words: list[str]) -> None:
    done = run_process([*HOST, "--device", page[0], *words])
    assert (done.returncode, done.stdout) == (3, "")
    assert "is in use by another program" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_and_gives_the_device_back(number: int, code: int) -> None:
    with BackgroundDevice() as running:
        device = f"usbip:{running.usbip_address}"
        with serving("--device", device, "--json", "web", "0") as (process, ready):
            assert process.stdout is not None
            url: Any = json.loads(ready + process.stdout.readline() + process.stdout.readline())
            process.send_signal(number)
            _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == code
        assert re.fullmatch(rf"aisrv-host: open {url['url']}#[-\w]{{32}}\n", errors)
        with AiServer.open(device) as server:
            assert server.id == 0x12345678


def test_a_device_that_goes_away_ends_it_with_one_line() -> None:
    with ExitStack() as plugged:
        device = f"usbip:{plugged.enter_context(BackgroundDevice()).usbip_address}"
        with serving("web", "0", "--device", device) as (process, _):
            assert process.stderr is not None
            url, _, token = process.stderr.readline().removeprefix("aisrv-host: open ").strip().partition("#")
            with look(url, token) as page:
                assert message(page, "board")["name"] == device
                plugged.close()
                _, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors.count("\n")) == (3, 1)
    assert errors.startswith("aisrv-host: the device is gone")


def test_a_port_in_use_is_named_with_what_helps(device: str) -> None:
    with BackgroundDevice() as running, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_process([*HOST, "web", port, "--device", f"usbip:{running.usbip_address}"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"aisrv-host: port {port} of 127.0.0.1 is in use; PORT takes another, PORT 0 any that is free\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["web", "70000"], 2, "70000 is not in the range"),
        (["web", "--device", "nothing:"], 2, "nothing"),
        (["web", "--device", "usbip:127.0.0.1:1"], 3, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], code: int, text: str) -> None:
    done = run_process([*HOST, *words])
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_without_a_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("two words")
    done = run_process([*HOST, "web", "--web-token", path])
    assert done.returncode == 2
    assert "holds no token: letters, digits and signs in one line" in done.stderr
