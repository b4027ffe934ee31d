"""The view asks its device four times a second while somebody looks, and never else."""

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from aisrv.addons.web.host.reader import Reading
from aisrv.addons.web.host.view import POLL_SECONDS, HostView
from aisrv.addons.web.hub import PageLog
from aisrv.protocol.commands import Spec
from host_tools.errors import DeviceGone, TransferTimeout

if TYPE_CHECKING:
    from collections.abc import Callable


class CountingReader:
    """Stands for a reader of a device: counts how often it is asked."""

    number = 3
    spec = Spec(1, 2, 512, 4096, 0)
    memory = None
    has_sensor = False

    def __init__(self) -> None:
        self.reads = 0
        self.answer: Callable[[], Reading] = lambda: Reading({"leds": 1}, {}, ("one",))
        self.done = trio.Event()

    def read(self) -> Reading:
        self.reads += 1
        trio.from_thread.run_sync(self.done.set)
        return self.answer()

    async def next(self) -> None:
        """Wait for the next answer to be taken."""
        await self.done.wait()
        self.done = trio.Event()


def make(reader: CountingReader) -> tuple[HostView, PageLog]:
    log = PageLog()
    return HostView("usb", reader, trio.Lock(), log), log  # type: ignore[arg-type]


def test_a_device_is_asked_while_somebody_looks_and_never_else() -> None:
    clock = MockClock()

    async def main() -> None:
        reader = CountingReader()
        view, _ = make(reader)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.run)
            await wait_all_tasks_blocked()
            clock.jump(10)
            await wait_all_tasks_blocked()
            assert reader.reads == 0
            view.open()
            await reader.next()
            for _ in range(4):
                await wait_until_asleep()
                clock.jump(POLL_SECONDS)
                await reader.next()
            assert reader.reads == 5
            view.close()
            await wait_until_asleep()
            clock.jump(10)
            await wait_all_tasks_blocked()
            assert reader.reads == 5
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)


async def wait_until_asleep() -> None:
    """Wait until the view's task waits for time again: it has what its thread brought."""
    while trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf"):
        await wait_all_tasks_blocked()


async def test_the_state_is_the_same_object_until_something_changes() -> None:
    reader = CountingReader()
    view, _ = make(reader)
    assert view.state(0.0) == {}
    await view.read()
    first = view.state(0.0)
    assert first["engines"] == {"3": {"leds": 1}}
    await view.read()
    assert view.state(1.0) is first
    reader.answer = lambda: Reading({"leds": 2}, {}, ("one",))
    await view.read()
    assert view.state(2.0)["engines"] == {"3": {"leds": 2}}


async def test_questions_take_turns_with_commands() -> None:
    reader, turn, held = CountingReader(), trio.Lock(), [False][:0]

    def answer() -> Reading:
        held.append(turn.locked())
        return Reading({}, {}, ())

    reader.answer = answer
    await HostView("usb", reader, turn, PageLog()).read()  # type: ignore[arg-type]
    assert held == [True]


async def test_new_lines_of_the_device_go_to_the_log() -> None:
    reader = CountingReader()
    view, log = make(reader)
    await view.read()
    assert log.since(0) == []
    assert view.lines_before() == [("engine 3", "one")]
    reader.answer = lambda: Reading({}, {}, ("one", "two"))
    await view.read()
    assert [line[2:] for line in log.since(0)] == [["engine 3", "two"]]


async def test_a_failure_is_a_line_and_a_device_that_is_gone_ends_the_view() -> None:
    reader = CountingReader()
    view, log = make(reader)

    def fail() -> Reading:
        reader.answer = leave
        raise TransferTimeout("GET_SPEC took too long")

    def leave() -> Reading:
        raise DeviceGone("it was unplugged")

    reader.answer = fail
    view.open()
    with pytest.raises(DeviceGone, match="unplugged"):
        await view.run()
    assert [line[2:] for line in log.since(0)] == [["host", "GET_SPEC took too long"]]


def test_the_board_has_no_inside() -> None:
    board = make(CountingReader())[0].board()
    assert (board["tiles"], board["links"], board["flash"]) == ({}, {}, {})
    assert board["description"] == "2 tiles of 512 KiB, flash of 4096 KiB, external memory of 0 KiB"
    assert board["engines"]["3"]["arena"] == 0
