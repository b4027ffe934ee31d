"""The engine of kind "none", and the making of engines by kind."""

from collections.abc import Callable

import pytest

from aisrv.board import ENGINE_KINDS
from aisrv.inference.buffer_engine import BUFFER_BYTES, NO_MODEL, BufferEngine, create_engine
from aisrv.inference.engine import InferenceEngine, Runner
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import INTERPRETERS
from aisrv.inference.memory import ModelMemory
from aisrv.inference.process.inline import InlineInterpreter, inline
from tests.support import networks


def open_buffer(buffer_bytes: int = BUFFER_BYTES) -> BufferEngine:
    return BufferEngine(arena_bytes=1024, external_bytes=2048, buffer_bytes=buffer_bytes)


# The buffer.


def test_it_has_one_input_and_one_output_and_is_ready() -> None:
    engine = open_buffer()
    assert (engine.input_count, engine.output_count, engine.is_ready) == (1, 1, True)
    assert (engine.model, engine.memory_map, engine.timings) == (None, None, ())
    assert bytes(engine.input(0)) == bytes(1024)


async def test_what_is_written_is_read() -> None:
    engine = open_buffer(5)
    engine.input(0)[:] = b"bytes"
    assert bytes(engine.output(0)) == b"bytes"
    await engine.invoke()
    assert bytes(engine.output(0)) == b"bytes"
    assert bytes(engine.input(0)) == b"bytes"


@pytest.mark.parametrize("size", [0, 1, 3, 4, 513])
async def test_buffers_of_other_sizes(size: int) -> None:
    engine = open_buffer(size)
    await engine.invoke()
    assert (len(engine.input(0)), len(engine.output(0))) == (size, size)


@pytest.mark.parametrize("number", [-1, 1, 255])
def test_there_is_no_other_tensor(number: int) -> None:
    engine = open_buffer()
    with pytest.raises(IndexError, match=f"no input {number}: there is one buffer"):
        engine.input(number)
    with pytest.raises(IndexError, match=f"no output {number}: there is one buffer"):
        engine.output(number)


@pytest.mark.parametrize("model", [b"", networks.two_input_add_network()])
async def test_models_are_refused_and_the_buffer_stays(model: bytes) -> None:
    engine = open_buffer(4)
    engine.input(0)[:] = b"kept"
    with pytest.raises(
        ModelError, match=f"a model of {len(model)} bytes for the arena: this engine takes none"
    ):
        await engine.load_model(model, ModelMemory.ARENA)
    await engine.unload_model()
    await engine.reset_variables()
    assert bytes(engine.output(0)) == b"kept"
    assert engine.is_ready


def test_there_is_nothing_to_profile() -> None:
    assert open_buffer().print_profiler_summary() == "The engine runs no model.\n"


# Kinds.


def test_boards_know_every_kind() -> None:
    assert (*INTERPRETERS, NO_MODEL) == ENGINE_KINDS


@pytest.mark.parametrize("kind", ["", "TFLM", "tflm ", "module.class"])
def test_a_kind_that_there_is_not(kind: str) -> None:
    with pytest.raises(
        ValueError, match=f'no interpreter "{kind}": there are tflite, litert, tflm, xcore, kernels and'
    ):
        create_engine(kind, inline, arena_bytes=0, external_bytes=0)


def test_none_is_the_buffer() -> None:
    engine = create_engine("none", inline, arena_bytes=1, external_bytes=2)
    assert type(engine) is BufferEngine
    assert (engine.arena_bytes, engine.external_bytes) == (1, 2)


@pytest.mark.parametrize("kind", [*INTERPRETERS, "some.module:Class"])
async def test_every_other_kind_is_asked_of_the_runners(kind: str) -> None:
    asked: list[str] = []

    def runners(_log: Callable[[str], None], /, *, kind: str = "tflite") -> Runner:
        asked.append(kind)
        return InlineInterpreter("tflite")

    engine = create_engine(kind, runners, arena_bytes=1 << 16, external_bytes=1 << 16)
    assert type(engine) is InferenceEngine
    assert not engine.is_ready
    await engine.load_model(networks.two_input_add_network(), ModelMemory.EXT)
    assert engine.is_ready
    assert asked == [kind]
