"""The page of `aisrv run --web` in a real browser: it shows what the device does, and its controls reach it.

One browser and one device serve all tests; those that only look share a page, others open their own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Browser, Page, expect

from aisrv import digits
from host_tools.client import AiServer
from host_tools.errors import HostError
from tests.support.peers.chromium import browser
from tests.support.programs import running

__all__ = ["browser"]

NAMES = '<img src=x onerror="document.title=1">', "b" * 30, "<b>third</b>", "four"
"""LEDs of the board, which the page must show as text."""
BOARD = f"""
[[engines]]
kind = "kernels"
leds = [{", ".join(f"'{name}'" for name in NAMES)}]
"""


@dataclass
class Shown:
    """A device, the address of its page, and a browser."""

    device: str
    url: str
    browser: Browser

    def page(self) -> Page:
        """Open the page; whatever it writes to the console is a failure."""
        page = self.browser.new_page(viewport={"width": 1600, "height": 900})
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.goto(self.url)
        expect(page.get_by_role("status").first).to_have_text("live")
        return page


problems: list[str] = []


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("web")
    board, model = folder / "board.toml", folder / "digits.tflite"
    board.write_text(BOARD, encoding="utf-8")
    model.write_bytes(digits.model_bytes())
    with running("--web", "0", "--board", str(board), "--model", str(model)) as (process, ready):
        assert process.stderr is not None
        url = next(found[1] for line in process.stderr if (found := re.search(r"open (\S+)", line)))
        yield Shown(f"{ready.partition(', ')[0]}", url, browser)


@pytest.fixture(scope="module")
def page(shown: Shown) -> Iterator[Page]:
    """A page for tests that only look."""
    opened = shown.page()
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def no_problems() -> Iterator[None]:
    problems.clear()
    yield
    assert problems == []


def run_a_digit(shown: Shown, number: int) -> int:
    """Have a host run an image; return the digit."""
    image = digits.test_images()[number]
    with AiServer.open(shown.device, timeout=20) as server:
        server.run(image.image)
    return image.label


def test_scores_follow_what_a_host_runs(shown: Shown, page: Page) -> None:
    label = run_a_digit(shown, 0)
    expect(page.locator(".bars .first").first).to_have_text(f"class {label}")


def test_the_board_names_tasks_and_what_they_wait_for(page: Page) -> None:
    core = page.locator("svg.chip g.core").filter(has_text="aiengine 0")
    expect(core).to_contain_text("select")
    expect(page.locator("svg.chip")).to_contain_text("Tile 1")


@pytest.mark.parametrize(
    "title", ["Board", "Engine 0", "Time by operator", "Memory", "Traffic", "Log", "Bus"]
)
def test_each_panel_is_there(page: Page, title: str) -> None:
    expect(page.get_by_role("region", name=re.compile(f"^{title}"))).to_be_visible()


def test_a_model_and_a_run_from_the_page(shown: Shown, tmp_path: Path) -> None:
    page = shown.page()
    model = tmp_path / "other.tflite"
    model.write_bytes(digits.two_output_model_bytes())
    page.locator('input[type="file"]').first.set_input_files(model)
    expect(page.get_by_text("model: done")).to_be_visible()
    page.get_by_role("button", name="Infer").click()
    expect(page.get_by_text("infer: done")).to_be_visible()
    with AiServer.open(shown.device, timeout=20) as server:
        assert server.output_length(1) == digits.FEATURES
    page.locator('input[type="file"]').first.set_input_files(
        {"name": "digits.tflite", "mimeType": "", "buffer": digits.model_bytes()}
    )
    expect(page.get_by_text("model: done")).to_be_visible()
    page.close()


@pytest.mark.long("a real browser as well; tests/addons/web pulls the cable without one")
def test_a_pulled_cable_takes_the_device_from_its_hosts(shown: Shown) -> None:
    page = shown.page()
    pull, put = (page.get_by_role("button", name=name) for name in ("Pull the cable", "Plug it in"))
    expect(put).to_be_disabled()
    pull.click()
    expect(put).to_be_enabled()
    with pytest.raises(HostError), AiServer.open(shown.device, timeout=5):
        pass
    put.focus()
    page.keyboard.press("Enter")
    expect(pull).to_be_enabled()
    with AiServer.open(shown.device, timeout=20) as server:
        assert server.input_length(0) == 64
    page.close()


def test_what_is_refused_is_said(shown: Shown) -> None:
    page = shown.page()
    page.locator('input[type="file"]').first.set_input_files(
        {"name": "bad.tflite", "mimeType": "", "buffer": b"no model"}
    )
    expect(page.get_by_text("SET_MODEL_ARENA: ").first).to_be_visible()
    problems[:] = [each for each in problems if "409" not in each]  # Chromium logs the answer itself
    page.locator('input[type="file"]').first.set_input_files(
        {"name": "digits.tflite", "mimeType": "", "buffer": digits.model_bytes()}
    )
    expect(page.get_by_text("model: done")).to_be_visible()
    page.close()


def test_names_are_text(page: Page) -> None:
    expect(page.get_by_text(NAMES[0]).first).to_be_visible()
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_is_wider_than_the_window(page: Page, width: int, scheme: Literal["light", "dark"]) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    expect(page.locator("svg.chip")).to_be_visible()
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


def test_a_page_without_the_token_asks_for_it(shown: Shown) -> None:
    url, _, token = shown.url.partition("#")
    page = shown.browser.new_page()
    page.goto(f"{url}#wrong")
    box = page.get_by_label("Address or token")
    box.fill(token)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("status").first).to_have_text("live")
    assert token not in page.url
    page.close()
