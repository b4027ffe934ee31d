"""The inference engine: its four calls, the device's limits, and what stays after an error."""

import os
import signal
from collections.abc import Callable

import pytest
import trio
from msgspec.structs import replace

from aisrv import digits
from aisrv.inference.engine import InferenceEngine, Runner, RunnerFactory
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import InPlaceModel, ModelBytes, TensorLayout
from aisrv.inference.placement import MemoryShortage, arena_need
from aisrv.inference.process.inline import InlineInterpreter, inline
from aisrv.inference.process.isolation import IsolatedInterpreter, isolated
from aisrv.inference.timings import DeviceModel, Memory
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model.errors import LoadResult
from aisrv.model.reader import read_model
from aisrv.protocol.memory_map import MemoryRegion, ModelMemory
from tests.support.benches import puppet
from tests.support.benches.engines import ARENA, open_engine, run_once
from tests.support.models import networks
from tests.support.peers import mlperf_tiny

OPERATORS = 6
"""Operators of the digits network."""


async def load_digits(engine: InferenceEngine) -> None:
    await engine.load_model(digits.model_bytes(), ModelMemory.EXT)


def assert_no_model(engine: InferenceEngine) -> None:
    assert engine.model is None
    assert engine.memory_map is None
    assert (engine.input_count, engine.output_count) == (0, 0)
    assert engine.timings == ()
    assert engine.host_seconds is None


class IsolatedPuppet(IsolatedInterpreter):
    """A runner whose interpreter gets an action in place of the model."""

    def __init__(self, action: str, log: Callable[[str], None]) -> None:
        super().__init__(log, puppet.KIND)
        self._action = action

    async def load(self, model: ModelBytes, arena_bytes: int, in_place: InPlaceModel | None = None) -> None:
        await super().load(self._action.encode(), arena_bytes)


class Spy:
    """A factory of inline runners that remembers them, and who was closed."""

    def __init__(self) -> None:
        self.made: list[InlineInterpreter] = []
        self.closed: list[InlineInterpreter] = []

    def __call__(self, log: object) -> Runner:
        spy = self

        class Watched(InlineInterpreter):
            async def close(self) -> None:
                spy.closed.append(self)
                await super().close()

        self.made.append(Watched())
        return self.made[-1]


# Without a model.


async def test_an_engine_starts_without_a_model() -> None:
    async with open_engine() as engine:
        assert_no_model(engine)
        assert await engine.print_profiler_summary() == "No model is loaded.\n"
        await engine.unload_model()
        assert_no_model(engine)


async def test_without_a_model_nothing_runs() -> None:
    async with open_engine() as engine:
        with pytest.raises(InvokeError, match=r"^no model is loaded$"):
            await engine.invoke()
        with pytest.raises(IndexError, match="no input 0: no model is loaded"):
            engine.input(0)
        with pytest.raises(IndexError, match="no output 0: no model is loaded"):
            engine.output(0)


# Load and run.


@pytest.mark.parametrize("runner", [isolated, inline])
async def test_load_and_invoke(runner: RunnerFactory) -> None:
    async with open_engine(runner) as engine:
        await load_digits(engine)
        assert (engine.input_count, engine.output_count) == (1, 1)
        for digit in digits.test_images()[:3]:
            assert await run_once(engine, digit.image) == networks.run(digits.model_bytes(), digit.image)


async def test_the_model_is_the_file_read() -> None:
    async with open_engine() as engine:
        await load_digits(engine)
        assert engine.model == read_model(digits.model_bytes())


async def test_two_outputs_are_numbered_in_the_file_s_order() -> None:
    async with open_engine() as engine:
        await engine.load_model(digits.two_output_model_bytes(), ModelMemory.ARENA)
        assert [len(engine.output(number)) for number in range(engine.output_count)] == [10, 128]


async def test_a_tensor_that_the_model_does_not_have_is_an_index_error() -> None:
    async with open_engine() as engine:
        await load_digits(engine)
        with pytest.raises(IndexError):
            engine.input(1)
        with pytest.raises(IndexError):
            engine.output(1)


async def test_a_model_replaces_the_one_before() -> None:
    spy = Spy()
    async with open_engine(spy) as engine:
        await load_digits(engine)
        await engine.invoke()
        await engine.load_model(networks.two_input_add_network(), ModelMemory.ARENA)
        assert (engine.input_count, engine.output_count) == (2, 1)
        assert engine.timings == (0,)
        assert spy.closed == spy.made[:1]


async def test_unloading_closes_the_runner() -> None:
    spy = Spy()
    async with open_engine(spy) as engine:
        await load_digits(engine)
        await engine.unload_model()
        assert_no_model(engine)
        assert spy.closed == spy.made


def test_inline_a_model_runs_on_virtual_time() -> None:
    async def main() -> float:
        start = trio.current_time()
        async with open_engine() as engine:
            await load_digits(engine)
            await engine.invoke()
        return trio.current_time() - start

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == 0


# Models that are refused.


@pytest.mark.parametrize(
    ("model", "result", "message"),
    [
        (b"", LoadResult.OTHER, "it has 0 bytes, too few for a header"),
        (b"\x1c\0\0\0TFL2" + bytes(100), LoadResult.OTHER, "bytes 4 to 7 are b'TFL2', not TFL3"),
        (
            networks.wrong_version(digits.model_bytes()),
            LoadResult.SCHEMA_VERSION,
            "schema version 2, expected 3",
        ),
        (networks.adding_network(41, 1), LoadResult.TOO_MANY_INPUTS, "has 41 inputs"),
        (networks.adding_network(2, 41), LoadResult.TOO_MANY_OUTPUTS, "has 41 outputs"),
        (networks.adding_network(2, 1, ARENA), LoadResult.TENSORS_DO_NOT_FIT, "the tensors"),
        (networks.custom_operator_network(), LoadResult.OTHER, "NoSuchOperator"),
    ],
)
async def test_a_refused_model_leaves_none(model: bytes, result: LoadResult, message: str) -> None:
    spy = Spy()
    async with open_engine(spy) as engine:
        await load_digits(engine)
        with pytest.raises(ModelError, match=message) as caught:
            await engine.load_model(model, ModelMemory.EXT)
        assert caught.value.load_result is result
        assert_no_model(engine)
        assert spy.closed == spy.made


async def test_40_inputs_and_40_outputs_are_taken() -> None:
    async with open_engine() as engine:
        await engine.load_model(networks.adding_network(40, 40), ModelMemory.EXT)
        assert (engine.input_count, engine.output_count) == (40, 40)


async def test_every_beginning_of_a_file_is_refused() -> None:
    async with open_engine() as engine:
        for part in networks.truncations(digits.model_bytes()):
            with pytest.raises(ModelError):
                await engine.load_model(part, ModelMemory.EXT)
            assert engine.model is None


async def test_a_model_that_kills_its_process_is_a_model_error() -> None:
    async with open_engine(lambda log: IsolatedPuppet("segfault", log)) as engine:
        with pytest.raises(ModelError, match="the interpreter was killed by SIGSEGV"):
            await load_digits(engine)
        assert_no_model(engine)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("layout 64 11", "output 0 has 10 bytes in the file, 11 in the interpreter"),
        ("layout 63 10", "input 0 has 64 bytes in the file, 63 in the interpreter"),
        ("layout 64 10 1", "the file has 1 outputs, the interpreter 2"),
    ],
)
async def test_an_interpreter_that_sees_other_tensors_is_refused(action: str, message: str) -> None:
    async with open_engine(lambda log: IsolatedPuppet(action, log)) as engine:
        with pytest.raises(ModelError, match=message):
            await load_digits(engine)
        assert_no_model(engine)


async def test_a_cancelled_load_leaves_no_model_and_no_process() -> None:
    runners: list[IsolatedInterpreter] = []
    second = trio.Event()

    def remembered(log: Callable[[str], None]) -> Runner:
        runners.append(isolated(log))
        if len(runners) == 2:
            second.set()
        return runners[-1]

    async with open_engine(remembered) as engine:
        await load_digits(engine)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load_digits, engine)
                await second.wait()
                while runners[1].pid is None:  # the model is examined first, on a thread
                    await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        assert_no_model(engine)
        assert [runner.pid for runner in runners] == [None, None]


# Errors of a run.


async def test_a_dead_process_is_an_invoke_error_and_the_model_stays() -> None:
    runners: list[IsolatedInterpreter] = []

    def remembered(log: Callable[[str], None]) -> Runner:
        runners.append(isolated(log))
        return runners[-1]

    async with open_engine(remembered) as engine:
        await load_digits(engine)
        digit = digits.test_images()[0]
        engine.input(0)[:] = digit.image
        pid = runners[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(InvokeError, match="the interpreter was killed by SIGKILL"):
            await engine.invoke()
        assert engine.timings == (0,) * OPERATORS
        await engine.invoke()
        assert [bytes(engine.output(0))] == networks.run(digits.model_bytes(), digit.image)
        assert len(runners) == 1


# Memory.


@pytest.mark.parametrize("memory", ModelMemory)
async def test_memory_map(memory: ModelMemory) -> None:
    model = digits.model_bytes()
    size, used = (len(model), 0) if memory is ModelMemory.EXT else (-(-len(model) // 4) * 4,) * 2
    async with open_engine() as engine:
        await engine.load_model(model, memory)
        assert engine.memory_map is not None
        assert engine.memory_map.model == MemoryRegion(memory, 0, size)
        assert engine.memory_map.tensor_arena == MemoryRegion(ModelMemory.ARENA, used, ARENA - used)


@pytest.mark.parametrize(
    ("memory", "name"), [(ModelMemory.ARENA, "arena_bytes"), (ModelMemory.EXT, "external_bytes")]
)
async def test_the_smallest_memory(memory: ModelMemory, name: str) -> None:
    model = digits.model_bytes()
    need = arena_need(read_model(model)).total if memory is ModelMemory.ARENA else len(model)
    async with open_engine(inline, **{name: need}) as engine:
        await load_digits(engine)
        assert engine.model is not None
    async with open_engine(inline, **{name: need - 1}) as engine:
        with pytest.raises(MemoryShortage) as caught:
            await load_digits(engine)
        assert (caught.value.memory, caught.value.missing) == (memory, 1)
        tensors = memory is ModelMemory.ARENA
        assert caught.value.load_result is (LoadResult.TENSORS_DO_NOT_FIT if tensors else LoadResult.OTHER)


# Timings.


async def test_timings_are_the_device_s() -> None:
    device = DeviceModel(clock_mhz=800, threads=5)
    async with open_engine(device=device) as engine:
        await load_digits(engine)
        await engine.invoke()
        assert engine.model is not None
        # The digits are loaded to external memory.
        device = replace(device, parameters=Memory.EXTERNAL)
        assert engine.timings == tuple(each.ticks for each in estimate_times(device, engine.model))
        assert min(engine.timings) > 0


async def test_a_model_in_the_arena_has_its_parameters_there() -> None:
    device = DeviceModel(reference_mhz=175)
    found = []
    async with open_engine(device=device) as engine:
        for memory in ModelMemory:
            await engine.load_model(digits.model_bytes(), memory)
            await engine.invoke()
            found.append(sum(engine.timings))
    in_arena, external = found
    assert in_arena == pytest.approx(41_390 * 1.75, abs=6)
    assert external > 1.2 * in_arena


async def test_the_profiler_summary_has_the_host_s_time_beside_the_device_s() -> None:
    async with open_engine() as engine:
        await load_digits(engine)
        await engine.invoke()
        summary = await engine.print_profiler_summary()
        assert engine.host_seconds is not None
        assert summary.endswith(f"\n\nThis host took {1000 * engine.host_seconds:.3f} ms.\n")
        assert f"{sum(engine.timings)}" in summary


async def test_a_new_model_has_not_run() -> None:
    async with open_engine() as engine:
        for _ in range(2):
            await load_digits(engine)
            assert engine.host_seconds is None
            assert engine.timings == (0,) * OPERATORS
            assert await engine.print_profiler_summary() == "The model has not run yet.\n"
            await engine.invoke()


# The log.


async def test_what_an_interpreter_prints_goes_to_the_log() -> None:
    lines: list[str] = []
    async with open_engine(lambda log: IsolatedPuppet("print", log), log=lines.append) as engine:
        with pytest.raises(ModelError, match="input 0 has 64 bytes in the file, 16 in the interpreter"):
            await load_digits(engine)
    assert lines == ["hello\nworld\n"]


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            digits.model_bytes,
            ["One inference is predicted to take 0.414 ms (0.344 to 0.486): 10.3 % are estimates.\n"],
        ),
        (lambda: mlperf_tiny.model_bytes("kws_ref_model"), []),
    ],
)
async def test_model_with_more_than_a_tenth_of_estimates_is_told_in_the_log(
    model: Callable[[], bytes], lines: list[str]
) -> None:
    logged: list[str] = []
    async with open_engine(log=logged.append) as engine:
        await engine.load_model(model(), ModelMemory.ARENA)
    assert logged == lines


def test_layouts_survive_the_wire() -> None:
    layout = TensorLayout((1, 2), (3, 1 << 40, 0))
    assert TensorLayout.from_bytes(bytes(layout)) == layout
    assert bytes(layout)[:16] == bytes.fromhex("0200000003000000 0100000000000000")


@pytest.mark.parametrize("size", [0, 1, 7, 9, 15, 17])
def test_other_bytes_are_no_layout(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes are not a tensor layout"):
        TensorLayout.from_bytes(bytes([1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])[:size])
