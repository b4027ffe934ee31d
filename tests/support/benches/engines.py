"""The engines that are installed here, and devices that have one of them."""

import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import trio

from aisrv.inference.engine import InferenceEngine, Runner, RunnerFactory, Runners
from aisrv.inference.interpreter import LogSink
from aisrv.inference.process.inline import InlineInterpreter, inline
from aisrv.inference.process.isolation import IsolatedInterpreter, Limits
from aisrv.protocol.engine_kind import EngineKind

ARENA: Final = 448 * 1024

RunnerT = TypeVar("RunnerT", bound=Runner)


def _find_xmos_tools() -> None:
    """Make XMOS's package importable where AISRV_XMOS_PYTHON names a Python that has it.

    Behind all others: nothing else of that environment is to be found before this one's.
    """
    python = os.environ.get("AISRV_XMOS_PYTHON")
    if python and find_spec("xmos_ai_tools") is None:
        environment = Path(python).parent.parent
        sys.path += [str(path) for path in environment.glob("lib/python3*/site-packages")]


_find_xmos_tools()

PACKAGES: Final = {
    "tflite": "tflite_runtime" if find_spec("tflite_runtime") else "ai_edge_litert",
    "litert": "ai_edge_litert",
    "tflm": "tflite_micro",
    "xcore": "xmos_ai_tools",
}
"""The package that each kind of engine needs."""
INSTALLED: Final = tuple(kind for kind, package in PACKAGES.items() if find_spec(package) is not None)
EXACT: Final = tuple(kind for kind, package in PACKAGES.items() if package != "ai_edge_litert")
"""Kinds that give the same bytes as TensorFlow Lite Micro on int8 models."""


def needs(kind: str, *values: object, marks: Collection[pytest.MarkDecorator] = ()) -> Any:
    """A parameter set of a kind and further values, skipped where the kind's package is missing."""
    missing = pytest.mark.skipif(kind not in INSTALLED, reason=f"{PACKAGES[kind]} is not installed")
    return pytest.param(kind, *values, marks=[missing, *marks])


def need(kind: str) -> None:
    """Skip a test where a kind's package is not installed, or is one that gives other bytes."""
    if kind in PACKAGES and (kind not in INSTALLED or kind not in EXACT):
        pytest.skip(f"{PACKAGES[kind]} is not installed or not exact")


def isolated_as(kind: str, limits: Limits | None = None) -> Runners:
    """Runners of one kind, such as `kernels:numpy`, each in a process of its own, whatever boards ask for."""

    def run(log: LogSink, **_board: EngineKind) -> IsolatedInterpreter:
        return IsolatedInterpreter(log, EngineKind.parse(kind), limits)

    return run


def inline_as(kind: str) -> Runners:
    """Runners of one kind in this process, whatever kind the board asks for."""

    def run(log: LogSink, **_board: EngineKind) -> InlineInterpreter:
        return InlineInterpreter(EngineKind(kind))

    return run


@asynccontextmanager
async def open_engine(
    runner: RunnerFactory = inline, *, arena_bytes: int = ARENA, external_bytes: int = 1 << 24, **more: Any
) -> AsyncIterator[InferenceEngine]:
    """An engine, unloaded at the end of the block."""
    engine = InferenceEngine(runner, arena_bytes=arena_bytes, external_bytes=external_bytes, **more)
    try:
        yield engine
    finally:
        with trio.CancelScope(shield=True):
            await engine.unload_model()


@asynccontextmanager
async def loaded(runner: RunnerT, model: bytes, arena_bytes: int = ARENA) -> AsyncIterator[RunnerT]:
    """A runner with a model, closed at the end of the block."""
    await runner.load(model, arena_bytes)
    try:
        yield runner
    finally:
        with trio.CancelScope(shield=True):
            await runner.close()


async def run_once(runner: Runner | InferenceEngine, *inputs: bytes) -> list[bytes]:
    """Run a loaded model on its inputs; return its outputs."""
    for number, data in enumerate(inputs):
        runner.input(number)[:] = data
    await runner.invoke()
    count = runner.output_count if isinstance(runner, InferenceEngine) else len(runner.layout.outputs)
    return [bytes(runner.output(number)) for number in range(count)]
