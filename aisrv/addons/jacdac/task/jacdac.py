"""The task of a Jacdac device: joins a bus, serves it, and is a client of each engine.

One loop serves the bus; it waits for frames and deadlines and nothing else. Loads, inferences and flash have
tasks of their own.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from aisrv.addons.jacdac.bus.bus import BusPeer
from aisrv.addons.jacdac.task.control import Identity
from aisrv.addons.jacdac.task.device import JacdacDevice
from aisrv.addons.jacdac.task.engine_client import EngineClient
from aisrv.addons.jacdac.task.flash_store import SettingsStore
from aisrv.addons.jacdac.task.model_runner import ModelRunner
from aisrv.addons.jacdac.task.protocol_check import ProtocolTestService
from aisrv.addons.jacdac.task.sensor_aggregator import SensorAggregator
from aisrv.addons.jacdac.wire.timers import SECOND
from aisrv.xcore.runtime import current_runtime

if TYPE_CHECKING:
    from aisrv.addons.jacdac.task.service import Service

FIRST_RUNNER: Final = 2
"""Index of engine 0; the Sensor Aggregator is before it."""

FRAMES_A_TURN: Final = 32
"""Frames that the device handles before others have their turn: a millisecond or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JacdacSettings:
    """Settings of a Jacdac device besides its engines."""

    device_id: int
    identity: Identity = field(default_factory=Identity)
    parallel: Sequence[bool] = ()
    """Whether each engine has a tile to itself."""
    protocol_test: bool = False
    resets_after_load: bool = False
    """Whether the device resets itself after a model was set."""


async def jacdac(
    peer: BusPeer,
    settings: JacdacSettings,
    engines: Sequence[EngineClient],
    store: SettingsStore | None = None,
) -> None:
    """Serve a bus, on a core, until cancelled; `store` keeps the Sensor Aggregator's inputs."""
    runtime = current_runtime()
    assert runtime is not None  # noqa: S101 - for the type checker
    start = runtime.start_task
    device = JacdacDevice(settings.device_id, peer.send, identity=settings.identity)
    states = [await engine.describe() for engine in engines]
    aggregator = SensorAggregator(device, FIRST_RUNNER - 1, keep=_ignore if store is None else store.keep)
    runners = [
        ModelRunner(
            device,
            FIRST_RUNNER + number,
            number,
            engine.submit,
            state=state,
            parallel=settings.parallel[number] if number < len(settings.parallel) else False,
            resets_after_load=device.reset if settings.resets_after_load else None,
        )
        for number, (engine, state) in enumerate(zip(engines, states, strict=True))
    ]
    for runner in runners:
        aggregator.add_consumer(runner)
    services: list[Service] = [aggregator, *runners]
    if settings.protocol_test:
        services.append(ProtocolTestService(device, len(services) + 1))
    if store is not None:
        aggregator.restore(await store.read())
    clock = _Clock()
    answers: deque[Callable[[], None]] = deque()

    def post(answer: Callable[[], None]) -> None:
        answers.append(answer)
        peer.wake()

    async with trio.open_nursery() as nursery:
        for engine, runner in zip(engines, runners, strict=True):
            start(nursery, engine.run, post)
            start(nursery, engine.watch, post, runner.model_changed)
        if store is not None:
            start(nursery, store.run)
        device.start(services, [aggregator])
        await _serve(device, peer, answers, clock)


async def serve_device(device: JacdacDevice, peer: BusPeer) -> None:
    """Pass frames and time to a device until cancelled."""
    await _serve(device, peer, deque(), _Clock())


class _Clock:
    """Microseconds since the device started, of Trio's clock."""

    def __init__(self) -> None:
        self._start = trio.current_time()

    @property
    def now(self) -> int:
        return round((trio.current_time() - self._start) * SECOND)

    def time_of(self, microseconds: int) -> float:
        """Convert a deadline to Trio's time."""
        return self._start + microseconds / SECOND


async def _serve(
    device: JacdacDevice, peer: BusPeer, answers: deque[Callable[[], None]], clock: _Clock
) -> None:
    """Pass to the device its frames, departures, answers of engines, and its time."""
    peer.watch_departures()
    while True:
        device.timers.advance(clock.now)
        deadline = device.timers.next_deadline
        until = None if deadline is None else clock.time_of(deadline)
        frames = await peer.receive_until(until, FRAMES_A_TURN)
        device.timers.advance(clock.now)
        while answers:
            answers.popleft()()
        for frame, sender in frames:
            if frame:
                device.receive(frame, sender)
            else:
                device.sender_left(sender)


def _ignore(_data: bytes) -> None:
    """Discard settings: there is no flash."""
