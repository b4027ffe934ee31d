"""Operators of float32 that the native kernels take, with TensorFlow Lite Micro's bits, or leave."""

from itertools import combinations

import numpy as np
import pytest
from tflite import BuiltinOperator

from aisrv.addons.kernels.backend import Float32Table, Kernel, kernel_origin
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.network.load import load_network
from aisrv.model import TensorType
from tests.support.models.native import native
from tests.support.models.one_operator import constant, single, tensor, tflm
from tests.support.oracles.network_runs import run_network

F32 = TensorType.FLOAT32
AXES = [axes for count in range(1, 5) for axes in combinations(range(4), count)]


def mean(shape: tuple[int, ...], axes: tuple[int, ...], *, keep: bool) -> bytes:
    out = tuple(
        1 if axis in axes else extent for axis, extent in enumerate(shape) if keep or axis not in axes
    )
    given = [tensor("in", shape, kind=F32), constant("axes", axes)]
    return single(BuiltinOperator.MEAN, given, [tensor("out", out, kind=F32)], {"keep_dims": keep})


def agrees(model: bytes, *data: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> str:
    """Who computes the only operator of a model; where the library does, it has TFLM's bits."""
    network = load_network(model, native(Variant.PLAIN))
    origin = kernel_origin(network.operators[0].kernel)
    if origin == "native":
        assert run_network(network, data) == tflm(model, *data)
    return origin


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_mean_over_neighbors(axes: tuple[int, ...], keep: bool) -> None:
    data = np.random.default_rng(1).normal(size=(2, 5, 7, 18)).astype(np.float32)
    taken = agrees(mean(data.shape, axes, keep=keep), data)
    assert taken == ("native" if axes == tuple(range(axes[0], axes[-1] + 1)) else "network")


@pytest.mark.parametrize("axes", [(0, 2), (1, 2), (1,), (0, 1, 3), (1, 3)], ids=str)
def test_dimensions_of_one_element_are_in_nobodys_way(axes: tuple[int, ...]) -> None:
    data = np.random.default_rng(2).normal(size=(4, 1, 6, 1)).astype(np.float32)
    assert agrees(mean(data.shape, axes, keep=True), data) == "native"


def test_a_mean_has_no_bounds() -> None:
    """Those of a pool without an activation are the largest floats."""
    data = np.array([[3e38, np.inf, 1], [3e38, 1, -np.inf]], np.float32)
    for axes in (0,), (1,):
        assert agrees(mean(data.shape, axes, keep=True), data) == "native"


@pytest.mark.parametrize("shapes", [((2, 3, 4), (4,)), ((1,), (2, 3, 4)), ((2, 3, 4), (2, 3, 4))], ids=str)
def test_sub_of_inputs_that_repeat(shapes: tuple[tuple[int, ...], ...]) -> None:
    chance = np.random.default_rng(3)
    one, two = (chance.normal(size=shape).astype(np.float32) for shape in shapes)
    given = [tensor("one", one.shape, kind=F32), tensor("two", two.shape, kind=F32)]
    model = single(BuiltinOperator.SUB, given, [tensor("out", (2, 3, 4), kind=F32)])
    assert agrees(model, one, two) == "native"


def logistic() -> bytes:
    return single(BuiltinOperator.LOGISTIC, [tensor("in", (3,), kind=F32)], [tensor("out", (3,), kind=F32)])


def test_a_backend_may_lack_an_operator() -> None:
    """One that was written before there was LOGISTIC has no such method."""

    class Old:
        float32 = NumpyBackend()

    network = load_network(logistic(), Fallback(Old(), NumpyBackend()))
    assert kernel_origin(network.operators[0].kernel) == "network"


def _leave(params: object) -> Kernel:
    raise NotImplementedError(f"all {params}")


def test_a_backend_with_some_floats_leaves_others_to_the_next() -> None:
    class Few:
        float32 = Float32Table({"logistic": _leave})

    network = load_network(logistic(), Fallback(Few(), native(Variant.PLAIN)))
    assert kernel_origin(network.operators[0].kernel) == "native"
