"""Mirrors and blocks beside TensorFlow Lite Micro: every byte of the output."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator, MirrorPadMode

from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.model.values import Quantization, TensorType
from tests.support.models.one_operator import constant, random_int8, single, tensor
from tests.support.oracles.network_runs import FEW, agree, loaded

MODES = {MirrorPadMode.REFLECT: "reflect", MirrorPadMode.SYMMETRIC: "symmetric"}


@FEW
@given(
    st.sampled_from([*MODES]),
    st.lists(st.tuples(st.integers(2, 5), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_mirror_pad(mode: int, dimensions: list[tuple[int, int, int]]) -> None:
    shape = tuple(extent for extent, _, _ in dimensions)
    most = [extent - (mode == MirrorPadMode.REFLECT) for extent in shape]
    amounts = [(min(a, top), min(b, top)) for (_, a, b), top in zip(dimensions, most, strict=True)]
    data = random_int8(shape)
    expected = np.pad(data, amounts, mode=MODES[mode])  # type: ignore[call-overload]
    model = single(
        BuiltinOperator.MIRROR_PAD,
        [tensor("in", shape), constant("paddings", amounts)],
        [tensor("out", expected.shape)],
        {"mode": mode},
    )
    assert agree(model, data) == [expected.tobytes()]


@pytest.mark.parametrize(("mode", "amount"), [(MirrorPadMode.REFLECT, 3), (MirrorPadMode.SYMMETRIC, 4)])
def test_more_than_the_mirror_shows_is_refused(mode: int, amount: int) -> None:
    model = single(
        BuiltinOperator.MIRROR_PAD,
        [tensor("in", (3,)), constant("paddings", [[0, amount]])],
        [tensor("out", (3 + amount,))],
        {"mode": mode},
    )
    with pytest.raises(NetworkError, match=f"3 elements have no mirror of {amount}"):
        loaded(model)


@FEW
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_space_to_depth_and_back(batch: int, rows: int, columns: int, channels: int, block: int) -> None:
    wide = (batch, rows * block, columns * block, channels)
    deep = (batch, rows, columns, channels * block * block)
    options = {"block_size": block}
    to_depth = single(BuiltinOperator.SPACE_TO_DEPTH, [tensor("in", wide)], [tensor("out", deep)], options)
    to_space = single(BuiltinOperator.DEPTH_TO_SPACE, [tensor("in", deep)], [tensor("out", wide)], options)
    data = random_int8(wide)
    (found,) = agree(to_depth, data)
    assert agree(to_space, np.frombuffer(found, np.int8).reshape(deep)) == [data.tobytes()]


@pytest.mark.parametrize(
    ("code", "source", "out", "block", "message"),
    [
        (BuiltinOperator.SPACE_TO_DEPTH, (1, 3, 4, 1), (1, 1, 2, 4), 2, "3 by 4 pixels do not divide"),
        (BuiltinOperator.DEPTH_TO_SPACE, (1, 1, 1, 6), (1, 2, 2, 1), 2, "6 channels do not divide"),
        (BuiltinOperator.DEPTH_TO_SPACE, (1, 1, 1, 4), (1, 1, 1, 4), 0, "block_size is 0"),
        (BuiltinOperator.SPACE_TO_DEPTH, (1, 4, 4, 1), (1, 4, 1, 4), 2, "expected"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(
    code: int, source: tuple[int, ...], out: tuple[int, ...], block: int, message: str
) -> None:
    with pytest.raises(NetworkError, match=message):
        loaded(single(code, [tensor("in", source)], [tensor("out", out)], {"block_size": block}))


FILLED = {
    TensorType.INT8: np.int8,
    TensorType.INT16: np.int16,
    TensorType.INT32: np.int32,
    TensorType.FLOAT32: np.float32,
}


def filled(
    kind: TensorType,
    amounts: list[list[int]],
    *,
    is_constant: bool = True,
    count: int = 1,
    scale: float = 0.1,
) -> bytes:
    """PADV2 of a picture [1, 3, 4, 2], with 77 where the value is a constant."""
    shape = tuple(size + a + b for size, (a, b) in zip((1, 3, 4, 2), amounts, strict=True))
    zero = 3 if kind == TensorType.INT8 else 0
    quantized = kind in (TensorType.INT8, TensorType.INT16)
    value = constant(
        "value", [77] * count, FILLED[kind], Quantization.per_tensor(scale, zero) if quantized else None
    )
    given = value if is_constant else tensor("value", (count,), scale, zero, kind)
    return single(
        BuiltinOperator.PADV2,
        [tensor("in", (1, 3, 4, 2), 0.1, zero, kind), constant("amounts", amounts), given],
        [tensor("out", shape, 0.1, zero, kind)],
    )


@pytest.mark.parametrize("kind", FILLED)
@pytest.mark.parametrize("amounts", [[[0, 0], [1, 2], [3, 0], [0, 0]], [[1, 0], [1, 2], [3, 0], [0, 1]]])
def test_padding_with_a_value(kind: TensorType, amounts: list[list[int]]) -> None:
    data = np.random.default_rng(1).integers(-100, 100, (1, 3, 4, 2)).astype(FILLED[kind])
    expected = np.pad(data, amounts, constant_values=77)
    assert agree(filled(kind, amounts), data) == [expected.tobytes()]
    computed = filled(kind, amounts, is_constant=False)
    expected = np.pad(data, amounts, constant_values=-55)
    assert agree(computed, data, np.array([-55], FILLED[kind])) == [expected.tobytes()]


def test_a_value_of_padding_is_one_of_the_same_quantization() -> None:
    amounts = [[0, 0], [1, 1], [1, 1], [0, 0]]
    with pytest.raises(NetworkError, match="tensor 2 has 2 elements, must have one"):
        loaded(filled(TensorType.INT8, amounts, count=2))
    with pytest.raises(NetworkError, match="tensor 2 and tensor 3 are quantized differently"):
        loaded(filled(TensorType.INT8, amounts, scale=0.2))
