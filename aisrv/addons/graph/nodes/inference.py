"""`aisrv_stream_inference`: an AI engine as a node. A visit never waits for the engine.

With the engine idle a visit copies the frame and submits it; later visits find the answer or go on. The frame
stays in its arc meanwhile. Parameters: u8 engine, input tensor, output tensor, on_error.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from aisrv.addons.graph.binary.tables import RAW_TYPES
from aisrv.addons.graph.nodes.arcs import Bytes
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_arcs, need_bytes
from aisrv.addons.graph.nodes.samples import DTYPES

NAME: Final = "aisrv_stream_inference"


class OnError(enum.IntEnum):
    """Output of an inference that the engine answers with a status other than OKAY."""

    NOTHING = 0
    """No frame is consumed or produced; the inference is tried again."""
    ZEROS = 1
    LAST_GOOD = 2
    """The last output that was good; zeros before the first."""


class Job:
    """A submitted inference. `error` is the engine's status by name; `entered` once it is over."""

    __slots__ = ("entered", "error", "frame", "input_tensor", "output", "output_tensor")

    def __init__(self, frame: bytes, input_tensor: int, output_tensor: int) -> None:
        self.frame: Final = frame
        self.input_tensor: Final = input_tensor
        self.output_tensor: Final = output_tensor
        self.output = b""
        self.error: str | None = None
        self.entered = False


class EngineTensor(NamedTuple):
    """A tensor of an engine's model."""

    size: int
    """Bytes."""
    raw: int | None
    """Raw type; None if unknown."""


class EnginePort(Protocol):
    """An engine, as a node sees it."""

    @property
    def inputs(self) -> Sequence[EngineTensor]: ...

    @property
    def outputs(self) -> Sequence[EngineTensor]: ...

    def submit(self, job: Job) -> None:
        """Begin an inference; it is over when `job.entered`, which changes between RUNs only."""


class Inference(StreamNode):
    """One frame in, one inference, one frame out."""

    def __init__(self, engines: Mapping[int, EnginePort]) -> None:
        self._engines = engines
        self.inferences = 0
        self.errors = 0
        self.last_output = b""
        """Newest output, for views."""

    def reset(self, setup: NodeSetup) -> None:
        need_arcs(setup, 1, 1)
        self._input, self._output = setup.inputs[0].frame_bytes, setup.outputs[0].frame_bytes
        self._types = setup.inputs[0].raw, setup.outputs[0].raw
        self._log: Callable[[str], None] = setup.log
        self._engine: EnginePort | None = None
        self._job: Job | None = None
        self._good = b""
        self.inferences = self.errors = 0
        self.last_output = b""

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take the engine, its tensors, and the reaction to errors; a frame is as long as its tensor."""
        if tag:
            raise NodeError(f"unknown parameter {tag}: the inference has the whole block, 0")
        need_bytes(data, 4, "the parameters of an inference")
        number, input_tensor, output_tensor, on_error = data[:4]
        if number not in self._engines:
            known = ", ".join(map(str, self._engines)) or "none"
            raise NodeError(f"unknown engine {number}; the graph has {known}")
        if on_error not in tuple(OnError):
            raise NodeError(f"on_error is 0, 1 or 2, not {on_error}")
        engine = self._engines[number]
        for what, tensor, there, frame, raw in (
            ("input", input_tensor, engine.inputs, self._input, self._types[0]),
            ("output", output_tensor, engine.outputs, self._output, self._types[1]),
        ):
            if tensor >= len(there):
                raise NodeError(f"engine {number} has no {what} tensor {tensor}")
            size, kind = there[tensor]
            if size != frame:
                raise NodeError(
                    f"a frame of the {what} has {frame} bytes; "
                    f"{what} tensor {tensor} of engine {number} has {size}"
                )
            if kind is not None and DTYPES.get(raw) != DTYPES[kind]:
                raise NodeError(
                    f"the {what} has samples of {RAW_TYPES[raw].name}; {what} tensor {tensor} of engine "
                    f"{number} has {RAW_TYPES[kind].name}: put a converter there"
                )
        self._engine, self._number = engine, number
        self._tensors = input_tensor, output_tensor
        self._on_error = OnError(on_error)

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        if self._engine is None:
            raise NodeError("missing parameters: they name the engine")
        job = self._job
        if job is None:
            self._job = Job(inputs[0][: self._input].tobytes(), *self._tensors)
            self._engine.submit(self._job)
            return Moved((0,), (0,), again=True)
        if not job.entered:
            return Moved((0,), (0,), again=True)
        self._job = None
        output = job.output
        if job.error is None and len(output) != self._output:
            job.error = f"an output of {len(output)} bytes"
        if job.error is not None:
            self.errors += 1
            self._log(f"engine {self._number} answered {job.error} to the graph's inference")
            if self._on_error is OnError.NOTHING:
                return Moved((0,), (0,))
            good = self._good if self._on_error is OnError.LAST_GOOD else b""
            output = good or bytes(self._output)
        else:
            self.inferences += 1
            self._good = self.last_output = output
        outputs[0][: self._output] = np.frombuffer(output, np.uint8)
        return Moved((self._input,), (self._output,))

    def stop(self) -> None:
        """Drop a running inference."""
        self._job = None
