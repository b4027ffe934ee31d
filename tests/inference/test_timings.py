"""The timing model against published figures ("Inference engines", section Timings) and by hand."""

import os
from pathlib import Path

import pytest

from aisrv.inference.timings import Basis, DeviceModel, OperatorTime, profiler_summary, to_words
from aisrv.tflite_model import Model, Operator, Options, Tensor, TensorType

MODELS = Path(
    os.environ.get("AISRV_MODELS", Path(__file__).parents[2] / "../shared/models/mlperf_tiny")
).resolve()

Shape = tuple[int, ...]


def model_of(
    name: str, *inputs: Shape, output: Shape, constants: int = 0, options: Options | None = None
) -> Model:
    """One operator on int8 tensors; the last `constants` of its inputs are constant."""
    shapes = (*inputs, output)
    tensors = []
    for index, shape in enumerate(shapes):
        nbytes = 1
        for extent in shape:
            nbytes *= extent
        is_constant = len(inputs) - constants <= index < len(inputs)
        tensors.append(Tensor(index, f"t{index}", shape, TensorType.INT8, None, is_constant, False, nbytes))
    operator = Operator(0, name, tuple(range(len(inputs))), (len(inputs),), options or Options())
    return Model(3, "", tuple(tensors), (operator,), (0,), (len(inputs),))


def time_of(model: Model, device: DeviceModel | None = None) -> OperatorTime:
    (time,) = (device or DeviceModel()).estimate(model)
    return time


def read_model(name: str) -> Model:
    path = MODELS / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"the reference models are not at {MODELS}; set AISRV_MODELS")
    return Model.from_bytes(path.read_bytes())


POINTWISE = model_of("CONV_2D", (1, 3, 3, 256), (256, 1, 1, 256), output=(1, 3, 3, 256), constants=1)

# Published figures.


def test_pointwise_convolution() -> None:
    time = time_of(POINTWISE)
    assert time.ticks == pytest.approx(34_557, rel=0.001)
    assert time.basis is Basis.FITTED


def test_fully_connected() -> None:
    time = time_of(model_of("FULLY_CONNECTED", (1, 256), (2, 256), output=(1, 2), constants=1))
    assert time.ticks == pytest.approx(591, abs=1)
    assert time.basis is Basis.FITTED


@pytest.mark.parametrize(
    ("name", "output", "ticks"),
    [
        ("SOFTMAX", (1, 2), 1_668),
        ("RESHAPE", (1, 2), 134),
        ("STRIDED_SLICE", (1, 2), 110),
        ("XC_pad_3_to_4", (1, 96, 96, 4), 26_993),
    ],
)
def test_small_operators(name: str, output: Shape, ticks: int) -> None:
    assert time_of(model_of(name, output, output=output)).ticks == pytest.approx(ticks, rel=0.03)


@pytest.mark.parametrize(("threads", "ticks"), [(1, 2_971_789), (5, 717_748)])
def test_convolutions_of_person_detection(threads: int, ticks: int) -> None:
    """The published network has the layers of this one, MobileNet v1 0.25 at 96x96, and two small ones."""
    times = DeviceModel(threads=threads).estimate(read_model("vww_96_int8"))
    convolutions = [time for time in times if "CONV_2D" in time.name]
    assert len(convolutions) == 27
    assert sum(time.ticks for time in convolutions) == pytest.approx(ticks, rel=0.03)


def test_parameters_from_flash_take_the_time_of_the_flash() -> None:
    # 12.5 MB/s is 8 ticks a byte.
    load = model_of("XC_ld_weights", output=(1000,))
    assert time_of(load, DeviceModel(clock_mhz=800)).ticks == 8000
    assert time_of(load, DeviceModel(flash_rate=50_000_000)).ticks == 2000


# By hand.


def test_convolution_pads_channels_to_4() -> None:
    # 36 of 3x3x4 products make 2 vectors; 5x5 pixels in 2 groups of channels.
    time = time_of(model_of("CONV_2D", (1, 7, 7, 3), (17, 3, 3, 3), output=(1, 5, 5, 17), constants=1))
    assert time.ticks == round(50 * (143.5 + 12.06 * 2))


def test_depthwise_convolution() -> None:
    # 3x3 pixels in 16 groups of channels, 9 taps.
    time = time_of(
        model_of("DEPTHWISE_CONV_2D", (1, 3, 3, 256), (1, 3, 3, 256), output=(1, 3, 3, 256), constants=1)
    )
    assert (time.ticks, time.basis) == (144 * 193, Basis.FITTED)


def test_fully_connected_works_row_by_row() -> None:
    # 3 rows, 1 group of outputs, 2 vectors of products.
    time = time_of(model_of("FULLY_CONNECTED", (3, 64), (10, 64), output=(3, 10), constants=1))
    assert time.ticks == round(3 * (143.5 + 12.06 * 2) + 350)


def test_pad_costs_by_the_byte() -> None:
    time = time_of(model_of("PAD", (1, 4, 4, 4), (4, 2), output=(1, 6, 6, 4), constants=1))
    assert (time.ticks, time.basis) == (350 + 36, Basis.FITTED)


def test_softmax_costs_by_the_element() -> None:
    assert time_of(model_of("SOFTMAX", (2, 10), output=(2, 10))).ticks == 1000 + 330 * 20


@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pool_is_estimated_as_a_depthwise_convolution(name: str) -> None:
    options = Options(kernel_w=3, kernel_h=3)
    time = time_of(model_of(name, (1, 3, 3, 256), output=(1, 1, 1, 256), options=options))
    assert (time.ticks, time.basis) == (16 * 193, Basis.ESTIMATE)


def test_xmos_convolution_is_estimated_from_its_weights() -> None:
    # As the pointwise convolution above, its weights without a shape.
    model = model_of("XC_conv2d_v2", (1, 3, 3, 256), (65_536,), output=(1, 3, 3, 256), constants=1)
    assert (time_of(model).ticks, time_of(model).basis) == (34_557, Basis.ESTIMATE)


def test_xmos_depthwise_convolution_is_told_by_its_few_weights() -> None:
    model = model_of("XC_conv2d_v2", (1, 3, 3, 256), (9 * 256,), output=(1, 3, 3, 256), constants=1)
    assert time_of(model).ticks == 144 * 193


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
    ],
)
def test_shapes_without_meaning_give_an_estimate(name: str, inputs: list[Shape]) -> None:
    assert time_of(model_of(name, *inputs, output=(8,))).basis is Basis.ESTIMATE


@pytest.mark.parametrize("name", ["CONV_2D", "PAD", "SOFTMAX", "XC_pad_3_to_4", "MEAN"])
def test_operator_without_tensors_gives_an_estimate(name: str) -> None:
    model = Model(3, "", (), (Operator(0, name, (), ()),), (), ())
    assert time_of(model) == OperatorTime(0, name, 350, Basis.ESTIMATE)


def test_input_that_is_left_out_costs_nothing() -> None:
    tensor = Tensor(0, "x", (40,), TensorType.INT8, None, False, False, 40)
    model = Model(3, "", (tensor,), (Operator(0, "LOGISTIC", (0, -1), (0,)),), (0,), (0,))
    assert time_of(model).ticks == 350 + 20


@pytest.mark.parametrize(("mhz", "ticks"), [(600, 34_557), (800, 25_918), (160, 129_589)])
def test_time_goes_with_the_clock(mhz: float, ticks: int) -> None:
    assert time_of(POINTWISE, DeviceModel(clock_mhz=mhz)).ticks == ticks


@pytest.mark.parametrize(("threads", "ticks"), [(1, 34_557), (2, 18_342), (5, 11_166)])
def test_threads_share_a_convolution(threads: int, ticks: int) -> None:
    # 34,557.12 / n + 1,063.75 * (n - 1)
    assert time_of(POINTWISE, DeviceModel(threads=threads)).ticks == ticks


def test_threads_do_not_share_other_operators() -> None:
    model = model_of("SOFTMAX", (1, 10), output=(1, 10))
    assert time_of(model, DeviceModel(threads=5)) == time_of(model)


def test_every_operator_has_a_time_in_order() -> None:
    model = read_model("kws_ref_model")
    times = DeviceModel().estimate(model)
    assert [(time.index, time.name) for time in times] == [(o.index, o.name) for o in model.operators]
    assert [time.name for time in times if time.basis is Basis.ESTIMATE] == ["AVERAGE_POOL_2D"]


@pytest.mark.parametrize("threads", [0, -1, 9])
def test_threads_that_a_tile_does_not_have(threads: int) -> None:
    with pytest.raises(ValueError, match=f"^{threads} threads: a tile has 1 to 8$"):
        DeviceModel(threads=threads)


@pytest.mark.parametrize("mhz", [0, -600, float("nan"), float("inf")])
def test_clock_that_does_not_tick(mhz: float) -> None:
    with pytest.raises(ValueError, match="MHz: it must be above 0"):
        DeviceModel(clock_mhz=mhz)


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_flash_that_gives_nothing(rate: float) -> None:
    with pytest.raises(ValueError, match="bytes a second: it must be above 0"):
        DeviceModel(flash_rate=rate)


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
    ]


def test_summary_puts_the_largest_class_first() -> None:
    lines = profiler_summary([op_time(0, "PAD", 1), op_time(1, "ADD", 3)]).splitlines()
    assert [line.split()[1] for line in lines[-2:]] == ["ADD", "PAD"]


def test_summary_of_nothing() -> None:
    total = "Total                                          0      0.000 ms"
    assert profiler_summary([]).splitlines() == ["Operators", total, "", "By operator class"]


def test_summary_of_operators_that_take_no_time() -> None:
    assert profiler_summary([op_time(0, "ADD", 0)]).splitlines()[-1].endswith("  0.00 %")
