"""The grid of many devices: each of them, what it does, and the way to its own view; 300 that rest, too."""

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import expect

from aisrv.board import Board, EngineSpec
from aisrv.device.device import Device
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command, set_large
from aisrv.protocol.engine_kind import EngineKind
from tests.browser.shown_devices import ShownDevices
from tests.browser.watched_page import WIDTHS, PageOpener

NAMES = "1-1", "1-2", "1-3"
IDLE = 300
UPDATES = 10
"""Changes of the grid that are waited for."""
A_SECOND = 2
"""Changes that the grid shows each second at least."""
MOST_RUNS = 200
"""Inferences within which a device is marked as busy."""
TRIES = 3
"""The fastest of so many counts: a busy machine may hold one up."""
UNTIL = """(text) => new Promise((resolve) => {
    const first = document.querySelector(".many a"),
        look = () => first.textContent.includes(text) && resolve();
    new MutationObserver(look).observe(first, { subtree: true, childList: true, characterData: true });
    look();
})"""
"""Waits until the first device of the grid has a text."""


@pytest.fixture(scope="module")
def shown() -> Iterator[ShownDevices]:
    with ShownDevices(*(Board(serial=f"LAB-{number}") for number in range(len(NAMES)))) as devices:
        yield devices


async def infer(device: Device) -> None:
    await set_command(device.local[0], Command.START_INFER)


@pytest.mark.parametrize("width", WIDTHS)
def test_each_device_is_a_link(opened: PageOpener, shown: ShownDevices, width: int) -> None:
    page = opened(shown.url, width)
    expect(page.get_by_role("navigation", name="Devices").get_by_role("link")).to_have_text(
        [f"{name} LAB-{number}0 inferences0 a second○○○○" for number, name in enumerate(NAMES)]
    )
    expect(page.locator("#title")).to_have_text("aisrv: 3 devices")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_device_that_works_and_one_that_fails(opened: PageOpener, shown: ShownDevices) -> None:
    page = opened(shown.url)
    works = page.get_by_role("link", name="1-1 LAB-0")
    fails = page.get_by_role("link", name="1-3 LAB-2")
    expect(works).to_contain_text("0 inferences")

    async def work(device: Device) -> None:
        await set_command(device.local[0], Command.SET_OUTPUT_GPIO_EN, 0, b"\1")
        await infer(device)

    async def fail(device: Device) -> None:
        await set_large(device.local[0], Command.SET_MODEL_ARENA, 0, b"no model")

    shown.call(work)
    expect(works).to_contain_text("1 inferences")
    for _ in range(MOST_RUNS):
        shown.call(infer)
        if works.get_attribute("class") == "busy":
            break
    else:
        pytest.fail("a device that works is not marked")
    lit = shown.see(lambda device: device.engines[0].gpio.levels)
    assert any(lit)
    expect(works.locator(".dots")).to_have_text("".join("●" if level else "○" for level in lit))
    expect(works).to_contain_text("0 a second")
    expect(works).not_to_have_class("busy")
    shown.call(fail, 2)
    expect(fails).to_have_class("bad")
    expect(fails).to_contain_text("MODEL_ERR")
    expect(page.locator(".many a.bad")).to_have_count(1)


def test_the_way_to_a_device_and_back(opened: PageOpener, shown: ShownDevices) -> None:
    page = opened(shown.url)
    page.get_by_role("link", name="1-2 LAB-1").click()
    expect(page.locator("#title")).to_have_text("aisrv 1-2")
    expect(page.locator("svg.chip")).to_be_visible()
    page.get_by_role("combobox", name="Device").select_option("grid")
    expect(page.locator(".many a")).to_have_count(len(NAMES))
    expect(page.locator("svg.chip")).to_have_count(0)


def test_three_hundred_idle_devices_are_updated_twice_a_second(opened: PageOpener) -> None:
    board = Board(spi=None, engines=(EngineSpec(kind=EngineKind("none")),))
    rates = []
    with ShownDevices(*[board] * IDLE, model=b"") as shown:
        page = opened(shown.url)
        expect(page.locator(".many a")).to_have_count(IDLE)

        def count(device: Device) -> None:
            device.engines[0].inferences += 1

        for _ in range(TRIES):
            begun = time.monotonic()
            for _ in range(UPDATES):
                shown.see(count)
                wanted = shown.see(lambda device: device.engines[0].inferences)
                page.evaluate(UNTIL, f"{wanted} inferences")
            rates.append(UPDATES / (time.monotonic() - begun))
            if rates[-1] >= A_SECOND:
                break
        opened.close()
    assert max(rates) >= A_SECOND
