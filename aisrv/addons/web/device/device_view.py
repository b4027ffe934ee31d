"""What the page shows of one device: the board once, its state again and again, and pictures.

See `aisrv.addons.web.view.View`.
"""

from collections import defaultdict
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, Final

import trio

from aisrv.addons.web.device.bench import Bench
from aisrv.addons.web.device.flash_segments import shown_segments
from aisrv.addons.web.device.frame_pictures import frame_picture
from aisrv.addons.web.pictures import is_picture, tensor_picture
from aisrv.addons.web.scores import MOST_SCORES, shown_scores
from aisrv.addons.web.view import LONGEST_LINE, MOST_OPERATORS, Json, cut
from aisrv.board import plan_of
from aisrv.device.device import Device
from aisrv.engine.state import AIEngine
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.timings import Total, sum_of
from aisrv.model import TensorType
from aisrv.model.arena_plan import plan_arena
from aisrv.monitor.cell_texts import errors as name_errors
from aisrv.monitor.snapshot import core_status
from aisrv.monitor.values import CoreState
from aisrv.protocol.commands import GPIO_COUNT, GpioMode

MOST_PLANNED: Final = 200
"""Operators of a model past which its arena is not drawn."""
PICTURE_SECONDS: Final = 0.2


class _Seen:
    """The picture and the tensor of the last run that was looked at."""

    def __init__(self, device: Device, number: int) -> None:
        self.pictures: dict[tuple[int, int], bytes] = {}
        self._device = device
        self._number = number
        self._next = 0.0

    def take(self) -> None:
        """Copy what a run is given, so that frame, tensor and scores are of one run; a few a second."""
        if trio.current_time() < self._next:
            return
        self._next = trio.current_time() + PICTURE_SECONDS
        inference, exposure = self._device.engines[self._number].inference, self._device.exposure
        model = inference.model
        if model is not None and model.inputs and is_picture(tensor := model.tensors[model.inputs[0]]):
            data = bytes(inference.input(0))
            self.pictures[2, self._number] = tensor_picture(self._number, tensor, data)
        else:
            self.pictures.pop((2, self._number), None)
        if exposure is not None:
            self.pictures[1, 0] = frame_picture(exposure.frame)


class DeviceView:
    """Looks at a device. Nothing is counted or copied before `open`, and nothing after `close`."""

    def __init__(self, name: str, device: Device, bench: Bench | None = None) -> None:
        self.name: Final = name
        """Bus id of the device, such as 1-1."""
        self._bench = bench
        self.device: Final = device
        self._plan = plan_of(device.board)
        self._open = ExitStack()
        self._seen = [_Seen(device, number) for number in range(len(device.engines))]
        self._models: dict[int, tuple[object, Json]] = {}
        self._images: dict[int, tuple[object, list[list[object]]]] = {}
        self._peers: dict[str, str] = {}
        self._curves: dict[tuple[tuple[int, str], ...], list[int]] = defaultdict(list)
        for number, (link, channel) in enumerate(zip(self._plan.links, device.channels, strict=True)):
            a, b = link.a.task, link.b.task
            self._peers[channel.a.name], self._peers[channel.b.name] = b.name, a.name
            self._curves[tuple(sorted(((a.tile, a.name), (b.tile, b.name))))].append(number)

    def open(self) -> None:
        """Begin to copy what runs are given."""
        for engine, seen in zip(self.device.engines, self._seen, strict=True):
            engine.inference.before_run = seen.take
            self._open.callback(setattr, engine.inference, "before_run", None)

    def close(self) -> None:
        self._open.close()

    def board(self) -> Json:
        """What does not change."""
        board, plan = self.device.board, self._plan
        sensor = board.sensor
        return {
            "name": self.name,
            "description": cut(board.description),
            "mhz": board.core_clock_mhz,
            "tiles": {
                str(tile): {
                    "kib": board.internal_kib,
                    "tasks": [cut(task.name) for task in plan.cores(tile)],
                    "ends": plan.channel_ends(tile),
                }
                for tile in range(board.tiles)
            },
            "links": {
                str(number): {
                    "a": list(a),
                    "b": list(b),
                    "carries": list(dict.fromkeys(plan.links[link].carries for link in links)),
                }
                for number, ((a, b), links) in enumerate(self._curves.items())
            },
            "engines": {
                str(number): {
                    "tile": spec.tile,
                    "kind": str(spec.kind),
                    "leds": [
                        *map(cut, spec.leds),
                        *(f"output {each}" for each in range(len(spec.leds), GPIO_COUNT)),
                    ],
                    "arena": spec.arena_bytes,
                    "external": spec.external_bytes,
                    "sensor": number in board.acquiring,
                }
                for number, spec in enumerate(board.engines)
            },
            "flash": {
                str(number): {
                    "part": flash.part.name,
                    "size": flash.part.size,
                    "boot": flash.boot_bytes,
                    "tile": flash.tile,
                }
                for number, flash in enumerate(board.flashes)
            },
            "sensor": {} if sensor is None else {"tile": sensor.tile, "w": sensor.width, "h": sensor.height},
            "usb": board.usb_tile,
            "spi": -1 if board.spi is None else board.spi.tile,
            "bench": self._bench is not None,
        }

    def state(self, now: float) -> Json:
        """What may have changed; counts are totals since the page was opened."""
        device = self.device
        deadlock = device.node.runtime.find_deadlock()
        bench = self._bench
        return {
            "t": round(now, 3),
            "cores": {
                f"{tile.number}.{core.number}": self._core(core_status(core))
                for tile in device.node.tiles
                for core in tile.cores
            },
            "links": {
                str(number): sum(map(self._crossed, links))
                for number, links in enumerate(self._curves.values())
            },
            "usb": [device.usb.out_endpoint.crossed, device.usb.in_endpoint.crossed],
            "spi": 0 if device.spi is None else device.spi.clocked,
            "engines": {str(n): self._engine(n, engine) for n, engine in enumerate(device.engines)},
            "flash": {str(number): self._flash(number) for number in range(len(device.flashes))},
            "deadlock": "" if deadlock is None else deadlock.path,
            "ignored": device.ignored.count,
            "plugged": not device.usb.is_unplugged,
            "faults": [] if bench is None else bench.faults,
            "traced": bench is not None and bench.traces,
        }

    def pictures(self) -> dict[tuple[int, int], bytes]:
        """The messages of the latest pictures, by kind and engine."""
        return {key: data for seen in self._seen for key, data in seen.pictures.items() if data}

    def lines_before(self) -> list[tuple[str, str]]:
        """The debug logs of the engines."""
        return [
            (f"engine {number}", line)
            for number, engine in enumerate(self.device.engines)
            for line in bytes(engine.log).rstrip(b"\0").decode(errors="replace").splitlines()
        ]

    def summary(self) -> Json:
        """Serial number, inferences, LEDs as bits, halted cores, errors."""
        engines = self.device.engines
        levels = [level for engine in engines for level in engine.gpio.levels]
        return {
            "serial": cut(self.device.board.serial or ""),
            "n": sum(engine.inferences for engine in engines),
            "leds": sum(level << place for place, level in enumerate(levels)),
            "halted": sum(core.trap is not None for tile in self.device.node.tiles for core in tile.cores),
            "errors": next((name_errors(engine.errors) for engine in engines if engine.errors), ""),
        }

    def _core(self, status: Any) -> Json:  # noqa: ANN401 - a CoreStatus
        peers = " or ".join(dict.fromkeys(peer.name for peer in status.peers))
        on = peers or (self._peer(status.waits_on) if status.state is CoreState.WAITING else "")
        trap = cut(status.trap, LONGEST_LINE)
        return {"s": status.state.value, "v": status.verb, "on": cut(on), "trap": trap}

    @lru_cache(1024)  # noqa: B019 - a view lives as long as its device
    def _peer(self, resource: str) -> str:
        """Name the tasks at the other ends of channels; what is no channel end of the plan stays as it is."""
        return " or ".join(dict.fromkeys(self._peers.get(name, name) for name in resource.split(" or ")))

    def _crossed(self, link: int) -> int:
        channel = self.device.channels[link]
        return channel.a.crossed + channel.b.crossed

    def _flash(self, number: int) -> list[list[object]]:
        image = self.device.flash_image(number)
        known = self._images.get(number)
        if known is None or known[0] is not image:
            boot = self.device.board.flashes[number].boot_bytes
            known = self._images[number] = (image, [] if image is None else shown_segments(image, boot))
        return known[1]

    def _engine(self, number: int, engine: AIEngine) -> Json:
        inference, gpio = engine.inference, engine.gpio
        known = self._models.get(number)
        if known is None or known[0] is not inference.model:
            known = self._models[number] = (inference.model, self._model(number, inference))
        return {
            "n": engine.inferences,
            "scores": _scores(inference),
            "leds": sum(level << place for place, level in enumerate(gpio.levels)),
            "errors": name_errors(engine.errors) if engine.errors else "",
            "stream": engine.streams,
            "gpio": [int(gpio.enabled), int(gpio.mode is GpioMode.MAX), *gpio.thresholds],
            "model": known[1],
        }

    def _model(self, number: int, inference: InferenceEngine) -> Json:
        """What does not change until another model is loaded; empty without one."""
        model, where, total = inference.model, inference.memory_map, inference.total
        if model is None or where is None or total is None:
            return {}
        spec, times = self.device.board.engines[number], inference.operator_times
        plan = plan_arena(model) if len(model.operators) <= MOST_PLANNED else None
        inputs = [model.tensors[index] for index in model.inputs]
        return {
            "bytes": where.model.size,
            "memory": where.model.memory.value,
            "head": [where.head.offset, where.head.size],
            "tail": [where.tail.offset, where.tail.size],
            "labels": [cut(label) for label in (spec.labels or inference.labels)[:MOST_SCORES]],
            "in": [cut(f"{each.name} {each.type.name} {list(each.shape)}") for each in inputs],
            "shape": list(inputs[0].shape) if inputs and is_picture(inputs[0]) else [],
            "unsigned": int(bool(inputs) and inputs[0].type is TensorType.UINT8),
            "ms": _milliseconds(total),
            "operators": [
                [cut(each.name), *_milliseconds(sum_of([each], total.tick_mhz)), each.basis.value]
                for each in times[:MOST_OPERATORS]
            ],
            "more": max(0, len(times) - MOST_OPERATORS),
            "fallback": str(inference.fallback or ""),
            "plan": []
            if plan is None
            else [[each.first, each.last, each.offset, each.size] for each in plan.allocations],
        }


def _milliseconds(total: Total) -> list[float]:
    """A time, its least and its most, in milliseconds."""
    return [round(total.in_ms(ticks), 5) for ticks in (total.ticks, total.low, total.high)]


def _scores(inference: InferenceEngine) -> list[list[int]]:
    """Place and value of the scores, of many the largest; none before the first run."""
    if inference.host_seconds is None or not inference.output_count:
        return []
    output = inference.output(0)
    return shown_scores(output.cast("B").cast("b").tolist() if len(output) <= MOST_SCORES else [])
