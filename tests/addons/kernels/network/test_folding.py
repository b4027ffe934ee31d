"""What is computed at load: chains of shapes as Keras writes them, and what must stay in the run."""

import numpy as np
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.network.folding import LARGEST_FOLDED
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network as LoadedNetwork
from aisrv.addons.kernels.network.network import nothing
from aisrv.addons.kernels.network.plan import plan_network
from aisrv.model.reader import read_model
from aisrv.model.writer import Network, NetworkOperator
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import agree, loaded, run_network

I32 = TensorType.INT32


def keras_reshape() -> bytes:
    """A layer Reshape((6, 4)) after a layer that squares: the batch is taken from the shape of its input."""
    return bytes(
        Network(
            (
                tensor("in", (1, 2, 3, 4), 0.1, 3),
                tensor("square", (1, 2, 3, 4), 0.2, -5),
                tensor("extents", (4,), kind=I32),
                constant("begin", [0]),
                constant("end", [1]),
                constant("strides", [1]),
                tensor("batch", (), kind=I32),
                constant("rows", 6),
                constant("columns", 4),
                tensor("shape", (3,), kind=I32),
                tensor("out", (1, 6, 4), 0.2, -5),
            ),
            (
                NetworkOperator(BuiltinOperator.MUL, ("in", "in"), ("square",)),
                NetworkOperator(BuiltinOperator.SHAPE, ("square",), ("extents",)),
                NetworkOperator(
                    BuiltinOperator.STRIDED_SLICE,
                    ("extents", "begin", "end", "strides"),
                    ("batch",),
                    {"shrink_axis_mask": 1},
                ),
                NetworkOperator(
                    BuiltinOperator.PACK, ("batch", "rows", "columns"), ("shape",), {"values_count": 3}
                ),
                NetworkOperator(BuiltinOperator.RESHAPE, ("square", "shape"), ("out",)),
            ),
            ("in",),
            ("out",),
        )
    )


def in_the_run(network: LoadedNetwork) -> list[str]:
    return [each.operator.name for each in network.operators if each.kernel is not nothing]


def test_a_chain_of_shapes_is_computed_at_load() -> None:
    model = keras_reshape()
    network = loaded(model)
    assert in_the_run(network) == ["MUL", "RESHAPE"]
    assert np.frombuffer(network.tensors[9].buffer, np.int32).tolist() == [1, 6, 4]
    agree(model, random_int8((1, 2, 3, 4)))


def test_what_is_computed_at_load_keeps_its_place_in_the_plan() -> None:
    model = keras_reshape()
    assert loaded(model).plan == plan_network(read_model(model), NumpyBackend())
    assert {each.tensor for each in loaded(model).plan.allocations} >= {2, 6, 9}


def test_a_shape_that_follows_from_constants_is_as_good_as_a_constant() -> None:
    model = bytes(
        Network(
            (
                tensor("in", (3,)),
                constant("rows", 2),
                constant("columns", 3),
                tensor("shape", (2,), kind=I32),
                tensor("out", (2, 3)),
            ),
            (
                NetworkOperator(BuiltinOperator.PACK, ("rows", "columns"), ("shape",), {"values_count": 2}),
                NetworkOperator(BuiltinOperator.BROADCAST_TO, ("in", "shape"), ("out",)),
            ),
            ("in",),
            ("out",),
        )
    )
    data = random_int8((3,))
    assert run_network(loaded(model), [data]) == [data.tobytes() * 2]


def test_an_output_of_the_model_may_be_computed_at_load() -> None:
    model = single(BuiltinOperator.SHAPE, [tensor("in", (5, 7))], [tensor("out", (2,), kind=I32)])
    network = loaded(model)
    assert in_the_run(network) == []
    assert run_network(network, [random_int8((5, 7))]) == [np.array([5, 7], np.int32).tobytes()]


def test_large_results_stay_in_the_run() -> None:
    for count, names in ((LARGEST_FOLDED, []), (LARGEST_FOLDED + 1, ["BROADCAST_TO"])):
        model = single(
            BuiltinOperator.BROADCAST_TO,
            [constant("one", [7], np.int8), constant("shape", [count])],
            [tensor("out", (count,))],
        )
        network = loaded(model)
        assert in_the_run(network) == names
        assert run_network(network, []) == [b"\7" * count]


def test_a_tensor_that_is_written_twice_stays_in_the_run() -> None:
    model = bytes(
        Network(
            (
                tensor("in", (2,), kind=I32),
                tensor("again", (2,), kind=I32),
                constant("shape", [2]),
                constant("value", [4], np.int32),
                tensor("out", (2,), kind=I32),
            ),
            (
                NetworkOperator(BuiltinOperator.BROADCAST_TO, ("value", "shape"), ("again",)),
                NetworkOperator(BuiltinOperator.RESHAPE, ("again",), ("out",)),
                NetworkOperator(BuiltinOperator.RESHAPE, ("in",), ("again",)),
            ),
            ("in",),
            ("out",),
        )
    )
    network = load_network(model, NumpyBackend())
    assert in_the_run(network) == ["BROADCAST_TO", "RESHAPE", "RESHAPE"]
    for number in (1, 9):
        assert run_network(network, [np.array([number, number], np.int32)]) == [
            np.array([4, 4], np.int32).tobytes()
        ]


def test_a_new_size_that_follows_from_the_old_one_is_as_good_as_a_constant() -> None:
    """Keras's UpSampling2D((2, 3)): the size of the picture, times a constant."""
    tensors = (
        tensor("in", (1, 3, 4, 2)),
        tensor("extents", (4,), kind=I32),
        constant("begin", [1]),
        constant("end", [3]),
        constant("strides", [1]),
        tensor("old", (2,), kind=I32),
        constant("factors", [2, 3]),
        tensor("new", (2,), kind=I32),
        constant("size", [6, 12]),
        tensor("out", (1, 6, 12, 2)),
    )
    slicing = ("extents", "begin", "end", "strides")
    resize = BuiltinOperator.RESIZE_NEAREST_NEIGHBOR
    computed = Network(
        tensors,
        (
            NetworkOperator(BuiltinOperator.SHAPE, ("in",), ("extents",)),
            NetworkOperator(BuiltinOperator.STRIDED_SLICE, slicing, ("old",)),
            NetworkOperator(BuiltinOperator.MUL, ("old", "factors"), ("new",)),
            NetworkOperator(resize, ("in", "new"), ("out",)),
        ),
        ("in",),
        ("out",),
    )
    told = Network(tensors, (NetworkOperator(resize, ("in", "size"), ("out",)),), ("in",), ("out",))
    data = random_int8((1, 3, 4, 2))
    network = loaded(bytes(computed))
    assert in_the_run(network) == ["RESIZE_NEAREST_NEIGHBOR"]
    # TFLM takes constant sizes only.
    assert run_network(network, [data]) == agree(bytes(told), data)
