"""Faults and traces from the page: they are had at the device, and said where they cannot be."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Page, expect

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board
from aisrv.device.device import Device
from aisrv.monitor.trace.reading import TraceReader
from aisrv.protocol.commands import Command
from phy.usb.urb import TransferStatus
from tests.browser.shown_devices import ShownDevices
from tests.browser.watched_page import WIDTHS, PageOpener

ASK = bytes((Command.GET_STATUS, 0, 0))


@pytest.fixture(scope="module")
def shown() -> Iterator[ShownDevices]:
    with ShownDevices(Board(), Board()) as devices:
        yield devices


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, opened: PageOpener, shown: ShownDevices) -> Page:
    return opened(f"{shown.url}&see=1-1", request.param)


def ask_for_the_status(shown: ShownDevices) -> TransferStatus:
    """Have a host ask for the status; return how its read ended."""

    async def ask(_device: Device) -> TransferStatus:
        host = InProcessHost(shown.benches[0].port)
        await host.plug_in()
        await host.write(ASK)
        try:
            await host.read(64)
        except TransferFailed as failure:
            return failure.status
        return TransferStatus.OKAY

    return shown.call(ask)


def test_a_fault_hits_a_host_and_is_gone(page: Page, shown: ShownDevices) -> None:
    page.get_by_label("Fault", exact=True).fill("stall:in:1")
    page.get_by_role("button", name="Inject").click()
    expect(page.get_by_text("to come: stall:in:1")).to_be_visible()
    assert ask_for_the_status(shown) is TransferStatus.STALL
    expect(page.get_by_text("none to come")).to_be_visible()
    assert ask_for_the_status(shown) is TransferStatus.OKAY


def test_faults_are_taken_back_and_the_focus_stays(page: Page, shown: ShownDevices) -> None:
    fault = page.get_by_label("Fault", exact=True)
    fault.fill("drop:in:p=1")
    fault.press("Enter")
    back = page.get_by_role("button", name="Take back")
    back.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("none to come")).to_be_visible()
    expect(back).to_be_focused()
    assert ask_for_the_status(shown) is TransferStatus.OKAY


def test_what_is_no_fault_is_said(opened: PageOpener, page: Page, shown: ShownDevices) -> None:
    page.get_by_label("Fault", exact=True).fill("melt:in:1")
    page.get_by_role("button", name="Inject").click()
    expect(page.locator("p.bad", has_text="fault 'melt:in:1': 'melt' is not one of stall")).to_be_visible()
    assert shown.benches[0].faults == []
    opened.forgive("400")


def test_every_fault_that_the_page_proposes_is_one(page: Page, shown: ShownDevices) -> None:
    texts = page.locator("#faults option").evaluate_all("all => all.map((each) => each.value)")
    assert len(texts) == 6
    for text in texts:
        page.get_by_label("Fault", exact=True).fill(text)
        page.get_by_role("button", name="Inject").click()
        expect(page.get_by_text(re.compile(f"to come: .*{text}"))).to_be_visible()
    page.get_by_role("button", name="Take back").click()
    expect(page.get_by_text("none to come")).to_be_visible()


def test_a_trace_is_downloaded(page: Page, shown: ShownDevices, tmp_path: Path) -> None:
    page.get_by_role("button", name="Start trace").click()
    stop = page.get_by_role("button", name="Stop and download")
    expect(stop).to_be_focused()
    assert ask_for_the_status(shown) is TransferStatus.OKAY
    with page.expect_download() as download:
        stop.click()
    assert download.value.suggested_filename == "trace.pftrace"
    path = tmp_path / "trace.pftrace"
    download.value.save_as(path)
    names = [each.name for each in TraceReader(path).slices()]
    assert "GET_STATUS" in names
    assert "bulk IN" in names
    expect(page.get_by_role("button", name="Start trace")).to_be_visible()


def test_a_trace_of_another_device_is_said(opened: PageOpener, shown: ShownDevices) -> None:
    shown.see(lambda _: shown.benches[1].start_trace())
    page = opened(f"{shown.url}&see=1-1")
    page.get_by_role("button", name="Start trace").click()
    expect(page.locator("p.bad", has_text="a trace of 1-2 is running")).to_be_visible()
    shown.see(lambda _: shown.benches[1].stop_trace())
    opened.forgive("409")
