"""The page's own merge of patches makes the states that the server has."""

import json
import random
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from playwright.sync_api import WebSocket, expect

from aisrv import digits
from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.merge_patch import merge_patch
from aisrv.device.device import Device
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command, set_large
from tests.browser.shown_devices import ShownDevices
from tests.browser.watched_page import PageOpener

PATCHES = 1000
COMMANDS = 100
WORK = (
    (Command.SET_MODEL_ARENA, digits.model_bytes()),
    (Command.SET_MODEL_ARENA, digits.two_output_model_bytes()),
    (Command.SET_MODEL_ARENA, b"no model"),
    *((Command.START_INFER, b""),) * 5,
    (Command.SET_OUTPUT_GPIO_EN, b"\1"),
    (Command.SET_OUTPUT_GPIO_MODE, b"\0"),
    (Command.SET_OUTPUT_GPIO_MODE, b"\1"),
    (Command.SET_OUTPUT_GPIO_THRESH, b"\2\x20"),
)
"""Commands with their data, of which some are refused."""
MERGED = """async (patches) => {
    const { merge } = await import("/merge_patch.js");
    let state = {};
    return patches.map((patch) => JSON.stringify((state = merge(state, patch))));
}"""
"""The states after each of some patches, as texts."""


def random_state(numbers: random.Random, depth: int = 3) -> dict[str, Any]:
    """An object of few names, so that states have much in common."""

    def value() -> Any:
        kind = numbers.randrange(6 if depth else 5)
        if kind == 5:
            return random_state(numbers, depth - 1)
        if kind == 4:
            return [numbers.choice([None, {}, 1, [2]]) for _ in range(numbers.randrange(3))]
        return [numbers.randrange(3), "", "\\u2028<b>", True][kind]

    names = numbers.sample(["a", "b", "1", "constructor", "é"], numbers.randrange(6))
    return {name: value() for name in names}


def test_random_patches_give_the_states(opened: PageOpener) -> None:
    numbers = random.Random(7)
    states = [random_state(numbers) for _ in range(PATCHES)]
    patches = [merge_patch(before, now) or {} for before, now in zip([{}, *states], states, strict=False)]
    with ShownDevices() as shown:
        merged = opened(shown.url).evaluate(MERGED, patches)
        opened.close()
    assert [json.loads(each) for each in merged] == states


def test_what_a_page_was_sent_gives_the_state_of_the_device(opened: PageOpener) -> None:
    numbers = random.Random(11)
    sent: list[dict[str, Any]] = []

    def keep(payload: str | bytes) -> None:
        message = json.loads(payload) if isinstance(payload, str) else {}
        if "patch" in message:
            sent.append(message["patch"])

    def watch(socket: WebSocket) -> None:
        socket.on("framereceived", keep)

    async def do_something(device: Device) -> None:
        command, data = numbers.choice(WORK)
        await set_large(device.local[0], command, 0, data)

    def state(device: Device) -> dict[str, Any]:
        return DeviceView("1-1", device).state(0.0)

    with ShownDevices() as shown:
        page = opened(shown.url)
        page.on("websocket", watch)
        page.reload()
        inferences = page.locator(".engine dd").first
        expect(inferences).to_have_text("0")
        for _ in range(COMMANDS):
            shown.call(do_something)
            page.evaluate("new Promise(requestAnimationFrame)")
        shown.call(lambda device: device.load_model(digits.model_bytes()))
        shown.call(lambda device: set_command(device.local[0], Command.START_INFER))
        wanted = shown.see(state)
        expect(inferences).to_have_text(str(wanted["engines"]["0"]["n"]))
        found = json.loads(page.evaluate(MERGED, sent)[-1])
        opened.close()
    assert len(sent) > COMMANDS / 10
    for each in (found, wanted):
        del each["t"], each["links"]  # a clock, and tokens since somebody looked
    assert found == json.loads(json.dumps(wanted, default=int))
