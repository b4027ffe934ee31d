"""What the page shows of an engine: scores by label, outputs by name, a stream; drops and refusals."""

import base64
import io
from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")


from PIL import Image
from playwright.sync_api import Locator, Page, expect

from aisrv import digits
from aisrv.board import Board, EngineSpec, SensorSpec
from aisrv.device.device import Device
from aisrv.protocol.commands import Command, GpioMode
from aisrv.protocol.engine_channel import set_command, set_large
from tests.browser.shown_devices import TOKEN, ShownDevices
from tests.browser.watched_page import WIDTHS, PageOpener

MOST_LOOKS = 500
"""Frames of the browser within which a picture has moved twice."""
LEDS = "none", "one", "two", "three"
LABELS = tuple(f"digit {number}" for number in range(10))
BOARD = Board(
    sensor=SensorSpec(1, "pattern:noise"),
    engines=(EngineSpec(leds=LEDS, labels=LABELS), EngineSpec(tile=1, arena_bytes=96 << 10)),
)
DROP = """([kind, name, text]) => {
    const data = new DataTransfer(),
        bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    data.items.add(new File([bytes], name, { type: kind }));
    const box = document.querySelector(".drop");
    box.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, cancelable: true }));
    const over = box.classList.contains("over");
    box.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    return over;
}"""
"""Drops a file on the first engine; returns whether it was marked before."""
PIXELS = """(canvas) => {
    const size = [canvas.width, canvas.height],
        copy = new OffscreenCanvas(...size).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, ...size).data.join();
}"""
REFUSED = """async ([token, query]) => {
    const answer = await fetch(`/do/threshold?device=1-1&engine=0&${query}`, {
        method: "POST", headers: { "X-Aisrv-Token": token },
    });
    return [answer.status, (await answer.text()).trim()];
}"""


@pytest.fixture
def shown() -> Iterator[ShownDevices]:
    with ShownDevices(BOARD) as devices:
        yield devices


def engine(page: Page, number: int = 0) -> Locator:
    return page.locator(".card.engine").nth(number)


async def run_a_digit(device: Device, number: int = 0) -> None:
    await set_large(device.local[number], Command.SET_INPUT_TENSOR, 0, digits.test_images()[0].image)
    await set_command(device.local[number], Command.START_INFER)


@pytest.mark.parametrize("width", WIDTHS)
def test_scores_have_the_boards_labels(opened: PageOpener, shown: ShownDevices, width: int) -> None:
    page = opened(shown.url, width)
    shown.call(run_a_digit)
    bars = engine(page).locator(".bars")
    expect(bars.locator(".first")).to_have_text(f"digit {digits.test_images()[0].label}")
    output = shown.see(lambda device: device.engines[0].inference.output(0).cast("b").tolist())
    assert bars.locator(".num").all_text_contents() == [str(value) for value in output]
    widths = bars.locator(".bar i").evaluate_all("each => each.map((bar) => bar.style.width)")
    assert [float(each.removesuffix("%")) for each in widths] == pytest.approx(
        [(value + 128) / 2.55 for value in output], abs=0.06
    )
    expect(engine(page, 1).locator(".bars .first")).to_have_count(0)


def test_outputs_are_lit_by_name(opened: PageOpener, shown: ShownDevices) -> None:
    async def light(device: Device) -> None:
        for command, data in (
            (Command.SET_OUTPUT_GPIO_EN, b"\1"),
            (Command.SET_OUTPUT_GPIO_MODE, bytes((GpioMode.NONE,))),
            (Command.SET_OUTPUT_GPIO_THRESH, bytes((1, 127))),
        ):
            await set_command(device.local[0], command, 0, data)
        await run_a_digit(device)

    page = opened(shown.url)
    lights = engine(page).get_by_role("list", name="Outputs").get_by_role("listitem")
    expect(lights).to_have_text([f"{name} off" for name in LEDS])
    shown.call(light)
    levels = shown.see(lambda device: device.engines[0].gpio.levels)
    assert len(set(levels)) == 2, "all outputs are alike"
    expect(lights).to_have_text(
        [f"{name} {'on' if level else 'off'}" for name, level in zip(LEDS, levels, strict=True)]
    )
    weights = lights.evaluate_all("each => each.map((led) => getComputedStyle(led).fontWeight)")
    assert [weight == "700" for weight in weights] == list(levels)
    expect(engine(page).locator("summary")).to_be_visible()


def test_settings_of_a_host_move_the_sliders(opened: PageOpener, shown: ShownDevices) -> None:
    page = opened(shown.url)
    engine(page).locator("summary").click()
    slider = engine(page).get_by_role("slider", name="two above")
    expect(slider).to_have_value("-128")
    setting = bytes((2, 20))
    shown.call(lambda device: set_command(device.local[0], Command.SET_OUTPUT_GPIO_THRESH, 0, setting))
    expect(slider).to_have_value("20")
    expect(engine(page).locator(".thresholds label").nth(2)).to_have_text("two above 20")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("output=4&value=0", "output is a whole number from 0 to 3, not 4"),
        ("output=0&value=128", "value is a whole number from -128 to 127, not 128"),
        ("output=0&value=", "value is a whole number from -128 to 127"),
    ],
)
def test_values_that_no_threshold_has_are_refused(
    opened: PageOpener, shown: ShownDevices, query: str, said: str
) -> None:
    page = opened(shown.url)
    assert page.evaluate(REFUSED, [TOKEN, query]) == [400, said]
    assert shown.see(lambda device: list(device.engines[0].gpio.thresholds)) == [-128] * 4
    opened.forgive("400")


def test_a_stream_moves_its_pictures_until_it_is_stopped(opened: PageOpener, shown: ShownDevices) -> None:
    page = opened(shown.url)
    frame = engine(page).get_by_label("The sensor's latest frame")
    button = engine(page).get_by_role("button", name="stream")
    button.click()
    expect(button).to_have_text("Stop stream")
    seen = {frame.evaluate(PIXELS)}
    for _ in range(MOST_LOOKS):
        page.evaluate("new Promise(requestAnimationFrame)")
        seen.add(frame.evaluate(PIXELS))
        if len(seen) == 3:
            break
    assert len(seen) == 3, "the picture does not move"
    expect(engine(page).get_by_label("Input tensor 0 as a picture")).to_be_visible()
    button.click()
    expect(button).to_have_text("Start stream")
    count = shown.see(lambda device: device.engines[0].inferences)
    expect(engine(page).locator("dd").first).to_have_text(f"{count:,}")


def opened_with_pictures(opened: PageOpener, shown: ShownDevices) -> Page:
    """Open a page and wait until it knows that the model takes pictures."""
    page = opened(shown.url)
    expect(engine(page).locator(".file", has_text="Picture…")).to_be_visible()
    return page


def test_a_dropped_model_is_loaded_and_a_dropped_picture_is_run(
    opened: PageOpener, shown: ShownDevices
) -> None:
    page = opened_with_pictures(opened, shown)
    model = base64.b64encode(digits.two_output_model_bytes()).decode()
    assert page.evaluate(DROP, ["", "two.tflite", model])
    expect(page.get_by_text("model: done")).to_be_visible()
    assert shown.see(lambda device: device.engines[0].inference.output_count) == 2
    data = io.BytesIO()
    Image.new("RGB", (16, 16), (90, 90, 90)).save(data, "PNG")
    assert page.evaluate(DROP, ["image/png", "gray.png", base64.b64encode(data.getvalue()).decode()])
    expect(page.get_by_text("infer: done")).to_be_visible()
    assert shown.see(lambda device: bytes(device.engines[0].inference.input(0))) == bytes([90 ^ 128]) * 64
    expect(engine(page).locator(".drop")).not_to_have_class("over")


def test_a_picture_that_is_none_is_refused(opened: PageOpener, shown: ShownDevices) -> None:
    page = opened_with_pictures(opened, shown)
    page.evaluate(DROP, ["image/png", "broken.png", base64.b64encode(b"no picture").decode()])
    expect(page.get_by_text("the browser cannot read this picture")).to_be_visible()
    assert shown.see(lambda device: device.engines[0].inferences) == 0


def test_error_bits_that_no_host_has_read_are_said(opened: PageOpener, shown: ShownDevices) -> None:
    page = opened(shown.url)
    shown.call(lambda device: set_command(device.local[0], Command.SET_MODEL_ARENA, 0, b"no model"))
    expect(engine(page).get_by_role("alert")).to_have_text("error bits that no host has read: MODEL_ERR")
