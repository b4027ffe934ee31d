"""Snapshots of a running device."""

from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Final, Protocol

import trio

from aisrv.board import EngineSpec
from aisrv.device.device import Device
from aisrv.device.parts import PartStatus
from aisrv.engine.state import AIEngine
from aisrv.monitor.values import (
    CoreState,
    CoreStatus,
    DeviceStatus,
    EngineStatus,
    Peer,
    PortStatus,
    Score,
    TileStatus,
    Traffic,
)
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.core import Core
from aisrv.xcore.report import peers_of, wait_of
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import Trap

TOP: Final = 3
"""Scores of an engine in a snapshot."""
MOST_SCORES: Final = 4096
"""Largest output 0, in bytes, that is taken for scores of classes; a larger one is an image or the like."""


class CountingPort(Protocol):
    """A port that counts: `CountedUsbPort` or `CountedSpiPort`."""

    @property
    def traffic(self) -> Traffic:
        """Traffic so far."""


class DeviceMonitor:
    """A monitor of a device. `ports` are its counting ports by name."""

    def __init__(self, name: str, device: Device, ports: Mapping[str, CountingPort]) -> None:
        self._name = name
        self._device = device
        self._ports = dict(ports)

    def snapshot(self) -> DeviceStatus:
        """Return the state of the device now."""
        device = self._device
        deadlock = device.node.runtime.find_deadlock()
        engines = zip(device.engines, device.board.engines, strict=True)
        return DeviceStatus(
            self._name,
            trio.current_time(),
            tuple(_tile(tile) for tile in device.node.tiles),
            tuple(_engine(number, spec, engine) for number, (engine, spec) in enumerate(engines)),
            tuple(PortStatus(name, port.traffic) for name, port in self._ports.items()),
            "" if deadlock is None else deadlock.path,
            _parts(device),
            device.ignored.count,
            *_lateness(device),
        )


def _lateness(device: Device) -> tuple[int, float]:
    if device.time_account is None:
        return 0, 0.0
    timeline = device.time_account.timeline
    return timeline.late, timeline.latest / (TICKS_PER_SECOND / 1000)


def _parts(device: Device) -> dict[str, PartStatus]:
    parts = zip(device.board.parts, device.running, strict=True)
    return {spec.table: status for spec, part in parts if (status := part.status()) is not None}


def _tile(tile: Tile) -> TileStatus:
    return TileStatus(tile.number, tuple(core_status(core) for core in tile.cores), tile.chanends_in_use)


def core_status(core: Core) -> CoreStatus:
    """Describe a core that is in use. Call it from another task than the core's, in the same thread."""
    if core.trap is not None:
        return CoreStatus(core.number, core.name, CoreState.HALTED, trap=_describe(core.trap))
    if core.task is None:
        return CoreStatus(core.number, core.name, CoreState.SET_ASIDE)
    wait = wait_of(core)
    if wait is None:  # nothing, or a resource that has just woken it
        return CoreStatus(core.number, core.name, CoreState.RUNNING)
    peers = tuple(map(_peer, peers_of(core)))
    return CoreStatus(core.number, core.name, CoreState.WAITING, wait.verb, wait.resource, peers)


def _peer(core: Core) -> Peer:
    return Peer(core.tile, core.name, core.trap is not None)


def _describe(trap: Trap) -> str:
    return f"{trap.place}: {trap}" if trap.place else str(trap)


def _engine(number: int, spec: EngineSpec, engine: AIEngine) -> EngineStatus:
    inference = engine.inference
    memory_map = inference.memory_map
    top: tuple[Score, ...] = ()
    if inference.host_seconds is not None and inference.output_count:
        top = top_scores(inference.output(0), spec.labels or inference.labels)
    return EngineStatus(
        number,
        spec.tile,
        None if memory_map is None else memory_map.model.size,
        engine.inferences,
        top,
        engine.gpio.levels,
        engine.errors,
        "" if inference.fallback is None else str(inference.fallback),
    )


def top_scores(tensor: memoryview, labels: Sequence[str] = ()) -> tuple[Score, ...]:
    """Return the `TOP` largest bytes of a tensor as int8, with `labels`; none past `MOST_SCORES` bytes."""
    if len(tensor) > MOST_SCORES:
        return ()
    scores: Sequence[int] = tensor.cast("B").cast("b")
    best = nlargest(TOP, range(len(scores)), key=scores.__getitem__)
    named = len(labels)
    return tuple(Score(at, scores[at], labels[at] if at < named else "") for at in best)
