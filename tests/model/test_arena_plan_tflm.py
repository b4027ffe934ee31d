"""What a model needs of the arena, beside what TensorFlow Lite Micro takes when it loads the same model.

TFLM runs in a process of its own, with pointers of 8 bytes, and prints what it took of its arena: the head
must be equal, the tail is above the device's, where pointers have 4 bytes.
"""

import random
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.network.plan import plan_network
from aisrv.inference.placement import arena_need
from aisrv.model.arena_plan import plan_arena
from aisrv.model.arena_scratch import tflm_scratch
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models import control_models, networks, random_networks, scratch_networks
from tests.support.peers import mlperf_tiny, tflite_micro_models, wake_words
from tests.support.programs import run_process

pytestmark = pytest.mark.skipif(find_spec("tflite_micro") is None, reason="tflite-micro is not installed")

TFLM = """
import sys
from tflite_micro.python.tflite_micro import runtime
for path in sys.argv[1:]:
    print("model", path, file=sys.stderr, flush=True)
    runtime.Interpreter.from_file(path, arena_size=1 << 20).print_allocations()
"""

SMALL: dict[str, Callable[[], bytes]] = {
    "digits": digits.model_bytes,
    "digits with two outputs": digits.two_output_model_bytes,
    "three inputs": lambda: networks.adding_network(3, 2, 100),
    "first part": lambda: networks.cut_in_two()[0],
    "second part": lambda: networks.cut_in_two()[1],
    "50 MMAC": networks.mmac_network,
}


def tflm_needs(models: Mapping[str, bytes], folder: Path) -> dict[str, tuple[int, int]]:
    """Head and tail in bytes that TFLM's RecordingMicroAllocator prints, by model."""
    paths = {str(folder / f"{number}.tflite"): name for number, name in enumerate(models)}
    for path, name in paths.items():
        Path(path).write_bytes(models[name])
    ran = run_process([sys.executable, "-c", TFLM, *paths], check=True)
    needs = {}
    for path, printed in re.findall(
        r"^model (\S+)\n(.*?)(?=^model |\Z)", ran.stderr, re.DOTALL | re.MULTILINE
    ):
        sizes = dict(re.findall(r"Arena allocation (head|tail) (\d+) bytes", printed))
        needs[paths[path]] = (int(sizes["head"]), int(sizes["tail"]))
    return needs


def additions(seed: int) -> bytes:
    """A few ADDs among tensors of one size, in any order: some written twice, some read before."""
    chance = random.Random(seed)
    names = tuple(f"t{number}" for number in range(chance.randint(2, 8)))
    unit = Quantization.per_tensor(1.0, 0)
    operators = tuple(
        NetworkOperator(
            BuiltinOperator.ADD, (chance.choice(names), chance.choice(names)), (chance.choice(names),)
        )
        for _ in range(chance.randint(1, 8))
    )
    return bytes(
        Network(
            tuple(Tensor(name, (1, 100), TensorType.INT8, unit) for name in names),
            operators,
            inputs=tuple(chance.sample(names, chance.randint(1, 2))),
            outputs=tuple(chance.sample(names, chance.randint(1, 2))),
        )
    )


def head_on_a_host(file: bytes) -> int:
    model = read_model(file)
    return plan_arena(model, tflm_scratch(model, pointer=8)).head


@cache
def streaming_models() -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in wake_words.files()}


@cache
def small_networks() -> dict[str, bytes]:
    return {name: make() for name, make in SMALL.items()}


@cache
def reference_models() -> dict[str, bytes]:
    return {name: mlperf_tiny.model_bytes(name) for name in mlperf_tiny.NAMES}


@cache
def networks_of_any_order() -> dict[str, bytes]:
    return {str(seed): additions(seed) for seed in range(150)}


@cache
def models_of_tflm() -> dict[str, bytes]:
    return {name: tflite_micro_models.model_bytes(name) for name in tflite_micro_models.NAMES}


@cache
def operators_with_scratch() -> dict[str, bytes]:
    return {
        f"{operator} {seed}": scratch_networks.network(operator, seed)
        for operator in scratch_networks.NETWORKS
        for seed in range(12)
    }


@cache
def models_of_several_subgraphs() -> dict[str, bytes]:
    models = {str(seed): control_models.drawn(seed) for seed in range(30)}
    return models | {"loop": control_models.counting(), "choice": control_models.choosing()}


@cache
def networks_of_any_operators() -> dict[str, bytes]:
    return {str(seed): random_networks.drawn_network(seed)[0] for seed in range(60)}


Models = Callable[[], dict[str, bytes]]
FAMILIES: tuple[Models, ...] = (
    small_networks,
    reference_models,
    streaming_models,
    models_of_tflm,
    networks_of_any_order,
    operators_with_scratch,
    networks_of_any_operators,
    models_of_several_subgraphs,
)
Needs = Callable[[Models], dict[str, tuple[int, int]]]


@pytest.fixture(scope="module")
def needs_of(tmp_path_factory: pytest.TempPathFactory) -> Needs:
    """Return what says head and tail of each model of a family; one process has loaded those of all."""
    files = {
        f"{number} {name}": file for number, models in enumerate(FAMILIES) for name, file in models().items()
    }
    needs = tflm_needs(files, tmp_path_factory.mktemp("models"))
    return lambda models: {name: needs[f"{FAMILIES.index(models)} {name}"] for name in models()}


@pytest.mark.parametrize("models", FAMILIES)
def test_head_equals_that_of_tflm(models: Models, needs_of: Needs) -> None:
    if not models():
        pytest.skip(wake_words.REASON)
    ours = {name: head_on_a_host(file) for name, file in models().items()}
    assert ours == {name: head for name, (head, _) in needs_of(models).items()}


def test_the_engine_kernels_plans_the_same_head(needs_of: Needs) -> None:
    backend = find_backend("numpy")
    files = networks_of_any_operators()
    ours = {name: plan_network(read_model(file), backend).head for name, file in files.items()}
    assert ours == {name: head for name, (head, _) in needs_of(networks_of_any_operators).items()}


def test_scratch_matters_for_every_operator_that_is_said_to_have_it() -> None:
    for operator in scratch_networks.NETWORKS:
        models = [read_model(scratch_networks.network(operator, seed)) for seed in range(12)]
        assert any(plan_arena(model).head < plan_arena(model, tflm_scratch(model)).head for model in models)


def test_tail_is_below_that_with_wide_pointers_and_above_half(needs_of: Needs) -> None:
    files = small_networks()
    for name, (_, tail) in needs_of(small_networks).items():
        assert tail / 2 < arena_need(read_model(files[name])).tail < tail, name
