"""Each control of the page: it is reached and worked by keys alone, and what it does is seen at the device.

The list is Chromium's own: whatever can have the focus needs a line in `BY_KEYS`, and each control of the
server one of the requests there.
"""

import io
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from PIL import Image
from playwright.sync_api import Page, expect

from aisrv import digits
from aisrv.addons.web.device.controls import CONTROLS
from aisrv.board import Board, SensorSpec
from aisrv.device.device import Device
from aisrv.protocol.commands import GpioMode
from tests.browser.shown_devices import ShownDevices, host_of
from tests.browser.watched_page import WIDTHS, PageOpener, focusable, tab_to

BOARD = Board(sensor=SensorSpec(1, "pattern:bars"))
DEVICE, OTHER = "1-1", "1-2"
NOT_ON_THE_PAGE = {"model-ext", "frame"}
"""Requests that only programs make."""
PARTS = {"option", "dialog"}
"""Roles of what a control consists of, or is in."""

Work = Callable[[Page, ShownDevices], None]
"""Presses keys while a control has the focus, and looks at what they do."""


@dataclass(frozen=True)
class Keys:
    """What keys do to a control, and the requests that it makes."""

    work: Work
    requests: tuple[str, ...] = ()
    view: str = DEVICE
    before: Callable[[Device], object] = bool
    """What is done to the device first."""


def pressed(key: str, finds: Callable[[Device], object], wanted: object, said: str) -> Work:
    """Press a key; the page says that it is done, and a function finds what is wanted at the device."""

    def work(page: Page, shown: ShownDevices) -> None:
        assert shown.see(finds) != wanted
        page.keyboard.press(key)
        expect(page.get_by_text(said, exact=True)).to_be_visible()
        assert shown.see(finds) == wanted

    return work


def skip_to_the_board(page: Page, _shown: ShownDevices) -> None:
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def change_colors(page: Page, _shown: ShownDevices) -> None:
    root = page.locator("html")
    for theme in ("dark", "light"):
        page.keyboard.press("Space")
        expect(root).to_have_attribute("data-theme", theme)


def choose_the_other_device(page: Page, _shown: ShownDevices) -> None:
    page.keyboard.press("ArrowDown")
    expect(page.locator("#title")).to_have_text(f"aisrv {OTHER}")


def open_a_device(page: Page, _shown: ShownDevices) -> None:
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text(f"aisrv {DEVICE}")


def scroll_the_log(page: Page, _shown: ShownDevices) -> None:
    for number in range(40):
        logging.getLogger("aisrv.test").warning("line %d", number)
    log = page.get_by_role("list", name="Log, newest last")
    expect(log).to_contain_text("line 39")
    assert log.evaluate("each => each.scrollTop") > 0, "the newest line is not seen"
    page.keyboard.press("Home")
    expect(log).to_have_js_property("scrollTop", 0)


def infer(page: Page, shown: ShownDevices) -> None:
    before = shown.see(lambda device: device.engines[0].inferences)
    page.keyboard.press("Enter")
    expect(page.get_by_text("infer: done")).to_be_visible()
    assert shown.see(lambda device: device.engines[0].inferences) == before + 1


def start_and_stop_a_stream(page: Page, shown: ShownDevices) -> None:
    for key, name, streams in (("Enter", "Stop stream", True), ("Space", "Start stream", False)):
        page.keyboard.press(key)
        expect(page.get_by_role("button", name=name)).to_be_focused()
        assert shown.see(lambda device: device.engines[0].streams) is streams


def reset_the_bus(page: Page, shown: ShownDevices) -> None:
    shown.call(host_of)
    pressed("Enter", lambda device: device.usb.configuration, 0, "Reset bus: done")(page, shown)


def pull_the_cable(page: Page, shown: ShownDevices) -> None:
    pressed("Enter", lambda device: device.usb.is_unplugged, True, "Pull the cable: done")(page, shown)
    expect(page.get_by_role("button", name="Plug it in")).to_be_focused()
    shown.see(lambda device: device.usb.plug())


def plug_it_in(page: Page, shown: ShownDevices) -> None:
    pressed("Enter", lambda device: device.usb.is_unplugged, False, "Plug it in: done")(page, shown)
    expect(page.get_by_role("button", name="Pull the cable")).to_be_focused()


def waiting(shown: ShownDevices) -> list[str]:
    return shown.see(lambda _: shown.benches[0].faults)


def inject_by_enter(page: Page, shown: ShownDevices) -> None:
    page.keyboard.type("stall:in:9")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Inject: done")).to_be_visible()
    assert waiting(shown) == ["stall:in:9"]
    shown.see(lambda _: shown.benches[0].take_faults_back())


def inject_by_the_button(page: Page, shown: ShownDevices) -> None:
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("drop:out:9")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Inject: done")).to_be_visible()
    assert waiting(shown) == ["drop:out:9"]
    shown.see(lambda _: shown.benches[0].take_faults_back())


def take_back(page: Page, shown: ShownDevices) -> None:
    page.keyboard.press("Enter")
    expect(page.get_by_text("Take back: done")).to_be_visible()
    assert waiting(shown) == []


def start_and_stop_a_trace(page: Page, shown: ShownDevices) -> None:
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Stop and download")).to_be_focused()
    assert shown.see(lambda _: shown.benches[0].traces)
    with page.expect_download():
        page.keyboard.press("Enter")
    assert not shown.see(lambda _: shown.benches[0].traces)


def choose_a_model(page: Page, shown: ShownDevices) -> None:
    for model, outputs in ((digits.two_output_model_bytes(), 2), (digits.model_bytes(), 1)):
        with page.expect_file_chooser() as chooser:
            page.keyboard.press("Enter")
        with page.expect_response(lambda response: "/do/model?" in response.url):
            chooser.value.set_files({"name": "model.tflite", "mimeType": "", "buffer": model})
        expect(page.get_by_text("model: done")).to_be_visible()
        assert shown.see(lambda device: device.engines[0].inference.output_count) == outputs


def choose_a_picture(page: Page, shown: ShownDevices) -> None:
    before = shown.see(lambda device: device.engines[0].inferences)
    data = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 200, 200)).save(data, "PNG")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files({"name": "gray.png", "mimeType": "image/png", "buffer": data.getvalue()})
    expect(page.get_by_text("infer: done")).to_be_visible()
    assert shown.see(lambda device: device.engines[0].inferences) == before + 1
    assert shown.see(lambda device: bytes(device.engines[0].inference.input(0))) == bytes([200 ^ 128]) * 64


def fold_and_open(page: Page, _shown: ShownDevices) -> None:
    thresholds = page.locator(".thresholds")
    expect(thresholds).to_be_visible()
    page.keyboard.press("Enter")
    expect(thresholds).to_be_hidden()
    page.keyboard.press("Space")
    expect(thresholds).to_be_visible()


def check(name: str, finds: Callable[[Device], object], off: object, on: object) -> Keys:
    def work(page: Page, shown: ShownDevices) -> None:
        for wanted in (on, off):
            assert shown.see(finds) != wanted
            with page.expect_response(lambda response: f"/do/{name}?" in response.url):
                page.keyboard.press("Space")
            assert shown.see(finds) == wanted

    return Keys(work, (name,))


def threshold(number: int) -> Keys:
    def work(page: Page, shown: ShownDevices) -> None:
        for key, wanted in (("End", 127), ("ArrowLeft", 126), ("Home", -128)):
            with page.expect_response(lambda response: "/do/threshold?" in response.url):
                page.keyboard.press(key)
            found = shown.see(lambda device: list(device.engines[0].gpio.thresholds))
            assert found == [wanted if each == number else -128 for each in range(4)]

    return Keys(work, ("threshold",))


BY_KEYS: dict[tuple[Any, str], Keys] = {
    ("link", "Skip to the board"): Keys(skip_to_the_board),
    ("button", "Dark or light"): Keys(change_colors),
    ("combobox", "Device"): Keys(choose_the_other_device),
    ("list", "Log, newest last"): Keys(scroll_the_log),
    ("button", "Infer"): Keys(infer, ("infer",)),
    ("button", "Start stream"): Keys(start_and_stop_a_stream, ("stream", "single")),
    ("button", "Reset bus"): Keys(reset_the_bus, ("reset",)),
    ("button", "Pull the cable"): Keys(pull_the_cable, ("unplug",)),
    ("button", "Plug it in"): Keys(plug_it_in, ("plug",), before=lambda device: device.usb.unplug()),
    ("button", "Model…"): Keys(choose_a_model, ("model",)),
    ("button", "Picture…"): Keys(choose_a_picture, ("input", "infer")),
    ("DisclosureTriangle", "Outputs and thresholds"): Keys(fold_and_open),
    ("checkbox", "drive the outputs"): check(
        "gpio", lambda device: device.engines[0].gpio.enabled, False, True
    ),
    ("checkbox", "the largest only"): check(
        "gpio-mode", lambda device: device.engines[0].gpio.mode, GpioMode.NONE, GpioMode.MAX
    ),
    ("combobox", "Fault"): Keys(inject_by_enter, ("fault",)),
    ("button", "Inject"): Keys(inject_by_the_button, ("fault",)),
    ("button", "Take back"): Keys(take_back, ("no-faults",)),
    ("button", "Start trace"): Keys(start_and_stop_a_trace, ("trace",)),
    **{("slider", f"output {number} above"): threshold(number) for number in range(4)},
    ("link", DEVICE): Keys(open_a_device, view="grid"),
}
ASKED = {("textbox", "Address or token"), ("button", "Open")}
"""What the dialog that asks for the token has."""


@pytest.fixture(scope="module")
def shown() -> Iterator[ShownDevices]:
    with ShownDevices(BOARD, BOARD) as devices:
        yield devices


def view(opened: PageOpener, shown: ShownDevices, name: str, width: int = 1600) -> Page:
    """Open a device's view with its thresholds, or the grid."""
    page = opened(f"{shown.url}&see={name}", width)
    if name == DEVICE:
        page.get_by_text("Outputs and thresholds").click()
        expect(page.locator(".thresholds")).to_be_visible()
    else:
        expect(page.locator(".many a")).to_have_count(2)
    return page


def controls(page: Page) -> set[tuple[str, str]]:
    """What can have the focus; links of the grid by their devices alone."""
    return {
        (role, DEVICE if page.locator(".many").count() and OTHER[:2] == name[:2] else name)
        for role, name in focusable(page)
        if role not in PARTS
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_each_control_is_tried_here(opened: PageOpener, shown: ShownDevices, width: int) -> None:
    found = controls(view(opened, shown, DEVICE, width)) | controls(view(opened, shown, "grid", width))
    assert found == set(BY_KEYS)


def test_each_control_of_the_server_is_tried_here() -> None:
    tried = {request for keys in BY_KEYS.values() for request in keys.requests}
    assert tried == set(CONTROLS) - NOT_ON_THE_PAGE


@pytest.mark.parametrize("control", BY_KEYS, ids=" ".join)
def test_a_control_by_keys_alone(opened: PageOpener, shown: ShownDevices, control: tuple[Any, str]) -> None:
    role, name = control
    keys = BY_KEYS[control]
    shown.see(keys.before)
    page = view(opened, shown, keys.view)
    page.evaluate("document.activeElement.blur()")
    target = page.locator("summary") if role == "DisclosureTriangle" else page.get_by_role(role, name=name)
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url) if request.method == "POST" else None)
    tab_to(page, target)
    keys.work(page, shown)
    assert {url.partition("/do/")[2].partition("?")[0] for url in asked} == set(keys.requests)


def test_the_token_by_keys_alone(opened: PageOpener, shown: ShownDevices) -> None:
    url, _, token = shown.url.partition("#")
    page = opened(f"{url}#wrong", status="needs its token")
    assert controls(page) == ASKED
    expect(page.get_by_label("Address or token")).to_be_focused()
    page.keyboard.type(shown.url)
    page.keyboard.press("Enter")
    expect(page.locator("#link")).to_have_text("live")
    assert token not in page.url
