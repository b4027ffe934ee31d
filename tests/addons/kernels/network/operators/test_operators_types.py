"""Operators of any type beside TensorFlow Lite Micro, and beside TensorFlow Lite for what that has not."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from tflite import BuiltinOperator as B
from tflite import TensorType

from aisrv.model.dtypes import DTYPES
from aisrv.model.values import Tensor
from aisrv.model.values import TensorType as T
from tests.support.models import networks
from tests.support.models.one_operator import constant, single, tensor
from tests.support.oracles.network_runs import agree, loaded, run_network

CUBE: Final = (2, 3, 4)
TYPES: Final = (T.BOOL, T.INT8, T.UINT8, T.INT16, T.INT32, T.INT64, T.FLOAT32)


class Layout(NamedTuple):
    """An operator that moves elements: inputs (a shape is data, all else a constant), outputs, options."""

    code: int
    inputs: Sequence[Any]
    outputs: Sequence[tuple[int, ...]]
    options: dict[str, int] | None = None


LAYOUTS: Final = {
    "RESHAPE": Layout(B.RESHAPE, [CUBE, [6, 4]], [(6, 4)]),
    "SQUEEZE": Layout(B.SQUEEZE, [(1, 6)], [(6,)]),
    "EXPAND_DIMS": Layout(B.EXPAND_DIMS, [CUBE, [0]], [(1, *CUBE)]),
    "PAD": Layout(B.PAD, [CUBE, [[0, 1], [1, 0], [2, 2]]], [(3, 4, 8)]),
    "MIRROR_PAD": Layout(B.MIRROR_PAD, [CUBE, [[0, 1], [1, 0], [2, 2]]], [(3, 4, 8)]),
    "TRANSPOSE": Layout(B.TRANSPOSE, [CUBE, [2, 0, 1]], [(4, 2, 3)]),
    "CONCATENATION": Layout(B.CONCATENATION, [CUBE, CUBE], [(4, 3, 4)], {"axis": 0}),
    "PACK": Layout(B.PACK, [CUBE, CUBE], [(2, *CUBE)], {"values_count": 2}),
    "UNPACK": Layout(B.UNPACK, [CUBE], [(3, 4), (3, 4)], {"num": 2}),
    "SPLIT": Layout(B.SPLIT, [[0], CUBE], [(1, 3, 4), (1, 3, 4)], {"num_splits": 2}),
    "SPLIT_V": Layout(B.SPLIT_V, [CUBE, [1, 2], [1]], [(2, 1, 4), (2, 2, 4)], {"num_splits": 2}),
    "SLICE": Layout(B.SLICE, [CUBE, [0, 1, 1], [1, 2, -1]], [(1, 2, 3)]),
    "STRIDED_SLICE": Layout(
        B.STRIDED_SLICE, [CUBE, [0, 1, 1], [2, 3, 4], [1, 1, 2]], [(2, 2, 2)], {"begin_mask": 1}
    ),
    "GATHER": Layout(B.GATHER, [CUBE, [2, 0]], [(2, 2, 4)], {"axis": 1}),
    "BROADCAST_TO": Layout(B.BROADCAST_TO, [(3, 1), [2, 3, 4]], [CUBE]),
    "SPACE_TO_DEPTH": Layout(B.SPACE_TO_DEPTH, [(1, 2, 4, 3)], [(1, 1, 2, 12)], {"block_size": 2}),
    "DEPTH_TO_SPACE": Layout(B.DEPTH_TO_SPACE, [(1, 1, 2, 12)], [(1, 2, 4, 3)], {"block_size": 2}),
    "RESIZE_NEAREST_NEIGHBOR": Layout(B.RESIZE_NEAREST_NEIGHBOR, [(1, 2, 3, 2), [4, 5]], [(1, 4, 5, 2)]),
}

TFLITE_ALONE: Final = {
    "EXPAND_DIMS": (T.BOOL, T.UINT8, T.INT32, T.INT64),
    "PAD": (T.UINT8, T.INT64),
    "MIRROR_PAD": (T.UINT8, T.INT16, T.INT32, T.INT64),
    "TRANSPOSE": (T.BOOL, T.UINT8, T.INT32, T.INT64),
    "CONCATENATION": (T.UINT8,),
    "PACK": (T.UINT8,),
    "UNPACK": (T.BOOL, T.UINT8),
    "SPLIT": (T.UINT8,),
    "SPLIT_V": (T.UINT8, T.INT64),
    "SLICE": (T.UINT8, T.INT64),
    "STRIDED_SLICE": (T.UINT8, T.INT64),
    "GATHER": (T.BOOL, T.UINT8, T.INT16, T.INT32, T.INT64),
    "SPACE_TO_DEPTH": (T.UINT8, T.INT32, T.INT64),
    "RESIZE_NEAREST_NEIGHBOR": (T.UINT8,),
}
"""Types that TensorFlow Lite Micro refuses, and TensorFlow Lite's reference kernels know."""

NEITHER: Final = {
    "PAD": (T.BOOL,),
    "MIRROR_PAD": (T.BOOL,),
    "PACK": (T.BOOL,),
    "UNPACK": (T.INT64,),
    "SPLIT": (T.BOOL, T.INT64),
    "SPLIT_V": (T.BOOL,),
    "SPACE_TO_DEPTH": (T.BOOL, T.INT16),
    "DEPTH_TO_SPACE": (T.BOOL, T.UINT8, T.INT16, T.INT32, T.INT64),
    "RESIZE_NEAREST_NEIGHBOR": (T.BOOL, T.INT32, T.INT64),
}
"""Types that neither knows; ours moves the elements all the same."""


def model_of(layout: Layout, kind: T) -> bytes:
    inputs: list[Tensor] = [
        tensor(f"in{number}", value, 0.5, 0, kind)
        if isinstance(value, tuple)
        else constant(f"in{number}", value)
        for number, value in enumerate(layout.inputs)
    ]
    outputs = [tensor(f"out{number}", shape, 0.5, 0, kind) for number, shape in enumerate(layout.outputs)]
    return single(layout.code, inputs, outputs, layout.options)


def data_of(layout: Layout, kind: T) -> list[npt.NDArray[Any]]:
    random, low = np.random.default_rng(1), 0 if kind in (T.BOOL, T.UINT8) else -100
    high = 2 if kind is T.BOOL else 100
    return [
        random.integers(low, high, shape).astype(DTYPES[kind])
        for shape in layout.inputs
        if isinstance(shape, tuple)
    ]


def known(name: str) -> list[T]:
    return [
        kind for kind in TYPES if kind not in TFLITE_ALONE.get(name, ()) and kind not in NEITHER.get(name, ())
    ]


@pytest.mark.parametrize("name", [*LAYOUTS])
def test_types_of_tensorflow_lite_micro(name: str) -> None:
    layout = LAYOUTS[name]
    for kind in known(name):
        agree(model_of(layout, kind), *data_of(layout, kind), outputs=len(layout.outputs))


@pytest.mark.parametrize("name", [*TFLITE_ALONE])
def test_types_of_tensorflow_lite_alone(name: str) -> None:
    pytest.importorskip("tflite_runtime.interpreter")
    layout = LAYOUTS[name]
    for kind in TFLITE_ALONE[name]:
        model, data = model_of(layout, kind), data_of(layout, kind)
        theirs = networks.run(model, *(values.tobytes() for values in data))
        assert run_network(loaded(model), data) == theirs, kind


@pytest.mark.parametrize("name", [*NEITHER])
def test_types_of_neither_move_as_bytes_do(name: str) -> None:
    layout = LAYOUTS[name]
    for kind in NEITHER[name]:
        data = [values.astype(bool).astype(np.int8) for values in data_of(layout, kind)]
        wide = [values.astype(DTYPES[kind]) for values in data]
        as_bytes = run_network(loaded(model_of(layout, T.INT8)), data)
        found = run_network(loaded(model_of(layout, kind)), wide)
        assert [np.frombuffer(each, DTYPES[kind]).tolist() for each in found] == [
            np.frombuffer(each, np.int8).tolist() for each in as_bytes
        ], kind


def test_every_type_is_compared_with_something() -> None:
    assert TensorType.BOOL == T.BOOL
    for name in LAYOUTS:
        apart = {*known(name), *TFLITE_ALONE.get(name, ()), *NEITHER.get(name, ())}
        assert apart == set(TYPES)
