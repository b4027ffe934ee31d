"""Loading: what is refused, with which words; and hostile files, whose answer is always of one family."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.addons.kernels.backend import KernelBackend
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.checks import address
from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.kernels.network.errors import ArenaTooSmall, NetworkError, UnsupportedOperator
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from aisrv.model import ModelFileError
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from tests.support.amounts import in_ci
from tests.support.models import networks
from tests.support.models.hostile_models import calling_subgraphs, case
from tests.support.models.one_operator import UNIT, constant, single, tensor
from tests.support.oracles.network_runs import run_network
from tests.support.programs import run_process

BACKEND = ReferenceBackend()


def refusal(model: bytes, kind: type[NetworkError] = NetworkError) -> str:
    with pytest.raises(NetworkError) as error:
        load_network(model, BACKEND, arena_bytes=1 << 20)
    assert type(error.value) is kind
    return str(error.value)


def changed(operator: int = 0, **fields: object) -> bytes:
    """The digits network with other fields of one operator."""
    network = networks.read(digits.model_bytes())
    operators = list(network.operators)
    operators[operator] = replace(operators[operator], **fields)  # type: ignore[arg-type]  # by name
    return bytes(replace(network, operators=tuple(operators)))


def name_of(role: str) -> str:
    """The name of a tensor of operator 0 of the digits network."""
    operator = networks.read(digits.model_bytes()).operators[0]
    return {"input": operator.inputs[0], "weights": operator.inputs[1], "bias": operator.inputs[2]}[role]


# Operators.


def test_unsupported_operator_is_named_with_its_number() -> None:
    model = single(BuiltinOperator.COS, [tensor("in", (4,))], [tensor("out", (4,))])
    assert refusal(model, UnsupportedOperator) == (
        "operator 0 is COS (builtin operator 108), and has no kernel here"
    )


def test_custom_operator_is_named() -> None:
    assert refusal(networks.custom_operator_network("XC_conv2d_v2"), UnsupportedOperator) == (
        "operator 0 is custom, 'XC_conv2d_v2' (32), and has no kernel here"
    )


def test_builtin_that_the_schema_does_not_have() -> None:
    assert "operator code 0 is 9999, which the schema does not know" in refusal(
        networks.unknown_operator_network()
    )


def test_error_of_a_backend_names_the_operator() -> None:
    class Choosy(ReferenceBackend):
        def max_pool(self, _params: object) -> Callable[[], None]:
            raise KernelError("not today")

    with pytest.raises(NetworkError, match=r"^operator 1 \(MAX_POOL_2D\): not today$"):
        load_network(digits.model_bytes(), Choosy())


def test_host_without_memory_is_an_error_of_the_family() -> None:
    class Greedy(ReferenceBackend):
        def max_pool(self, _params: object) -> Callable[[], None]:
            raise MemoryError("Unable to allocate 8.00 EiB")

    with pytest.raises(NetworkError, match=r"not enough memory .* 8\.00 EiB"):
        load_network(digits.model_bytes(), Greedy())


# Memory.


def test_arena_has_to_hold_the_tensors_to_the_byte() -> None:
    head = load_network(digits.model_bytes(), BACKEND).plan.head
    load_network(digits.model_bytes(), BACKEND, arena_bytes=head)
    with pytest.raises(ArenaTooSmall) as error:
        load_network(digits.model_bytes(), BACKEND, arena_bytes=head - 1)
    assert str(error.value) == f"the tensors need an arena of {head:,} bytes, there are {head - 1:,}"


def test_variables_count_as_the_arena_does() -> None:
    variable = Tensor("state", (1, 1000), TensorType.INT8, UNIT, is_variable=True)
    model = single(BuiltinOperator.ADD, [tensor("in", (1, 1000)), variable], [tensor("out", (1, 1000))])
    with pytest.raises(ArenaTooSmall):
        load_network(model, BACKEND, arena_bytes=2 * 1008 + 999)
    network = load_network(model, BACKEND, arena_bytes=2 * 1008 + 1000)
    data = np.arange(1000, dtype=np.int16).astype(np.int8)
    assert run_network(network, [data]) == [data.tobytes()]


def test_largest_tensor_of_the_schema_is_refused_without_allocating() -> None:
    wide = tensor("in", (1, 30_000, 30_000))
    model = single(BuiltinOperator.ADD, [wide, wide], [structs.replace(wide, name="out")])
    assert refusal(model, ArenaTooSmall) == (
        "the tensors need an arena of 1,800,000,000 bytes, there are 1,048,576"
    )


def test_buffers_start_at_multiples_of_16_bytes() -> None:
    network = load_network(digits.model_bytes(), BACKEND, planner=plan_apart)
    written = [tensor.buffer for operator in network.operators for tensor in operator.outputs]
    assert [address(buffer) % 16 for buffer in written] == [0] * len(written)


# Wiring.


def test_tensor_that_nothing_has_written() -> None:
    network = networks.read(digits.model_bytes())
    model = bytes(replace(network, operators=network.operators[::-1]))
    assert "which nothing has written before" in refusal(model)


def test_output_that_nothing_writes() -> None:
    model = bytes(Network((tensor("in", (4,)), tensor("out", (4,))), (), ("in",), ("out",)))
    assert refusal(model) == "nothing writes tensor 1, an output of the model"


def test_operator_that_writes_what_it_reads() -> None:
    one = tensor("in", (4,))
    model = bytes(
        Network((one,), (NetworkOperator(BuiltinOperator.ADD, ("in", "in"), ("in",)),), ("in",), ("in",))
    )
    assert refusal(model) == "operator 0 (ADD) has tensor 0 in two roles: outputs must be tensors apart"


def test_operator_that_writes_a_constant() -> None:
    weights = name_of("weights")
    operator = networks.read(digits.model_bytes()).operators[0]
    message = refusal(changed(0, inputs=(operator.inputs[0], operator.inputs[1]), outputs=(weights,)))
    assert message.startswith("operator 0 (CONV_2D) writes tensor ")
    assert message.endswith(", which is a constant")


def test_model_without_operators_passes_its_input_on() -> None:
    network = load_network(bytes(Network((tensor("in", (4,)),), (), ("in",), ("in",))), BACKEND)
    assert run_network(network, [np.frombuffer(b"abcd", np.int8)]) == [b"abcd"]


# Parameters.


def with_tensor(role: str, **changes: object) -> bytes:
    """The digits network with other fields of a tensor of operator 0."""
    network = networks.read(digits.model_bytes())
    name = name_of(role)
    tensors = (structs.replace(each, **changes) if each.name == name else each for each in network.tensors)
    return bytes(replace(network, tensors=tuple(tensors)))


@pytest.mark.parametrize("zero_point", [-129, 128, 2**63 - 1, -(2**63)])
def test_zero_point_outside_of_the_type(zero_point: int) -> None:
    model = with_tensor("input", quantization=Quantization.per_tensor(1.0, zero_point))
    assert f"has the zero point {zero_point}, outside of its type" in refusal(model)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scale_that_is_none(scale: float) -> None:
    model = with_tensor("input", quantization=Quantization.per_tensor(scale, 0))
    assert "which must be positive and finite" in refusal(model)


def test_input_that_is_not_quantized() -> None:
    model = with_tensor("input", quantization=None)
    assert "is not quantized with one scale" in refusal(model)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TensorType.INT32, "input 0 (tensor 0) is INT32, must be INT8 or INT16"),
        (TensorType.INT16, "output 0 (tensor 3) is INT8, must be INT16"),
    ],
)
def test_input_of_another_type(kind: TensorType, message: str) -> None:
    assert refusal(with_tensor("input", type=kind)) == f"operator 0 (CONV_2D): {message}"


def test_weights_that_are_computed() -> None:
    assert "which nothing has written before" in refusal(with_tensor("weights", data=None))


def test_single_scale_with_a_stale_dimension_is_accepted() -> None:
    given = tensor("in", (1, 4, 4, 1))
    weights = constant("w", np.ones((1, 1, 1, 1)), np.int8, Quantization((0.5,), (0,), 3))
    model = single(
        BuiltinOperator.CONV_2D,
        [given, weights],
        [tensor("out", (1, 4, 4, 1))],
        {"stride_w": 1, "stride_h": 1},
    )
    network = load_network(model, BACKEND)
    network.inputs[0][:] = memoryview(bytes(range(16))).cast("b")
    network.invoke()
    # Halves go away from zero.
    assert list(network.outputs[0]) == [(value + 1) // 2 for value in range(16)]


@pytest.mark.parametrize("dilation", [200, 2**31 - 1])
def test_window_that_is_far_larger_than_its_input(dilation: int) -> None:
    weights = constant("w", np.ones((1, 3, 3, 1)), np.int8, UNIT)
    model = single(
        BuiltinOperator.CONV_2D,
        [tensor("in", (1, 4, 4, 1)), weights],
        [tensor("out", (1, 4, 4, 1))],
        {"stride_w": 1, "stride_h": 1, "dilation_w_factor": dilation},
    )
    assert f"a window of {2 * dilation + 1} is far larger than the 4 elements below it" in refusal(model)


def test_scales_that_are_too_far_apart() -> None:
    model = single(
        BuiltinOperator.SUB,
        [tensor("one", (4,), 1e30), tensor("two", (4,), 1.0)],
        [tensor("out", (4,), 1e-30)],
    )
    assert "a multiplier must be below 2**31" in refusal(model)


def test_list_of_axes_that_is_endless() -> None:
    model = single(
        BuiltinOperator.MEAN,
        [tensor("in", (4, 4)), constant("axes", [0] * 65)],
        [tensor("out", (4,))],
    )
    assert refusal(model) == "operator 0 (MEAN): input 1 (tensor 1) has 65 values"


def test_call_of_a_subgraph_that_is_not_there() -> None:
    model = calling_subgraphs(BuiltinOperator.CALL_ONCE, [[7]])
    assert "operator 0 (CALL_ONCE)" in refusal(model)


# Hostile files.


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 511, 512, 513, 1024])
def test_file_that_ends_early(length: int) -> None:
    with pytest.raises(NetworkError):
        load_network(digits.model_bytes()[:length], BACKEND)


def test_first_file_error_stays_known_as_the_cause() -> None:
    with pytest.raises(NetworkError) as error:
        load_network(b"", BACKEND)
    assert isinstance(error.value.__cause__, ModelFileError)


HOSTILE = """
import re, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.backends.registry import find_backend
from tests.support.models.hostile_models import case
backend = find_backend("numpy")
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    try:
        network = load_network(case(number, seed=8).model, backend, arena_bytes=1 << 20)
    except NetworkError as error:
        assert str(error)
        continue
    network.invoke()
    sizes = [tensor.nbytes for tensor in network.model.output_tensors]
    assert [len(bytes(output)) for output in network.outputs] == sizes
# Not ru_maxrss, which counts what the process shared with its parent before it became this program.
status = Path("/proc/self/status").read_text()
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
print("survived, peak", peak)
"""
COUNT = 17 * in_ci(5, every_day=1)


@pytest.mark.parametrize(
    "first", [0, pytest.param(COUNT, marks=pytest.mark.long("as many models again, of the same kinds"))]
)
def test_hostile_models_end_in_an_error_of_the_family_or_run_in_bounded_memory(first: int) -> None:
    ran = run_process([sys.executable, "-W", "error", "-c", HOSTILE, first, first + COUNT])
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout.split()[-1]) < 1 << 20  # KiB


@pytest.mark.parametrize("number", range(8, 17 * 4, 17))
def test_options_gone_wild_agree_in_both_backends(number: int) -> None:
    model = case(number, seed=8).model

    def outcome(backend: KernelBackend) -> object:
        try:
            network = load_network(model, backend, arena_bytes=1 << 20)
        except NetworkError as error:
            return str(error)
        return run_network(network, [np.arange(len(buffer), dtype=np.uint8) for buffer in network.inputs])

    assert outcome(ReferenceBackend()) == outcome(find_backend("numpy"))
