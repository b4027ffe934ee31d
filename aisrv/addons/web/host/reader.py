"""Reads what the page shows of a device, question by question; a thread runs it.

Nothing that it asks changes the device; see `WatchedServer`. What hardware does not say is left out.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from aisrv.addons.web.host.watched_server import WatchedServer
from aisrv.addons.web.pictures import FRAME, TENSOR, is_picture, picture_message, tensor_picture
from aisrv.addons.web.scores import MOST_SCORES, shown_scores
from aisrv.addons.web.view import MOST_OPERATORS, Json, cut
from aisrv.model import Tensor, TensorType
from aisrv.protocol.commands import AcquireMode, GpioMode, Spec
from aisrv.protocol.gpio_rule import gpio_levels
from aisrv.protocol.memory_map import MemoryMap
from host_tools.client import Memory
from host_tools.errors import NotRunError, TensorError
from host_tools.tensors.timings import Timings

if TYPE_CHECKING:
    from host_tools.model_summary import ModelSummary
    from host_tools.transports.transport import Buffer

PICTURE_SECONDS: Final = 1.0
"""Time between two pictures: a frame is large for a bus."""
_BYTE_TYPES: Final = ("int8", "uint8")


class Reading(Struct, frozen=True):
    """What a device said in one round of questions."""

    engine: Json
    """The engine's state, as docs/guides/web.md has it."""
    pictures: Mapping[tuple[int, int], bytes]
    log: tuple[str, ...]
    """Lines of the engine's debug log."""


class Reader:
    """Asks one engine of a device. Not for two threads at once."""

    def __init__(
        self,
        server: WatchedServer,
        number: int,
        *,
        between: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`number` is that of the engine; `between` is called between questions, and may raise."""
        self.server: Final = server
        self.number: Final = number
        self.spec = Spec()
        self.memory: MemoryMap | None = None
        """Sizes of the engine's memories; None where the device does not say."""
        self.has_sensor = False
        """Whether the device says what the frames of its sensor are."""
        self._between = between
        self._clock = clock
        self._next_pictures = 0.0
        self._pictures: dict[tuple[int, int], bytes] = {}
        self._is_known = False
        self._summary: ModelSummary | None = None
        self._facts: Json = {}
        self._output_bytes = 0
        self._raw_timings = b""
        self._times: Json = {}

    def load(self, model: "Buffer", memory: Memory) -> None:
        """Load a model; its file says more of it than hardware does. Raises HostError."""
        self._is_known = False
        self.server.load_model(model, memory)
        self.spec = self.server.spec()
        self._take_model()

    def read(self) -> Reading:
        """Ask everything once. Raises HostError."""
        server, ask_next = self.server, self._between
        spec = server.spec()
        if not self._is_known or spec != self.spec:
            self.spec = spec
            server.forget_model()
            self._take_model()
        ask_next()
        outputs = self._run() if self._facts else []
        ask_next()
        enabled, mode = server.gpio_enabled(), server.gpio_mode()
        thresholds = server.gpio_thresholds()
        ask_next()
        streams = server.acquire_mode() is AcquireMode.STREAM
        ask_next()
        if self._clock() >= self._next_pictures:
            self._next_pictures = self._clock() + PICTURE_SECONDS
            self._take_pictures()
            ask_next()
        levels = gpio_levels(outputs, thresholds, mode) if enabled else ()
        engine = {
            "scores": shown_scores(outputs),
            "leds": sum(level << place for place, level in enumerate(levels)),
            "errors": "",
            "stream": streams,
            "gpio": [int(enabled), int(mode is GpioMode.MAX), *thresholds],
            "model": self._facts | self._times if self._facts else {},
        }
        return Reading(engine, dict(self._pictures), tuple(server.debug_log().splitlines()))

    def _take_model(self) -> None:
        """Learn what does not change until another model is loaded."""
        server = self.server
        self._summary, self._facts, self._times = None, {}, {}
        self._raw_timings, self._output_bytes, self._next_pictures = b"", 0, 0.0
        self._pictures.clear()
        self.memory = server.memory_map()
        self.has_sensor = server.sensor_format() is not None
        self._is_known = True
        if not self.spec.input_bytes and not self.spec.output_bytes:
            return
        with suppress(TensorError):  # hardware does not say what its model is
            self._summary = server.model()
        self._output_bytes = server.output_length()
        self._facts = _facts(self._summary, self.memory)

    def _run(self) -> list[int]:
        """Return the scores of the last run as int8, and learn its times; none before the first run."""
        raw = self.server.raw_timings()
        if raw != self._raw_timings:
            self._raw_timings = raw
            try:
                self._times = _times(self.server.timings())
            except NotRunError:
                self._times = {}
        if not self._times or self._output_bytes > MOST_SCORES:
            return []
        if self._summary is not None and self._summary.outputs[0].dtype not in _BYTE_TYPES:
            return []
        return memoryview(self.server.read_output()).cast("b").tolist()

    def _take_pictures(self) -> None:
        server, number = self.server, self.number
        if self.has_sensor:
            with suppress(TensorError):  # samples
                self._pictures[FRAME, number] = picture_message(FRAME, number, server.read_picture())
        tensor = _input(self._summary)
        if tensor is not None and is_picture(tensor):
            self._pictures[TENSOR, number] = tensor_picture(number, tensor, server.read_input())


def _input(summary: "ModelSummary | None") -> Tensor | None:
    """Return input 0 as a model file has it; None where it is not known."""
    if summary is None or not summary.inputs:
        return None
    spec = summary.inputs[0]
    return Tensor(spec.name, spec.shape, TensorType[spec.dtype.upper()])


def _facts(summary: "ModelSummary | None", memory: MemoryMap | None) -> Json:
    first = _input(summary)
    drawn = first is not None and is_picture(first)
    facts: Json = {
        "labels": [cut(label) for label in summary.labels[:MOST_SCORES]] if summary else [],
        "in": [cut(f"{each.name} {each}".strip()) for each in summary.inputs] if summary else [],
        "shape": list(first.shape) if first is not None and drawn else [],
        "unsigned": int(first is not None and first.type is TensorType.UINT8),
        "fallback": "",
        "plan": [],
    }
    if memory is not None and memory.model_memory is not None:
        facts |= {
            "bytes": memory.model_bytes,
            "memory": memory.model_memory.value,
            "head": [memory.head.offset, memory.head.size],
            "tail": [memory.tail.offset, memory.tail.size],
        }
    return facts


def _times(timings: Timings) -> Json:
    """Times in milliseconds: with their bands where a virtual device predicts them, else as measured."""
    basis = "measured" if timings.band is None else "predicted"
    return {
        "ms": _milliseconds(timings.microseconds, timings.microseconds_band),
        "operators": [
            [
                cut(each.name or f"operator {number}"),
                *_milliseconds(each.microseconds, each.microseconds_band or (each.microseconds,) * 2),
                basis,
            ]
            for number, each in enumerate(timings.operators[:MOST_OPERATORS])
        ],
        "more": max(0, len(timings) - MOST_OPERATORS),
    }


def _milliseconds(microseconds: float, band: tuple[float, float] | None) -> list[float]:
    return [round(each / 1000, 5) for each in (microseconds, *(band or ()))]
