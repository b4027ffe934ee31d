"""Seven views, dark and light, on a phone and on a screen: axe-core finds nothing, nothing is too wide."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Page, expect

from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, EngineSpec, FlashSpec, SensorSpec, TaskSpec
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command
from aisrv.xcore.traps import ecall
from tests.browser.shown_devices import TOKEN, ShownDevices
from tests.browser.watched_page import SCHEMES, WIDTHS, PageOpener
from tests.support.peers.chromium import violations
from tests.support.programs import HOST

BOARD = Board(
    description="a camera with two engines",
    sensor=SensorSpec(1, "pattern:bars"),
    flashes=(FlashSpec(),),
    engines=(EngineSpec(leds=("ready", "busy")), EngineSpec(tile=1, arena_bytes=96 << 10)),
)
TRAPPED = Board(serial="TRAPPED", tasks=(TaskSpec("faller", "tests.browser.test_views:fall"),))
MANY = 12
LEAST_CONTRAST = 4.5
"""Of text on its background, by WCAG 2.2, success criterion 1.4.3."""
FAINT = """(least) => {
    const channels = (color) => color.match(/[\\d.]+/g).map(Number),
        linear = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
        light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue),
        fill = (each) => getComputedStyle(each).fill,
        card = (each) => getComputedStyle(each.closest(".card")).backgroundColor,
        found = [];
    for (const text of document.querySelectorAll("svg.chip text, svg.map text")) {
        const box = text.parentNode.querySelector(":scope > rect"),
            filled = box && !box.classList.contains("free") && fill(box) !== "none",
            lights = [fill(text), filled ? fill(box) : card(text)].map((color) => light(channels(color))),
            contrast = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
        if (text.textContent && contrast < least) found.push([text.textContent, contrast]);
    }
    return found;
}"""
"""Texts of drawings with less contrast: axe-core leaves them out."""


async def fall() -> None:
    ecall("the floor is wet")


def board(opened: PageOpener, places: "Places", width: int, scheme: str) -> Page:
    page = opened(f"{places.shown.url}&see=1-1", width, scheme)
    expect(page.locator(".bars .first").first).to_be_visible()
    return page


def thresholds(opened: PageOpener, places: "Places", width: int, scheme: str) -> Page:
    page = board(opened, places, width, scheme)
    for summary in page.get_by_text("Outputs and thresholds").all():
        summary.click()
    expect(page.locator(".thresholds")).to_have_count(2)
    return page


def trap(opened: PageOpener, places: "Places", width: int, scheme: str) -> Page:
    page = opened(f"{places.shown.url}&see=1-2", width, scheme)
    expect(page.locator("#alarm")).to_contain_text("the floor is wet")
    return page


def grid(opened: PageOpener, places: "Places", width: int, scheme: str) -> Page:
    page = opened(f"{places.shown.url}&see=grid", width, scheme)
    expect(page.locator(".many a.bad")).to_have_count(1)
    expect(page.locator(".many a")).to_have_count(MANY)
    return page


def token(opened: PageOpener, places: "Places", width: int, scheme: str) -> Page:
    url = places.shown.url.replace(TOKEN, "wrong")
    page = opened(url, width, scheme, status="needs its token")
    expect(page.get_by_role("dialog", name="This page needs its token")).to_be_visible()
    return page


def real_board(opened: PageOpener, places: "Places", width: int, scheme: str) -> Page:
    page = opened(places.host_url, width, scheme)
    page.get_by_text("Outputs and thresholds").click()
    expect(page.get_by_role("button", name="Reset device")).to_be_visible()
    return page


@dataclass
class Places:
    """Devices with their page, and the address of the page of one that a host reaches."""

    shown: ShownDevices
    host_url: str


VIEWS: dict[str, Callable[[PageOpener, Places, int, str], Page]] = {
    "board": board,
    "thresholds open": thresholds,
    "trap": trap,
    "token dialog": token,
    "grid": grid,
    "real board": real_board,
}
"""All but the one without a connection."""


@contextmanager
def page_of_a_host(address: str) -> Iterator[str]:
    """Run `aisrv-host web` before a device of a USB/IP server; the address of its page."""
    with subprocess.Popen(
        [*HOST, "--device", f"usbip:{address}", "web", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            found = re.search(r"open (\S+)", process.stderr.readline())
            assert found
            yield found[1]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    others = [Board(serial=f"IDLE-{number}") for number in range(2, MANY)]
    with (
        ShownDevices(BOARD, TRAPPED, *others) as shown,
        BackgroundDevice(Board(sensor=SensorSpec(1, "pattern:bars"))) as device,
        page_of_a_host(device.usbip_address) as host_url,
    ):
        shown.call(lambda device: set_command(device.local[0], Command.START_INFER))
        yield Places(shown, host_url)


def check(page: Page, axe: str, width: int, scheme: str) -> None:
    assert violations(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("html").get_attribute("data-theme") == scheme
    assert page.evaluate(FAINT, LEAST_CONTRAST) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_use_a_view(
    opened: PageOpener, places: Places, axe: str, view: str, width: int, scheme: str
) -> None:
    check(VIEWS[view](opened, places, width, scheme), axe, width, scheme)


def test_everybody_can_use_the_view_without_a_connection(opened: PageOpener, axe: str) -> None:
    with ShownDevices() as shown:
        pages = {(width, scheme): opened(shown.url, width, scheme) for width in WIDTHS for scheme in SCHEMES}
    for (width, scheme), page in pages.items():
        expect(page.locator("#link")).to_have_text("not connected")
        expect(page.locator("svg.chip")).to_be_visible()
        check(page, axe, width, scheme)
    opened.forgive("ERR_CONNECTION_REFUSED")


def test_dark_and_light_differ(opened: PageOpener, places: Places) -> None:
    look = "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color"
    first, second = (board(opened, places, 1600, scheme).evaluate(look) for scheme in SCHEMES)
    assert first != second
