"""Names that somebody else chose are text: they make no element, break no rule, and take no more room."""

import logging

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Page, expect

from aisrv.addons.web.view import cut
from aisrv.board import Board, EngineSpec, TaskSpec
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command
from tests.browser.shown_devices import ShownDevices
from tests.browser.watched_page import WIDTHS, PageOpener

NAMES = {
    "markup": '<img src=x onerror="document.title=1"><b id=evil>&lt;',
    "long": "W" * 4096,
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u0627\u0628\u062c ",
}
ORDER = "\u202e"
"""Reverses what follows. Boards take no LED with it; labels of a model may have it."""
HERE = "tests.browser.test_names"


async def raise_markup() -> None:
    raise RuntimeError(NAMES["markup"])


async def raise_long() -> None:
    raise RuntimeError(NAMES["long"])


async def raise_right_to_left() -> None:
    raise RuntimeError(ORDER + NAMES["right to left"])


def board_of(kind: str) -> Board:
    """A board that has a name wherever one can be, and a task that traps with it."""
    name = NAMES[kind]
    return Board(
        description=name,
        serial=name[:100] if name.isascii() else None,
        engines=(EngineSpec(leds=(name,) * 4, labels=tuple(f"{name}{ORDER}{n}" for n in range(10))),),
        tasks=(TaskSpec("thrower", f"{HERE}:raise_{kind.replace(' ', '_')}"),),
    )


def has_no_elements_of_names(page: Page) -> None:
    assert page.locator("img, #evil, [onerror]").count() == 0
    assert page.title().startswith("aisrv")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", NAMES)
def test_a_name_is_text(opened: PageOpener, kind: str, width: int) -> None:
    name = NAMES[kind]
    with ShownDevices(board_of(kind)) as shown:
        page = opened(shown.url, width)
        shown.call(lambda device: set_command(device.local[0], Command.START_INFER))
        logging.getLogger("aisrv.test").warning("%s", name)
        page.get_by_text("Outputs and thresholds").click()
        expect(page.locator("#about")).to_have_text(cut(name))
        expect(page.locator(".leds li").first).to_have_text(f"{cut(name)} off")
        expect(page.locator(".thresholds label").first).to_contain_text(cut(name).strip())
        expect(page.locator(".engine .bars bdi").first).to_have_text(cut(f"{name}{ORDER}0"))
        expect(page.locator(".log")).to_contain_text(name[:512].strip())
        expect(page.locator("#alarm")).to_contain_text(name[:20])
        expect(page.locator("svg.chip .halted title")).to_contain_text(name[:20])
        has_no_elements_of_names(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("location.hash = '#see=grid'")
        page.reload()
        expect(page.locator(".many a")).to_have_count(1)
        has_no_elements_of_names(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        opened.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_name_takes_a_line(opened: PageOpener, width: int) -> None:
    with ShownDevices(board_of("long")) as shown:
        page = opened(shown.url, width)
        shown.call(lambda device: set_command(device.local[0], Command.START_INFER))
        page.get_by_text("Outputs and thresholds").click()
        expect(page.locator(".engine .bars bdi")).to_have_count(10)
        heights = page.locator("bdi").evaluate_all("all => all.map((each) => each.clientHeight)")
        assert max(heights) < 30, heights
        assert page.locator(".engine .bars bdi").first.get_attribute("title") == cut(NAMES["long"])
        opened.close()


def test_a_name_turns_no_text_around_but_its_own(opened: PageOpener) -> None:
    with ShownDevices(board_of("right to left")) as shown:
        page = opened(shown.url)
        page.get_by_text("Outputs and thresholds").click()
        label = page.locator(".thresholds label").first
        name, value = (label.locator(each).bounding_box() for each in ("bdi", ".num"))
        assert name is not None
        assert value is not None
        assert name["x"] + name["width"] <= value["x"]
        parts = page.locator("#alarm span")
        expect(parts).to_have_count(1)
        assert parts.evaluate("each => getComputedStyle(each).unicodeBidi") == "isolate"
        opened.close()
