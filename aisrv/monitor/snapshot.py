"""Snapshots of a running device."""

from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Final, Protocol

import trio

from aisrv.board import EngineSpec
from aisrv.device.device import Device
from aisrv.engine.state import AIEngine
from aisrv.monitor.parked_tasks import core_status
from aisrv.monitor.values import DeviceStatus, EngineStatus, PortStatus, Score, TileStatus, Traffic
from aisrv.xcore.tile import Tile

TOP: Final = 3
"""Scores that a snapshot has of an engine."""
MOST_SCORES: Final = 4096
"""Bytes of output 0 up to which it is taken for scores of classes; a larger one is an image or the like."""


class CountingPort(Protocol):
    """A port that counts: `CountedUsbPort` or `CountedSpiPort`."""

    @property
    def traffic(self) -> Traffic:
        """What has crossed so far."""


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
            None if device.graph is None else device.graph.status(),
            device.ignored.count,
        )


def _tile(tile: Tile) -> TileStatus:
    return TileStatus(tile.number, tuple(core_status(core) for core in tile.cores), tile.chanends_in_use)


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
    """Return the `TOP` largest bytes of a tensor as int8, of equals the first; none past `MOST_SCORES`.

    `labels` are the names of the classes, from class 0.
    """
    if len(tensor) > MOST_SCORES:
        return ()
    scores: Sequence[int] = tensor.cast("B").cast("b")
    best = nlargest(TOP, range(len(scores)), key=scores.__getitem__)
    named = len(labels)
    return tuple(Score(at, scores[at], labels[at] if at < named else "") for at in best)
