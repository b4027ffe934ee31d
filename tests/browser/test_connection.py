"""The page's connection: it comes back with its server, and a tab that is closed takes no command with it."""

import base64
import re
import signal
import socket
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Browser, expect

from aisrv import digits
from host_tools.client import AiServer
from tests.browser.shown_devices import TOKEN
from tests.browser.watched_page import PageOpener
from tests.support.programs import Started, running

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED = 200
"""Pages that are closed within a command."""
WHOLE = 20
"""Of them tabs that are opened and closed, by the page's button; the others are left for another page."""
BACK = 6.0
"""Seconds until a page is live again whose device was killed and started."""
STARTS = 3
"""The fastest of so many starts counts: a busy machine may hold one up."""
ASK = """async ([token, name, body]) => {
    const data = body && Uint8Array.from(atob(body), (each) => each.charCodeAt(0)),
        headers = { "X-Aisrv-Token": token };
    fetch(`/do/${name}?device=1-1&engine=0`, { method: "POST", body: data, headers }).catch(() => {});
}"""
"""Has a tab ask for a command, whose answer it does not await."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a token and a model."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    return tmp_path


@contextmanager
def serving(place: Path, port: int) -> "Iterator[tuple[Started, str, str]]":
    """Run a device with its page at a port: the process, the device's address, and the page's."""
    options = "--web", str(port), "--web-token", str(place / "token"), "--model", str(place / "digits.tflite")
    with running(*options) as (process, ready):
        found = re.search(r"web:(http://\S+)", ready)
        assert found, ready
        yield process, ready.partition(", ")[0], f"{found[1]}#{TOKEN}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def test_a_page_is_live_within_six_seconds_of_a_new_start(opened: PageOpener, place: Path) -> None:
    port = free_port()
    taken = []
    with serving(place, port) as (process, _, url):
        page = opened(url)
        process.kill()
        process.wait()
        expect(page.locator("#link")).to_have_text("not connected")
        expect(page.locator("svg.chip")).to_be_visible()
    for _ in range(STARTS):
        with serving(place, port) as (process, device, _):
            begun = time.monotonic()
            expect(page.locator("#link")).to_have_text("live", timeout=30_000)
            taken.append(time.monotonic() - begun)
            with AiServer.open(device, timeout=20) as server:
                server.run(digits.test_images()[0].image)
            expect(page.locator(".engine dd").first).to_have_text("1")
            process.kill()
            process.wait()
            expect(page.locator("#link")).to_have_text("not connected")
        if taken[-1] < BACK:
            break
    assert min(taken) < BACK, taken
    opened.forgive("WebSocket")


def test_a_closed_tab_takes_no_command_with_it(browser: Browser, place: Path) -> None:
    model = base64.b64encode(digits.model_bytes()).decode()
    with serving(place, 0) as (process, device, url):
        bare = url.partition("#")[0] + "icon.svg"
        context = browser.new_context()
        bare_tab = context.new_page()
        bare_tab.goto(bare)
        for number in range(CLOSED):
            if number % (CLOSED // WHOLE):
                bare_tab.evaluate(ASK, [TOKEN, *(("model", model) if number % 2 else ("infer", ""))])
                bare_tab.goto(bare)
            else:
                tab = context.new_page()
                tab.goto(url)
                tab.get_by_role("button", name="Infer").click()
                tab.close()
        page = context.new_page()
        page.goto(url)
        expect(page.locator("#link")).to_have_text("live")
        expect(page.locator("#alarm")).to_be_hidden()
        expect(page.locator("svg.chip .core.halted")).to_have_count(0)
        inferences = page.locator(".engine dd").first
        expect(inferences).not_to_have_text("0")  # some of those commands ended
        done = inferences.inner_text()
        with AiServer.open(device, timeout=20) as server:
            assert server.run(digits.test_images()[0].image)
        expect(inferences).not_to_have_text(done)
        context.close()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Traceback" not in errors
