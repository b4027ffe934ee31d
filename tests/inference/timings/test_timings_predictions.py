"""Published times against the predictions, and what the laws promise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aisrv.inference.timings import (
    Basis,
    DeviceModel,
    FlashPath,
    Generation,
    Kernels,
    Memory,
    OperatorTime,
    basis_shares,
    generation_of,
    total_of,
)
from aisrv.inference.timings.convolution import Convolution, cost_of, parameter_lines, slots
from aisrv.inference.timings.cost import Conditions
from aisrv.inference.timings.estimation import estimate_times
from aisrv.inference.timings.laws import Form
from aisrv.model.reader import read_model
from benchmarks.left_out import NETWORKS, left_out
from benchmarks.predictions import PAGE, figures, page
from benchmarks.predictions import main as predictions
from benchmarks.published_networks import (
    PROFILES,
    Measured,
    person_detector,
    person_detector_2024,
    person_detector_with_reference_kernels,
    read_csv,
)
from tests.support.amounts import in_ci
from tests.support.peers import mlperf_tiny

IN_FLASH = "mobilenet_v1_025_128_2022"
EXTERNAL = "mobilenet_v1_025_192_2021"


def measured(name: str) -> Measured:
    return read_csv(PROFILES / f"{name}.csv")


def pairs(network: Measured) -> Iterator[tuple[OperatorTime, int]]:
    return zip(estimate_times(network.device, network.model), network.ticks, strict=True)


def total(times: tuple[OperatorTime, ...]) -> int:
    return sum(time.ticks for time in times)


# A network of 2022, its parameters in flash.


def test_each_convolution_of_2022_is_within_a_thousandth() -> None:
    convolutions = [each for each in pairs(measured(IN_FLASH)) if each[0].name == "XC_conv2d_v2"]
    assert len(convolutions) == 27
    assert max(abs(time.ticks / ticks - 1) for time, ticks in convolutions) < 0.001


def test_each_load_through_the_flash_server_is_within_200_ticks() -> None:
    loads = [each for each in pairs(measured(IN_FLASH)) if each[0].name == "XC_ld_flash"]
    assert len(loads) == 54
    assert max(abs(time.ticks - ticks) for time, ticks in loads) <= 200


def test_each_pad_of_2022_is_within_a_hundredth() -> None:
    pads = [each for each in pairs(measured(IN_FLASH)) if each[0].name == "PAD"]
    assert len(pads) == 5
    assert max(abs(time.ticks / ticks - 1) for time, ticks in pads) < 0.01


def test_total_of_2022() -> None:
    network = measured(IN_FLASH)
    times = estimate_times(network.device, network.model)
    assert total(times) == pytest.approx(35_704_151, rel=0.005)
    assert total_of(times, network.device, network.model).ms == pytest.approx(204.0, rel=0.005)


# The network with all its data in external memory.


def test_total_in_external_memory() -> None:
    network = measured(EXTERNAL)
    assert total(estimate_times(network.device, network.model)) == pytest.approx(198_707_759, rel=0.05)


def test_each_class_of_a_hundredth_in_external_memory_is_within_a_fifth() -> None:
    found: dict[str, list[int]] = {}
    for time, ticks in pairs(measured(EXTERNAL)):
        sums = found.setdefault(time.form or time.name, [0, 0])
        sums[0] += time.ticks
        sums[1] += ticks
        assert time.memory is Memory.EXTERNAL
    large = {name: each for name, each in found.items() if each[1] >= 1_987_078}
    assert set(large) == {"PAD", "padded", "indirect", "direct", "depthwise", "depthwise padded"}
    assert max(abs(predicted / real - 1) for predicted, real in large.values()) < 0.2


def test_a_layer_with_its_parameters_in_external_memory() -> None:
    """Published: 30.6 ms of 175 MHz / 100,000 ticks, for 10x10x128 to 128 in 1x1; 2.015 without."""
    layer = Convolution(Form.DIRECT, 10, 10, 128, depth=128)
    device = DeviceModel().for_generation(Generation.G2022)
    internal = device.slot_ticks(cost_of(layer, Conditions(Generation.G2022)).slots)
    assert internal == pytest.approx(201_500, rel=0.001)
    external = internal + device.line_ticks(parameter_lines(layer).count)
    assert external == pytest.approx(3_060_000, rel=0.005)


# The person detector.


@pytest.mark.parametrize(("threads", "ticks"), [(1, 3_054_809), (5, 800_767)])
def test_total_of_the_person_detector(threads: int, ticks: int) -> None:
    """After and before conversion, where pads are counted with the convolutions that they go before."""
    for model in (person_detector(), read_model(mlperf_tiny.model_bytes("vww_96_int8"))):
        assert total(estimate_times(DeviceModel(threads=threads), model)) == pytest.approx(ticks, rel=0.02)


@pytest.mark.parametrize(
    ("threads", "name", "ticks"),
    [
        (1, "XC_conv2d_v2", 2_971_789),
        (5, "XC_conv2d_v2", 717_748),
        (1, "XC_pad", 54_115),
        (5, "XC_pad", 54_115),
        (1, "XC_pad_3_to_4", 26_993),
    ],
)
def test_classes_of_the_person_detector(threads: int, name: str, ticks: int) -> None:
    times = estimate_times(DeviceModel(threads=threads), person_detector())
    assert sum(time.ticks for time in times if time.name == name) == pytest.approx(ticks, rel=0.02)


def test_node_41_of_the_person_detector() -> None:
    assert estimate_times(DeviceModel(), person_detector())[41].ticks == pytest.approx(34_557, rel=0.005)


@pytest.mark.parametrize(
    ("index", "ticks"),
    [(1, 13_945), (41, 34_557), (42, 2_550), (43, 591), (44, 110), (45, 134), (46, 1_668)],
)
def test_published_nodes_are_in_their_bands(index: int, ticks: int) -> None:
    time = estimate_times(DeviceModel(), person_detector())[index]
    assert time.low <= ticks <= time.high


@pytest.mark.parametrize("name", [IN_FLASH, EXTERNAL])
def test_every_measured_operator_is_in_its_band(name: str) -> None:
    outside = [
        (time.index, time.name, time.low, ticks, time.high)
        for time, ticks in pairs(measured(name))
        if not time.low <= ticks <= time.high
    ]
    assert outside == []


def test_person_detector_of_2024() -> None:
    """33.20 ms with fast flash: convolutions 2,779,619, pads 53,368, 30 loads 459,310 ticks."""
    model = person_detector_2024()
    device = DeviceModel().for_generation(generation_of(model).generation)
    times = estimate_times(device, model)
    assert total(times) == pytest.approx(3_320_000, rel=0.02)
    found = total_of(times, device, model)
    assert found.published
    assert found.low <= 3_320_000 <= found.high
    sums = {name: sum(t.ticks for t in times if t.name == name) for name in {time.name for time in times}}
    assert sums["XC_conv2d_v2"] == pytest.approx(2_779_619, rel=0.02)
    assert sums["XC_ld_weights"] == pytest.approx(459_310, rel=0.04)
    assert sums["XC_softmax"] == 392


def test_person_detector_with_two_reference_kernels() -> None:
    """74.86 ms: two depthwise convolutions were left to TensorFlow Lite Micro."""
    model = person_detector_with_reference_kernels()
    times = estimate_times(DeviceModel(), model)
    assert total(times) == pytest.approx(7_486_305, rel=0.01)


# Bands.


@pytest.mark.parametrize(
    ("name", "threads", "text"),
    [
        ("vww_96_int8", 1, "30.4 ms (28.5 to 30.7: measured)"),
        ("vww_96_int8", 5, "8.1 ms (7.6 to 8.1: measured)"),
        ("kws_ref_model", 1, "7.3 ms (6.8 to 8.5)"),
        ("pretrainedResnet_quant", 1, "16.5 ms (14.3 to 18.4)"),
    ],
)
def test_the_time_of_a_network_has_its_band(name: str, threads: int, text: str) -> None:
    model = read_model(mlperf_tiny.model_bytes(name))
    device = DeviceModel(threads=threads)
    assert str(total_of(estimate_times(device, model), device, model)) == text


@pytest.mark.parametrize(
    "changed",
    [
        {"clock_mhz": 700},
        {"reference_mhz": 175},
        {"threads": 2},
        {"cores": 6},
        {"arena": Memory.EXTERNAL},
        {"parameters": Memory.EXTERNAL},
        {"kernels": Kernels.REFERENCE},
        {"generation": Generation.G2022},
    ],
)
def test_a_published_total_is_of_its_device_alone(changed: dict[str, Any]) -> None:
    model, device = person_detector(), replace(DeviceModel(), **changed)
    assert total_of(estimate_times(device, model), device, model).published == ()


def test_shares_of_the_bases_sum_up() -> None:
    shares = basis_shares(estimate_times(DeviceModel(), person_detector()))
    assert sum(shares.values()) == pytest.approx(1)
    assert set(shares) == set(Basis)


# Clocks.


def of(time: tuple[OperatorTime, ...], *names: str) -> int:
    return sum(each.ticks for each in time if each.name in names)


def test_half_the_clock_doubles_compute_and_server_but_not_fast_flash() -> None:
    network = measured(IN_FLASH)
    half = replace(network.device, clock_mhz=350)
    whole_times, half_times = (estimate_times(each, network.model) for each in (network.device, half))
    for name in ("XC_conv2d_v2", "XC_ld_flash", "PAD"):
        assert of(half_times, name) == pytest.approx(2 * of(whole_times, name), rel=1e-4)
    fast, fast_half = (
        estimate_times(replace(each, flash=FlashPath.FAST), network.model) for each in (network.device, half)
    )
    assert of(fast, "XC_ld_flash") == of(fast_half, "XC_ld_flash")


def test_a_given_external_clock_stays_as_the_core_slows_down() -> None:
    network = measured(EXTERNAL)
    fixed = replace(network.device, external_clock_mhz=87.5)
    half = replace(fixed, clock_mhz=350)
    inside = replace(network.device, parameters=Memory.INTERNAL, arena=Memory.INTERNAL)
    computing = total(estimate_times(inside, network.model))
    whole, slow = (total(estimate_times(each, network.model)) for each in (fixed, half))
    assert slow - whole == pytest.approx(computing, rel=1e-4)
    assert total(estimate_times(replace(half, external_clock_mhz=None), network.model)) == pytest.approx(
        2 * whole, rel=1e-4
    )


def test_reference_clock_changes_ticks_but_not_milliseconds() -> None:
    model, device = person_detector(), DeviceModel()
    other = replace(device, reference_mhz=175)
    here, there = (total_of(estimate_times(each, model), each, model) for each in (device, other))
    assert there.ms == pytest.approx(here.ms, rel=1e-4)
    assert there.ticks == pytest.approx(1.75 * here.ticks, rel=1e-4)


# Laws.

LAYERS = st.builds(
    lambda form, height, width, channels, kernel, depth, batch: Convolution(
        form, height, width, channels, kernel, 1 if form.is_depthwise else depth, batch
    ),
    st.sampled_from(Form),
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(1, 300),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.integers(1, 300),
    st.integers(1, 3),
)


@settings(max_examples=in_ci(1000, every_day=200), deadline=None)
@given(LAYERS, st.sampled_from(Generation))
def test_no_law_falls_in_any_dimension(layer: Convolution, generation: Generation) -> None:
    taller, wider = (layer.kernel[0] + 1, layer.kernel[1]), (layer.kernel[0], layer.kernel[1] + 1)
    here = slots(layer, generation)
    for larger in (
        replace(layer, height=layer.height + 1),
        replace(layer, width=layer.width + 1),
        replace(layer, channels=layer.channels + 1),
        replace(layer, batch=layer.batch + 1),
        replace(layer, kernel=taller),
        replace(layer, kernel=wider),
        *([] if layer.form.is_depthwise else [replace(layer, depth=layer.depth + 1)]),
    ):
        assert slots(larger, generation) >= here
    if layer.form in (Form.DIRECT, Form.INDIRECT):
        assert here >= 18 * layer.pixels * layer.groups * layer.vectors


def test_a_profile_in_another_folder_is_read(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text(
        "index,operator,inputs,outputs,milliseconds\n0,PAD,1x4x4x4 4x2,1x6x6x4,0.02\n1,PACK,   ,4,0.0055\n"
    )
    network = read_csv(path)
    assert network.ticks == (2000, 550)
    assert [len(operator.inputs) for operator in network.model.operators] == [2, 4]


# The command.


@pytest.mark.parametrize("name", NETWORKS)
def test_laws_without_a_network_predict_it_inside_the_band(name: str) -> None:
    result = left_out(name)
    assert result.low <= result.published <= result.high
    assert result.high < 3 * result.published


def test_every_published_figure_is_in_its_band() -> None:
    assert [figure for figure in figures() if not figure.is_inside] == []


def test_the_page_has_the_figures_as_they_are() -> None:
    assert PAGE.read_text() == page()


def test_a_csv_is_shown_operator_by_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert predictions(["--csv", str(PROFILES / f"{IN_FLASH}.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("35,702,285 ticks of 1/175 us")
    assert " ".join(lines[1].split()) == "0 PAD 1,437,963 1,438,720 +0.05 % 1,352,397 to 1,525,043"
    assert len([line for line in lines if "XC_conv2d_v2" in line]) == 27
