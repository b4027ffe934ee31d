"""A Jacdac bus in device time: frames take the wire, one at a time, and the device's task has its turns."""

from random import Random
from unittest.mock import patch

import trio

from aisrv import digits
from aisrv.addons.jacdac.board import Jacdac
from aisrv.addons.jacdac.bus.bus import QUEUE_FRAMES
from aisrv.addons.jacdac.bus.timed_bus import TimedJacdacBus
from aisrv.addons.jacdac.device import bus_of
from aisrv.addons.jacdac.wire.frame import ServicePacket, command_frame
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.xcore.node import open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.timed.runtime import TimedRuntime
from tests.support.benches.device_time import on_virtual_time
from tests.support.oracles.past_timeline import Scheduled
from tests.support.peers.jacdac_client import DEVICE, BusClient

RUNNER = 2
FRAME = command_frame(DEVICE, [ServicePacket(1, 2, b"abcd")])
TICKS = len(FRAME) * 1_000


def arrivals(frames: int, peers: int = 1) -> list[int]:
    """Ticks at which a peer has frames that others send at once."""

    async def main() -> list[int]:
        ticks: list[int] = []
        async with open_node(classes=TIMED) as node:
            assert isinstance(node.runtime, TimedRuntime)
            bus = TimedJacdacBus(node.runtime)
            here = bus.join("here")
            senders = [bus.join(str(number)) for number in range(peers)]
            for number in range(frames):
                senders[number % peers].send(FRAME)
            while len(ticks) < min(frames, QUEUE_FRAMES):
                count = len(await here.receive())
                ticks += [node.clock.ticks()] * count
            assert here.lost == max(0, frames - QUEUE_FRAMES)
            node.stop()
        return ticks

    return on_virtual_time(main)


def test_a_frame_takes_ten_microseconds_a_byte() -> None:
    assert arrivals(1) == [TICKS]


def test_frames_take_the_wire_one_at_a_time_whoever_sends_them() -> None:
    assert arrivals(5, peers=3) == [TICKS * (1 + number) for number in range(5)]


def test_more_frames_than_a_peer_can_have_under_way_are_lost() -> None:
    assert len(arrivals(QUEUE_FRAMES + 7)) == QUEUE_FRAMES


def test_who_leaves_is_told_after_the_last_frame() -> None:
    async def main() -> list[tuple[int, bytes]]:
        seen: list[tuple[int, bytes]] = []
        async with open_node(classes=TIMED) as node:
            assert isinstance(node.runtime, TimedRuntime)
            bus = TimedJacdacBus(node.runtime)
            here, there = bus.join("here"), bus.join("there")
            here.watch_departures()
            there.send(FRAME)
            there.leave()
            while len(seen) < 2:
                frames = await here.receive_with_senders()
                seen += [(node.clock.ticks(), frame) for frame, _ in frames]
            node.stop()
        return seen

    assert on_virtual_time(main) == [(TICKS, FRAME), (TICKS, b"")]


def device_run(seed: int) -> tuple[list[object], set[str]]:
    """What a host sees on the bus of a device in device time, and cores that waited past the timeline."""

    async def main() -> tuple[list[object], set[str]]:
        notes: list[object] = []
        board = Board(parts=(Jacdac(),))
        async with open_device(board, runner=inline, device_time=True) as device:
            watch = Scheduled()
            client = BusClient(bus_of(device).join("client"))
            await trio.sleep(1)
            trio.lowlevel.add_instrument(watch)
            notes.append(await client.upload(RUNNER, digits.model_bytes()))
            notes += await client.predict(RUNNER, bytes(4 * 64))
            notes.append(device.node.clock.ticks())
            trio.lowlevel.remove_instrument(watch)
            assert watch.turns > 50
        return notes, watch.past

    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        return on_virtual_time(main)


def test_a_device_answers_in_whatever_order_its_tasks_run() -> None:
    first, past = device_run(0)
    assert past == set()
    assert first[0] == ""
    on_the_wire = len(digits.model_bytes()) * 1_000  # the model alone
    assert int(str(first[-1])) - 100_000_000 > on_the_wire
    for seed in range(1, 4):
        assert device_run(seed) == (first, set())


def test_the_device_is_a_peer_of_the_bus() -> None:
    async def main() -> list[str]:
        async with open_node(classes=TIMED) as node:
            assert isinstance(node.runtime, TimedRuntime)
            bus = TimedJacdacBus(node.runtime)
            bus.join_device()
            bus.join("host")
            node.stop()
        return [peer.name for peer in bus.peers]

    assert on_virtual_time(main) == ["device", "host"]
