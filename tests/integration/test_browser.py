"""What a page in a browser can send to the listeners of a device: HTTP whose body the page chooses."""

import base64
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.addons.jacdac.wire.stream import with_length
from aisrv.cli.run import run
from flash_server.chip.serprog import pack_spi_operation
from tests.support.benches.listeners import LISTENERS
from tests.support.peers.chromium import chromium
from tests.support.peers.http_requests import requests
from tests.support.peers.usbip_host import request_import
from tests.support.programs import default_engine_line, next_command_line, running

ERASE = pack_spi_operation(b"\x06", 0) + pack_spi_operation(b"\xc7", 0)
FRAME = report_frame(0x7777777777777777, ServicePacket(1, 0x1101, b"of a page"))
BODIES = {
    "serprog": ERASE,
    "usbip": request_import(),
    "spi": b"\x01\0\0\0",
    "jacdac": bytes(300)
    + with_length(FRAME),  # zeros are skipped, wherever a frame of the header's bytes ends
}
"""What would do something to a listener; another one gets a zero."""
SPEAK_HTTP = "ws", "web"
HEAD = b"%s / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Length: %d\r\n\r\n%s"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"


def every_port() -> list[str]:
    """The options of `aisrv run` that open a listener each, at any port that is free."""
    given = [option.opts[0] for option in run.params]
    names = [name for name in given if name.endswith("-port") or name == "--web"]
    return [word for name in names for word in (name, "0")]


def places(ready: str) -> dict[str, tuple[str, int]]:
    """Addresses of a ready line by scheme."""
    found = {}
    for place in ready.split(", "):
        scheme, _, address = place.strip("/").replace("web:http://", "web:").partition(":")
        host, _, port = address.strip("/").rpartition("@")[2].rpartition(":")
        found[scheme] = (host, int(port))
    return found


def answer(address: tuple[str, int], data: bytes, *, ends: bool = False) -> bytes:
    """All that a listener says before it ends the connection; `ends` is whether its peer says no more."""
    with socket.create_connection(address, timeout=20) as peer:
        got = b""
        try:
            peer.sendall(data)
            if ends:
                with suppress(OSError):  # it has left
                    peer.shutdown(socket.SHUT_WR)
            while piece := peer.recv(4096):
                got += piece
        except (ConnectionResetError, BrokenPipeError):  # it left without reading all
            pass
    return got


OTHER = pytest.mark.long("listeners know it as they know GET and POST")


@pytest.mark.parametrize(
    "method", [b"POST", b"GET", pytest.param(b"PUT", marks=OTHER), pytest.param(b"OPTIONS", marks=OTHER)]
)
def test_no_listener_obeys_a_page(tmp_path: Path, method: bytes) -> None:
    chip = tmp_path / "chip"
    with running("--flash", str(chip), *every_port()) as (process, ready):
        found = places(ready)
        with chip.open("r+b") as file:
            file.write(b"precious")
        plain = [scheme for scheme in found if scheme not in SPEAK_HTTP]
        for scheme in plain:
            body = BODIES.get(scheme, b"\0")
            request = HEAD % (method, len(body), body)
            assert answer(found[scheme], request) == b""
            assert answer(found[scheme], b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE) == b""
        for scheme in SPEAK_HTTP:
            assert answer(found[scheme], HEAD % (method, 0, b"")).startswith(b"HTTP/1.1 403 ")
        assert chip.read_bytes()[:8] == b"precious"
        process.terminate()
        process.wait(20)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert errors.count("speaks HTTP, as pages in a browser do: refused") == 2 * len(plain)


def test_no_method_leaves_a_traceback_or_an_error(tmp_path: Path) -> None:
    """Each listener that the options of `aisrv run` open gets each method, of friends and of strangers."""
    token = tmp_path / "token"
    token.write_text("secret")
    options = "--flash", str(tmp_path / "chip"), "--web-token", str(token), *every_port()
    with running(*options) as (process, ready):
        found = places(ready)
        assert len(found) == len(LISTENERS)
        for scheme, address in found.items():
            for _, request in requests(address[1], "secret"):
                said = answer(address, request, ends=True)
                assert said.startswith(b"HTTP/1.1 ") or not said or scheme not in SPEAK_HTTP
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "Error" not in errors


def test_each_listener_has_an_address_and_strangers_are_named(tmp_path: Path) -> None:
    options = "--flash", str(tmp_path / "chip"), "--flash-port", "0", "--spi-port", "0"
    with running("--host", "0.0.0.0", "--spi-host", "127.0.0.2", *options) as (process, ready):
        found = places(ready)
        assert {scheme: host for scheme, (host, _) in found.items()} == {
            "usbip": "0.0.0.0",
            "spi": "127.0.0.2",
            "serprog": "127.0.0.1",
        }
        process.terminate()
        process.wait(20)
        assert process.stderr is not None
        errors = process.stderr.read().splitlines()
    warnings = [line for line in errors if "may come from other machines" in line]  # of a thread
    assert len(warnings) == 1
    assert "a USB/IP peer may come from other machines: listening on 0.0.0.0" in warnings[0]
    hints = "".join(f"{line}\n" for line in errors if line not in warnings)
    assert hints == default_engine_line() + next_command_line(ready)


PAGE = """<!doctype html><script>
const attacks = ATTACKS, opened = [];
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const socket = place => new Promise(done => {
  const ws = new WebSocket("ws://" + place);
  ws.onopen = () => { opened.push(place); done(); };
  ws.onerror = ws.onclose = done;
});
const post = (place, body) =>
  fetch("http://" + place, {method: "POST", mode: "no-cors", body}).catch(() => 0);
(async () => {
  for (const [place, body] of attacks) { await post(place, bytes(body)); await socket(place); }
  await fetch("/report", {method: "POST", body: JSON.stringify(opened)});
})();
</script>"""


class Site:
    """A page of another origin, what it reports, and a listener that shows what pages can send."""

    def __init__(self, attacks: list[tuple[str, bytes]]) -> None:
        site = self
        self.reported = threading.Event()
        self.opened: list[str] = []
        self.control = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        control = f"127.0.0.1:{self._listener.getsockname()[1]}"
        sent = [(place, base64.b64encode(body).decode()) for place, body in [(control, b"reached"), *attacks]]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(PAGE.replace("ATTACKS", json.dumps(sent)).encode())

            def do_POST(self) -> None:
                site.opened = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(b"")
                site.reported.set()

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self.server.serve_forever, self._listen)
        ]

    @property
    def address(self) -> str:
        return f"http://evil.example:{self.server.server_port}/"

    def _listen(self) -> None:
        with self._listener:
            for _ in range(2):  # the request and the WebSocket
                peer, _address = self._listener.accept()
                with peer:
                    peer.settimeout(20)
                    got = b""
                    while b"\r\n\r\n" not in got or (
                        got.startswith(b"POST") and not got.endswith(b"reached")
                    ):
                        got += peer.recv(65536)
                    self.control += got

    @contextmanager
    def serving(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.server.shutdown()
            self.server.server_close()


def test_page_of_another_origin_reaches_no_listener(tmp_path: Path) -> None:
    chip = tmp_path / "chip"
    with running("--flash", str(chip), *every_port()) as (_, ready):
        found = places(ready)
        with chip.open("r+b") as file:
            file.write(b"precious")
        attacks = [(f"{host}:{port}", BODIES.get(scheme, FRAME)) for scheme, (host, port) in found.items()]
        site = Site(attacks)
        with (
            socket.create_connection(found["jacdac"], timeout=20) as bus,
            site.serving(),
            subprocess.Popen(
                [
                    *(chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
                    *("--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"),
                    *("--host-resolver-rules=MAP evil.example 127.0.0.1", "--remote-debugging-port=0"),
                    site.address,
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "HOME": str(tmp_path)},
            ) as browser,
        ):
            try:
                assert site.reported.wait(60), "the page did not report"
            finally:
                browser.kill()
            # What a second peer sends comes behind all that the page has sent.
            last = report_frame(0x11, ServicePacket(1, 0x1101, b"last"))
            with socket.create_connection(found["jacdac"], timeout=20) as other:
                other.sendall(with_length(last))
                heard = b""
                while last not in heard:
                    heard += bus.recv(65536)
        assert b"reached" in site.control
        assert b"Origin: http://evil.example" in site.control
        assert site.opened == []
        assert FRAME not in heard
        assert chip.read_bytes()[:8] == b"precious"
