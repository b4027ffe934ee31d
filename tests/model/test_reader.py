"""Model files as values: what a good file says, and that no other file gets past the check."""

import struct
import sys
from collections.abc import Callable

import flatbuffers
import numpy as np
import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.model import (
    MAX_TABLES,
    MAX_TENSORS,
    Activation,
    Metadata,
    Model,
    ModelFileError,
    Options,
    Padding,
    SchemaVersionError,
    TensorType,
    writer,
)
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from tests.support.amounts import in_ci
from tests.support.peers import mlperf_tiny
from tests.support.programs import run_process

INT8 = Quantization.per_tensor(0.5, -3)


def small_network() -> writer.Network:
    """A strided convolution without bias, a pool and a custom operator."""
    weights = np.ones((4, 3, 2, 3), np.int8)
    return writer.Network(
        tensors=(
            Tensor("x", (1, 8, 8, 3), TensorType.INT8, INT8),
            writer.constant_tensor("w", weights, Quantization.per_channel([0.25] * 4, 0)),
            Tensor("y", (1, 4, 4, 4), TensorType.INT8, INT8),
            Tensor("state", (3,), TensorType.FLOAT32, is_variable=True),
            Tensor("z", (1, 2, 2, 4), TensorType.INT8, INT8),
            Tensor("out", (16,), TensorType.INT16, INT8),
        ),
        operators=(
            writer.NetworkOperator(
                tflite.BuiltinOperator.CONV_2D,
                ("x", "w", writer.ABSENT),
                ("y",),
                {
                    "padding": Padding.SAME,
                    "stride_w": 2,
                    "stride_h": 2,
                    "dilation_w_factor": 3,
                    "dilation_h_factor": 1,
                    "fused_activation_function": Activation.RELU6,
                },
            ),
            writer.NetworkOperator(
                tflite.BuiltinOperator.MAX_POOL_2D,
                ("y",),
                ("z",),
                {
                    "padding": Padding.VALID,
                    "stride_w": 2,
                    "stride_h": 2,
                    "filter_width": 1,
                    "filter_height": 2,
                },
            ),
            writer.NetworkOperator(
                tflite.BuiltinOperator.CUSTOM, ("z",), ("out",), custom_code="XC_lookup_8"
            ),
        ),
        inputs=("x",),
        outputs=("out", "y"),
        description="small",
        metadata={"note": b"12345"},
    )


SMALL = bytes(small_network())


def root_of(data: bytes) -> tflite.Model:
    return tflite.Model.GetRootAs(data, 0)


def main_of(data: bytes) -> tflite.SubGraph:
    return root_of(data).Subgraphs(0)


def field(table: object, slot: int) -> int:
    """Position in the file of a field of a table, as the `flatbuffers` package finds it."""
    tab = table._tab  # type: ignore[attr-defined]
    offset = tab.Offset(4 + 2 * slot)
    assert offset, f"field {slot} is absent"
    return int(tab.Pos + offset)


def vector(table: object, slot: int) -> int:
    """Position of the length of a vector; its elements follow."""
    tab = table._tab  # type: ignore[attr-defined]
    return int(tab.Vector(tab.Offset(4 + 2 * slot))) - 4


def patched(data: bytes, position: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)


# What a good file says.


@pytest.mark.parametrize("name", mlperf_tiny.NAMES)
def test_reference_model_reads_as_the_tflite_package_reads_it(name: str) -> None:
    data = mlperf_tiny.model_bytes(name)
    model, other = read_model(data), main_of(data)

    assert model.inputs == tuple(other.InputsAsNumpy())
    assert model.outputs == tuple(other.OutputsAsNumpy())
    assert [tensor.index for tensor in model.tensors] == list(range(other.TensorsLength()))
    for tensor in model.tensors:
        theirs = other.Tensors(tensor.index)
        assert tensor.name == theirs.Name().decode()
        assert tensor.shape == tuple(theirs.ShapeAsNumpy() if theirs.ShapeLength() else ())
        assert tensor.type == theirs.Type()
        assert tensor.is_variable == theirs.IsVariable()
        assert tensor.is_constant == (root_of(data).Buffers(theirs.Buffer()).DataLength() > 0)
        quantization = theirs.Quantization()
        if quantization is None or not quantization.ScaleLength():
            assert tensor.quantization is None
        else:
            assert tensor.quantization == Quantization(
                tuple(quantization.ScaleAsNumpy().tolist()),
                tuple(quantization.ZeroPointAsNumpy().tolist()),
                quantization.QuantizedDimension(),
            )
    assert [operator.index for operator in model.operators] == list(range(other.OperatorsLength()))
    for operator in model.operators:
        theirs = other.Operators(operator.index)
        code = root_of(data).OperatorCodes(theirs.OpcodeIndex())
        number = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        assert getattr(tflite.BuiltinOperator, operator.name) == number
        assert operator.inputs == tuple(theirs.InputsAsNumpy())
        assert operator.outputs == tuple(theirs.OutputsAsNumpy())


@pytest.mark.parametrize(
    ("name", "input_bytes", "output_bytes"),
    [
        ("ad01_int8", 640, 640),
        ("kws_ref_model", 490, 12),
        ("pretrainedResnet_quant", 3072, 10),
        ("str_ww_ref_model", 1200, 3),
        ("vww_96_int8", 27648, 2),
    ],
)
def test_reference_model_has_the_sizes_of_its_shapes(name: str, input_bytes: int, output_bytes: int) -> None:
    model = read_model(mlperf_tiny.model_bytes(name))
    assert (model.input_bytes, model.output_bytes) == (input_bytes, output_bytes)


@pytest.mark.parametrize("name", mlperf_tiny.NAMES)
def test_reference_model_is_read_in_milliseconds(name: str) -> None:
    """At most 16,000 calls of functions, which take about 4 ms, whatever the machine's load."""
    data = mlperf_tiny.model_bytes(name)
    assert _calls(lambda: read_model(data)) < 16_000


def _calls(action: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def test_code_of_old_files_and_that_of_new_ones_count_whichever_is_larger() -> None:
    """As in TensorFlow Lite (`GetBuiltinCode`); the package alone would take the byte of 0 for ADD here."""
    for slot, form, number in ((0, "<b", 0), (3, "<i", 17)):
        code = root_of(SMALL).OperatorCodes(1)
        assert read_model(patched(SMALL, field(code, slot), form, number)).operators[1].name == "MAX_POOL_2D"


@pytest.mark.parametrize(("name", "number"), [(kind.name, kind.value) for kind in TensorType])
def test_every_tensor_type_has_the_number_of_the_schema(name: str, number: int) -> None:
    assert getattr(tflite.TensorType, name) == number


def test_options_of_a_convolution() -> None:
    convolution = read_model(SMALL).operators[0]
    options = convolution.options
    assert options.fields == {
        "padding": Padding.SAME,
        "stride_w": 2,
        "stride_h": 2,
        "dilation_w_factor": 3,
        "dilation_h_factor": 1,
        "fused_activation_function": Activation.RELU6,
        "quantized_bias_type": TensorType.FLOAT32,
    }
    assert (options.padding, options.activation) == (Padding.SAME, Activation.RELU6)
    assert (options.stride_w, options.stride_h, options.dilation_w, options.dilation_h) == (2, 2, 3, 1)


def test_options_of_a_pool() -> None:
    pool = read_model(SMALL).operators[1]
    assert pool.options.padding is Padding.VALID
    assert (pool.options.stride_w, pool.options.stride_h) == (2, 2)
    assert (pool.options.kernel_w, pool.options.kernel_h) == (1, 2)


def test_options_of_no_operator_are_the_defaults() -> None:
    options = Options()
    assert (options.padding, options.activation, options.beta) == (Padding.SAME, Activation.NONE, 1.0)
    assert (options.stride_w, options.dilation_h, options.kernel_w, options.depth_multiplier) == (1, 1, 1, 0)
    assert options.integer("axis") == 0


def test_constants_are_views_of_the_file() -> None:
    model = read_model(SMALL)
    weights = model.tensors[1].data
    assert isinstance(weights, memoryview)
    assert weights.obj is SMALL
    assert bytes(weights) == bytes([1]) * 72
    assert [tensor.data is None for tensor in model.tensors] == [True, False, True, True, True, True]


def test_input_that_is_left_out_is_minus_one() -> None:
    assert read_model(SMALL).operators[0].inputs == (0, 1, -1)


def test_custom_operator_has_its_own_name() -> None:
    custom = read_model(SMALL).operators[2]
    assert (custom.name, custom.is_custom) == ("XC_lookup_8", True)


def test_constants_and_variables_are_marked() -> None:
    tensors = read_model(SMALL).tensors
    assert [tensor.name for tensor in tensors if tensor.is_constant] == ["w"]
    assert [tensor.name for tensor in tensors if tensor.is_variable] == ["state"]


def test_description_and_metadata() -> None:
    model = read_model(SMALL)
    assert (model.version, model.description, model.metadata) == (3, "small", (Metadata("note", b"12345"),))


def test_outputs_keep_the_order_of_the_file() -> None:
    model = read_model(SMALL)
    assert [tensor.name for tensor in model.output_tensors] == ["out", "y"]
    assert model.output_bytes == 16 * 2 + 64


def test_per_tensor_quantization_has_a_scale_and_a_zero_point() -> None:
    quantization = read_model(SMALL).tensors[0].quantization
    assert quantization is not None
    assert (quantization.scale, quantization.zero_point, quantization.is_per_channel) == (0.5, -3, False)


def test_per_channel_quantization_has_no_single_scale() -> None:
    quantization = read_model(SMALL).tensors[1].quantization
    assert quantization is not None
    assert quantization.is_per_channel
    with pytest.raises(ValueError, match="too many values"):
        quantization.scale  # noqa: B018 - the property is what is tested


def test_scalar_takes_one_element() -> None:
    network = writer.Network((Tensor("x", (), TensorType.INT32),), (), ("x",), ("x",))
    assert read_model(bytes(network)).tensors[0].nbytes == 4


@pytest.mark.parametrize(("elements", "size"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_four_bit_elements_share_bytes(elements: int, size: int) -> None:
    network = writer.Network((Tensor("x", (elements,), TensorType.INT4),), (), ("x",), ("x",))
    assert read_model(bytes(network)).tensors[0].nbytes == size


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_will_do(kind: Callable[[bytes], bytes | bytearray | memoryview]) -> None:
    assert read_model(kind(SMALL)) == read_model(SMALL)


def test_single_scale_with_a_stale_dimension_is_accepted() -> None:
    network = writer.Network(
        (Tensor("x", (2,), TensorType.INT8, Quantization((0.5,), (0,), dimension=3)),),
        (),
        ("x",),
        ("x",),
    )
    quantization = read_model(bytes(network)).tensors[0].quantization
    assert quantization == Quantization((0.5,), (0,), 3)


def test_importing_loads_no_heavy_package() -> None:
    code = "import sys, aisrv.model; print({'numpy', 'tflite', 'flatbuffers', 'trio'} & set(sys.modules))"
    answer = run_process([sys.executable, "-c", code], check=True)
    assert answer.stdout == "set()\n"


# What a bad file is told.


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7])
def test_file_without_a_header(size: int) -> None:
    with pytest.raises(ModelFileError, match=f"it has {size} bytes, too few for a header"):
        read_model(SMALL[:size])


def test_file_of_another_kind() -> None:
    expected = r"not a TensorFlow Lite file: bytes 4 to 7 are b'\\r\\n\\x1a\\n', not TFL3"
    with pytest.raises(ModelFileError, match=expected):
        read_model(b"\x89PNG\r\n\x1a\n" + bytes(100))


@pytest.mark.parametrize("size", [8, 9, 11, 12, 64, 511, 512, 513])
def test_truncated_file(size: int) -> None:
    with pytest.raises(ModelFileError):
        read_model(SMALL[:size])


@pytest.mark.parametrize("version", [0, 2, 4, 7, 0xFFFFFFFF])
def test_other_schema_version(version: int) -> None:
    data = patched(SMALL, field(root_of(SMALL), 0), "<I", version)
    with pytest.raises(SchemaVersionError, match=f"^schema version {version}, expected 3$"):
        read_model(data)


@pytest.mark.parametrize(
    ("slot", "message"),
    [(2, "the file has no subgraph"), (4, "the file has no buffers, not even the empty one")],
)
def test_empty_list_that_must_not_be_empty(slot: int, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_model(patched(SMALL, vector(root_of(SMALL), slot), "<I", 0))


def test_operator_names_a_tensor_that_does_not_exist() -> None:
    position = vector(main_of(SMALL).Operators(1), 1) + 4
    with pytest.raises(ModelFileError, match=r"^operator 1 names tensor 91 of 6$"):
        read_model(patched(SMALL, position, "<i", 91))


@pytest.mark.parametrize("index", [-2, 6, 2**31 - 1])
def test_operator_input_out_of_range(index: int) -> None:
    position = vector(main_of(SMALL).Operators(0), 1) + 4
    with pytest.raises(ModelFileError, match=f"^operator 0 names tensor {index} of 6$"):
        read_model(patched(SMALL, position, "<i", index))


def test_operator_output_cannot_be_left_out() -> None:
    position = vector(main_of(SMALL).Operators(0), 2) + 4
    with pytest.raises(ModelFileError, match=r"^operator 0 names tensor -1 of 6$"):
        read_model(patched(SMALL, position, "<i", -1))


@pytest.mark.parametrize(("slot", "what"), [(1, "inputs"), (2, "outputs")])
def test_input_or_output_of_the_model_out_of_range(slot: int, what: str) -> None:
    with pytest.raises(ModelFileError, match=f"^the list of {what} names tensor 6 of 6$"):
        read_model(patched(SMALL, vector(main_of(SMALL), slot) + 4, "<i", 6))


def test_operator_code_out_of_range() -> None:
    position = field(main_of(SMALL).Operators(1), 0)
    with pytest.raises(ModelFileError, match=r"^operator 1 names operator code 9 of 3$"):
        read_model(patched(SMALL, position, "<I", 9))


def test_operator_that_the_schema_does_not_know() -> None:
    network = writer.Network(
        (Tensor("x", (1,), TensorType.INT8),), (writer.NetworkOperator(209, ("x",), ("x",)),), ("x",), ("x",)
    )
    with pytest.raises(ModelFileError, match=r"^operator code 0 is 209, which the schema does not know$"):
        read_model(bytes(network))


def test_custom_operator_without_a_name() -> None:
    network = writer.Network(
        (Tensor("x", (1,), TensorType.INT8),), (writer.NetworkOperator(32, ("x",), ("x",)),), ("x",), ("x",)
    )
    with pytest.raises(ModelFileError, match=r"^operator code 0 is CUSTOM without a name$"):
        read_model(bytes(network))


def test_convolution_without_options() -> None:
    position = field(main_of(SMALL).Operators(0), 3)
    with pytest.raises(ModelFileError, match=r"^operator 0 \(CONV_2D\) has no options, so no strides$"):
        read_model(patched(SMALL, position, "<B", 0))


@pytest.mark.parametrize(
    ("operator", "slot", "name"), [(0, 1, "stride_w"), (0, 4, "dilation_w_factor"), (1, 4, "filter_height")]
)
@pytest.mark.parametrize("value", [0, -1])
def test_stride_or_window_must_be_positive(operator: int, slot: int, name: str, value: int) -> None:
    options = main_of(SMALL).Operators(operator).BuiltinOptions()
    conv = tflite.Conv2DOptions()
    conv.Init(options.Bytes, options.Pos)
    with pytest.raises(
        ModelFileError, match=rf"^operator {operator} \(.*\) has {name} {value}, which must be"
    ):
        read_model(patched(SMALL, field(conv, slot), "<i", value))


def test_activation_that_the_schema_does_not_know() -> None:
    options = main_of(SMALL).Operators(0).BuiltinOptions()
    conv = tflite.Conv2DOptions()
    conv.Init(options.Bytes, options.Pos)
    with pytest.raises(ModelFileError, match=r"^operator 0 \(CONV_2D\) has activation 6, which the schema"):
        read_model(patched(SMALL, field(conv, 3), "<b", 6))


def test_tensor_type_that_the_schema_does_not_know() -> None:
    with pytest.raises(ModelFileError, match=r"^tensor 2 has type 77, which the schema does not know$"):
        read_model(patched(SMALL, field(main_of(SMALL).Tensors(2), 1), "<b", 77))


@pytest.mark.parametrize("extent", [-1, -(2**31)])
def test_extent_that_is_not_known(extent: int) -> None:
    position = vector(main_of(SMALL).Tensors(0), 0) + 4
    with pytest.raises(ModelFileError, match=f"^tensor 0 has an extent of {extent}: shapes must be known$"):
        read_model(patched(SMALL, position, "<i", extent))


@pytest.mark.parametrize("shape", [(2**31 - 1,) * 4, (2**31 - 1, 2), (1 << 16, 1 << 16, 0)])
def test_tensor_of_petabytes(shape: tuple[int, ...]) -> None:
    network = writer.Network((Tensor("x", shape, TensorType.INT8),), (), ("x",), ("x",))
    with pytest.raises(ModelFileError, match=r"^tensor 0 is larger than 2147483647 bytes$"):
        read_model(bytes(network))


def test_largest_tensor() -> None:
    network = writer.Network((Tensor("x", (2**31 - 1,), TensorType.INT8),), (), ("x",), ("x",))
    assert read_model(bytes(network)).tensors[0].nbytes == 2**31 - 1


def test_tensor_names_a_buffer_that_does_not_exist() -> None:
    position = field(main_of(SMALL).Tensors(1), 2)
    with pytest.raises(ModelFileError, match=r"^tensor 1 names buffer 3 of 3$"):
        read_model(patched(SMALL, position, "<I", 3))


def test_metadata_names_a_buffer_that_does_not_exist() -> None:
    with pytest.raises(ModelFileError, match=r"^metadata 0 names buffer 3 of 3$"):
        read_model(patched(SMALL, field(root_of(SMALL).Metadata(0), 1), "<I", 3))


def test_constant_shorter_than_its_shape() -> None:
    position = vector(root_of(SMALL).Buffers(1), 0)
    with pytest.raises(ModelFileError, match=r"^tensor 1 needs 72 bytes, its buffer has 71$"):
        read_model(patched(SMALL, position, "<I", 71))


def test_buffer_that_reaches_past_the_end() -> None:
    position = vector(root_of(SMALL).Buffers(1), 0)
    message = f"^buffer 1: data takes {len(SMALL)} bytes at {position + 4}: outside the file, which has"
    with pytest.raises(ModelFileError, match=message):
        read_model(patched(SMALL, position, "<I", len(SMALL)))


@pytest.mark.parametrize("length", [10**6, 2**31, 2**32 - 1])
def test_list_whose_length_is_a_lie(length: int) -> None:
    with pytest.raises(ModelFileError, match="outside the file"):
        read_model(patched(SMALL, vector(main_of(SMALL), 3), "<I", length))


def test_offset_past_the_end() -> None:
    with pytest.raises(ModelFileError, match="outside the file"):
        read_model(patched(SMALL, field(root_of(SMALL), 2), "<I", 2**31))


def test_table_past_the_largest_position() -> None:
    position = vector(main_of(SMALL), 0) + 4
    with pytest.raises(ModelFileError, match=r"^subgraph 0: tensors takes 4 bytes at 42949"):
        read_model(patched(SMALL, position, "<I", 2**32 - 1))


def test_field_list_before_the_file() -> None:
    position = int(root_of(SMALL)._tab.Pos)
    with pytest.raises(ModelFileError, match=r"^the field list of the model takes 4 bytes at -"):
        read_model(patched(SMALL, position, "<i", 2**31 - 1))


def test_name_that_is_not_utf8() -> None:
    position = vector(main_of(SMALL).Tensors(3), 3) + 4
    with pytest.raises(ModelFileError, match=r"^tensor 3: name is not UTF-8: invalid start byte at 0$"):
        read_model(patched(SMALL, position, "<B", 0xFF))


def test_scales_that_do_not_match_the_shape() -> None:
    position = vector(main_of(SMALL).Tensors(1), 0) + 4
    message = r"^tensor 1 has 4 scales for dimension 0 of shape \[3, 3, 2, 3\]$"
    with pytest.raises(ModelFileError, match=message):
        read_model(patched(SMALL, position, "<i", 3))


def test_scales_and_zero_points_that_do_not_match() -> None:
    position = vector(main_of(SMALL).Tensors(1).Quantization(), 3)
    with pytest.raises(ModelFileError, match=r"^tensor 1 has 4 scales, but 3 zero points$"):
        read_model(patched(SMALL, position, "<I", 3))


# Files made to be slow or large.


def shared_table(table: str, count: int) -> bytes:
    """A file in which one tensor or operator stands `count` times in its list."""
    builder = flatbuffers.Builder(4 * count + 1024)

    def offsets(offset: int, times: int) -> int:
        builder.StartVector(4, times, 4)
        for _ in range(times):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    tflite.BufferStart(builder)
    buffers = offsets(tflite.BufferEnd(builder), 1)
    tflite.OperatorCodeStart(builder)
    codes = offsets(tflite.OperatorCodeEnd(builder), 1)
    tflite.TensorStart(builder)
    tensors = offsets(tflite.TensorEnd(builder), count if table == "tensor" else 1)
    tflite.OperatorStart(builder)
    operators = offsets(tflite.OperatorEnd(builder), count if table == "operator" else 1)
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensors)
    tflite.SubGraphAddOperators(builder, operators)
    subgraphs = offsets(tflite.SubGraphEnd(builder), 1)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, codes)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    tflite.ModelAddBuffers(builder, buffers)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def test_most_tensors() -> None:
    assert len(read_model(shared_table("tensor", MAX_TENSORS)).tensors) == MAX_TENSORS


def test_too_many_tensors() -> None:
    with pytest.raises(ModelFileError, match=f"{MAX_TENSORS + 1} tensors, more than {MAX_TENSORS}"):
        read_model(shared_table("tensor", MAX_TENSORS + 1))


def test_too_many_tables() -> None:
    data = shared_table("operator", MAX_TABLES)
    with pytest.raises(ModelFileError, match=f"the file has more than {MAX_TABLES} tables"):
        read_model(data)


def shared_metadata(entries: int, size: int) -> bytes:
    """A file in which metadata of one buffer of `size` bytes stands under several names."""
    contents = {str(index): b"" if index else bytes(size) for index in range(entries)}
    data = bytes(writer.Network((), (), (), (), metadata=contents))
    for index in range(entries):
        data = patched(data, field(root_of(data).Metadata(index), 1), "<I", 1)
    return data


def test_bytes_that_are_shared_twice() -> None:
    model = read_model(shared_metadata(2, 10_000))
    assert [metadata.data for metadata in model.metadata] == [bytes(10_000)] * 2


def test_bytes_that_are_shared_beyond_reason() -> None:
    with pytest.raises(ModelFileError, match="the file refers to the same bytes over and over"):
        read_model(shared_metadata(9, 10_000))


# Any bytes at all.

bounded = settings(derandomize=True, max_examples=in_ci(300, every_day=60), deadline=2000)
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.sampled_from([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]), st.integers(0, 2**32 - 1)),
    ),
    min_size=1,
    max_size=4,
)


def is_model_or_error(data: bytes) -> bool:
    try:
        return isinstance(read_model(data), Model)
    except ModelFileError:
        return True


@bounded
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_flipped_bit_gives_a_model_or_an_error(place: float, bit: int) -> None:
    position = int(place * len(SMALL))
    assert is_model_or_error(patched(SMALL, position, "<B", SMALL[position] ^ 1 << bit))


@bounded
@given(edits)
def test_changed_words_give_a_model_or_an_error(changes: list[tuple[float, int]]) -> None:
    data = SMALL
    for place, value in changes:
        data = patched(data, int(place * (len(data) // 4)) * 4, "<I", value)
    assert is_model_or_error(data)


@bounded
@given(edits, st.floats(0, 1))
def test_damaged_reference_model_gives_a_model_or_an_error(
    changes: list[tuple[float, int]], end: float
) -> None:
    data = mlperf_tiny.model_bytes("kws_ref_model")
    tables = 5_000  # of this file's 53,936 bytes, the tables are in the last
    for place, value in changes:
        data = patched(data, len(data) - tables + int(place * tables // 4) * 4, "<I", value)
    assert is_model_or_error(data)
    assert is_model_or_error(data[: int(end * len(data))])


@bounded
@given(st.binary(max_size=200))
def test_noise_behind_a_good_header_gives_a_model_or_an_error(noise: bytes) -> None:
    assert is_model_or_error(b"\x08\x00\x00\x00TFL3" + noise)
