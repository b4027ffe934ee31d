"""The engine of kind "none", and the making of engines by kind."""

from collections.abc import Callable

import pytest

from aisrv.inference.buffer_engine import BUFFER_BYTES, BufferEngine, create_engine
from aisrv.inference.engine import InferenceEngine, Runner
from aisrv.inference.errors import ModelError
from aisrv.inference.interpreter import INTERPRETERS
from aisrv.inference.process.inline import InlineInterpreter, inline
from aisrv.protocol.engine_kind import NO_MODEL, EngineKind, EngineKindError
from aisrv.protocol.memory_map import ModelMemory
from tests.support.models import networks


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


async def test_there_is_nothing_to_profile() -> None:
    assert await open_buffer().print_profiler_summary() == "The engine runs no model.\n"


# Kinds.


def test_the_kind_without_a_model_has_no_interpreter() -> None:
    with pytest.raises(EngineKindError, match=r"^an engine of kind 'none' has no interpreter$"):
        InlineInterpreter(EngineKind(NO_MODEL))


TFLITE = EngineKind("tflite")


def test_none_is_the_buffer() -> None:
    engine = create_engine(EngineKind("none"), inline, arena_bytes=1, external_bytes=2)
    assert type(engine) is BufferEngine
    assert (engine.arena_bytes, engine.external_bytes) == (1, 2)


@pytest.mark.parametrize("name", [*INTERPRETERS, "some.module:Class"])
async def test_every_other_kind_is_asked_of_the_runners(name: str) -> None:
    asked: list[EngineKind] = []

    def runners(_log: Callable[[str], None], /, *, kind: EngineKind = TFLITE) -> Runner:
        asked.append(kind)
        return InlineInterpreter()

    engine = create_engine(EngineKind(name), runners, arena_bytes=1 << 16, external_bytes=1 << 16)
    assert type(engine) is InferenceEngine
    assert not engine.is_ready
    await engine.load_model(networks.two_input_add_network(), ModelMemory.EXT)
    assert engine.is_ready
    assert asked == [EngineKind(name)]
