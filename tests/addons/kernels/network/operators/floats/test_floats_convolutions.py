"""Convolutions of float32 beside TensorFlow Lite Micro, as near as another order of sums is."""

from typing import Any

import numpy as np
import pytest
from tflite import BuiltinOperator, Padding

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.model import TensorType
from tests.support.models.one_operator import constant, single, tensor, tflm
from tests.support.oracles.network_runs import loaded, run_network

F32 = TensorType.FLOAT32
WINDOWS = {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}


def grouped(groups: int, filters: int, activation: int = 0, biases: int | None = None) -> bytes:
    """A convolution of 2 channels a group."""
    random = np.random.default_rng(groups)
    kernel = random.normal(size=(filters, 3, 2, 2)).astype(np.float32)
    bias = random.normal(size=biases or filters).astype(np.float32)
    return single(
        BuiltinOperator.CONV_2D,
        [
            tensor("in", (2, 5, 4, 2 * groups), kind=F32),
            constant("weights", kernel, np.float32),
            constant("bias", bias, np.float32),
        ],
        [tensor("out", (2, 5, 4, filters), kind=F32)],
        WINDOWS | {"padding": Padding.SAME, "fused_activation_function": activation},
    )


def picture(channels: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=(2, 5, 4, channels)).astype(np.float32)


@pytest.mark.parametrize("activation", range(4))
@pytest.mark.parametrize(("groups", "filters"), [(1, 3), (2, 4), (3, 3)])
def test_groups(groups: int, filters: int, activation: int) -> None:
    model, data = grouped(groups, filters, activation), picture(2 * groups)
    (found,), (expected,) = run_network(loaded(model), [data]), tflm(model, data)
    values = np.frombuffer(expected, np.float32)
    np.testing.assert_allclose(
        np.frombuffer(found, np.float32), values, rtol=0, atol=2.0**-20 * float(np.abs(values).max())
    )


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(NetworkError, match="weights are for 2 input channels of 3 outputs, the input has 4"):
        loaded(grouped(2, 3))
    with pytest.raises(NetworkError, match="bias has 5 values for 4 output channels"):
        loaded(grouped(2, 4, biases=5))


def test_an_activation_that_has_no_kernel_is_refused() -> None:
    with pytest.raises(NetworkError, match="the activation TANH has no float32 kernel"):
        loaded(grouped(2, 4, activation=4))


def test_weights_of_int8_beside_floats_are_refused() -> None:
    model = single(
        BuiltinOperator.CONV_2D,
        [tensor("in", (1, 2, 2, 1), kind=F32), constant("weights", np.ones((1, 1, 1, 1)), np.int8)],
        [tensor("out", (1, 2, 2, 1), kind=F32)],
        WINDOWS | {"padding": Padding.SAME},
    )
    with pytest.raises(NetworkError, match=r"input 1 \(tensor 1\) is INT8, must be FLOAT32"):
        loaded(model)


def test_weights_may_be_computed() -> None:
    weights = np.array([2, -1], np.float32).reshape(2, 1, 1, 1)
    model = single(
        BuiltinOperator.CONV_2D,
        [tensor("in", (1, 1, 2, 1), kind=F32), tensor("weights", (2, 1, 1, 1), kind=F32)],
        [tensor("out", (1, 1, 2, 2), kind=F32)],
        WINDOWS | {"padding": Padding.SAME},
    )
    data = np.array([3, 5], np.float32).reshape(1, 1, 2, 1)
    (output,) = run_network(loaded(model), [data, weights])
    assert np.frombuffer(output, np.float32).tolist() == [6, -3, 10, -5]
