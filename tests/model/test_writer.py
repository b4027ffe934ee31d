"""The writer against TensorFlow Lite: its files load, and compute what integers on paper say."""

import math
import struct
from typing import Any

import numpy as np
import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tflite import BuiltinOperator, Padding, TensorType

from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import ABSENT, Network, NetworkOperator, WriteError, constant_tensor
from tests.support.amounts import in_ci
from tests.support.models.networks import (
    MMAC_MACS,
    adding_network,
    big_network,
    mmac_network,
    read,
    run,
    two_input_add_network,
    unknown_operator_network,
)

UNIT = Quantization.per_tensor(1.0, 0)
STRIDE_1 = {"stride_w": 1, "stride_h": 1}


def int8(name: str, *shape: int, quantization: Quantization = UNIT) -> Tensor:
    return Tensor(name, shape, TensorType.INT8, quantization)


def constant(name: str, values: Any, dtype: str, quantization: Quantization | None = UNIT) -> Tensor:
    return constant_tensor(name, np.array(values, dtype), quantization)


def single(
    code: int,
    source: Tensor,
    constants: tuple[Tensor, ...],
    result: Tensor,
    options: dict[str, Any] | None = None,
) -> bytes:
    names = (source.name, *(tensor.name for tensor in constants))
    operator = NetworkOperator(code, names, (result.name,), options or {})
    return bytes(Network((source, *constants, result), (operator,), (source.name,), (result.name,)))


def signed(*values: int) -> bytes:
    return struct.pack(f"{len(values)}b", *values)


def result(model: bytes, *inputs: bytes) -> list[int]:
    (output,) = run(model, *inputs)
    return list(struct.unpack(f"{len(output)}b", output))


# What the operators compute. Scales are powers of two and results whole: interpreters round twice.


def test_convolution_has_a_scale_for_each_channel() -> None:
    model = single(
        BuiltinOperator.CONV_2D,
        int8("x", 1, 3, 3, 1),
        (
            constant(
                "w",
                [np.arange(9).reshape(3, 3, 1), np.full((3, 3, 1), -1)],
                "i1",
                Quantization.per_channel((0.25, 2.0), 0),
            ),
            constant("b", [4, 5], "i4", Quantization.per_channel((0.25, 2.0), 0)),
        ),
        int8("y", 1, 1, 1, 2),
        {"padding": Padding.VALID, **STRIDE_1},
    )
    # The sum of i*i for 0..8 is 204: (204 + 4) / 4 = 52; (-36 + 5) * 2 = -62
    assert result(model, signed(*range(9))) == [52, -62]


def test_fully_connected_uses_zero_points_and_takes_no_bias() -> None:
    source = int8("x", 1, 2, quantization=Quantization.per_tensor(1.0, 3))
    weights = constant("w", [[2, 5], [-1, 100]], "i1")
    target = int8("y", 1, 2, quantization=Quantization.per_tensor(1.0, -10))
    operator = NetworkOperator(BuiltinOperator.FULLY_CONNECTED, ("x", "w", ABSENT), ("y",))
    model = bytes(Network((source, weights, target), (operator,), ("x",), ("y",)))
    # (4-3)*2 + (5-3)*5 - 10 = 2; -(4-3) + (5-3)*100 - 10 = 189 saturates
    assert result(model, signed(4, 5)) == [2, 127]


def test_softmax_takes_beta() -> None:
    target = int8("y", 1, 2, quantization=Quantization.per_tensor(1 / 256, -128))
    model = single(BuiltinOperator.SOFTMAX, int8("x", 1, 2), (), target, {"beta": 0.5})
    share = 1 / (1 + math.exp(-1))  # 187.15 of 256
    assert result(model, signed(2, 0)) == [round(256 * share) - 128, round(256 * (1 - share)) - 128]


def test_several_inputs_and_outputs_keep_their_order() -> None:
    outputs = run(adding_network(inputs=3, outputs=4, length=1), signed(1), signed(10), signed(40))
    assert outputs == [signed(11), signed(50), signed(41), signed(11)]


# What the file holds.


def test_header_and_version() -> None:
    model = two_input_add_network()
    assert model[4:8] == b"TFL3"
    assert tflite.Model.GetRootAs(model, 0).Version() == 3


@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 511, 512, 513])
def test_every_buffer_starts_at_a_multiple_of_16(size: int) -> None:
    constants = tuple(constant(f"c{i}", np.ones(n), "i1") for i, n in enumerate((1, size, 2)))
    model = Network((int8("x", 1), *constants), (), ("x",), ("x",), "d" * size, {"note": b"m" * size})
    data = bytes(model)
    markers = [data.index(struct.pack("<I", size) + b"m" * size) + 4]
    root = tflite.Model.GetRootAs(data, 0)
    for i in range(root.BuffersLength()):
        buffer = root.Buffers(i)
        if buffer.DataLength():
            markers.append(buffer._tab.Vector(buffer._tab.Offset(4)))
    assert len(markers) == 5
    assert [position % 16 for position in markers] == [0] * 5


def test_a_later_operator_is_marked_in_the_old_code_field() -> None:
    code = tflite.Model.GetRootAs(unknown_operator_network(9999), 0).OperatorCodes(0)
    assert (code.DeprecatedBuiltinCode(), code.BuiltinCode()) == (127, 9999)


def test_operators_of_one_kind_share_an_operator_code() -> None:
    root = tflite.Model.GetRootAs(adding_network(2, 3), 0)
    assert (root.OperatorCodesLength(), root.Subgraphs(0).OperatorsLength()) == (1, 3)


@pytest.mark.parametrize("options", [b"", b"\x01", bytes(range(256))])
def test_options_of_a_custom_operator_are_written_as_they_are(options: bytes) -> None:
    operator = NetworkOperator(
        BuiltinOperator.CUSTOM, ("x",), ("x",), custom_code="Ours", custom_options=options
    )
    network = Network((Tensor("x", (1,), TensorType.INT8),), (operator,), ("x",), ("x",))
    (written,) = read_model(bytes(network)).operators
    assert (written.name, written.custom_options) == ("Ours", options)


names = st.lists(st.text("abc/:", min_size=1, max_size=8), min_size=1, max_size=6, unique=True)


@st.composite
def models(draw: st.DrawFn) -> Network:
    tensors = []
    for name in draw(names):
        shape = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
        dtype = draw(st.sampled_from(["?", "i1", "u1", "<i2", "<i4", "<i8", "<f4"]))
        array = np.full(shape, draw(st.integers(0, 1)), dtype)
        tensor = constant_tensor(name, array)
        if len(shape) > 0 and draw(st.booleans()):
            axis = draw(st.integers(0, len(shape) - 1))
            tensor = structs.replace(tensor, quantization=Quantization.per_channel([0.5] * shape[axis], axis))
        if draw(st.booleans()):
            tensor = structs.replace(tensor, data=None, is_variable=draw(st.booleans()))
        tensors.append(tensor)
    some = st.lists(st.sampled_from([tensor.name for tensor in tensors]), max_size=4).map(tuple)
    operators = draw(
        st.lists(
            st.builds(
                NetworkOperator,
                st.sampled_from([30000, BuiltinOperator.ABS, BuiltinOperator.NEG]),
                some,
                some,
            ),
            min_size=1,
            max_size=4,
        )
    )
    metadata = draw(
        st.dictionaries(st.text("xyz", min_size=1), st.binary(min_size=1, max_size=40), max_size=3)
    )
    inputs, outputs = draw(some.filter(bool)), draw(some.filter(bool))
    return Network(
        tuple(tensors), tuple(operators), inputs, outputs, draw(st.text("d", max_size=5)), metadata
    )


@given(models())
@settings(derandomize=True, max_examples=in_ci(60, every_day=20), deadline=None)
def test_the_schema_reads_what_was_written(model: Network) -> None:
    assert read(bytes(model)) == model


# What cannot be written.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": b"123"}, "tensor 'x': 3 bytes of data, its shape and type need 4"),
        ({"data": b"1234", "is_variable": True}, "tensor 'x': a variable tensor has no data"),
        ({"data": b"1234", "type": 99}, "tensor 'x': constants of tensor type 99 cannot be written"),
        (
            {"quantization": Quantization((1.0, 2.0), (0,))},
            "tensor 'x': 2 scales but 1 zero points",
        ),
        (
            {"quantization": Quantization.per_channel((1.0, 2.0, 3.0), 1)},
            "tensor 'x': 3 scales for dimension 1 of a tensor of shape (1, 4)",
        ),
        (
            {"quantization": Quantization.per_channel((1.0, 2.0), 2)},
            "tensor 'x': 2 scales for dimension 2 of a tensor of shape (1, 4)",
        ),
    ],
)
def test_a_tensor_that_contradicts_itself(changes: dict[str, Any], message: str) -> None:
    tensor = structs.replace(int8("x", 1, 4), **changes)
    with pytest.raises(WriteError) as error:
        bytes(Network((tensor,), (), ("x",), ("x",)))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            NetworkOperator(BuiltinOperator.ADD, ("x", "y"), ("x",)),
            "operator 0 that makes x: unknown tensor 'y'",
        ),
        (
            NetworkOperator(BuiltinOperator.ADD, ("x", "x"), ("x",), {"strides": 1}),
            "the schema's table AddOptions has no field 'strides'",
        ),
        (
            NetworkOperator(BuiltinOperator.CUSTOM, ("x",), ("x",), {"beta": 1.0}, "Mine"),
            "operator 32 that makes x: no table of options is known for this operator",
        ),
    ],
)
def test_an_operator_that_cannot_be_written(operator: NetworkOperator, message: str) -> None:
    with pytest.raises(WriteError) as error:
        bytes(Network((int8("x", 1, 4),), (operator,), ("x",), ("x",)))
    assert str(error.value) == message


def test_an_unknown_input() -> None:
    with pytest.raises(WriteError, match=r"^the model's inputs: unknown tensor 'z'$"):
        bytes(Network((int8("x", 1),), (), ("z",), ("x",)))


@pytest.mark.parametrize("tensors", [(int8("x", 1), int8("x", 2)), (int8("", 1),)])
def test_names_that_do_not_tell_tensors_apart(tensors: tuple[Tensor, ...]) -> None:
    with pytest.raises(WriteError, match="names that are different and not empty"):
        bytes(Network(tensors, (), (), ()))


def test_elements_that_the_writer_does_not_know() -> None:
    with pytest.raises(WriteError, match="tensor 'x': elements of type complex128 cannot be written"):
        constant_tensor("x", np.zeros(1, np.complex128))


# The generated networks are what they say.


def test_mmac_network_has_the_stated_work() -> None:
    model = read(mmac_network())
    shapes = {tensor.name: tensor.shape for tensor in model.tensors}
    macs = 0
    for operator in model.operators:
        if operator.code == BuiltinOperator.CONV_2D:
            _, *kernel = shapes[operator.inputs[1]]
            macs += math.prod(shapes[operator.outputs[0]]) * math.prod(kernel)
        elif operator.code == BuiltinOperator.FULLY_CONNECTED:
            macs += math.prod(shapes[operator.inputs[1]])
    assert macs == MMAC_MACS


@pytest.mark.parametrize("nbytes", [4096, 65536, 2**20 - 16, 2**20, 4 * 2**20])
def test_big_network_has_the_size_asked_for(nbytes: int) -> None:
    assert len(big_network(nbytes)) == nbytes


def test_an_operator_without_its_table_of_options() -> None:
    add = NetworkOperator(BuiltinOperator.ADD, ("x", "x"), ("y",), None)
    data = bytes(Network((int8("x", 1, 4), int8("y", 1, 4)), (add,), ("x",), ("y",)))
    assert tflite.Model.GetRootAs(data).Subgraphs(0).Operators(0).BuiltinOptions() is None
