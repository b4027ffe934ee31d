"""Operators whose kernels nobody measured: each has an estimate and a wide band, and none costs nothing."""

import math

import pytest
from flatbuffers import flexbuffers
from msgspec.structs import replace

from aisrv.inference.timings import Basis, DeviceModel, Generation, Kernels, OperatorTime
from aisrv.inference.timings.estimation import estimate_times
from aisrv.inference.timings.xmos_operators import XMOS
from aisrv.model import Model, Operator, Options, Tensor, TensorType
from aisrv.model.schema import OPERATORS

Shape = tuple[int, ...]
OF_THE_LIBRARY = (
    *("XC_add", "XC_batched_softmax", "XC_beta_activationf32", "XC_beta_concatf32", "XC_beta_convf32"),
    *("XC_beta_fcf32", "XC_beta_transposeconvf32", "XC_binaryi16", "XC_broadcast", "XC_bsign_8", "XC_concat"),
    *("XC_conv2d_v2", "XC_expand_8_to_16", "XC_lookup", "XC_maxpool2d", "XC_mean", "XC_mul", "XC_pad"),
    *("XC_pad_3_to_4", "XC_slice", "XC_softmax", "XC_unaryi16", "XC_ld_weights", "XC_ld_flash"),
)
"""The operators that XMOS lib_tflite_micro registers (`xcore_ops.cc`), and a load of 2022."""


def node(
    name: str,
    *inputs: Shape,
    output: Shape,
    options: dict[str, object] | None = None,
    kind: TensorType = TensorType.INT8,
    device: DeviceModel | None = None,
) -> OperatorTime:
    """One operator without constants."""
    tensors = [Tensor(f"t{at}", shape, kind, index=at) for at, shape in enumerate((*inputs, output))]
    data = b"" if options is None else bytes(flexbuffers.Dumps(options))
    operator = Operator(
        0, name, tuple(range(len(inputs))), (len(inputs),), Options(), name.startswith("XC_"), data
    )
    model = Model(3, "", tuple(tensors), (operator,), (0,), (len(inputs),))
    (time,) = estimate_times(device or DeviceModel(generation=Generation.G2024), model)
    return time


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize("kernels", Kernels)
def test_every_operator_has_a_time_and_a_band_around_it(kernels: Kernels, generation: Generation) -> None:
    device = DeviceModel(generation=generation, kernels=kernels)
    for name in sorted({*XMOS, *OF_THE_LIBRARY, *OPERATORS, "XC_nobody_knows"}):
        time = node(name, (1, 8, 8, 16), (1, 8, 8, 16), output=(1, 8, 8, 16), device=device)
        assert 0 < time.low < time.ticks < time.high, name
        assert time.source, name


@pytest.mark.parametrize("kind", [TensorType.FLOAT32, TensorType.INT16])
@pytest.mark.parametrize("name", ["CONV_2D", "MEAN", "SOFTMAX", "PAD", "ADD", "FULLY_CONNECTED"])
def test_what_was_measured_on_int8_is_an_estimate_on_other_types(name: str, kind: TensorType) -> None:
    time = node(name, (1, 4, 4, 8), (8, 1, 1, 8), output=(1, 4, 4, 8), kind=kind, device=DeviceModel())
    assert time.basis is Basis.ESTIMATE
    assert time.high >= 2 * time.ticks - 1


@pytest.mark.parametrize(
    ("name", "elements"), [("XC_add", 2.6), ("XC_mul", 2.6), ("XC_expand_8_to_16", 0.3), ("XC_binaryi16", 10)]
)
def test_what_was_counted_goes_by_elements(name: str, elements: float) -> None:
    time = node(name, (1, 10, 100), (1, 10, 100), output=(1, 10, 100))
    assert (time.slots, time.basis) == (round(420 + 1000 * elements), Basis.ESTIMATE)


def test_mean_reads_all_and_rounds_each_result() -> None:
    assert node("XC_mean", (1, 5, 5, 8), output=(1, 8)).slots == 420 + 7 * 200 + 100 * 8


def test_batched_softmax_costs_as_many_classes() -> None:
    time = node("XC_batched_softmax", (1, 3, 10), output=(1, 3, 10))
    assert (time.slots, time.basis) == (235 * 30, Basis.EXTRAPOLATED)
    assert time.high > 1.9 * time.ticks


@pytest.mark.parametrize(
    ("name", "options", "pieces"),
    [
        ("XC_concat", {"n": 12}, 24),
        ("XC_concat", None, 2),
        ("XC_concat", {"n": -5}, 2),
        ("XC_broadcast", {"n": 4, "b": 3}, 12),
    ],
)
def test_pieces_are_copied_one_by_one(name: str, options: dict[str, object] | None, pieces: int) -> None:
    time = node(name, (1, 12, 5), (1, 12, 5), output=(1, 12, 10), options=options)
    assert time.slots == round(420 + 0.3 * 240 + 50 * pieces)


@pytest.mark.parametrize("options", [None, {"n": 64}])
def test_a_slice_of_channels_has_a_piece_for_each_pixel(options: dict[str, object] | None) -> None:
    time = node("XC_slice", (1, 8, 8, 16), output=(1, 8, 8, 4), options=options)
    assert (time.slots, time.basis) == (round(232 + 0.3 * 256 + 50 * 63), Basis.ESTIMATE)


def test_reference_kernels_that_join_go_by_pieces() -> None:
    joined = node("CONCATENATION", (1, 8, 8, 4), (1, 8, 8, 4), output=(1, 8, 8, 8))
    assert joined.slots == round(420 + 0.3 * 1024 + 50 * 2 * 64)


@pytest.mark.parametrize(
    ("name", "inputs", "output", "steps"),
    [
        ("FULLY_CONNECTED", [(2, 64), (10, 64)], (2, 10), 2 * 10 * 64),
        ("BATCH_MATMUL", [(3, 4, 5), (3, 5, 6)], (3, 4, 6), 3 * 4 * 5 * 6),
        ("TRANSPOSE_CONV", [(4,), (8, 3, 3, 16), (1, 5, 5, 16)], (1, 10, 10, 8), 5 * 5 * 16 * 8 * 9),
        ("SVDF", [(1, 40), (8, 40), (8, 10)], (1, 8), 8 * 40 + 8 * 10),
        (
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            [(2, 7, 28), *[(20, 28)] * 4, *[(20, 20)] * 4],
            (2, 7, 20),
            2 * 7 * 4 * 20 * (28 + 20),
        ),
    ],
)
def test_reference_kernels_go_by_their_innermost_loop(
    name: str, inputs: list[Shape], output: Shape, steps: int
) -> None:
    time = node(name, *inputs, output=output, device=DeviceModel(kernels=Kernels.REFERENCE))
    assert (time.slots, time.basis) == (130 * steps, Basis.ESTIMATE)
    assert (time.low, time.high) == (round(time.slots / 12), round(time.slots * 5 / 3))


def test_reference_slices_were_measured_on_one_element() -> None:
    device = DeviceModel(generation=Generation.G2022, kernels=Kernels.REFERENCE)
    assert node("STRIDED_SLICE", (2,), output=(1,), device=device).basis is Basis.MEASURED
    more = node("STRIDED_SLICE", (1, 100), output=(1, 50), device=device)
    assert (more.slots, more.basis) == (1401 + 49 * 130, Basis.ESTIMATE)


def test_max_pool_of_2024_takes_windows_that_do_not_overlap() -> None:
    device = DeviceModel(generation=Generation.G2023)
    time = node("XC_maxpool2d", (1, 4, 4, 32), output=(1, 2, 2, 32), options={"mp": "x"}, device=device)
    assert (time.slots, time.basis) == (405 + 20 + 4 * (40 + 2 * (160 - 17)), Basis.ESTIMATE)


@pytest.mark.parametrize(("kind", "vectors"), [(TensorType.INT16, 2), (TensorType.INT32, 4)])
def test_convolutions_on_wider_words_have_more_vectors(kind: TensorType, vectors: int) -> None:
    tensors = (
        Tensor("x", (1, 3, 3, 32), kind, index=0),
        Tensor("w", (16, 32 * vectors), TensorType.INT8, data=bytes(512 * vectors), index=1),
        Tensor("y", (1, 3, 3, 16), kind, index=2),
    )
    model = Model(
        3, "", tensors, (Operator(0, "XC_conv2d_v2", (0, 1), (2,), Options(), True, b""),), (0,), (2,)
    )
    (time,) = estimate_times(DeviceModel(generation=Generation.G2023), model)
    groups = math.ceil(16 / 16)
    assert (time.slots, time.basis) == (405 + 30 + 9 * (55 + groups * (106 + 22 * vectors)), Basis.ESTIMATE)


def test_an_unknown_name_in_a_plain_file_takes_a_step_for_each_element() -> None:
    assert node("CUSTOM_OF_ONES_OWN", (1, 10), output=(1, 10), device=DeviceModel()).slots == 1300
    custom = Operator(0, "own", (0,), (1,), Options(), True)
    tensors = tuple(Tensor(str(at), (1, 10), TensorType.INT8, index=at) for at in range(2))
    (time,) = estimate_times(DeviceModel(), Model(3, "", tensors, (replace(custom),), (0,), (1,)))
    assert 0 < time.low < time.ticks < time.high
