"""Each control reaches the device; what it refuses is said with its reason."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from aisrv import digits
from aisrv.addons.web.device.controls import CONTROLS as DEVICE_CONTROLS
from aisrv.addons.web.host.controls import CONTROLS, WAITING, HostControls
from aisrv.addons.web.host.reader import Reader
from aisrv.addons.web.host.watched_server import WatchedServer
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, SensorSpec
from aisrv.device.device import Device
from aisrv.inference.process.inline import inline
from aisrv.listeners.websocket import Refused
from host_tools.errors import DeviceGone


@pytest.fixture(scope="module")
def virtual() -> Iterator[BackgroundDevice]:
    with BackgroundDevice(Board(sensor=SensorSpec(1, "pattern:bars")), runner=inline) as device:
        yield device


@pytest.fixture
def reader(virtual: BackgroundDevice) -> Iterator[Reader]:
    with WatchedServer.open(f"usbip:{virtual.usbip_address}") as server:
        yield Reader(server, 0)


@asynccontextmanager
async def running(reader: Reader, turn: trio.Lock | None = None) -> AsyncIterator[HostControls]:
    controls = HostControls("usb", reader, turn or trio.Lock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controls.run)
        yield controls
        nursery.cancel_scope.cancel()


async def do(controls: HostControls, name: str, body: bytes = b"", /, **values: str) -> str:
    return await controls.do(CONTROLS[name], {"device": "usb", **values}, body)


def test_the_page_has_the_same_controls_as_for_a_virtual_device() -> None:
    common = {"model", "model-ext", "input", "frame", "infer", "stream", "single", "reset"}
    common |= {"gpio", "gpio-mode", "threshold"}
    assert set(CONTROLS) == common
    assert common <= set(DEVICE_CONTROLS)
    assert {name: CONTROLS[name].most for name in common} == {
        name: DEVICE_CONTROLS[name].most for name in common
    }


ZEROS = bytes(640 * 480)


def model_inputs(device: Device) -> int:
    return device.engines[0].inference.input_count


def input_bytes(device: Device) -> bytes:
    return bytes(device.engines[0].inference.input(0))[:64]


def threshold_2(device: Device) -> int:
    return device.engines[0].gpio.thresholds[2]


def frame(device: Device) -> bytes:
    assert device.exposure is not None
    return bytes(device.exposure.frame.data)


STEPS: list[tuple[str, dict[str, str], bytes, Callable[[Device], Any], Any]] = [
    ("frame", {}, ZEROS, frame, ZEROS),
    ("model", {}, digits.model_bytes(), model_inputs, 1),
    ("input", {}, bytes(range(64)), input_bytes, bytes(range(64))),
    ("infer", {}, b"", lambda device: device.engines[0].inferences > 0, True),
    ("gpio", {"on": "1"}, b"", lambda device: device.engines[0].gpio.enabled, True),
    ("gpio-mode", {"max": "1"}, b"", lambda device: device.engines[0].gpio.mode.name, "MAX"),
    ("threshold", {"output": "2", "value": "-7"}, b"", threshold_2, -7),
    ("stream", {}, b"", lambda device: device.engines[0].streams, True),
    ("single", {}, b"", lambda device: device.engines[0].streams, False),
    ("reset", {}, b"", model_inputs, 1),
    ("model-ext", {}, digits.model_bytes(), model_inputs, 1),
]


def test_each_control_reaches_the_device(virtual: BackgroundDevice, reader: Reader) -> None:
    async def look(device: Device, see: Callable[[Device], Any]) -> Any:
        return see(device)

    async def main() -> None:
        async with running(reader) as controls:
            for name, values, body, see, expected in STEPS:
                assert await do(controls, name, body, **values) == "done", name
                seen = await trio.to_thread.run_sync(virtual.call, lambda device, see=see: look(device, see))
                assert seen == expected, name

    assert {name for name, *_ in STEPS} == set(CONTROLS)
    trio.run(main)


@pytest.mark.parametrize(
    ("name", "values", "body", "status", "text"),
    [
        ("input", {}, b"x", 409, "SET_INPUT_TENSOR: input tensor 0 has 64 bytes, not 1"),
        ("model", {}, b"no model", 409, "the model: not a TensorFlow Lite file"),
        ("gpio", {"on": "2"}, b"", 400, "on is a whole number from 0 to 1, not 2"),
        ("threshold", {"output": "4", "value": "0"}, b"", 400, "output is a whole number from 0 to 3"),
        ("infer", {"device": "other"}, b"", 404, "there is no such device"),
        ("infer", {"engine": "1"}, b"", 404, "there is no such engine"),
    ],
)
def test_what_a_control_refuses(
    reader: Reader, name: str, values: dict[str, str], body: bytes, status: int, text: str
) -> None:
    async def main() -> None:
        async with running(reader) as controls:
            assert await do(controls, "model", digits.model_bytes()) == "done"
            with pytest.raises(Refused) as caught:
                await do(controls, name, body, **values)
        assert caught.value.status == status
        assert str(caught.value).startswith(text)

    trio.run(main)


async def test_more_commands_than_may_wait_are_refused(reader: Reader) -> None:
    controls = HostControls("usb", reader, trio.Lock())  # whose task does not run
    async with trio.open_nursery() as nursery:
        for _ in range(WAITING):
            nursery.start_soon(partial(do, controls, "infer"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Refused, match="the engine has 8 commands to do") as caught:
            await do(controls, "infer")
        assert caught.value.status == 503
        nursery.cancel_scope.cancel()


async def test_a_device_that_is_gone_ends_the_controls_after_the_answer() -> None:
    class Gone:
        number = 0

        @property
        def server(self) -> WatchedServer:
            raise DeviceGone("it was unplugged")

    controls = HostControls("usb", Gone(), trio.Lock())  # type: ignore[arg-type]
    answers: list[str] = []

    async def ask() -> None:
        with pytest.raises(Refused) as caught:
            await do(controls, "infer")
        answers.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with pytest.raises(DeviceGone):
            await controls.run()
    assert answers == ["it was unplugged"]


async def test_commands_take_turns_with_questions() -> None:
    turn, held = trio.Lock(), [False][:0]

    class Server:
        def infer(self) -> None:
            held.append(turn.locked())

    class Probe:
        number = 0
        server = Server()

    async with running(Probe(), turn) as controls:  # type: ignore[arg-type]
        assert await do(controls, "infer") == "done"
    assert held == [True]


async def test_a_closed_tab_cancels_no_command(reader: Reader, virtual: BackgroundDevice) -> None:
    turn = trio.Lock()
    controls = HostControls("usb", reader, turn)

    async def enabled(device: Device) -> bool:
        return device.engines[0].gpio.enabled

    async with trio.open_nursery() as nursery:
        nursery.start_soon(controls.run)
        assert await do(controls, "gpio", on="0") == "done"
        await turn.acquire()
        async with trio.open_nursery() as tab:
            tab.start_soon(partial(do, controls, "gpio", on="1"))
            await trio.testing.wait_all_tasks_blocked()
            tab.cancel_scope.cancel()
        turn.release()
        assert await do(controls, "single") == "done"
        assert await trio.to_thread.run_sync(virtual.call, enabled)
        nursery.cancel_scope.cancel()
