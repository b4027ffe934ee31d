"""The hub makes states while somebody looks, and leaves no trace at the device after that."""

import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from aisrv import digits
from aisrv.addons.web.cpu_time import CpuTime
from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.hub import GRID, LOG_LINES, TICK, Hub, PageLog
from aisrv.addons.web.merge_patch import merge_patch
from aisrv.board.catalog import BOARDS
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command
from aisrv.xcore.channels.chanend import ChanEnd
from phy.usb.bus import UsbBus
from tests.support.amounts import in_ci


def in_virtual_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on a clock that jumps to whatever comes next."""

    @wraps(test)
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


class Page:
    """Takes the frames of a page; one that is slow takes none until it is let."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.takes = trio.Event()
        self.takes.set()

    async def send_frames(self, frames: bytes) -> None:
        """As `WebSocket.send_frames`."""
        await self.takes.wait()
        self.got.append(frames)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Device, Hub, trio.Nursery]]:
    async with open_device(runner=inline) as device, trio.open_nursery() as nursery:
        hub = Hub([DeviceView("1-1", device)])
        nursery.start_soon(hub.run)
        yield device, hub, nursery
        nursery.cancel_scope.cancel()


@in_virtual_time
async def test_nothing_is_copied_while_nobody_looks() -> None:
    async with running() as (device, hub, _nursery):
        async with trio.open_nursery() as pages:
            for _ in range(2):
                pages.start_soon(hub.feed, Page(), "1-1")
            await trio.sleep(TICK / 2)
            assert device.engines[0].inference.before_run is not None
            pages.cancel_scope.cancel()
        assert device.engines[0].inference.before_run is None


@pytest.mark.plain_time("it asks for the plain channel ends")
@in_virtual_time
async def test_a_device_that_nobody_looks_at_is_as_it_was_made() -> None:
    def kinds() -> set[type]:
        return {type(end) for channel in device.channels for end in (channel.a, channel.b)}

    async with running() as (device, hub, _nursery):
        made = kinds()
        async with trio.open_nursery() as pages:
            pages.start_soon(hub.feed, Page(), "1-1")
            await trio.sleep(3 * TICK)
            assert device.node.runtime.tracer is None
            pages.cancel_scope.cancel()
        assert made == kinds() == {ChanEnd}
        assert type(device.usb) is UsbBus
        assert device.node.runtime.tracer is None
        assert logging.getLogger("aisrv").handlers == []


def applied(before: Any, patch: Any) -> Any:
    """MergePatch of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    found = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = applied(found.get(name), value)
    return found


def messages(frames: bytes) -> Iterator[Any]:
    """The texts of a server's frames (RFC 6455, section 5.2)."""
    while frames:
        assert frames[0] == 0x81
        wide = {126: 2, 127: 8}.get(frames[1], 0)
        begin = 2 + wide
        size = int.from_bytes(frames[2:begin]) if wide else frames[1]
        yield json.loads(frames[begin : begin + size])
        frames = frames[begin + size :]


@in_virtual_time
async def test_random_patches_give_the_state() -> None:
    numbers = random.Random(4)
    model = digits.model_bytes()
    async with running() as (device, hub, nursery):
        page, engine = Page(), device.engines[0]

        async def load() -> None:
            await device.load_model(model)

        async def infer() -> None:
            await get_command(device.local[0], Command.GET_ID)
            engine.inferences += 1

        async def set_lights() -> None:
            engine.gpio.enabled = bool(numbers.getrandbits(1))
            engine.gpio.thresholds[numbers.randrange(4)] = numbers.randrange(-128, 128)

        async def pull() -> None:
            device.usb.unplug()

        async def plug() -> None:
            device.usb.plug()

        async def log() -> None:
            logging.getLogger("aisrv.x").warning("line %d", numbers.getrandbits(9))

        nursery.start_soon(hub.feed, page, "1-1")
        changes = [infer, set_lights, pull, plug, log]
        state: Any = {}
        patches = lines = 0
        while patches < in_ci(1000, every_day=200):
            if numbers.getrandbits(7) == 0:
                await load()
            await numbers.choice(changes)()
            if numbers.getrandbits(3) == 0:  # for a while it takes nothing
                page.takes = trio.Event()
                await trio.sleep(numbers.uniform(0, 10 * TICK))
                page.takes.set()
            await trio.sleep(numbers.uniform(0, 3 * TICK))
            for message in messages(b"".join(page.got)):
                if "patch" in message:
                    state = applied(state, message["patch"])
                    patches += 1
                lines += len(message.get("log", []))
            page.got.clear()
        await trio.sleep(10 * TICK)
        for message in messages(b"".join(page.got)):
            state = applied(state, message.get("patch", {}))
        now = json.loads(msgspec.json.encode(hub.views["1-1"].state(0.0), enc_hook=int))
        assert state | {"t": 0.0} == now
        assert lines > in_ci(50, every_day=10)


@in_virtual_time
async def test_a_device_that_rests_sends_nothing_more() -> None:
    async with running() as (_device, hub, nursery):
        page = Page()
        nursery.start_soon(hub.feed, page, "1-1")
        await trio.sleep(10 * TICK)
        first = len(page.got)
        await trio.sleep(100 * TICK)
        assert len(page.got) == first


@in_virtual_time
async def test_a_slow_page_gets_one_larger_step() -> None:
    async with running() as (device, hub, nursery):
        slow, quick = Page(), Page()
        nursery.start_soon(hub.feed, slow, "1-1")
        nursery.start_soon(hub.feed, quick, "1-1")
        await trio.sleep(20 * TICK)
        slow.takes = trio.Event()
        before = len(slow.got), len(quick.got)
        for _ in range(10):
            device.engines[0].inferences += 1
            await trio.sleep(20 * TICK)
        slow.takes.set()
        await trio.sleep(20 * TICK)
        assert len(quick.got) - before[1] == 10
        # the step that it was in, and all others as one
        assert len(slow.got) - before[0] == 2
        assert b'"n":10' in slow.got[-1]


@in_virtual_time
async def test_a_page_that_is_slow_hears_how_many_lines_it_missed() -> None:
    async with running() as (_device, hub, nursery):
        page = Page()
        nursery.start_soon(hub.feed, page, "1-1")
        await trio.sleep(3 * TICK)
        logger = logging.getLogger("aisrv.x")
        logger.warning("first")
        page.takes = trio.Event()
        await trio.sleep(3 * TICK)
        for number in range(LOG_LINES + 7):
            logger.warning("line %d", number)
        page.got.clear()
        page.takes.set()
        await trio.sleep(3 * TICK)
        logs = [each for each in messages(b"".join(page.got)) if "log" in each]
        assert [(len(each["log"]), each.get("missed")) for each in logs] == [(1, None), (LOG_LINES, 7)]
        assert logs[1]["log"][0][3] == "line 7"


@in_virtual_time
async def test_the_grid_comes_less_often() -> None:
    async with running() as (device, hub, nursery):
        page = Page()
        nursery.start_soon(hub.feed, page, GRID)
        for _ in range(400):
            device.engines[0].inferences += 1
            await trio.sleep(TICK / 10)
        assert len(page.got) <= 1 + 400 / 10 / 5 + 1


class DearPage(Page):
    """Takes CPU time for each message, half of it after a wait."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds

    async def send_frames(self, frames: bytes) -> None:
        """As `WebSocket.send_frames`."""
        self._clock[0] += self._seconds / 2
        await trio.lowlevel.checkpoint()
        self._clock[0] += self._seconds / 2
        await super().send_frames(frames)


@pytest.mark.parametrize(
    ("pages", "milliseconds", "updates"),
    [(1, 0.0, 200), (1, 1.0, 200), (1, 4.0, 50), (2, 4.0, 25), (10, 0.4, 50), (20, 1.0, 10)],
)
def test_the_rate_falls_to_two_percent_of_a_core(pages: int, milliseconds: float, updates: int) -> None:
    async def show() -> None:
        clock = [0.0]
        async with open_device(runner=inline) as device, trio.open_nursery() as nursery:
            hub = Hub([DeviceView("1-1", device)], cpu=CpuTime(lambda: clock[0]))
            nursery.start_soon(hub.run)
            shown = [DearPage(clock, milliseconds / 1000) for _ in range(pages)]
            for page in shown:
                nursery.start_soon(hub.feed, page, "1-1")
            await trio.sleep(3 + TICK / 2)
            before, spent = [len(page.got) for page in shown], clock[0]
            for _ in range(2000):
                device.engines[0].inferences += 1
                await trio.sleep(0.005)
            for page, count in zip(shown, before, strict=True):
                assert abs(len(page.got) - count - updates) <= 1
            assert clock[0] - spent <= (0.02 * 10) * 1.11
            nursery.cancel_scope.cancel()

    trio.run(show, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_log_keeps_the_newest_lines() -> None:
    log = PageLog()
    for number in range(LOG_LINES + 3):
        log.emit(logging.LogRecord("aisrv.x", logging.INFO, "", 0, "line %d", (number,), None))
    assert len(log.since(0)) == LOG_LINES
    assert [line[3] for line in log.since(LOG_LINES + 1)] == [
        f"line {LOG_LINES + 1}",
        f"line {LOG_LINES + 2}",
    ]
    assert log.since(LOG_LINES + 3) == []


@pytest.mark.parametrize("name", BOARDS)
def test_each_board_can_be_shown(name: str) -> None:
    async def show() -> None:
        async with open_device(BOARDS[name], runner=inline) as device:
            hub = Hub([DeviceView("1-1", device)])
            assert all(hub.first_messages("1-1"))
            assert merge_patch({}, hub.views["1-1"].state(0.0))

    trio.run(show, clock=trio.testing.MockClock(autojump_threshold=0))


@in_virtual_time
async def test_the_log_is_the_programs_own_while_somebody_looks() -> None:
    names = "aisrv", "aisrv.engine0", "phy.usb", "flash_server"
    async with running() as (_device, hub, _nursery):
        before = [logging.getLogger(name).getEffectiveLevel() for name in names]
        async with trio.open_nursery() as pages:
            pages.start_soon(hub.feed, Page(), "1-1")
            await trio.sleep(TICK)
            for name in names:
                logging.getLogger(name).info("of %s", name)
            assert [line[3] for line in hub.log.since(0)] == [f"of {name}" for name in names]
            pages.cancel_scope.cancel()
        assert [logging.getLogger(name).getEffectiveLevel() for name in names] == before
        logging.getLogger("aisrv").warning("nobody looks")
        assert hub.log.count == len(names)


@in_virtual_time
async def test_no_line_is_lost_while_the_first_messages_are_sent() -> None:
    async with running() as (_device, hub, nursery):
        page = Page()
        page.takes = trio.Event()
        nursery.start_soon(hub.feed, page, "1-1")
        await trio.sleep(TICK)
        logging.getLogger("aisrv").warning("meanwhile")
        page.takes.set()
        await trio.sleep(2 * TICK)
        assert b'"meanwhile"' in b"".join(page.got)
