"""TRANSPOSE_CONV of float32 by CONV_2D of the native kernels: TensorFlow Lite Micro's bits."""

import functools
from typing import Any

import numpy as np
import pytest
from tflite import BuiltinOperator, Padding

from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network
from aisrv.addons.kernels.network.operators.floats import transposed
from aisrv.model import TensorType
from aisrv.model.values import Tensor
from tests.support.amounts import amount
from tests.support.models.float32_cases import SPECIAL, bits
from tests.support.models.native import VARIANTS, native, need_variant
from tests.support.models.one_operator import constant, single, tensor, tflm
from tests.support.oracles.network_runs import loaded, run_network

F32 = TensorType.FLOAT32
CASES = amount(500, every_day=40)
Floats = np.ndarray[Any, np.dtype[np.float32]]


def model(
    weights: Tensor, *bias: Tensor, given: tuple[int, ...], out: tuple[int, ...], **options: int
) -> bytes:
    """TRANSPOSE_CONV."""
    inputs = [constant("shape", out), weights, tensor("in", given, kind=F32), *bias]
    return single(BuiltinOperator.TRANSPOSE_CONV, inputs, [tensor("out", out, kind=F32)], options)


@functools.cache
def drawn(seed: int) -> tuple[bytes, Floats, np.ndarray[Any, Any]]:
    """A model, its input, and the bits that TFLM makes of them."""
    chance = np.random.default_rng(seed)
    pick = chance.integers
    taps, strides = pick(1, 6, 2), pick(1, 4, 2)
    sizes, channels, filters = pick(1, 7, 2), int(pick(1, 20)), int(pick(1, 40))
    padding = Padding.SAME if pick(2) else Padding.VALID
    # All sizes from which so many inputs follow.
    least = (sizes - 1) * strides + (1 if padding == Padding.SAME else taps)
    out = (2, *(int(each) for each in least + pick(0, strides)), filters)
    kernel = chance.normal(size=(filters, *taps, channels)).astype(np.float32)
    data = chance.normal(size=(2, *sizes, channels)).astype(np.float32)
    if seed % 4 == 3:
        places = chance.random(data.shape) < 0.1
        data[places] = chance.choice(np.array(SPECIAL, np.float32), int(places.sum()))
    bias = [constant("bias", chance.normal(size=filters), np.float32)] if pick(3) else []
    made = model(
        constant("weights", kernel, np.float32),
        *bias,
        given=data.shape,
        out=out,
        padding=padding,
        stride_h=int(strides[0]),
        stride_w=int(strides[1]),
        fused_activation_function=int(pick(4)),
    )
    return made, data, bits(np.frombuffer(tflm(made, data)[0], np.float32))


@pytest.mark.in_full
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.value)
def test_equals_tflm(variant: Variant) -> None:
    need_variant(variant)
    computed = 0
    for seed in range(CASES):
        made, data, expected = drawn(seed)
        network = load_network(made, native(variant))
        if is_by_conv2d(network):
            (found,) = run_network(network, [data])
            assert bits(np.frombuffer(found, np.float32)).tolist() == expected.tolist(), f"seed {seed}"
            computed += 1
    # Of the others, strides are larger than windows.
    assert computed >= 0.6 * CASES


def is_by_conv2d(network: Network) -> bool:
    """Whether the only operator is computed by the backend's CONV_2D."""
    return network.operators[0].kernel.__module__ == transposed.__name__


def picture(weights: Tensor, stride: int = 1, *bias: Tensor) -> bytes:
    """TRANSPOSE_CONV of 2 by 2 pixels of one channel."""
    size = 2 * stride
    options = {"padding": Padding.SAME, "stride_h": stride, "stride_w": stride}
    return model(weights, *bias, given=(1, 2, 2, 1), out=(1, size, size, 1), **options)


ONES = np.ones((1, 2, 2, 1), np.float32)


@pytest.mark.parametrize(
    ("made", "inputs"),
    [
        (picture(constant("weights", ONES, np.float32), stride=3), [ONES]),
        (picture(constant("weights", ONES * np.inf, np.float32)), [ONES]),
        (picture(tensor("weights", ONES.shape, kind=F32)), [ONES, ONES]),
        (
            picture(constant("weights", ONES, np.float32), 1, tensor("bias", (1,), kind=F32)),
            [ONES, ONES[0, 0, 0]],
        ),
    ],
    ids=["outputs that no tap meets", "infinite weights", "computed weights", "a computed bias"],
)
def test_what_is_left_to_numpy(made: bytes, inputs: list[Floats]) -> None:
    network = load_network(made, native(Variant.PLAIN))
    assert not is_by_conv2d(network)
    assert run_network(network, inputs) == run_network(loaded(made), inputs) == tflm(made, *inputs)


def test_a_backend_without_floats_leaves_it_to_numpy() -> None:
    made = picture(constant("weights", ONES, np.float32))
    assert not is_by_conv2d(loaded(made))
    assert is_by_conv2d(load_network(made, native(Variant.PLAIN)))
