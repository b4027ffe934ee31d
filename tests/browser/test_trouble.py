"""Halted cores, traps and deadlocks: the page says them at the top, and shows them where they happened."""

from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

import trio
from playwright.sync_api import Page, expect

from aisrv.board import Board, TaskSpec
from aisrv.device.device import Device
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word
from aisrv.xcore.traps import ecall
from tests.browser.shown_devices import ShownDevices
from tests.browser.watched_page import WIDTHS, PageOpener

HERE = "tests.browser.test_trouble"
PUSHED: dict[str, trio.Event] = {}
"""When the tasks of the device that a test has may go on, by what they do."""
BOARD = Board(
    tasks=(
        TaskSpec("faller", f"{HERE}:fall", tile=1),
        TaskSpec("left", f"{HERE}:wait_for_a_word", ends={"c": "right.c"}),
        TaskSpec("right", f"{HERE}:wait_for_a_word"),
    )
)


async def fall() -> None:
    await PUSHED["fall"].wait()
    ecall("the floor is wet")


async def wait_for_a_word(c: ChanEnd) -> None:
    """A task that inputs before it would output, as its peer does."""
    await PUSHED["wait"].wait()
    await chan_in_word(c)


@pytest.fixture
def shown() -> Iterator[ShownDevices]:
    PUSHED.update(fall=trio.Event(), wait=trio.Event())
    with ShownDevices(BOARD) as devices:
        yield devices


def push(shown: ShownDevices, what: str) -> None:
    """Have tasks of the device go on."""

    def set_event(_device: Device) -> None:
        PUSHED[what].set()

    shown.see(set_event)


def core_titles(page: Page, selector: str) -> list[str]:
    return page.locator(f"svg.chip {selector} > title").all_text_contents()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_trap_is_said_and_its_core_is_marked(opened: PageOpener, shown: ShownDevices, width: int) -> None:
    page = opened(shown.url, width)
    alarm = page.get_by_role("alert").and_(page.locator("#alarm"))
    expect(page.locator("svg.chip")).to_be_visible()
    expect(page.locator("#alarm")).to_be_hidden()
    assert core_titles(page, ".core.halted") == []
    push(shown, "fall")
    expect(alarm).to_have_text("core 1.5 halted in ECALL (8): the floor is wet")
    assert core_titles(page, ".core.halted") == ["faller: halted: ECALL (8): the floor is wet"]
    box = page.locator("svg.chip .core.halted")
    expect(box.locator(".name")).to_have_text("faller")
    expect(box.locator(".wait")).to_contain_text("halted: ECALL")
    colors = "each => getComputedStyle(each).stroke"
    usual = page.locator("svg.chip .core:not(.free):not(.halted) rect").first.evaluate(colors)
    assert box.locator("rect").evaluate(colors) != usual
    expect(page.locator("#board-says")).to_have_text("1 core halted: 1.5 ECALL (8): the floor is wet")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_deadlock_is_said_and_its_cores_name_each_other(
    opened: PageOpener, shown: ShownDevices, width: int
) -> None:
    page = opened(shown.url, width)
    expect(page.locator("svg.chip")).to_be_visible()
    expect(page.locator("#alarm")).to_be_hidden()
    push(shown, "wait")
    expect(page.locator("#alarm")).to_have_text("deadlock: left -> right -> left")
    titles = core_titles(page, ".core")
    assert {"left: chan_in_word on right", "right: chan_in_word on left"} <= set(titles)


def test_who_comes_later_sees_both(opened: PageOpener, shown: ShownDevices) -> None:
    push(shown, "fall")
    push(shown, "wait")
    page = opened(shown.url)
    expect(page.locator("#alarm")).to_have_text(
        "deadlock: left -> right -> left; core 1.5 halted in ECALL (8): the floor is wet"
    )


def test_the_grid_marks_the_device(opened: PageOpener) -> None:
    PUSHED.update(fall=trio.Event(), wait=trio.Event())
    with ShownDevices(BOARD, Board()) as shown:
        page = opened(shown.url)
        expect(page.locator(".many a")).to_have_count(2)
        expect(page.locator(".many a.bad")).to_have_count(0)
        push(shown, "fall")
        expect(page.locator(".many a.bad")).to_have_count(1)
        expect(page.locator(".many a.bad")).to_contain_text("1-1")
        expect(page.locator(".many a.bad")).to_contain_text("1 halted")
        opened.close()
