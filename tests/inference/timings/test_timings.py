"""The timing model against published figures ("Inference engines", section Timings) and by hand."""

import math

import pytest
from flatbuffers import flexbuffers
from msgspec.structs import replace

from aisrv.inference.timings import (
    Basis,
    DeviceModel,
    Kernels,
    OperatorTime,
    estimate_note,
    operator_classes,
    profiler_summary,
    to_words,
    used_constant_bytes,
)
from aisrv.inference.timings.cost import largest_share
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import Model, Operator, Options, Padding, Tensor, TensorType
from aisrv.model.reader import read_model
from tests.support import mlperf_tiny

Shape = tuple[int, ...]


def model_of(
    name: str, *inputs: Shape, output: Shape, constants: int = 0, options: Options | None = None
) -> Model:
    """One operator on int8 tensors; the last `constants` of its inputs are constant."""
    shapes = (*inputs, output)
    tensors = []
    for index, shape in enumerate(shapes):
        is_constant = len(inputs) - constants <= index < len(inputs)
        data = bytes(math.prod(shape)) if is_constant else None
        tensors.append(Tensor(f"t{index}", shape, TensorType.INT8, data=data, index=index))
    operator = Operator(0, name, tuple(range(len(inputs))), (len(inputs),), options or Options())
    return Model(3, "", tuple(tensors), (operator,), (0,), (len(inputs),))


def time_of(model: Model, device: DeviceModel | None = None) -> OperatorTime:
    (time,) = estimate_times(device or DeviceModel(), model)
    return time


def reference_model(name: str) -> Model:
    return read_model(mlperf_tiny.model_bytes(name))


POINTWISE = model_of("CONV_2D", (1, 3, 3, 256), (256, 1, 1, 256), output=(1, 3, 3, 256), constants=1)

# Published figures.
# XMOS ai_tools, examples/app_profiling/README.rst: a person detector of 47 nodes. Its layers are those of
# MLPerf Tiny's visual wake words: XMOS's converter makes 47 nodes of that model, with the same operator at
# each of the nodes that the README names. The shapes are those of the conversion.

# Height and width, channels, stride of the depthwise convolution, channels after the pointwise one.
STAGES = (
    (48, 8, 1, 16),
    (48, 16, 2, 32),
    (24, 32, 1, 32),
    (24, 32, 2, 64),
    (12, 64, 1, 64),
    (12, 64, 2, 128),
    *[(6, 128, 1, 128)] * 5,
    (6, 128, 2, 256),
    (3, 256, 1, 256),
)
POINTWISE_WEIGHTS = {8: 512, 16: 768}
"""Bytes that the converter pads weights of few input channels to; others have their size."""


def node(name: str, *inputs: Shape, output: Shape, constants: int = 0) -> OperatorTime:
    return time_of(model_of(name, *inputs, output=output, constants=constants))


def person_detector() -> Model:
    """The published network, converted."""
    tensors: list[Tensor] = []
    operators: list[Operator] = []

    def tensor(shape: Shape, *, is_constant: bool = False) -> int:
        index = len(tensors)
        data = bytes(math.prod(shape)) if is_constant else None
        tensors.append(Tensor(f"t{index}", shape, TensorType.INT8, data=data, index=index))
        return index

    def add(name: str, output: Shape, weights: int = 0) -> None:
        inputs = [len(tensors) - 1]
        if weights:
            inputs.append(tensor((weights,), is_constant=True))
        operators.append(Operator(len(operators), name, tuple(inputs), (tensor(output),)))

    tensor((1, 96, 96, 3))
    add("XC_pad_3_to_4", (1, 96, 96, 4))
    add("XC_pad", (1, 97, 97, 4))
    add("XC_conv2d_v2", (1, 48, 48, 8), 768)
    for side, channels, stride, out_channels in STAGES:
        padded = side + (2 if stride == 1 else 1)
        add("XC_pad", (1, padded, padded, channels))
        side //= stride
        add("XC_conv2d_v2", (1, side, side, channels), 9 * max(channels, 16) + 16)
        add(
            "XC_conv2d_v2",
            (1, side, side, out_channels),
            POINTWISE_WEIGHTS.get(channels, channels * out_channels),
        )
    add("XC_conv2d_v2", (1, 1, 1, 256), 9 * 256 + 16)
    add("XC_conv2d_v2", (1, 1, 1, 4), 1408)
    add("XC_strided_slice", (1, 1, 1, 2))
    add("RESHAPE", (1, 2))
    add("SOFTMAX", (1, 2))
    return Model(3, "", tuple(tensors), tuple(operators), (0,), (len(tensors) - 1,))


def by_class(times: tuple[OperatorTime, ...]) -> dict[str, tuple[int, int]]:
    return {each.name: (each.count, each.ticks) for each in operator_classes(times)}


@pytest.mark.parametrize(("threads", "ticks"), [(1, 3_054_809), (5, 800_767)])
def test_total_of_the_person_detector(threads: int, ticks: int) -> None:
    times = estimate_times(DeviceModel(threads=threads), person_detector())
    assert len(times) == 47
    assert sum(time.ticks for time in times) == pytest.approx(ticks, rel=0.03)


@pytest.mark.parametrize(("threads", "ticks"), [(1, 3_054_809), (5, 800_767)])
def test_total_of_the_person_detector_before_conversion(threads: int, ticks: int) -> None:
    """Pads are counted with the convolutions that they go before."""
    times = estimate_times(DeviceModel(threads=threads), reference_model("vww_96_int8"))
    assert sum(time.ticks for time in times) == pytest.approx(ticks, rel=0.03)


@pytest.mark.parametrize(
    ("name", "count", "threads", "ticks", "within"),
    [
        ("XC_conv2d_v2", 29, 1, 2_971_789, 0.001),
        ("XC_conv2d_v2", 29, 5, 717_748, 0.02),
        ("XC_pad", 14, 1, 54_115, 0.001),
        ("XC_pad", 14, 5, 54_115, 0.001),
        ("XC_pad_3_to_4", 1, 1, 26_993, 0.001),
        ("SOFTMAX", 1, 1, 1_668, 0.03),
        ("RESHAPE", 1, 1, 134, 0.03),
        ("XC_strided_slice", 1, 1, 110, 0.03),
    ],
)
def test_classes_of_the_person_detector(
    name: str, count: int, threads: int, ticks: int, within: float
) -> None:
    found = by_class(estimate_times(DeviceModel(threads=threads), person_detector()))
    assert found[name][0] == count
    assert found[name][1] == pytest.approx(ticks, rel=within)


@pytest.mark.parametrize(
    ("index", "name", "ticks"),
    [
        (0, "XC_pad_3_to_4", 26_991),
        (1, "XC_pad", 13_945),
        (41, "XC_conv2d_v2", 34_557),
        (42, "XC_conv2d_v2", 2_550),
        (43, "XC_conv2d_v2", 591),
        (44, "XC_strided_slice", 106),
        (45, "RESHAPE", 131),
        (46, "SOFTMAX", 1_663),
    ],
)
def test_single_nodes_of_the_person_detector(index: int, name: str, ticks: int) -> None:
    time = estimate_times(DeviceModel(), person_detector())[index]
    assert (time.name, time.basis) == (name, Basis.FITTED)
    assert time.ticks == pytest.approx(ticks, rel=0.05)


def test_nothing_of_the_person_detector_is_an_estimate() -> None:
    assert {time.basis for time in estimate_times(DeviceModel(), person_detector())} == {Basis.FITTED}


def test_reference_depthwise_convolutions() -> None:
    """Two layers, of 6x6x64 to 3x3 and of 3x3x256, took 4,487,819 ticks; one of them 2,243,362."""
    device = DeviceModel(kernels=Kernels.REFERENCE)
    for channels in (64, 256):
        side = {64: 6, 256: 3}[channels]
        model = model_of(
            "DEPTHWISE_CONV_2D",
            (1, 6, 6, channels),
            (1, 3, 3, channels),
            output=(1, side, side, channels),
            constants=1,
        )
        time = time_of(model, device)
        assert time.basis is Basis.FITTED
        assert time.ticks == pytest.approx(2_243_362, rel=0.001)


def test_person_detector_with_two_reference_kernels() -> None:
    """74.86 ms were published of the network with two depthwise convolutions left to the reference."""
    times = estimate_times(DeviceModel(), person_detector())
    replaced = [index for index, time in enumerate(times) if time.ticks == 144 * 193]
    assert replaced[0] == 19
    assert replaced[-1] == 40
    reference = 2 * 20_736 * 4_487_819 / 41_472
    total = sum(time.ticks for time in times) - 2 * 144 * 193 + reference
    assert total == pytest.approx(7_486_305, rel=0.01)


def test_pointwise_convolution() -> None:
    time = time_of(POINTWISE)
    assert time.ticks == pytest.approx(34_557, rel=0.001)
    assert time.basis is Basis.FITTED


def test_fully_connected() -> None:
    time = node("FULLY_CONNECTED", (1, 256), (2, 256), output=(1, 2), constants=1)
    assert time.ticks == pytest.approx(591, abs=1)
    assert time.basis is Basis.FITTED


def test_parameters_from_flash_take_the_time_of_the_flash() -> None:
    # 12.5 MB/s is 8 ticks a byte.
    load = model_of("XC_ld_weights", output=(1000,))
    assert time_of(load, DeviceModel(clock_mhz=800, threads=5)).ticks == 8000
    assert time_of(load, DeviceModel(flash_rate=50_000_000)).ticks == 2000


# By hand.

VALID = Options({"padding": Padding.VALID})


def pad_ticks(rows: int, nbytes: int) -> float:
    return 100 + 107.4 * rows + 0.094 * nbytes


def test_convolution_pads_channels_to_4() -> None:
    # 36 products make 2 vectors; 5x5 pixels in 2 groups of channels; 7x7 pixels get a fourth channel.
    time = time_of(model_of("CONV_2D", (1, 7, 7, 3), (17, 3, 3, 3), output=(1, 5, 5, 17), constants=1))
    assert time.ticks == round(50 * (143.5 + 12.06 * 2) + 49 * 26_993 / 9216)


def test_convolution_with_padding_costs_a_pad_more() -> None:
    # 5x5 pixels of 4 bytes become 7x7.
    shapes = ((1, 5, 5, 4), (16, 3, 3, 4))
    time = time_of(model_of("CONV_2D", *shapes, output=(1, 5, 5, 16), constants=1))
    assert time.ticks == round(25 * (143.5 + 12.06 * 2) + pad_ticks(5, 196))
    plain = time_of(model_of("CONV_2D", *shapes, output=(1, 3, 3, 16), constants=1, options=VALID))
    assert plain.ticks == round(9 * (143.5 + 12.06 * 2))


def test_padding_goes_by_stride_and_dilation() -> None:
    # Stride 2 on 6x6 reaches 7x7; dilation 2 on 6x6 makes a window of 5, which reaches 10x10.
    def ticks(side: int, options: Options) -> int:
        shapes = ((1, 6, 6, 16), (1, 3, 3, 16))
        output = (1, side, side, 16)
        return time_of(
            model_of("DEPTHWISE_CONV_2D", *shapes, output=output, constants=1, options=options)
        ).ticks

    assert ticks(3, Options({"stride_h": 2, "stride_w": 2})) == round(9 * 193 + pad_ticks(6, 7 * 7 * 16))
    assert ticks(6, Options({"dilation_h_factor": 2, "dilation_w_factor": 2})) == round(
        36 * 193 + pad_ticks(6, 10 * 10 * 16)
    )


def test_depthwise_convolution() -> None:
    # 3x3 pixels in 16 groups of channels, 9 taps; the image becomes 5x5.
    time = node("DEPTHWISE_CONV_2D", (1, 3, 3, 256), (1, 3, 3, 256), output=(1, 3, 3, 256), constants=1)
    assert (time.ticks, time.basis) == (round(144 * 193 + pad_ticks(3, 6400)), Basis.FITTED)


def test_depthwise_convolution_of_another_window_is_an_estimate() -> None:
    # 4 taps of 9: 0.4 + 0.6 * 4 / 9 of the time.
    shapes = ((1, 4, 4, 16), (1, 2, 2, 16))
    time = time_of(
        model_of("DEPTHWISE_CONV_2D", *shapes, output=(1, 3, 3, 16), constants=1, options=VALID),
    )
    assert (time.ticks, time.basis) == (round(9 * 193 * 2 / 3), Basis.ESTIMATE)


def test_fully_connected_works_row_by_row() -> None:
    # 3 rows, 1 group of outputs, 2 vectors of products.
    time = node("FULLY_CONNECTED", (3, 64), (10, 64), output=(3, 10), constants=1)
    assert time.ticks == round(3 * (143.5 + 12.06 * 2) + 350)


def test_pad_costs_by_the_row_and_the_byte() -> None:
    time = node("PAD", (1, 4, 4, 4), (4, 2), output=(1, 6, 6, 4), constants=1)
    assert (time.ticks, time.basis) == (round(pad_ticks(4, 144)), Basis.FITTED)


def test_softmax_of_more_classes_is_an_estimate() -> None:
    time = node("SOFTMAX", (2, 10), output=(2, 10))
    assert (time.ticks, time.basis) == (1000 + 330 * 20, Basis.ESTIMATE)


def test_long_slice_is_an_estimate() -> None:
    time = node("STRIDED_SLICE", (1, 80), output=(1, 40))
    assert (time.ticks, time.basis) == (120, Basis.ESTIMATE)


@pytest.mark.parametrize(
    ("name", "basis"), [("AVERAGE_POOL_2D", Basis.FITTED), ("MAX_POOL_2D", Basis.ESTIMATE)]
)
def test_pool_of_a_whole_image(name: str, basis: Basis) -> None:
    """Published of the average: 2,550 ticks."""
    options = Options({"filter_width": 3, "filter_height": 3})
    time = time_of(model_of(name, (1, 3, 3, 256), output=(1, 1, 1, 256), options=options))
    assert (time.ticks, time.basis) == (2550, basis)


def test_pool_of_windows_is_estimated_as_a_depthwise_convolution() -> None:
    options = Options({"filter_width": 2, "filter_height": 2})
    time = time_of(model_of("MAX_POOL_2D", (1, 8, 8, 16), output=(1, 4, 4, 16), options=options))
    assert (time.ticks, time.basis) == (round(16 * 193 * 2 / 3), Basis.ESTIMATE)


@pytest.mark.parametrize(
    ("data", "weights", "output", "ticks"),
    [
        # As XMOS's converter writes them: products and padding of the last group.
        ((1, 3, 3, 256), 65_536, (1, 3, 3, 256), 34_557),
        ((1, 97, 97, 4), 768, (1, 48, 48, 8), 2304 * (143.5 + 12.06 * 2)),
        ((1, 48, 48, 8), 512, (1, 48, 48, 16), 2304 * (143.5 + 12.06)),
        ((1, 1, 1, 256), 1_408, (1, 1, 1, 4), 143.5 + 12.06 * 8 + 350),
        ((1, 640), 81_920, (1, 1, 1, 128), 8 * (143.5 + 12.06 * 20) + 350),
        # A window for each channel: 9 taps, rounded up to 16 channels, and 16 bytes.
        ((1, 50, 50, 8), 160, (1, 48, 48, 8), 2304 * 193),
        ((1, 5, 5, 256), 2_320, (1, 3, 3, 256), 144 * 193),
        ((1, 3, 3, 256), 2_320, (1, 1, 1, 256), 2550),
    ],
)
def test_xmos_convolution_is_told_by_its_weights(
    data: Shape, weights: int, output: Shape, ticks: float
) -> None:
    time = node("XC_conv2d_v2", data, (weights,), output=output, constants=1)
    assert (time.ticks, time.basis) == (round(ticks), Basis.FITTED)


@pytest.mark.parametrize(
    ("kernels", "ticks", "basis"),
    [(Kernels.OPTIMIZED, 34_557, Basis.FITTED), (Kernels.REFERENCE, 9 * 256 * 256, Basis.ESTIMATE)],
)
def test_kernels_of_a_convolution(kernels: Kernels, ticks: int, basis: Basis) -> None:
    # A reference kernel takes 108.2 ticks for each of 589,824 multiply-accumulates.
    time = time_of(POINTWISE, DeviceModel(kernels=kernels))
    step = 1 if kernels is Kernels.OPTIMIZED else 4_487_819 / 41_472
    assert (time.ticks, time.basis) == (round(ticks * step), basis)


@pytest.mark.parametrize(
    ("name", "inputs", "output", "count"),
    [
        ("FULLY_CONNECTED", [(2, 64), (10, 64)], (2, 10), 2 * 10 * 64),
        ("ADD", [(1, 8)], (1, 8), 8),
        ("MEAN", [(1, 3, 3, 8)], (1, 8), 72),
        ("AVERAGE_POOL_2D", [(1, 2, 2, 8)], (1, 1, 1, 8), 8),
        ("PAD", [(1, 2, 2, 4)], (1, 4, 4, 4), 64),
    ],
)
def test_reference_kernels_take_a_step_each_time(
    name: str, inputs: list[Shape], output: Shape, count: int
) -> None:
    constants = len(inputs) - 1
    time = time_of(
        model_of(name, *inputs, output=output, constants=constants), DeviceModel(kernels=Kernels.REFERENCE)
    )
    assert (time.ticks, time.basis) == (round(count * 4_487_819 / 41_472), Basis.ESTIMATE)


@pytest.mark.parametrize(("name", "ticks"), [("RESHAPE", 130), ("SOFTMAX", 1660), ("CONCATENATION", 351)])
def test_some_kernels_are_the_same_either_way(name: str, ticks: int) -> None:
    model = model_of(name, (1, 2), output=(1, 2))
    assert time_of(model, DeviceModel(kernels=Kernels.REFERENCE)).ticks == ticks
    assert time_of(model).ticks == ticks


def test_operators_of_xmos_are_never_reference_kernels() -> None:
    device = DeviceModel(kernels=Kernels.REFERENCE)
    model = model_of("XC_conv2d_v2", (1, 3, 3, 256), (65_536,), output=(1, 3, 3, 256), constants=1)
    assert time_of(model, device).ticks == 34_557
    unknown = model_of("XC_nobody_knows", (100,), output=(40,))
    operator = replace(unknown.operators[0], is_custom=True)
    assert time_of(replace(unknown, operators=(operator,)), device).ticks == 350 + 35


@pytest.mark.parametrize("name", ["LOGISTIC", "QUANTIZE", "MEAN", "ADD", "XC_nobody_knows"])
def test_operator_without_a_figure_is_an_estimate_by_its_bytes(name: str) -> None:
    time = time_of(model_of(name, (100,), (60,), output=(40,), constants=1))
    assert (time.ticks, time.basis) == (350 + 35, Basis.ESTIMATE)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("CONV_2D", [(8,)]),
        ("CONV_2D", [(8,), (8,)]),
        ("DEPTHWISE_CONV_2D", [(8,), (8,)]),
        ("FULLY_CONNECTED", [(8,), (0, 8)]),
        ("MAX_POOL_2D", [(8,)]),
        ("XC_conv2d_v2", [(8,), (8,)]),
        ("PAD", []),
    ],
)
def test_shapes_without_meaning_give_an_estimate(name: str, inputs: list[Shape]) -> None:
    assert time_of(model_of(name, *inputs, output=(8,))).basis is Basis.ESTIMATE


@pytest.mark.parametrize("name", ["CONV_2D", "PAD", "SOFTMAX", "XC_pad_3_to_4", "MEAN"])
def test_operator_without_tensors_gives_an_estimate(name: str) -> None:
    model = Model(3, "", (), (Operator(0, name, (), ()),), (), ())
    assert time_of(model) == OperatorTime(0, name, 350, Basis.ESTIMATE, "bytes moved")


def test_input_that_is_left_out_costs_nothing() -> None:
    tensor = Tensor("x", (40,), TensorType.INT8)
    model = Model(3, "", (tensor,), (Operator(0, "LOGISTIC", (0, -1), (0,)),), (0,), (0,))
    assert time_of(model).ticks == 350 + 20


@pytest.mark.parametrize(("mhz", "ticks"), [(600, 34_557), (800, 25_918), (160, 129_589)])
def test_time_goes_with_the_clock(mhz: float, ticks: int) -> None:
    assert time_of(POINTWISE, DeviceModel(clock_mhz=mhz)).ticks == ticks


@pytest.mark.parametrize(("threads", "thirds"), [(1, 3), (2, 2), (3, 1), (4, 1), (5, 1)])
def test_threads_share_the_rows_of_a_convolution(threads: int, thirds: int) -> None:
    # 3 rows: the busiest of 2 threads has 2 of them.
    assert time_of(POINTWISE, DeviceModel(threads=threads)).ticks == 11_519 * thirds


@pytest.mark.parametrize(
    ("size", "threads", "share"),
    [
        ((48, 48), 5, 10 / 48),
        ((6, 6), 5, 2 / 6),
        ((6, 6), 4, 2 / 6),
        ((7, 10), 5, 1 / 5),  # columns divide evenly
        ((10, 7), 5, 1 / 5),
        ((7, 9), 5, 2 / 9),  # the larger
        ((1, 1), 5, 1),
        ((3, 3), 1, 1),
        ((0, 0), 5, 1 / 5),
    ],
)
def test_share_of_the_busiest_thread(size: tuple[int, int], threads: int, share: float) -> None:
    assert largest_share(*size, threads) == pytest.approx(share)


def test_threads_do_not_share_pads() -> None:
    model = model_of("CONV_2D", (1, 5, 5, 4), (16, 3, 3, 4), output=(1, 5, 5, 16), constants=1)
    ticks = 5 * (143.5 + 12.06 * 2) + pad_ticks(5, 196)
    assert time_of(model, DeviceModel(threads=5)).ticks == round(ticks)


def test_threads_do_not_share_other_operators() -> None:
    model = model_of("SOFTMAX", (1, 10), output=(1, 10))
    assert time_of(model, DeviceModel(threads=5)) == time_of(model)


def test_every_operator_has_a_time_in_order() -> None:
    model = reference_model("kws_ref_model")
    times = estimate_times(DeviceModel(), model)
    assert [(time.index, time.name) for time in times] == [(o.index, o.name) for o in model.operators]
    assert [time.name for time in times if time.basis is Basis.ESTIMATE] == ["AVERAGE_POOL_2D", "SOFTMAX"]


@pytest.mark.parametrize("threads", [0, -1, 6])
def test_threads_that_an_inference_does_not_have(threads: int) -> None:
    with pytest.raises(ValueError, match=f"^{threads} threads: an inference has 1 to 5$"):
        DeviceModel(threads=threads)


@pytest.mark.parametrize("mhz", [0, -600, float("nan"), float("inf")])
def test_clock_that_does_not_tick(mhz: float) -> None:
    with pytest.raises(ValueError, match="MHz: it must be above 0"):
        DeviceModel(clock_mhz=mhz)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_flash_that_gives_nothing(rate: float) -> None:
    with pytest.raises(ValueError, match="bytes a second: it must be above 0"):
        DeviceModel(flash_rate=rate)


def test_parameters_are_the_constants_in_use() -> None:
    # Weights and bias; the shape of a reshape counts too, what no operator uses does not.
    unused = Tensor("unused", (1000,), TensorType.INT8, data=bytes(1000), index=9)
    model = model_of("CONV_2D", (1, 1, 1, 4), (8, 1, 1, 4), (8,), output=(1, 1, 1, 8), constants=2)
    assert used_constant_bytes(replace(model, tensors=(*model.tensors, unused))) == 32 + 8


# On the wire and on paper.


def op_time(index: int, name: str, ticks: int, basis: Basis = Basis.FITTED) -> OperatorTime:
    return OperatorTime(index, name, ticks, basis)


def test_words_wrap_at_32_bits() -> None:
    times = [op_time(index, "ADD", ticks) for index, ticks in enumerate([0, 2**32 - 1, 2**32, 2**32 + 5])]
    assert to_words(times) == (0, 0xFFFF_FFFF, 0, 5)


def test_summary() -> None:
    times = [
        op_time(0, "CONV_2D", 100_000),
        op_time(1, "MAX_POOL_2D", 50_000, Basis.ESTIMATE),
        op_time(2, "CONV_2D", 250_000),
    ]
    assert profiler_summary(times).splitlines() == [
        "Operators",
        "    0  CONV_2D                            100000      1.000 ms",
        "    1  MAX_POOL_2D                         50000      0.500 ms  estimate",
        "    2  CONV_2D                            250000      2.500 ms",
        "Total                                     400000      4.000 ms",
        "",
        "By operator class",
        "    2  CONV_2D                            350000      3.500 ms  87.50 %",
        "    1  MAX_POOL_2D                         50000      0.500 ms  12.50 %  estimate",
        "",
        "12.5 % of the total are estimates.",
    ]


def test_summary_with_a_tenth_of_estimates_does_not_say_so() -> None:
    times = [op_time(0, "CONV_2D", 90), op_time(1, "MAX_POOL_2D", 10, Basis.ESTIMATE)]
    assert "of the total" not in profiler_summary(times)


@pytest.mark.parametrize(("threads", "ticks"), [(1, 24_000), (5, 4_800)])
def test_published_lookup(threads: int, ticks: int) -> None:
    model = model_of("XC_lookup", (1, 7500), (256,), output=(1, 7500), constants=1)
    (time,) = estimate_times(DeviceModel(threads=threads), model)
    assert (time.ticks, time.basis) == (ticks, Basis.FITTED)


@pytest.mark.parametrize("name", ["XC_conv2d_shallowin", "XC_conv2d_deep", "XC_conv2d_1x1", "XC_fc"])
def test_convolutions_of_older_converters_cost_what_they_are(name: str) -> None:
    """3x3 pixels of 256 channels, each of 256 products: 34,557 ticks were published for such a layer."""
    model = model_of(name, (1, 3, 3, 256), (65_536,), output=(1, 3, 3, 256), constants=1)
    (time,) = estimate_times(DeviceModel(), model)
    assert time.basis is Basis.FITTED
    assert time.ticks == pytest.approx(34_557, rel=0.001)


def test_depthwise_convolution_of_older_converters() -> None:
    """Two such layers of 144 groups each took 55,553 ticks together."""
    model = model_of("XC_conv2d_depthwise", (1, 12, 12, 16), (9 * 16,), output=(1, 12, 12, 16), constants=1)
    (time,) = estimate_times(DeviceModel(), model)
    assert time.basis is Basis.FITTED
    assert time.ticks == pytest.approx(55_553 / 2, rel=0.01)


def test_summary_puts_the_largest_class_first() -> None:
    lines = profiler_summary([op_time(0, "PAD", 1), op_time(1, "ADD", 3)]).splitlines()
    assert [line.split()[1] for line in lines[-2:]] == ["ADD", "PAD"]


def test_summary_of_nothing() -> None:
    total = "Total                                          0      0.000 ms"
    assert profiler_summary([]).splitlines() == ["Operators", total, "", "By operator class"]


def test_summary_of_operators_that_take_no_time() -> None:
    assert profiler_summary([op_time(0, "ADD", 0)]).splitlines()[-1].endswith("  0.00 %")


def test_note_about_estimates_is_for_more_than_a_tenth() -> None:
    fitted, estimate = op_time(0, "CONV_2D", 90), op_time(1, "MAX_POOL_2D", 11, Basis.ESTIMATE)
    assert estimate_note([fitted, estimate]) == "10.9 % of the model's predicted time are estimates.\n"
    assert estimate_note([fitted, replace(estimate, ticks=10)]) == ""
    assert estimate_note([]) == ""
    assert estimate_note([replace(estimate, ticks=0)]) == ""


# Pools of older converters: their options are flexbuffers.


def pool_of(name: str, window: object, *, output: tuple[int, ...] = (1, 2, 2, 32)) -> Model:
    model = model_of(name, (1, 4, 4, 32), output=output)
    options = bytes(flexbuffers.Dumps({"pool": window, "stride": [2, 2]}))
    operator = replace(model.operators[0], is_custom=True, custom_options=options)
    return replace(model, operators=(operator,))


def test_average_pool_of_older_converters_is_that_of_nine_taps() -> None:
    (time,) = estimate_times(DeviceModel(), pool_of("XC_avgpool2d", [3, 3]))
    assert (time.ticks, time.basis) == (193 * 4 * 2, Basis.FITTED)


def test_average_pool_of_other_windows_goes_by_their_size() -> None:
    (time,) = estimate_times(DeviceModel(), pool_of("XC_avgpool2d", [2, 2]))
    assert (time.ticks, time.basis) == (round(193 * 4 * 2 * (0.4 + 0.6 * 4 / 9)), Basis.ESTIMATE)


def test_max_pool_of_older_converters_takes_what_a_plain_one_does() -> None:
    plain = model_of("MAX_POOL_2D", (1, 4, 4, 32), output=(1, 2, 2, 32))
    options = Options({"filter_width": 2, "filter_height": 2, "stride_w": 2, "stride_h": 2})
    plain = replace(plain, operators=(replace(plain.operators[0], options=options),))
    ours, theirs = time_of(pool_of("XC_maxpool2d", [2, 2])), time_of(plain)
    assert (ours.ticks, ours.basis) == (theirs.ticks, Basis.ESTIMATE)


@pytest.mark.parametrize("output", [(1, 32), (1, 1, 1, 32)])
def test_global_average_pool_has_the_whole_image_as_its_window(output: tuple[int, ...]) -> None:
    time = time_of(pool_of("XC_avgpool2d_global", [1, 1], output=output))
    assert time.ticks == round(2550 / 16 * 2 * (0.4 + 0.6 * 16 / 9))


def test_global_average_pool_of_3x3_pixels_is_published() -> None:
    model = model_of("XC_avgpool2d_global", (1, 3, 3, 256), output=(1, 256))
    assert (time_of(model).ticks, time_of(model).basis) == (2550, Basis.FITTED)


@pytest.mark.parametrize("window", [[], [2], [2, 2, 2], [0, 2], [2, -1], ["a", "b"], 2, {}])
def test_pool_without_a_window_is_estimated_by_the_bytes_that_it_moves(window: object) -> None:
    time = time_of(pool_of("XC_maxpool2d", window))
    assert (time.source, time.basis) == ("bytes moved", Basis.ESTIMATE)
