"""Making an engine of the kind that a board names."""

from functools import partial
from typing import Final

from aisrv.inference.buffer_engine import BufferEngine
from aisrv.inference.engine import InferenceEngine, LogSink, Runners
from aisrv.inference.interpreter import interpreter_spec
from aisrv.inference.parameters import ParameterSource
from aisrv.inference.timings import DeviceModel

NO_MODEL: Final = "none"
"""The kind that runs none; all others are those of `interpreter_spec`."""


def create_engine(
    kind: str,
    runners: Runners,
    *,
    arena_bytes: int,
    external_bytes: int,
    device: DeviceModel | None = None,
    parameters: ParameterSource | None = None,
    log: LogSink = lambda _text: None,
) -> InferenceEngine:
    """Make an engine of a kind, without a model; ValueError for an unknown kind.

    Its models run where `runners` has them run. The rest is as for InferenceEngine.
    """
    if kind == NO_MODEL:
        return BufferEngine(arena_bytes=arena_bytes, external_bytes=external_bytes, log=log)
    interpreter_spec(kind)  # not only when the first model is loaded
    return InferenceEngine(
        partial(runners, kind=kind),
        arena_bytes=arena_bytes,
        external_bytes=external_bytes,
        device=device,
        parameters=parameters,
        log=log,
    )
