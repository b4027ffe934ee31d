"""The page of `aisrv-host web` in a real browser: what a host knows, and controls that reach the device."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import Browser, Page, expect

from aisrv import digits
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, SensorSpec
from aisrv.device.device import Device
from tests.support.peers.chromium import axe, browser, violations
from tests.support.programs import HOST, start_process

__all__ = ["axe", "browser"]
pytestmark = pytest.mark.long("it starts Chromium, as test_web_page.py does every day")

problems: list[str] = []


@dataclass
class Shown:
    """A device, the address of its page, and a browser."""

    device: BackgroundDevice
    url: str
    browser: Browser

    def page(self, width: int = 1600, scheme: str = "light") -> Page:
        """Open the page; whatever it writes to the console is a failure."""
        page = self.browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.goto(self.url)
        expect(page.locator("#link")).to_have_text("live")
        return page


@pytest.fixture(scope="module")
def shown(browser: Browser) -> Iterator[Shown]:
    with BackgroundDevice(Board(sensor=SensorSpec(1, "pattern:bars"))) as device:
        command = [*HOST, "--device", f"usbip:{device.usbip_address}", "web", "0"]
        with start_process(command) as process:
            try:
                assert process.stderr is not None
                found = re.search(r"open (\S+)", process.stderr.readline())
                assert found
                yield Shown(device, found[1], browser)
            finally:
                process.kill()


@pytest.fixture(autouse=True)
def no_problems() -> Iterator[None]:
    problems.clear()
    yield
    assert problems == []


def load(page: Page, model: bytes) -> None:
    page.locator('input[type="file"]').first.set_input_files(
        {"name": "model.tflite", "mimeType": "", "buffer": model}
    )
    expect(page.get_by_text("model: done")).to_be_visible()


def test_panels_that_need_the_inside_are_left_out(shown: Shown) -> None:
    page = shown.page()
    expect(page.get_by_role("region", name=re.compile("^Engine 0"))).to_contain_text("LEDs by rule")
    headings = page.evaluate("[...document.querySelectorAll('main h2')].map(each => each.firstChild.data)")
    assert headings == ["Time by operator", "Memory", "Log", "Engine 0", "Bus"]
    expect(page.locator("svg.chip")).to_have_count(0)
    page.close()


def test_a_model_and_a_run_from_the_page(shown: Shown) -> None:
    async def put_an_image(device: Device) -> None:
        inference = device.engines[0].inference
        inference.input(0)[:64] = digits.test_images()[0].image

    page = shown.page()
    load(page, digits.model_bytes())
    shown.device.call(put_an_image)
    page.get_by_role("button", name="Infer").click()
    expect(page.get_by_text("infer: done")).to_be_visible()
    label = digits.test_images()[0].label
    expect(page.locator(".bars .first").first).to_have_text(f"class {label}")
    expect(page.get_by_role("region", name=re.compile("^Time by operator"))).to_contain_text("CONV_2D")
    expect(page.get_by_role("region", name=re.compile("^Memory"))).to_contain_text("tensors")
    expect(page.get_by_text("expected between 0.344 and 0.486 ms on the chip")).to_be_visible()
    page.close()


def test_the_sensor_and_the_input_are_pictures(shown: Shown) -> None:
    page = shown.page()
    load(page, digits.model_bytes())
    expect(page.get_by_label("The sensor's latest frame")).to_be_visible()
    expect(page.get_by_label("Input tensor 0 as a picture")).to_be_visible()
    assert page.evaluate("document.querySelector('canvas').width") == 160
    page.close()


def test_outputs_follow_their_rule(shown: Shown) -> None:
    async def levels(device: Device) -> tuple[bool, ...]:
        return device.engines[0].gpio.levels

    page = shown.page()
    load(page, digits.model_bytes())
    page.get_by_text("Outputs and thresholds").click()
    page.get_by_label("drive the outputs").check()
    expect(page.get_by_text("gpio: done")).to_be_visible()
    page.get_by_role("button", name="Infer").click()
    expect(page.get_by_text("infer: done")).to_be_visible()
    lit = shown.device.call(levels)
    outputs = page.get_by_role("list", name="Outputs").get_by_role("listitem")
    for number, level in enumerate(lit):
        expect(outputs.nth(number)).to_have_text(f"output {number} {'on' if level else 'off'}")
    page.close()


def test_what_is_refused_is_said(shown: Shown) -> None:
    page = shown.page()
    load(page, digits.model_bytes())
    page.locator('input[type="file"]').first.set_input_files(
        {"name": "bad.tflite", "mimeType": "", "buffer": b"no model"}
    )
    expect(page.get_by_text("not a TensorFlow Lite file").first).to_be_visible()
    problems[:] = [each for each in problems if "409" not in each]  # Chromium logs the answer itself
    page.close()


def test_the_device_is_reset(shown: Shown) -> None:
    page = shown.page()
    page.get_by_role("button", name="Reset device").click()
    expect(page.get_by_text("Reset device: done")).to_be_visible()
    page.close()


def test_why_there_are_no_faults_and_no_traces_is_said(shown: Shown) -> None:
    page = shown.page()
    bus = page.get_by_role("region", name=re.compile("^Bus"))
    expect(bus).to_contain_text("Faults and traces need the inside of a device: aisrv run --web")
    expect(bus.get_by_role("button")).to_have_text(["Reset device"])
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_axe_finds_nothing_and_nothing_is_wider(shown: Shown, axe: str, width: int, scheme: str) -> None:
    page = shown.page(width, scheme)
    page.get_by_text("Outputs and thresholds").click()
    page.get_by_role("button", name="Infer").click()
    expect(page.locator(".bars .first").first).to_be_visible()
    assert violations(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
