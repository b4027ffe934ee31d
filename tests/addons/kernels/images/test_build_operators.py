"""Images of single operators that NumPy's kernels and TensorFlow Lite Micro compute, too: every byte."""

from collections.abc import Sequence

import numpy as np
import pytest
from tflite import BuiltinOperator, Padding

from aisrv.addons.kernels.images.build import build_image
from aisrv.addons.kernels.images.recording import record
from aisrv.addons.kernels.network.operators import OPERATORS
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE
from aisrv.addons.kernels.relocatable.runtime import LoadMode, Runtime
from aisrv.model import TensorType
from aisrv.model.reader import read_model
from aisrv.model.relocatable.errors import BuildError
from aisrv.model.values import Quantization
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models import int16_models
from tests.support.models.control_models import choosing, counting
from tests.support.models.convolution_models import biases, weights
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.models.random_networks import random_network
from tests.support.models.relocatable import needs_compiler
from tests.support.oracles.network_runs import Inputs, agree
from tests.support.paths import ROOT

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")


KERNELS_IMAGE = (ROOT / "aisrv/addons/kernels/images/images/kernels-cortex-m4.nbin").read_bytes()


def kernel_outputs(model: bytes, inputs: Inputs) -> list[bytes]:
    """What the shipped image of all kernels computes with the parameters that the builder finds."""
    network = record(model)
    runtime = Runtime(flash_bytes=len(KERNELS_IMAGE) + len(network.weights))
    at = FLASH_BASE + len(KERNELS_IMAGE)
    runtime.write_flash(FLASH_BASE, KERNELS_IMAGE)
    runtime.write_flash(at, network.weights)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    activations = runtime.malloc(network.activations_size)
    runtime.use_memory(handle, at, activations, network.activations_size)
    for each, data in zip(network.inputs, inputs, strict=True):
        runtime.ram.write(activations + each.place, data.tobytes())
    for node in network.nodes:
        runtime.forward(handle, node.info.kernel, bytes(node.step.parameters))
    return [runtime.ram.read(activations + each.place, each.bytes) for each in network.outputs]


def image_outputs(model: bytes, inputs: Inputs) -> list[bytes]:
    """What an image of a model computes."""
    runtime = Runtime(seconds=60)
    runtime.write_flash(FLASH_BASE, build_image(model).image)
    info = runtime.rt_get_info(FLASH_BASE)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    assert runtime.init(handle, info.weights, runtime.malloc(info.acts_sz))
    outputs = [bytearray(each.bytes) for each in runtime.get_report(handle).outputs]
    assert runtime.run(handle, [each.tobytes() for each in inputs], outputs) == 1, runtime.fault(handle)
    return [bytes(each) for each in outputs]


def check(model: bytes, *shapes: Sequence[int]) -> None:
    inputs = [random_int8(shape, number) for number, shape in enumerate(shapes)]
    assert kernel_outputs(model, inputs) == agree(model, *inputs)


@pytest.mark.parametrize(
    ("one", "two", "output"),
    [
        ((2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 5)),
        ((2, 3, 4, 5), (1, 1, 1, 5), (2, 3, 4, 5)),
        ((2, 3, 4, 5), (2, 1, 1, 5), (2, 3, 4, 5)),
        ((1, 1, 4, 1), (2, 3, 1, 5), (2, 3, 4, 5)),
        ((2, 1, 4, 1), (1, 3, 1, 5), (2, 3, 4, 5)),
        ((1,), (2, 3, 4, 5), (2, 3, 4, 5)),
        ((4, 5), (3, 1, 1), (3, 4, 5)),
        ((1, 1), (1, 1), (1, 1)),
    ],
)
@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.MUL])
def test_inputs_that_broadcast(
    code: int, one: tuple[int, ...], two: tuple[int, ...], output: tuple[int, ...]
) -> None:
    tensors = [tensor("one", one, 0.05, -3), tensor("two", two, 0.03, 7)]
    scale = 0.07 if code == BuiltinOperator.ADD else 0.09
    check(single(code, tensors, [tensor("out", output, scale, 5)]), one, two)


@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.MUL])
def test_a_constant_that_broadcasts_with_an_activation(code: int) -> None:
    shape = (1, 2, 3, 4)
    scales = constant("two", random_int8((3, 1), 9), np.int8, tensor("", (), 0.02, 4).quantization)
    options = {"fused_activation_function": 1}
    check(
        single(code, [tensor("one", shape, 0.1, 1), scales], [tensor("out", shape, 0.1, -9)], options), shape
    )


@pytest.mark.parametrize(
    ("shape", "amounts"),
    [
        ((1, 3, 4, 2), [(0, 0), (1, 2), (3, 0), (0, 0)]),
        ((2, 3, 4, 1), [(0, 0), (0, 0), (0, 0), (1, 2)]),
        ((2, 3), [(1, 1), (2, 3)]),
        ((3,), [(0, 0)]),
        ((2, 1, 3, 1), [(1, 0), (2, 1), (0, 1), (1, 1)]),
        ((1, 1), [(2, 2), (2, 2)]),
    ],
)
def test_padding(shape: tuple[int, ...], amounts: list[tuple[int, int]]) -> None:
    padded = tuple(sum(pair, extent) for extent, pair in zip(shape, amounts, strict=True))
    tensors = [tensor("in", shape, 0.5, -7), constant("amounts", amounts)]
    check(single(BuiltinOperator.PAD, tensors, [tensor("out", padded, 0.5, -7)]), shape)


@pytest.mark.parametrize(
    ("shape", "axes", "output"),
    [
        ((2, 5, 7, 3), [1, 2], (2, 1, 1, 3)),
        ((2, 5, 7, 3), [1, 2], (2, 3)),
        ((2, 5, 7, 3), [-1], (2, 5, 7, 1)),
        ((2, 5, 7, 3), [0, 3], (1, 5, 7, 1)),
        ((6, 4), [0, 1], (1, 1)),
    ],
)
@pytest.mark.parametrize("scale", [0.02, 0.1, 0.7])
def test_means(shape: tuple[int, ...], axes: list[int], output: tuple[int, ...], scale: float) -> None:
    tensors = [tensor("in", shape, 0.1, 11), constant("axes", axes)]
    options = {"keep_dims": int(len(output) == len(shape))}
    check(single(BuiltinOperator.MEAN, tensors, [tensor("out", output, scale, -5)], options), shape)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("padding", [Padding.SAME, Padding.VALID])
@pytest.mark.parametrize("dilation", [1, 2])
def test_convolutions_of_groups(groups: int, padding: int, dilation: int) -> None:
    random, channels, filters = np.random.default_rng(groups), 3, 2
    size = 6 if padding == Padding.SAME else 6 - 2 * dilation
    shape, outputs = (2, 6, 6, groups * channels), groups * filters
    model = single(
        BuiltinOperator.CONV_2D,
        [tensor("in", shape, 0.1, 3), weights(random, (outputs, 3, 3, channels)), *biases(random, outputs)],
        [tensor("out", (2, size, size, outputs), 0.2, -4)],
        {
            "padding": padding,
            "stride_w": 1,
            "stride_h": 1,
            "dilation_w_factor": dilation,
            "dilation_h_factor": dilation,
        },
    )
    check(model, shape)


def test_an_image_of_all_of_them() -> None:
    """PAD, CONV_2D of groups, MUL and ADD that broadcast, MEAN: one behind the other, compiled."""
    needs_compiler()
    random, quant = np.random.default_rng(3), tensor("", (), 0.1, 3).quantization
    kernel, factor = (
        weights(random, (4, 3, 3, 2)),
        constant("factor", random_int8((1, 1, 1, 4), 5), np.int8, quant),
    )
    tensors = [
        tensor("in", (1, 4, 5, 4), 0.1, 3),
        constant("amounts", [(0, 0), (1, 1), (1, 1), (0, 0)]),
        tensor("padded", (1, 6, 7, 4), 0.1, 3),
        kernel,
        tensor("convolved", (1, 4, 5, 4), 0.3, -4),
        factor,
        tensor("product", (1, 4, 5, 4), 0.5, 2),
        constant("axes", [1, 2]),
        tensor("mean", (1, 1, 1, 4), 0.2, 1),
        tensor("out", (1, 4, 5, 4), 0.6, 0),
    ]
    once = {"padding": Padding.VALID, "stride_w": 1, "stride_h": 1}
    once |= {"dilation_w_factor": 1, "dilation_h_factor": 1}
    operators = (
        NetworkOperator(BuiltinOperator.PAD, ("in", "amounts"), ("padded",)),
        NetworkOperator(BuiltinOperator.CONV_2D, ("padded", kernel.name), ("convolved",), once),
        NetworkOperator(BuiltinOperator.MUL, ("convolved", "factor"), ("product",)),
        NetworkOperator(BuiltinOperator.MEAN, ("product", "axes"), ("mean",), {"keep_dims": 1}),
        NetworkOperator(BuiltinOperator.ADD, ("mean", "product"), ("out",)),
    )
    model = bytes(Network(tuple(tensors), operators, ("in",), ("out",)))
    picture = random_int8((1, 4, 5, 4))
    assert image_outputs(model, [picture]) == kernel_outputs(model, [picture]) == agree(model, picture)


@pytest.mark.parametrize("code", [BuiltinOperator.ADD, BuiltinOperator.MUL])
def test_sums_and_products_of_int16_are_refused(code: int) -> None:
    one, two, out = (tensor(name, (4,), 0.1, kind=TensorType.INT16) for name in ("one", "two", "out"))
    with pytest.raises(
        BuildError, match=r"operator 0 \(.*\): tensor 0 is INT16, there are C kernels for INT8"
    ):
        record(single(code, [one, two], [out]))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            BuiltinOperator.PAD,
            r"operator 0 \(PAD\): fills with tensor 2, there is a C kernel that fills with",
        ),
        (BuiltinOperator.PADV2, r"operator 0 \(PADV2\): no C kernel for it"),
    ],
)
def test_padding_with_a_value_is_refused(code: int, reason: str) -> None:
    value = constant("value", [7], np.int8, Quantization.per_tensor(0.1, 3))
    amounts = constant("amounts", [[1, 1], [0, 0]])
    with pytest.raises(BuildError, match=reason):
        record(single(code, [tensor("in", (2, 2), 0.1, 3), amounts, value], [tensor("out", (4, 2), 0.1, 3)]))


@pytest.mark.parametrize("name", ["LOGISTIC", "SUB", "MEAN", "TRANSPOSE_CONV", "CONV_2D of groups"])
def test_operators_of_int16_are_refused_by_name(name: str) -> None:
    model, _ = int16_models.OPERATORS[name](int16_models.Draw(1))
    reason = rf"operator 0 \({name.partition(' ')[0]}\): (no C kernel for it|.* is INT16)"
    with pytest.raises(BuildError, match=reason):
        record(model)


@pytest.mark.parametrize("name", [name for name, each in OPERATORS.items() if each.floats])
def test_operators_of_floats_are_refused_by_name(name: str) -> None:
    models = (random_network(seed, TensorType.FLOAT32, [name])[0] for seed in range(40))
    model = next(each for each in models if name in {made.name for made in read_model(each).operators})
    with pytest.raises(BuildError, match=rf"operator \d+ \({name}\): (no C kernel|.* is FLOAT32)"):
        record(model)


@pytest.mark.parametrize(("model", "name"), [(choosing(), "IF"), (counting(), "WHILE")])
def test_control_flow_is_refused_by_name(model: bytes, name: str) -> None:
    with pytest.raises(BuildError, match=rf"operator \d \({name}|operator 0 \(LESS\): no C kernel"):
        record(model)
