"""The page of `aisrv run --web` for everybody: axe-core finds nothing, keys reach all controls."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Browser, expect

from aisrv import digits
from tests.support.peers.chromium import axe, browser, violations
from tests.support.programs import Started, running

__all__ = ["axe", "browser"]
pytestmark = pytest.mark.long("it starts Chromium, as test_web_page.py does every day")

TOKEN = "t" * 32
KEYS = 25
"""Presses of Tab that go through all controls of one engine."""


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[tuple[Started, str]]:
    """Run a device with a model and its page: the process, and the page's address with the token."""
    token, model = folder / "token", folder / "digits.tflite"
    token.write_text(TOKEN)
    model.write_bytes(digits.model_bytes())
    options = "--web", str(port), "--web-token", str(token), "--model", str(model)
    with running(*options) as (process, ready):
        found = re.search(r"web:(http://\S+)", ready)
        assert found, ready
        yield process, f"{found[1]}#{TOKEN}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("page")) as (_, found):
        yield found


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 1600])
def test_axe_finds_nothing(browser: Browser, address: str, axe: str, width: int, scheme: str) -> None:
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.goto(address)
    expect(page.locator("#link")).to_have_text("live")
    page.get_by_text("Outputs and thresholds").click()
    page.get_by_role("button", name="Infer").click()
    expect(page.locator(".bars .first").first).to_be_visible()
    assert page.locator("html").get_attribute("data-theme") == scheme
    assert violations(page, axe) == []
    page.close()


def test_axe_finds_nothing_where_the_token_is_asked_for(browser: Browser, address: str, axe: str) -> None:
    page = browser.new_page()
    page.goto(address.replace(TOKEN, "wrong"))
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page, axe) == []
    page.close()


def test_keys_reach_the_controls(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    expect(page.locator("#link")).to_have_text("live")
    reached = set()
    for _ in range(KEYS):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
    assert {"Skip to the board", "Infer", "Outputs and thresholds", "Reset bus", "◐"} <= reached
    page.get_by_role("button", name="Infer").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("infer: done")).to_be_visible()
    page.close()


def test_the_page_comes_back_with_its_server(browser: Browser, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = browser.new_page()
    with ExitStack() as first:
        process, found = first.enter_context(serving(tmp_path, port))
        page.goto(found)
        expect(page.locator("#link")).to_have_text("live")
        process.terminate()
        process.wait(20)
        expect(page.locator("#link")).to_have_text("not connected")
        expect(page.locator("svg.chip")).to_be_visible()
    with serving(tmp_path, port):
        expect(page.locator("#link")).to_have_text("live", timeout=15_000)
    page.close()
