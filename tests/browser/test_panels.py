"""Each panel of the page shows within a second what its device does, and that a device rests.

The list of panels is the page's own: one that is new needs a line in `CHANGES`.
"""

import itertools
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Locator, Page, expect

from aisrv import digits
from aisrv.addons.web.hub import LOG_LINES
from aisrv.board import Board, FlashSpec, SensorSpec
from aisrv.device.device import Device
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import set_command, set_large
from tests.browser.shown_devices import ShownDevices, host_of
from tests.browser.watched_page import WIDTHS, PageOpener

BOARD = Board(sensor=SensorSpec(1, "pattern:bars"), flashes=(FlashSpec(),))
SECOND = 1.0
TRIES = 3
"""The fastest of so many changes counts: a busy machine may hold one up."""
PATIENCE = 10_000
"""Milliseconds until a panel that does not change is given up."""
WATCH = """([title, pattern, patience]) => {
    const heading = [...document.querySelectorAll("h2")].find((each) => each.firstChild.data === title),
        section = heading.closest("section"),
        wanted = new RegExp(pattern, "s");
    window.seen = new Promise((resolve) => {
        const look = () => wanted.test(section.outerHTML) && resolve(Date.now());
        new MutationObserver(look).observe(section, {
            subtree: true, childList: true, characterData: true, attributes: true,
        });
        setTimeout(() => resolve(null), patience);
        look();
    });
}"""
"""Has the page say when a section looks as wanted."""

Change = Callable[[Device], Awaitable[str]]
"""Does something to a device; returns a regular expression of what the panel then has."""


async def have_a_host_work(device: Device) -> None:
    host = await host_of(device)
    await host.write(bytes((Command.SET_INPUT_TENSOR, 0, 0)))
    await host.write(bytes(digits.test_images()[0].image))


async def carry_tokens(device: Device) -> str:
    await have_a_host_work(device)
    return 'class="rate on"'


async def carry_bytes(device: Device) -> str:
    await have_a_host_work(device)
    return r"USB</th><td>[1-9][\d.]* k?B a second"


async def run_once(device: Device) -> str:
    if device.engines[0].inference.model is None:
        await load_the_other_model(device)
    assert await set_command(device.local[0], Command.START_INFER) is Status.OKAY
    return f"<dt>inferences</dt><dd>{device.engines[0].inferences}</dd>"


async def load_the_other_model(device: Device) -> int:
    """Load one of two models of different times and sizes; return its size in bytes."""
    where = device.engines[0].inference.memory_map
    models = digits.model_bytes(), digits.float_model_bytes()
    model = models[where is not None and where.model.size == len(models[0])]
    await device.load_model(model)
    return len(model)


async def change_times(device: Device) -> str:
    await load_the_other_model(device)
    total = device.engines[0].inference.total
    assert total is not None
    mean = total.in_ms(total.ticks)
    return f"engine 0: {mean:.{3 if mean < 1 else 1}f} ms an inference"


async def change_memory(device: Device) -> str:
    size = await load_the_other_model(device)
    return f"model {round(size / 1024, 1):g} KiB"


async def refuse_a_model(device: Device) -> str:
    size = next(SIZES)
    assert await set_large(device.local[0], Command.SET_MODEL_ARENA, 0, bytes(size)) is not Status.OKAY
    lines = bytes(device.engines[0].log).rstrip(b"\0").decode().splitlines()
    assert lines[-1].startswith("SET_MODEL_ARENA: ")
    return re.escape(f"engine0</b><span>{lines[-1]}</span>")


async def send_no_command(device: Device) -> str:
    before = device.ignored.count
    host = await host_of(device)
    await host.write(b"\xff" * 5)
    return f"no command</dt><dd>{before + 1}</dd>"


SIZES = itertools.count(1)
CHANGES: dict[str, Change] = {
    "Board": carry_tokens,
    "Engine 0": run_once,
    "Time by operator": change_times,
    "Memory": change_memory,
    "Traffic": carry_bytes,
    "Log": refuse_a_model,
    "Bus": send_no_command,
}


@pytest.fixture(scope="module")
def shown() -> Iterator[ShownDevices]:
    with ShownDevices(BOARD) as devices:
        yield devices


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, opened: PageOpener, shown: ShownDevices) -> Page:
    return opened(shown.url, request.param)


def test_each_panel_has_its_change_here(page: Page) -> None:
    expect(page.locator("main section").first).to_be_visible()
    titles = page.evaluate(
        "[...document.querySelectorAll('main section h2')].map((each) => each.firstChild.data)"
    )
    assert sorted(titles) == sorted(CHANGES)


def traffic(page: Page, name: str) -> Locator:
    """What the table of the traffic says of a kind."""
    table = page.get_by_role("table", name="Traffic in the last second")
    return table.get_by_role("row", name=name).get_by_role("cell")


def at_rest(page: Page) -> None:
    """Wait until nothing flows any more."""
    expect(page.locator(".rate.on")).to_have_count(0)
    expect(traffic(page, "all channels")).to_have_text("0 B a second")


@pytest.mark.parametrize("title", CHANGES)
def test_a_panel_changes_within_a_second(page: Page, shown: ShownDevices, title: str) -> None:
    taken = []
    for _ in range(TRIES):
        at_rest(page)
        html = page.locator("main").inner_html()
        begun = time.time()
        pattern = shown.call(CHANGES[title])
        assert not re.search(pattern, html, re.DOTALL), "the panel looks as if it had changed before"
        page.evaluate(WATCH, [title, pattern, PATIENCE])
        seen = page.evaluate("window.seen")
        assert seen is not None, f"{title} does not show {pattern}"
        taken.append(seen / 1000 - begun)
        if taken[-1] < SECOND:
            return
    raise AssertionError(f"{title} changed after {taken} s")


def test_the_chart_of_the_traffic_is_there_at_rest(page: Page) -> None:
    expect(page.locator(".plot canvas")).to_be_visible()
    expect(page.locator(".plot .u-legend")).to_contain_text("all channels")


def test_what_rests_is_shown_at_rest(page: Page, shown: ShownDevices) -> None:
    at_rest(page)
    shown.call(run_once)
    shown.call(carry_bytes)
    speed = page.locator(".engine dt", has_text="a second").locator("xpath=following-sibling::dd")
    expect(traffic(page, "USB")).not_to_have_text("0 B a second")
    at_rest(page)
    expect(traffic(page, "USB")).to_have_text("0 B a second")
    expect(page.get_by_text("USB to the device").locator("xpath=following-sibling::dd")).to_have_text("0 B/s")
    expect(speed).to_have_text("0.0")


def test_the_log_says_how_many_older_lines_it_does_not_show(opened: PageOpener, shown: ShownDevices) -> None:
    def log_at_once(count: int) -> None:
        for number in range(count):
            logging.getLogger("aisrv.test").warning("line %d of %d", number, count)

    page = opened(shown.url)
    log = page.get_by_role("list", name="Log, newest last")
    before = log.get_by_role("listitem").count()
    shown.see(lambda _: log_at_once(LOG_LINES + 7))  # the page gets the last of these
    first = log.get_by_role("listitem").first
    expect(first).to_have_text(f"{before + 7} older lines are not shown")
    expect(log.get_by_role("listitem").nth(1)).to_contain_text(f"line 7 of {LOG_LINES + 7}")
    shown.see(lambda _: log_at_once(5))
    expect(first).to_have_text(f"{before + 12} older lines are not shown")
    expect(log.get_by_role("listitem")).to_have_count(LOG_LINES + 1)
