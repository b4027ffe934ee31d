"""The bus: what waits for a peer is bounded, whatever others do."""

import gc
import tracemalloc
from typing import Final

from aisrv.addons.jacdac.bus.bus import QUEUE_FRAMES, JacdacBus
from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame

FRAME: Final = report_frame(0x11, ServicePacket(1, 0x1101, b"one!"))
PEERS: Final = 3 * QUEUE_FRAMES


async def test_departures_that_wait_are_those_of_frames_that_were_received() -> None:
    bus = JacdacBus()
    here = bus.join("here")
    here.watch_departures()
    for number in range(PEERS):
        bus.join("silent").leave()
        there = bus.join(f"{number}")
        there.send(FRAME)
        there.leave()
    waiting = await here.receive_with_senders(10 * PEERS)
    told = [sender.name for frame, sender in waiting if not frame]
    assert told == [sender.name for frame, sender in waiting if frame]
    # Each departure takes the room of a frame: every other one of these peers was heard.
    assert told == [str(number) for number in range(QUEUE_FRAMES // 2)]


async def test_a_departure_comes_once_and_after_the_frames() -> None:
    bus = JacdacBus()
    here, there = bus.join("here"), bus.join("there")
    there.send(FRAME)
    here.watch_departures()  # also of those that were there before
    there.send(FRAME)
    there.leave()
    there.leave()
    assert await here.receive_with_senders() == [(FRAME, there), (FRAME, there), (b"", there)]


async def test_peers_that_have_left_keep_no_frames() -> None:
    bus = JacdacBus()
    here = bus.join("here")
    here.watch_departures()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            there = bus.join("there")
            there.send(FRAME)
            for _ in range(QUEUE_FRAMES):
                here.send(bytes(FRAME))
            there.leave()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()
