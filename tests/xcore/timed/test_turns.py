"""The order of cores in device time: whatever order Trio runs tasks in, and in which node they are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.testing

from aisrv import digits
from aisrv.board.catalog import find_board
from aisrv.device.device import Device
from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.device_tracer import DeviceTracer
from aisrv.monitor.trace.recording import ChipTime, TraceClock
from aisrv.monitor.trace.sinks import FileSink
from aisrv.monitor.trace.writer import TraceWriter
from aisrv.protocol.commands import Command
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_word
from aisrv.xcore.node import open_node
from aisrv.xcore.select import select
from aisrv.xcore.timed.classes import TIMED, timeline_of
from aisrv.xcore.timed.parking import TimedParking
from aisrv.xcore.waiter import Waiter
from tests.support.amounts import amount
from tests.support.benches.device_time import SpiHost, UsbHost, on_virtual_time, ticks, timed_device
from tests.support.benches.timed_node import core_clock
from tests.support.oracles.past_timeline import Scheduled

Outcome = list[Any]
TURNS = 3


async def _town(log: Outcome) -> None:
    """Clients of both tiles and of outside at a server, a lock that all of them want, and a stream."""
    async with open_node(classes=TIMED, seed=1) as node, trio.open_nursery() as hosts:
        near, far = node.tiles
        clients = [node.channel(far, near) for _ in range(4)]
        outside = [node.channel(far, near) for _ in range(2)]
        streams = node.channel(near, far)
        lock, barrier = far.allocate_lock(), near.allocate_synchronizer(3)
        served = [b for _, b in (*clients, *outside)]

        async def server() -> None:
            for _ in range(6 * TURNS):
                chosen = await select(*served)
                assert isinstance(chosen, ChanEnd)
                word = await chan_in_word(chosen)
                log.append(("serves", served.index(chosen), word, core_clock()))
                await chan_out_word(chosen, word + 1)

        async def client(number: int, c: ChanEnd) -> None:
            timer = far.allocate_timer()
            for turn in range(TURNS):
                await timer.wait_after(timer.now() + 7 * number)
                async with _held(lock):
                    await chan_out_word(c, turn)
                    log.append((number, await chan_in_word(c), core_clock()))

        async def host(number: int, c: ChanEnd) -> None:
            for turn in range(TURNS):
                await trio.sleep(1e-7 * number)
                await chan_out_word(c, 100 + turn)
                mine.append((number, await chan_in_word(c), node.clock.ticks()))

        async def source() -> None:
            for _ in range(5):
                await streams.a.outwords(bytes(64))

        async def sink() -> None:
            for _ in range(5):
                await streams.b.inwords(16)
            log.append(("sink", core_clock()))

        async def race(number: int) -> None:
            for _ in range(3):
                await barrier.synchronize()
                log.append(("races", number, core_clock()))

        mine: list[Any] = []
        near.start(server)
        for number in range(3):
            near.start(race, number)
        for number, (a, _) in enumerate(clients):
            far.start(client, number, a)
        for number, (a, _) in enumerate(outside):
            hosts.start_soon(host, number, a)
        near.start(source)
        far.start(sink)
    log.append(sorted(mine))
    log.append(trio.current_time())


class _held:  # noqa: N801 - reads as a block
    """A lock, held within a block."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    async def __aenter__(self) -> None:
        await self.lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.lock.release()


def _shuffled(seed: int) -> Outcome:
    """What happens where Trio runs tasks in the order of a seed."""
    log: Outcome = []
    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        trio.run(_town, log, clock=trio.testing.MockClock(autojump_threshold=0))
    return log


@pytest.mark.in_full
def test_shuffled_runs_have_equal_ticks_and_answers() -> None:
    first = _shuffled(0)
    assert len(first) == 10 * TURNS + 9 + 1 + 2
    for seed in range(1, amount(100, every_day=20)):
        assert _shuffled(seed) == first, seed


def test_one_wake_up_past_the_timeline_is_noticed() -> None:
    def at_once(parking: TimedParking[Any], _: int, value: Any) -> bool:
        return Waiter.wake(parking, value)

    with patch.object(TimedParking, "wake_at", at_once):
        assert any(_shuffled(seed) != _shuffled(0) for seed in range(1, 10))


@pytest.mark.parametrize("past", ["nothing", "sleep", "checkpoint", "event", "child"])
def test_a_wait_of_a_core_past_the_timeline_is_found(past: str) -> None:
    async def main() -> set[str]:
        event = trio.Event()
        async with open_node(classes=TIMED) as node:
            a, b = node.channel(*node.tiles)
            timer = node.tiles[1].allocate_timer()

            async def out() -> None:
                await a.outwords(bytes(64))
                if past == "sleep":
                    await trio.sleep(1)
                if past == "checkpoint":
                    await trio.lowlevel.checkpoint()
                if past == "event":
                    await event.wait()
                if past == "child":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(trio.lowlevel.checkpoint)
                        nursery.start_soon(event.wait)

            async def take() -> None:
                await timer.wait_after(50)
                await b.inwords(16)
                await select(timer.after(100))
                event.set()

            watch = Scheduled()
            trio.lowlevel.add_instrument(watch)
            node.tiles[0].start(out)
            node.tiles[1].start(take)
        assert watch.turns > 3
        return watch.past

    found = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert found == (set() if past == "nothing" else {"out"})


@asynccontextmanager
async def _traced(device: Device, path: Path) -> AsyncIterator[None]:
    """A trace of what a device does within the block."""
    with FileSink(path) as sink:
        writer = TraceWriter(sink, unit_ns=1)
        process = writer.process(1, "device")
        with device.node.tracing(DeviceTracer(writer, ChipTime(TraceClock()), process, 1, Detail.RUNS)):
            yield


def _device_run(seed: int, path: Path) -> tuple[list[Any], bytes, set[str]]:
    """What hosts on USB and SPI see of a device, its trace, and cores that waited past the timeline."""

    async def main() -> tuple[list[Any], set[str]]:
        notes: list[Any] = []
        async with timed_device(digits.model_bytes()) as device:
            watch = Scheduled()
            trio.lowlevel.add_instrument(watch)
            size = len(device.engines[0].inference.input(0))

            async def usb() -> None:
                host = UsbHost(device)
                for turn in range(2):
                    await host.cycle(bytes((turn,)) * size)
                    notes.append(("usb", host.data, *host.ends))

            async def spi() -> None:
                host = SpiHost(device, 10_000_000)
                for turn in range(2):
                    await host.set(Command.SET_INPUT_TENSOR, bytes((5 + turn,)) * size)
                    await host.infer()
                    notes.append(("spi", await host.read(Command.GET_OUTPUT_TENSOR, 12), ticks(device)))

            async with _traced(device, path), trio.open_nursery() as hosts:
                hosts.start_soon(usb)
                hosts.start_soon(spi)
            trio.lowlevel.remove_instrument(watch)
            assert watch.turns > 300
        return [*sorted(notes), trio.current_time()], watch.past

    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        notes, past = on_virtual_time(main)
    return notes, path.read_bytes(), past


@pytest.mark.in_full
def test_a_device_does_the_same_in_whatever_order_and_waits_by_the_timeline_alone(tmp_path: Path) -> None:
    first, trace, past = _device_run(0, tmp_path / "first")
    assert past == set()
    assert len(trace) > 10_000
    for seed in range(1, amount(100, every_day=4)):
        assert _device_run(seed, tmp_path / "trace") == (first, trace, set()), seed


def _camera_run(seed: int, path: Path) -> tuple[bytes, bytes, set[str]]:
    """Scores of a stream of a camera's frames, its trace, and cores that waited past the timeline."""

    async def main() -> tuple[bytes, set[str]]:
        async with timed_device(digits.model_bytes(), find_board("camera")) as device:
            watch, host = Scheduled(), UsbHost(device)
            trio.lowlevel.add_instrument(watch)
            async with _traced(device, path):
                await host.set(Command.START_ACQUIRE_STREAM, b"")
                await trio.sleep(0.1)
                scores = await host.read(Command.GET_OUTPUT_TENSOR)
            trio.lowlevel.remove_instrument(watch)
        assert watch.turns > 50
        return scores, watch.past

    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        scores, past = on_virtual_time(main)
    return scores, path.read_bytes(), past


@pytest.mark.in_full
def test_a_camera_does_the_same_in_whatever_order_and_waits_by_the_timeline_alone(tmp_path: Path) -> None:
    first = _camera_run(0, tmp_path / "first")
    scores, trace, past = first
    assert past == set()
    assert len(scores) == 10
    assert len(trace) > 10_000
    for seed in range(1, amount(100, every_day=3)):
        assert _camera_run(seed, tmp_path / "trace") == first, seed


def test_nodes_at_one_tick_go_by_their_number() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async with open_node(number=2, classes=TIMED) as second, open_node(number=1, classes=TIMED) as first:
            for node in (second, first):
                timer = node.tiles[0].allocate_timer()

                async def wait(number: int = node.number, timer: Any = timer) -> None:
                    await timer.wait_after(100)
                    order.append(number)

                node.tiles[0].start(wait)
        return order

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == [1, 2]


def test_cores_of_one_tick_go_by_tile_and_number_and_the_outside_is_first() -> None:
    async def main() -> list[str]:
        order: list[str] = []

        async with open_node(classes=TIMED) as node:
            for tile in (1, 0):
                for number in range(3):
                    timer = node.tiles[tile].allocate_timer()

                    async def wait(name: str = f"{tile}.{number}", timer: Any = timer) -> None:
                        await timer.wait_after(99)
                        order.append(name)

                    node.tiles[tile].start(wait)
            await trio.sleep(100e-8)
            for _ in range(10):  # the outside may take many steps at a tick
                await trio.lowlevel.checkpoint()
            order.append("outside")
            timeline = timeline_of(node.runtime)
            assert timeline is not None
            assert timeline.ticks == 100
        return order

    order = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert order == ["outside", "0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]


def test_a_node_in_device_time_ends_with_a_deadlock_as_any() -> None:
    async def main() -> None:
        async with open_node(classes=TIMED) as node:
            a, _ = node.channel(*node.tiles)

            async def wait() -> None:
                await a.inuint()

            node.tiles[0].start(wait)

    with pytest.raises(ExceptionGroup) as raised:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert "no core can run again" in str(raised.value.exceptions[0])
