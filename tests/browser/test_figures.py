"""Bytes at the ports and the map of the flash are those of a host, a master and a chip."""

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Locator, Page, expect

from aisrv.board import Board, FlashSpec
from aisrv.device.device import Device
from aisrv.protocol.commands import Command
from aisrv.values.settings.size import Size
from phy.spi.bus import SpiTransfer
from tests.browser.shown_devices import ShownDevices, host_of
from tests.browser.watched_page import WIDTHS, PageOpener
from tests.support.benches.flash_node import SMALL, Parts, image

BOOT = Size(8 * 1024)
BYTES = 1000


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownDevices]:
    chip = tmp_path_factory.mktemp("flash") / "chip"
    data = image([Parts(bytes(4 * 1024), bytes(2 * 1024)), Parts(xip=b"xip!")])
    chip.write_bytes((bytes(BOOT) + data).ljust(SMALL.size, b"\xff"))
    with ShownDevices(Board(flashes=(FlashSpec(SMALL, path=chip, boot_bytes=BOOT),))) as devices:
        yield devices


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, opened: PageOpener, shown: ShownDevices) -> Page:
    return opened(shown.url, request.param)


def region(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=re.compile(f"^{title}"))


def test_the_map_of_the_flash_has_the_segments_of_its_image(page: Page) -> None:
    legend = region(page, "Memory").locator(".legend span")
    expect(legend).to_contain_text(["boot 8 KiB", "model 0 4 KiB", "parameters 0 2 KiB", "xip 1"])
    title = region(page, "Memory").get_by_role(
        "img", name=re.compile("^flash 0, small: boot 8 KiB, model 0 4 KiB")
    )
    expect(title).to_be_visible()


def test_bytes_over_spi_are_those_of_its_master(page: Page, shown: ShownDevices) -> None:
    async def clock(device: Device) -> None:
        assert device.spi is not None
        await device.spi.message([SpiTransfer(bytes(BYTES))])

    table = page.get_by_role("table", name="Traffic in the last second")
    cell = table.get_by_role("row", name="SPI").get_by_role("cell")
    expect(cell).to_have_text("0 B a second")
    shown.call(clock)
    expect(cell).to_have_text(re.compile(r"[1-9][\d.]* k?B a second"))
    expect(cell).to_have_text("0 B a second")


def test_bytes_over_usb_are_shown_each_way(page: Page, shown: ShownDevices) -> None:
    async def ask(device: Device) -> None:
        host = await host_of(device)
        await host.write(bytes((Command.GET_STATUS, 0, 0)))
        assert len(await host.read(64)) == 4

    figures = region(page, "Bus").locator("dd")
    expect(figures.nth(0)).to_have_text("0 B/s")
    shown.call(ask)
    for number in range(2):
        expect(figures.nth(number)).to_have_text(re.compile("[1-9] B/s"))
        shown.call(ask)
