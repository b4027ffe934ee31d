"""The timing model by hand: each law on small shapes, clocks, threads; on the wire and on paper."""

import math

import pytest
from flatbuffers import flexbuffers
from msgspec.structs import replace

from aisrv.inference.parameters import used_constants
from aisrv.inference.timings import (
    Basis,
    DeviceModel,
    FlashPath,
    Generation,
    Kernels,
    Memory,
    OperatorTime,
    estimate_note,
    profiler_summary,
    sum_of,
    to_words,
)
from aisrv.inference.timings.cost import largest_share
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import Model, Operator, Options, Padding, Tensor, TensorType
from aisrv.model.reader import read_model
from tests.support.peers import mlperf_tiny

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
    is_custom = name.startswith("XC_")
    inputs_of = tuple(range(len(inputs)))
    operator = Operator(0, name, inputs_of, (len(inputs),), options or Options(), is_custom)
    return Model(3, "", tuple(tensors), (operator,), (0,), (len(inputs),))


def time_of(model: Model, device: DeviceModel | None = None) -> OperatorTime:
    (time,) = estimate_times(device or DeviceModel(), model)
    return time


def reference_model(name: str) -> Model:
    return read_model(mlperf_tiny.model_bytes(name))


POINTWISE = model_of("CONV_2D", (1, 3, 3, 256), (256, 1, 1, 256), output=(1, 3, 3, 256), constants=1)


def node(name: str, *inputs: Shape, output: Shape, constants: int = 0) -> OperatorTime:
    return time_of(model_of(name, *inputs, output=output, constants=constants))


def ticks(slots: float) -> int:
    """Of issue slots at 600 MHz."""
    return round(slots * 5 / 6)


POINTWISE_SLOTS = 405 + 10 * 3 + 9 * (55 + 16 * (106 + 22 * 8))
"""3x3 pixels of 256 channels: 16 groups, 8 vectors."""


def test_pointwise_convolution() -> None:
    time = time_of(POINTWISE)
    assert (time.slots, time.ticks, time.form) == (POINTWISE_SLOTS, ticks(POINTWISE_SLOTS), "direct")
    assert time.basis is Basis.MEASURED
    assert (time.low, time.high) == (ticks(POINTWISE_SLOTS * 0.98), ticks(POINTWISE_SLOTS * 1.02))


def test_fully_connected_is_a_pixel_of_indirect() -> None:
    # 2 of 16 channels, 8 vectors, copied in 8 pieces.
    time = node("FULLY_CONNECTED", (1, 256), (2, 256), output=(1, 2), constants=1)
    assert time.slots == 405 + 10 + 87 + 3 * 7 + 142 + 22 * 7 - 2 * 14
    assert (time.ticks, time.form) == (659, "indirect")


def test_fully_connected_works_row_by_row() -> None:
    # 3 rows, 1 group of outputs, 2 vectors; from 2023 on a pixel of more takes 26 slots more.
    time = node("FULLY_CONNECTED", (3, 64), (10, 64), output=(3, 10), constants=1)
    assert time.slots == 405 + 30 + 3 * (87 + 26 + 3 + 142 + 22 - 2 * 6)


# Flash.


@pytest.mark.parametrize(
    ("flash", "clock", "expected"),
    [
        (FlashPath.SERVER, 600, (2272 + 142_000) / 6),
        (FlashPath.SERVER, 300, (2272 + 142_000) / 3),
        (FlashPath.FAST, 600, 2100),
        (FlashPath.FAST, 300, 2100),
        (50_000_000, 600, 2000),
    ],
)
def test_parameters_from_flash(flash: FlashPath | float, clock: float, expected: float) -> None:
    load = model_of("XC_ld_flash", output=(1000,))
    assert time_of(load, DeviceModel(clock_mhz=clock, flash=flash, threads=5)).ticks == round(expected)


@pytest.mark.parametrize(("name", "expected"), [("XC_ld_flash", 144_272 / 6), ("XC_ld_weights", 2100)])
def test_files_of_2024_are_for_fast_flash(name: str, expected: float) -> None:
    assert time_of(model_of(name, output=(1000,))).ticks == round(expected)


def test_load_from_external_memory_reads_each_line_once() -> None:
    load = model_of("XC_ld_weights", output=(320,))
    options = bytes(flexbuffers.Dumps({"t": 1}))
    load = replace(load, operators=(replace(load.operators[0], custom_options=options),))
    time = time_of(load)
    # 10 lines of 27 clocks of 75 MHz.
    assert (time.ticks, time.memory, time.basis) == (360, Memory.EXTERNAL, Basis.ESTIMATE)


# By hand.

VALID = Options({"padding": Padding.VALID})


def pad_slots(rows: int, nbytes: int) -> float:
    return 120 + 128.88 * rows + 0.1128 * nbytes


def test_convolution_pads_channels_to_4() -> None:
    # 36 products make 2 vectors; 5x5 pixels in 2 groups of channels, 1 in the second; 7x7 pixels are padded.
    time = time_of(model_of("CONV_2D", (1, 7, 7, 3), (17, 3, 3, 3), output=(1, 5, 5, 17), constants=1))
    pixel = 87 + 26 + 6 * 8 + 2 * 2 + 2 * (142 + 22) - 2 * 15
    assert time.slots == round(405 + 50 + 25 * pixel + 3.5 * 49 + 135)


def test_convolution_with_padding_costs_a_pad_more() -> None:
    # 5x5 pixels of 4 bytes become 7x7.
    shapes = ((1, 5, 5, 4), (16, 3, 3, 4))
    pixel = 87 + 26 + 6 * 8 + 2 * 2 + 142 + 22
    time = time_of(model_of("CONV_2D", *shapes, output=(1, 5, 5, 16), constants=1))
    assert time.slots == round(405 + 50 + 25 * pixel + pad_slots(5, 196))
    plain = time_of(model_of("CONV_2D", *shapes, output=(1, 3, 3, 16), constants=1, options=VALID))
    assert plain.slots == 405 + 30 + 9 * pixel


def test_tools_of_2022_leave_padding_to_the_kernel() -> None:
    model = model_of("CONV_2D", (1, 5, 5, 4), (16, 3, 3, 4), output=(1, 5, 5, 16), constants=1)
    time = time_of(model, DeviceModel(generation=Generation.G2022))
    assert (time.form, time.slots) == ("padded", round(405 + 50 + 25 * (2.5 + 56 * 9 + 142 + 22)))
    shapes = ((1, 3, 3, 16), (1, 3, 3, 16))
    model = model_of("DEPTHWISE_CONV_2D", *shapes, output=(1, 3, 3, 16), constants=1)
    time = time_of(model, DeviceModel(generation=Generation.G2022))
    # 32 of 81 taps are outside of the image.
    assert (time.form, time.slots) == ("depthwise padded", 405 + 30 + 9 * (40 + 662) + 5 * 32)


def test_direct_convolution_of_a_window() -> None:
    # 9 taps of 2 vectors; 2 slots for each further tap, and each further row of them.
    shapes = ((1, 6, 6, 64), (32, 3, 3, 64))
    time = time_of(model_of("CONV_2D", *shapes, output=(1, 4, 4, 32), constants=1, options=VALID))
    assert time.slots == 405 + 40 + 16 * (55 + 2 * (106 + 22 * 18 + 2 * 8 + 2 * 2))
    assert (time.form, time.basis) == ("direct", Basis.EXTRAPOLATED)


def test_padding_goes_by_stride_and_dilation() -> None:
    # Stride 2 on 6x6 reaches 7x7; dilation 2 on 6x6 makes a window of 5, which reaches 10x10.
    def slots(side: int, options: Options) -> int:
        shapes = ((1, 6, 6, 16), (1, 3, 3, 16))
        output = (1, side, side, 16)
        return time_of(
            model_of("DEPTHWISE_CONV_2D", *shapes, output=output, constants=1, options=options)
        ).slots

    assert slots(3, Options({"stride_h": 2, "stride_w": 2})) == round(
        405 + 30 + 9 * 200 + pad_slots(6, 7 * 7 * 16)
    )
    assert slots(6, Options({"dilation_h_factor": 2, "dilation_w_factor": 2})) == round(
        405 + 60 + 36 * 200 + pad_slots(6, 10 * 10 * 16)
    )


def test_depthwise_convolution() -> None:
    # 3x3 pixels in 16 groups of channels, 9 taps; the image becomes 5x5.
    time = node("DEPTHWISE_CONV_2D", (1, 3, 3, 256), (1, 3, 3, 256), output=(1, 3, 3, 256), constants=1)
    slots = 405 + 30 + 9 * (40 + 16 * 160)
    assert (time.slots, time.basis) == (round(slots + pad_slots(3, 6400)), Basis.MEASURED)
    assert time.high == ticks(slots * 1.37 + pad_slots(3, 6400) * 1.06)


def test_depthwise_convolution_of_another_window_is_extrapolated() -> None:
    # 5 taps and a row less.
    shapes = ((1, 4, 4, 16), (1, 2, 2, 16))
    time = time_of(
        model_of("DEPTHWISE_CONV_2D", *shapes, output=(1, 3, 3, 16), constants=1, options=VALID),
    )
    slots = 405 + 30 + 9 * (40 + 160 - 3 * 5 - 2)
    assert (time.slots, time.basis) == (slots, Basis.EXTRAPOLATED)


def test_reference_pad_goes_by_elements_and_pixels() -> None:
    model = model_of("PAD", (1, 4, 4, 4), (4, 2), output=(1, 6, 6, 4), constants=1)
    time = time_of(model, DeviceModel(kernels=Kernels.REFERENCE))
    assert time.slots == 15.25 * 64 + 11.5 * 80 + 13 * 36
    assert time_of(model).slots == round(pad_slots(4, 144))


@pytest.mark.parametrize(
    ("generation", "of_class"), [(None, 1001), (Generation.G2022, 1145), (Generation.G2024, 1001)]
)
def test_softmax_goes_by_classes(generation: Generation | None, of_class: int) -> None:
    model = model_of("SOFTMAX", (2, 10), output=(2, 10))
    assert time_of(model, DeviceModel(generation=generation)).slots == of_class * 20


def test_softmax_of_2024() -> None:
    model = model_of("XC_softmax", (1, 2), output=(1, 2))
    assert (time_of(model).ticks, time_of(model).basis) == (392, Basis.MEASURED)
    many = model_of("XC_softmax", (1, 10), output=(1, 10))
    assert (time_of(many).slots, time_of(many).basis) == (2350, Basis.EXTRAPOLATED)


def test_long_slice_is_an_estimate() -> None:
    time = node("STRIDED_SLICE", (1, 80), output=(1, 40))
    assert (time.slots, time.basis) == (132 + 12, Basis.ESTIMATE)


@pytest.mark.parametrize(
    ("name", "basis"), [("AVERAGE_POOL_2D", Basis.MEASURED), ("MAX_POOL_2D", Basis.ESTIMATE)]
)
def test_pool_of_a_whole_image(name: str, basis: Basis) -> None:
    """Published of the average: 2,550 ticks."""
    options = Options({"filter_width": 3, "filter_height": 3})
    time = time_of(model_of(name, (1, 3, 3, 256), output=(1, 1, 1, 256), options=options))
    assert (time.ticks, time.basis) == (2512, basis)


@pytest.mark.parametrize(
    ("data", "weights", "output", "form", "slots"),
    [
        # As XMOS's converter writes them: products and padding of the last group.
        ((1, 3, 3, 256), 65_536, (1, 3, 3, 256), "direct", POINTWISE_SLOTS),
        ((1, 97, 97, 4), 768, (1, 48, 48, 8), "indirect", 405 + 480 + 2304 * (113 + 52 + 164 - 16)),
        ((1, 48, 48, 8), 512, (1, 48, 48, 16), "indirect", 405 + 480 + 2304 * (113 + 142)),
        ((1, 1, 1, 256), 1_408, (1, 1, 1, 4), "indirect", 415 + 87 + 21 + 142 + 22 * 7 - 24),
        ((1, 640), 81_920, (1, 1, 1, 128), "direct", 415 + 55 + 8 * (106 + 22 * 20)),
        # A window for each channel: 9 taps, rounded up to 16 channels, and 16 bytes.
        ((1, 50, 50, 8), 160, (1, 48, 48, 8), "depthwise", 405 + 480 + 2304 * 200),
        ((1, 3, 3, 256), 2_320, (1, 1, 1, 256), "depthwise", 415 + 40 + 16 * 160),
    ],
)
def test_xmos_convolution_without_options_is_told_by_its_weights(
    data: Shape, weights: int, output: Shape, form: str, slots: float
) -> None:
    device = DeviceModel(generation=Generation.G2023)
    model = model_of("XC_conv2d_v2", data, (weights,), output=output, constants=1)
    time = time_of(model, device)
    assert (time.form, time.slots) == (form, slots)


def test_reference_kernel_of_a_convolution() -> None:
    time = time_of(POINTWISE, DeviceModel(kernels=Kernels.REFERENCE))
    assert (time.slots, time.basis) == (9 * 256 * 256 * 119, Basis.CARRIED)


@pytest.mark.parametrize(
    ("name", "inputs", "output", "slots"),
    [
        ("FULLY_CONNECTED", [(2, 64), (10, 64)], (2, 10), 130 * 2 * 10 * 64),
        ("ADD", [(1, 8)], (1, 8), 130 * 8),
        ("MEAN", [(1, 3, 3, 8)], (1, 8), 139.3 * 72),
        ("AVERAGE_POOL_2D", [(1, 2, 2, 8)], (1, 1, 1, 8), 130 * 8),
        ("STRIDED_SLICE", [(2,)], (1,), 1401),
        ("PACK", [(1,), (1,)], (2,), 171 + 2 * 67),
        ("SHAPE", [(1, 2, 3)], (3,), 127 + 3 * 6),
        ("RESHAPE", [(1, 2, 3)], (6,), 170 + 6 * 9),
        ("DEPTHWISE_CONV_2D", [(1, 3, 3, 8), (1, 3, 3, 8)], (1, 3, 3, 8), 129.86 * 72 * 9),
    ],
)
def test_reference_kernels(name: str, inputs: list[Shape], output: Shape, slots: float) -> None:
    constants = len(inputs) - 1 if name != "PACK" else 0
    time = time_of(
        model_of(name, *inputs, output=output, constants=constants), DeviceModel(kernels=Kernels.REFERENCE)
    )
    assert time.slots == round(slots)


def test_operators_left_in_a_converted_file_are_reference_kernels() -> None:
    """XMOS's converter leaves what it cannot replace; `kernels` is about files that it did not see."""
    left = model_of("DEPTHWISE_CONV_2D", (1, 6, 6, 64), (1, 3, 3, 64), output=(1, 6, 6, 64), constants=1)
    pad = Operator(1, "XC_pad", (0,), (2,), is_custom=True)
    times = estimate_times(DeviceModel(), replace(left, operators=(*left.operators, pad)))
    assert times[0].ticks == pytest.approx(4_487_819 / 2, rel=0.001)


def test_operators_of_xmos_are_never_reference_kernels() -> None:
    device = DeviceModel(kernels=Kernels.REFERENCE, generation=Generation.G2023)
    model = model_of("XC_conv2d_v2", (1, 3, 3, 256), (65_536,), output=(1, 3, 3, 256), constants=1)
    assert time_of(model, device).slots == POINTWISE_SLOTS
    assert time_of(model_of("XC_nobody_knows", (100,), output=(40,)), device).slots == 420 + 42


def test_operator_without_a_figure_is_an_estimate_by_its_bytes() -> None:
    device = DeviceModel(generation=Generation.G2023)
    time = time_of(model_of("XC_nobody_knows", (100,), (60,), output=(40,), constants=1), device)
    assert (time.slots, time.basis) == (420 + 42, Basis.ESTIMATE)
    assert (time.low, time.high) == (ticks(231), ticks(924))


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
    device = DeviceModel(generation=Generation.G2023)
    time = time_of(Model(3, "", (), (Operator(0, name, (), ()),), (), ()), device)
    assert (time.slots, time.basis, time.source) == (420, Basis.ESTIMATE, "bytes moved")


def test_input_that_is_left_out_costs_nothing() -> None:
    tensor = Tensor("x", (40,), TensorType.INT8)
    model = Model(3, "", (tensor,), (Operator(0, "ADD", (0, -1), (0,)),), (0,), (0,))
    assert time_of(model).slots == 420 + 104


@pytest.mark.parametrize(
    ("device", "factor"),
    [
        *((DeviceModel(clock_mhz=mhz), 600 / mhz) for mhz in (600, 800, 300)),
        (DeviceModel(reference_mhz=175), 1.75),
        *((DeviceModel(cores=cores), max(1, cores / 5)) for cores in (1, 5, 6, 8)),  # five have a clock each
    ],
)
def test_time_goes_with_the_clock(device: DeviceModel, factor: float) -> None:
    assert time_of(POINTWISE, device).ticks == ticks(POINTWISE_SLOTS * factor)


@pytest.mark.parametrize(("threads", "thirds"), [(2, 2), (3, 1), (4, 1), (5, 1)])
def test_threads_share_the_rows_of_a_convolution(threads: int, thirds: int) -> None:
    # 3 rows: the busiest of 2 threads has 2 of them. 405 slots are not shared, 600 come with the threads.
    shared = (POINTWISE_SLOTS - 405) * thirds / 3
    assert time_of(POINTWISE, DeviceModel(threads=threads)).slots == round(405 + 600 + shared)


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
    shared = (50 + 25 * (87 + 26 + 6 * 8 + 2 * 2 + 142 + 22)) / 5
    assert time_of(model, DeviceModel(threads=5)).slots == round(405 + 600 + shared + pad_slots(5, 196))


def test_threads_do_not_share_other_operators() -> None:
    model = model_of("SOFTMAX", (1, 10), output=(1, 10))
    assert time_of(model, DeviceModel(threads=5)) == time_of(model)


def test_every_operator_has_a_time_in_order() -> None:
    model = reference_model("kws_ref_model")
    times = estimate_times(DeviceModel(), model)
    assert [(time.index, time.name) for time in times] == [(o.index, o.name) for o in model.operators]
    extrapolated = [time.name for time in times if time.basis is Basis.EXTRAPOLATED]
    assert extrapolated == ["CONV_2D", "AVERAGE_POOL_2D"]
    assert all(time.low <= time.ticks <= time.high for time in times)


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("threads", (0, -1, 6), "^{} threads: an inference has 1 to 5$"),
        ("clock_mhz", (0, -600, math.nan, math.inf), "MHz: it must be above 0"),
        ("cores", (0, 9), "^{} cores: a tile has 1 to 8$"),
        ("flash", (0, -1, math.nan, math.inf), "bytes a second: it must be above 0"),
    ],
)
def test_what_no_device_has(field: str, values: tuple[float, ...], message: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=message.format(value)):
            DeviceModel(**{field: value})  # type: ignore[arg-type]  # wrong on purpose


def test_parameters_are_the_constants_in_use() -> None:
    # Weights and bias; the shape of a reshape counts too, what no operator uses does not.
    unused = Tensor("unused", (1000,), TensorType.INT8, data=bytes(1000), index=9)
    model = model_of("CONV_2D", (1, 1, 1, 4), (8, 1, 1, 4), (8,), output=(1, 1, 1, 8), constants=2)
    assert used_constants(replace(model, tensors=(*model.tensors, unused))) == (2, 32 + 8)


# On the wire and on paper.


def op_time(index: int, name: str, ticks: int, basis: Basis = Basis.MEASURED) -> OperatorTime:
    return OperatorTime(index, name, ticks, ticks // 2, 2 * ticks, basis)


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
        "One inference takes 4.0 ms (2.0 to 8.0)",
        "",
        "Operators",
        "    0  CONV_2D                            100000      1.000 ms (0.500 to 2.000)",
        "    1  MAX_POOL_2D                         50000      0.500 ms (0.250 to 1.000)  estimate",
        "    2  CONV_2D                            250000      2.500 ms (1.250 to 5.000)",
        "Total                                     400000      4.000 ms (2.000 to 8.000)",
        "",
        "By operator class",
        "    2  CONV_2D                            350000      3.500 ms (1.750 to 7.000)  87.50 %",
        "    1  MAX_POOL_2D                         50000      0.500 ms (0.250 to 1.000)  12.50 %  estimate",
    ]


def test_summary_of_another_reference_clock_has_real_milliseconds() -> None:
    times = [op_time(0, "CONV_2D", 175_000)]
    assert profiler_summary(times, sum_of(times, 175)).splitlines()[-1].split()[3] == "1.000"


@pytest.mark.parametrize(("threads", "ticks"), [(1, 24_000), (5, 4_800)])
def test_published_lookup(threads: int, ticks: int) -> None:
    model = model_of("XC_lookup", (1, 7500), (256,), output=(1, 7500), constants=1)
    (time,) = estimate_times(DeviceModel(threads=threads, generation=Generation.G2023), model)
    assert (time.ticks, time.basis) == (ticks, Basis.MEASURED)


@pytest.mark.parametrize("name", ["XC_conv2d_shallowin", "XC_conv2d_deep", "XC_conv2d_1x1", "XC_fc"])
def test_convolutions_of_older_converters_cost_what_they_are(name: str) -> None:
    """3x3 pixels of 256 channels, each of 256 products."""
    model = model_of(name, (1, 3, 3, 256), (65_536,), output=(1, 3, 3, 256), constants=1)
    time = time_of(model)
    assert (time.slots, time.basis) == (POINTWISE_SLOTS, Basis.EXTRAPOLATED)


def test_depthwise_convolution_of_older_converters() -> None:
    model = model_of("XC_conv2d_depthwise", (1, 12, 12, 16), (9 * 16,), output=(1, 12, 12, 16), constants=1)
    time = time_of(model)
    assert (time.slots, time.basis) == (405 + 120 + 144 * 200, Basis.EXTRAPOLATED)


def test_summary_puts_the_largest_class_first() -> None:
    lines = profiler_summary([op_time(0, "PAD", 1), op_time(1, "ADD", 3)]).splitlines()
    assert [line.split()[1] for line in lines[-2:]] == ["ADD", "PAD"]


def test_summary_of_nothing() -> None:
    total = "Total                                          0      0.000 ms (0.000 to 0.000)"
    assert profiler_summary([]).splitlines()[2:] == ["Operators", total, "", "By operator class"]


def test_summary_of_operators_that_take_no_time() -> None:
    assert profiler_summary([op_time(0, "ADD", 0)]).splitlines()[-1].endswith("  0.00 %")


def test_note_about_estimates_is_for_more_than_a_tenth() -> None:
    measured, estimate = op_time(0, "CONV_2D", 90_000), op_time(1, "MAX_POOL_2D", 11_000, Basis.ESTIMATE)
    assert estimate_note([measured, estimate]) == (
        "One inference is predicted to take 1.0 ms (0.5 to 2.0): 10.9 % are estimates.\n"
    )
    assert estimate_note([measured, replace(estimate, ticks=10_000)]) == ""
    assert estimate_note([]) == ""
    assert estimate_note([replace(estimate, ticks=0)]) == ""


# Pools of older converters: their options are flexbuffers.


def pool_of(name: str, window: object, *, output: tuple[int, ...] = (1, 2, 2, 32)) -> Model:
    model = model_of(name, (1, 4, 4, 32), output=output)
    options = bytes(flexbuffers.Dumps({"pool": window, "stride": [2, 2]}))
    operator = replace(model.operators[0], is_custom=True, custom_options=options)
    return replace(model, operators=(operator,))


@pytest.mark.parametrize(("window", "less"), [([3, 3], 0), ([2, 2], 17)])
def test_average_pool_of_older_converters_goes_by_its_window(window: list[int], less: int) -> None:
    time = time_of(pool_of("XC_avgpool2d", window))
    assert (time.slots, time.basis) == (405 + 20 + 4 * (40 + 2 * (160 - less)), Basis.EXTRAPOLATED)


def test_max_pool_of_older_converters_takes_what_a_plain_one_does() -> None:
    options = Options({"filter_width": 2, "filter_height": 2, "stride_w": 2, "stride_h": 2})
    plain = model_of("MAX_POOL_2D", (1, 4, 4, 32), output=(1, 2, 2, 32), options=options)
    ours, theirs = time_of(pool_of("XC_maxpool2d", [2, 2])), time_of(plain)
    assert (ours.ticks, ours.basis) == (theirs.ticks, Basis.ESTIMATE)


@pytest.mark.parametrize("output", [(1, 32), (1, 1, 1, 32)])
def test_global_average_pool_has_the_whole_image_as_its_window(output: tuple[int, ...]) -> None:
    time = time_of(pool_of("XC_avgpool2d_global", [1, 1], output=output))
    assert time.slots == 415 + 40 + 2 * (160 + 3 * 7 + 2)


@pytest.mark.parametrize("window", [[], [2], [2, 2, 2], [0, 2], [2, -1], ["a", "b"], 2, {}])
def test_pool_without_a_window_is_estimated_by_the_bytes_that_it_moves(window: object) -> None:
    time = time_of(pool_of("XC_maxpool2d", window))
    assert (time.source, time.basis) == ("bytes moved", Basis.ESTIMATE)


def test_pads_before_a_convolution_read_external_memory_too() -> None:
    shapes = ((1, 5, 5, 4), (16, 3, 3, 4))
    valid = model_of("CONV_2D", (1, 7, 7, 4), shapes[1], output=(1, 5, 5, 16), constants=1, options=VALID)
    padded = model_of("CONV_2D", *shapes, output=(1, 5, 5, 16), constants=1)
    device = DeviceModel(arena=Memory.EXTERNAL)
    more = time_of(padded, device).ticks - time_of(valid, device).ticks
    # 15 lines, and 0.35 of each 32 bytes in and out; a line is 27 clocks of 75 MHz.
    assert more == pytest.approx(pad_slots(5, 196) * 5 / 6 + (15 + 0.7 * 196 / 32) * 36, abs=2)
