"""Models in TensorFlow Lite: every way to run one gives what the interpreter called directly gives."""

import random
import sys
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.inference.engine import RunnerFactory
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import TensorLayout
from aisrv.inference.interpreters.tflite import TfliteInterpreter
from aisrv.inference.process.inline import inline
from aisrv.inference.process.isolation import Limits, isolated
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from tests.support.amounts import in_ci, share, some
from tests.support.benches.engines import ARENA, loaded
from tests.support.benches.engines import run_once as run
from tests.support.models import networks
from tests.support.programs import run_process

RUNNERS = pytest.mark.parametrize("factory", [isolated, inline])
_UNIT = Quantization.per_tensor(1.0, 0)


def scatter_network() -> bytes:
    """Put a 1 at input 0 (an int32 index) of 4 zeros. The interpreter does not check the index."""
    tensors = (
        Tensor("index", (1, 1), TensorType.INT32),
        constant_tensor("one", np.array([1], np.int32)),
        constant_tensor("shape", np.array([4], np.int32)),
        Tensor("row", (4,), TensorType.INT32),
    )
    scatter = NetworkOperator(BuiltinOperator.SCATTER_ND, ("index", "one", "shape"), ("row",))
    return bytes(Network(tensors, (scatter,), ("index",), ("row",)))


def unquantized_network() -> bytes:
    """An int8 addition without scales, which aborts the interpreter's process when it is loaded."""
    tensors = tuple(Tensor(name, (1, 16), TensorType.INT8) for name in ("input", "output"))
    add = NetworkOperator(BuiltinOperator.ADD, ("input", "input"), ("output",))
    return bytes(Network(tensors, (add,), ("input",), ("output",)))


def resizing_network() -> bytes:
    """Repeat two numbers as often as input 0 says: an output of no fixed size."""
    tensors = (
        Tensor("times", (1,), TensorType.INT32),
        constant_tensor("pair", np.array([1, 2], np.int32)),
        Tensor("row", (4,), TensorType.INT32),
    )
    tile = NetworkOperator(BuiltinOperator.TILE, ("pair", "times"), ("row",))
    return bytes(Network(tensors, (tile,), ("times",), ("row",)))


def random_bytes(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


# Results.


@RUNNERS
async def test_digits(factory: RunnerFactory) -> None:
    model = digits.model_bytes()
    async with loaded(factory(print), model) as runner:
        assert runner.layout == TensorLayout((64,), (10,))
        for digit in digits.test_images()[:20]:
            assert await run(runner, digit.image) == networks.run(model, digit.image)


@RUNNERS
async def test_a_model_of_4_mib(factory: RunnerFactory) -> None:
    model = networks.big_network()
    row = random_bytes(networks.BIG_INPUT_BYTES)
    async with loaded(factory(print), model) as runner:
        assert await run(runner, row) == networks.run(model, row)


@RUNNERS
async def test_inputs_keep_their_values(factory: RunnerFactory) -> None:
    image = digits.test_images()[0].image
    async with loaded(factory(print), digits.model_bytes()) as runner:
        first = await run(runner, image)
        assert bytes(runner.input(0)) == image
        assert await run(runner) == first


@RUNNERS
async def test_elements_of_four_bytes(factory: RunnerFactory) -> None:
    async with loaded(factory(print), scatter_network()) as runner:
        assert runner.layout == TensorLayout((4,), (16,))
        assert await run(runner, b"\2\0\0\0") == [bytes(8) + b"\1\0\0\0" + bytes(4)]


# Bad models.


def cut_models() -> Iterator[tuple[str, bytes]]:
    model = digits.model_bytes()
    for number, part in enumerate(networks.truncations(model)):
        # Past the tables a file that is cut has only its last weights short.
        if len(part) <= len(model) // 2:
            yield f"cut to {len(part)}, case {number}", part


def other_models() -> Iterator[tuple[str, bytes]]:
    model = digits.model_bytes()
    yield "random", random_bytes(1000)
    yield "random after a header", model[:8] + random_bytes(1000)
    yield "unknown operator", networks.unknown_operator_network()
    yield "custom operator", networks.custom_operator_network()
    yield "schema version", networks.wrong_version(model)


def named(case: tuple[str, bytes]) -> ParameterSet:
    name, model = case
    return pytest.param(model, id=name)


@pytest.mark.parametrize("model", [*share(map(named, cut_models()), one_in=4), *map(named, other_models())])
async def test_a_bad_model_is_a_model_error(model: bytes) -> None:
    with pytest.raises(ModelError, match=r"^loading the model: "):
        await isolated(print).load(model, ARENA)


@pytest.mark.in_full
@pytest.mark.parametrize("seed", some(range(4), every_day=1))
async def test_bits_flipped_anywhere_are_survived(seed: int) -> None:
    good, image = digits.model_bytes(), digits.test_images()[0].image
    dice = random.Random(seed)
    for _ in range(in_ci(10, every_day=4)):
        model = bytearray(good)
        model[dice.randrange(len(good))] ^= 1 << dice.randrange(8)
        # Some load and run, since most bytes are weights. Whatever happens must be an error of ours.
        with suppress(ModelError, InvokeError):
            async with loaded(isolated(print), bytes(model)) as runner:
                await run(runner, image)
    async with loaded(isolated(print), good) as runner:
        assert await run(runner, image) == networks.run(good, image)


async def test_a_model_that_aborts_its_process_when_loaded() -> None:
    model = unquantized_network()
    read_model(model)  # the check beforehand finds nothing
    with pytest.raises(ModelError, match="loading the model: the interpreter was killed by SIGABRT"):
        await isolated(print).load(model, ARENA)


async def test_an_input_that_kills_the_process() -> None:
    async with loaded(isolated(print), scatter_network()) as runner:
        good = await run(runner, b"\1\0\0\0")
        with pytest.raises(InvokeError, match=r"running the model: .*(SIGSEGV|out of bounds)"):
            await run(runner, b"\xff\xff\xff\x7f")
        assert bytes(runner.input(0)) == b"\xff\xff\xff\x7f"
        assert await run(runner, b"\1\0\0\0") == good


@RUNNERS
async def test_an_output_of_another_size_is_an_invoke_error(factory: RunnerFactory) -> None:
    async with loaded(factory(print), resizing_network()) as runner:
        with pytest.raises(InvokeError, match="running the model: "):
            await run(runner, b"\x09\0\0\0")


async def test_a_model_over_the_memory_limit() -> None:
    model = networks.adding_network(2, 1, 200_000_000)

    with pytest.raises(ModelError, match="loading the model: "):
        await isolated(print, limits=Limits(memory_bytes=1 << 28)).load(model, ARENA)


async def test_inline_a_failed_load_leaves_nothing() -> None:
    runner = inline(lambda _text: None)
    await runner.load(digits.model_bytes(), ARENA)
    with pytest.raises(ModelError):
        await runner.load(b"no model", ARENA)
    assert runner.layout == TensorLayout((), ())
    with pytest.raises(InvokeError, match="no model is loaded"):
        await runner.invoke()


# The binding.


def test_strings_are_refused() -> None:
    tensors = tuple(Tensor(name, (1,), TensorType.STRING) for name in ("input", "output"))
    reshape = NetworkOperator(BuiltinOperator.RESHAPE, ("input",), ("output",), {"new_shape": (1,)})
    model = bytes(Network(tensors, (reshape,), ("input",), ("output",)))
    with pytest.raises(ValueError, match="tensor 'input' has no elements of a fixed size"):
        TfliteInterpreter().load(model, ARENA)


def test_importing_the_layer_loads_no_interpreter() -> None:
    script = "import sys, aisrv.inference.engine; "
    script += "from aisrv.inference.process import isolation, inline; "
    script += "print(sorted({'numpy', 'tflite_runtime', 'ai_edge_litert'} & set(sys.modules)))"
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout == "[]\n"
