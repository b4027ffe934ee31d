"""Native kernels of int16, in every variant that this processor runs: what NumPy and the plain loops give."""

import functools
import math
from array import array
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels import int16
from aisrv.addons.kernels.arithmetic import (
    Multiplier,
    float32,
    multiply_twice_rounded,
    quantized_multiplier,
    wrapped,
)
from aisrv.addons.kernels.backends.native.backend import NativeBackend
from aisrv.addons.kernels.backends.native.elementwise import MOST_TAPS
from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.steps import NativeKernel
from aisrv.addons.kernels.backends.native.sums import PIECE_WEIGHTS, cut_segments
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.params import INT16, FullyConnectedParams, FusedActivation, PoolParams, QuantParam
from aisrv.model import Padding
from tests.support.amounts import amount
from tests.support.models.int16_cases import Int16Draw, halves
from tests.support.models.int16_models import int16_network
from tests.support.models.native import native
from tests.support.models.operators import METHODS, Case
from tests.support.oracles.network_runs import run_network

PRODUCTS = (BuiltinOperator.CONV_2D, BuiltinOperator.FULLY_CONNECTED)
LAYERS = (*PRODUCTS, BuiltinOperator.DEPTHWISE_CONV_2D)
CASES = amount(2000, every_day=40)


@functools.cache
def by_numpy(code: int, seed: int) -> tuple[Case, list[int]]:
    case = Int16Draw(seed).case(code)
    return case, case.run(NumpyBackend())


def prepared(case: Case, variant: Variant) -> NativeKernel:
    """The library's own kernel; NotImplementedError where it leaves a case to NumPy."""
    kernel = getattr(NativeBackend(variant).int16, METHODS[case.code])(case.params)
    assert isinstance(kernel, NativeKernel)
    return kernel


def is_wide(case: Case, variant: Variant) -> bool:
    """Whether sums of a layer are added in 64 bits."""
    return bool(prepared(case, variant).steps[0].arguments.wide.is_needed)


def taken(case: Case, variant: Variant) -> bool:
    try:
        prepared(case, variant)
    except NotImplementedError:
        return False
    return True


@pytest.mark.in_full
@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_equals_numpy(code: int, variant: Variant) -> None:
    backend = native(variant)
    for seed in range(CASES):
        case, expected = by_numpy(code, seed)
        assert case.run(backend) == expected, f"seed {seed}"


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_equals_the_plain_loops(code: int, variant: Variant) -> None:
    sizes = {BuiltinOperator.CONV_2D: 20_000, BuiltinOperator.DEPTHWISE_CONV_2D: 2_000}
    tried = 0
    for seed in range(60):
        case, expected = by_numpy(code, seed)
        if code in sizes and len(case.params.output) * len(case.params.weights) > sizes[code] * 100:
            continue
        assert case.run(ReferenceBackend()) == expected
        assert case.run(native(variant)) == expected
        tried += 1
        if tried == 4:
            break
    assert tried == 4


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_the_library_itself_computes_most(code: int, variant: Variant) -> None:
    """What falls back proves nothing."""
    computed = sum(taken(by_numpy(code, seed)[0], variant) for seed in range(40))
    is_numpys = variant is Variant.PLAIN and code in PRODUCTS
    assert computed == 0 if is_numpys else computed >= 34


@pytest.mark.parametrize("code", LAYERS, ids=[METHODS[code] for code in LAYERS])
def test_layers_are_of_words_and_wide(code: int, multiplying: Variant) -> None:
    cases = [by_numpy(code, seed)[0] for seed in range(40)]
    wide = sum(is_wide(case, multiplying) for case in cases if taken(case, multiplying))
    assert 5 <= wide <= 30


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.usefixtures("shared_steps")
def test_threads_change_nothing(threads: int, variant: Variant) -> None:
    for code in METHODS:
        for seed in range(3):
            case, expected = by_numpy(code, seed)
            assert case.run(native(variant, threads)) == expected


def test_a_network_is_one_call(multiplying: Variant) -> None:
    model = int16_network()
    ours, numpys = load_network(model, native(multiplying)), load_network(model, NumpyBackend())
    inputs = [np.random.default_rng(1).normal(0, 1, (1, 6, 5, 3)).astype(np.float32)]
    assert run_network(ours, inputs) == run_network(numpys, inputs)
    computed = [each for each in ours.operators if isinstance(each.kernel, NativeKernel)]
    assert len(computed) >= 6
    assert len(ours.kernels) < len(ours.operators)


# Sums: on both sides of where words end.


def layer(
    inputs: list[int], weights: list[int], bias: "array[int] | None", real: float, outputs: int = 1
) -> Case:
    """FULLY_CONNECTED of one row, whose outputs have the same weights."""
    params = FullyConnectedParams(
        memoryview(array("h", inputs)),
        QuantParam(1.0, 0),
        memoryview(array("b", weights * outputs)).toreadonly(),
        (outputs, len(inputs)),
        QuantParam(real, 0),
        None,
        None if bias is None else memoryview(bias).toreadonly(),
        memoryview(array("h", [0] * outputs)),
        outputs,
        QuantParam(1.0, 0),
        FusedActivation.NONE,
    )
    return Case(BuiltinOperator.FULLY_CONNECTED, params)


@pytest.mark.parametrize("count", [1, 2, 255, 256, 511, 512, 513, 1024, 4095])
@pytest.mark.parametrize("ends", [(-(1 << 15), -128), (-(1 << 15), 127), ((1 << 15) - 1, -128)])
def test_the_largest_sums(count: int, ends: tuple[int, int], multiplying: Variant) -> None:
    value, weight = ends
    real = 2.0**-17
    case = layer([value] * count, [weight] * count, None, real)
    expected = int16.multiply_wide(count * value * weight, quantized_multiplier(real))
    assert case.run(native(multiplying)) == [max(-(1 << 15), min((1 << 15) - 1, expected))]
    # The doubled sums of words.
    assert is_wide(case, multiplying) == (count * 32768 * abs(weight) >= 1 << 30)


@pytest.mark.parametrize("shift", [-31, -20, -17, -16, -15, -8, -2, -1, 0, 1, 2, 7])
def test_one_rounding_where_it_matters(shift: int, multiplying: Variant) -> None:
    chance = np.random.default_rng(shift + 40)
    for mantissa in ((1 << 30), (1 << 31) - 128, int(chance.integers(1 << 23, 1 << 24)) << 7):
        real = math.ldexp(mantissa, shift - 31)
        multiplier = quantized_multiplier(real)
        assert multiplier == Multiplier(mantissa, shift)
        reach = (1 << 30 if shift < 0 else (1 << 30) >> shift) - 1
        thresholds = (chance.integers(-32769, 32769, 60) + 0.5) / real
        near = np.clip(np.concatenate([np.rint(thresholds) + step for step in (-1, 0, 1)]), -reach, reach)
        sums = [*near.astype(int).tolist(), *chance.integers(-reach, reach, 40).tolist(), 0, -reach, reach]
        # Weights of 0 make biases of sums.
        case = layer([1], [0], array("q", sums), real, len(sums))
        expected = [int16.multiply_wide(each, multiplier) for each in sums]
        assert case.run(native(multiplying)) == [max(-32768, min(32767, each)) for each in expected]
        # Two inputs that reach nothing: no channel is a constant.
        case = layer([0, 0], [1, -1], array("q", sums), real, len(sums))
        assert case.run(native(multiplying)) == [max(-32768, min(32767, each)) for each in expected]


@pytest.mark.parametrize("shift", [-12, -5, -1, 0, 2])
def test_two_roundings_beside_a_bias_of_32_bits(shift: int, multiplying: Variant) -> None:
    real = math.ldexp(1 << 30, shift - 31)
    multiplier = quantized_multiplier(real)
    # Ties of both signs, and what lies beside them.
    ties = [int((number + 0.5) / real) for number in range(-20, 20)]
    sums = [tie + off for tie in ties for off in (-1, 0, 1)]
    case = layer([0, 0], [1, -1], array("i", sums), real, len(sums))
    assert not is_wide(case, multiplying)
    expected = [multiply_twice_rounded(each, multiplier) for each in sums]
    assert case.run(native(multiplying)) == expected == case.run(ReferenceBackend())


def test_pieces_of_several_segments(multiplying: Variant) -> None:
    """Three rows of a window with weights of 32,000 each: two in the first piece, one in the second."""
    case = Int16Draw(0).convolution(depthwise=False)
    channels, rows, values = 250, 3, [-(1 << 15)] * (3 * 2 * 250)
    params = replace(
        case.params,
        input=memoryview(array("h", values)),
        input_shape=(1, rows, 2, channels),
        weights=memoryview(array("b", [-128] * (rows * channels))).toreadonly(),
        weights_shape=(1, rows, 1, channels),
        weights_quant=QuantParam(2.0**-17, 0),
        weights_per_channel_quant=None,
        bias=None,
        output=memoryview(array("h", [0, 0])),
        output_shape=(1, 1, 2, 1),
        stride_h=1,
        stride_w=1,
        dilation_h_factor=1,
        dilation_w_factor=1,
        padding=Padding.VALID,
        activation=FusedActivation.NONE,
    )
    case = replace(case, params=params)
    assert is_wide(case, multiplying)
    assert case.run(native(multiplying)) == [(rows * channels << 22) >> 17] * 2


@pytest.mark.parametrize("form", ["i", "q"])
def test_sums_wrap_as_their_bias_says(form: str, multiplying: Variant) -> None:
    """A bias of 32 bits beside int16 makes words of sums, which wrap; of others the result does."""
    end, real = (1 << 31) - 1, 64.0
    case = layer([32767, 32767], [127, 127], array(form, [end]), real)
    total = 2 * 32767 * 127 + end
    factor = quantized_multiplier(real)
    expected = (multiply_twice_rounded if form == "i" else int16.multiply_wide)(total, factor)
    assert case.run(native(multiplying)) == [max(-32768, min(32767, expected))]
    assert case.run(NumpyBackend()) == case.run(native(multiplying))
    assert is_wide(case, multiplying)


@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=6),
    st.sampled_from([1, 2, 8]),
    st.integers(1, 3),
    st.integers(0, 1 << 32),
)
def test_pieces_cover_all_segments_and_have_sums_of_32_bits(
    lengths: list[int], unit: int, channels: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    weights = chance.integers(-255, 256, (sum(lengths), channels))
    starts = [1000 * number for number in range(len(lengths))]
    segments = list(zip(starts, lengths, strict=True))
    cut, counts = cut_segments(weights, segments, unit)
    assert sum(counts) == len(cut)
    elements = [offset + i for offset, length in segments for i in range(length)]
    assert [offset + i for offset, length in cut for i in range(length)] == elements
    # A cut inside of a segment is between units.
    assert all((offset % 1000) % unit == 0 for offset, _ in cut)
    at = piece = 0
    for count in counts:
        length = sum(length for _, length in cut[piece : piece + count])
        assert np.abs(weights[at : at + length]).sum(axis=0).max() <= PIECE_WEIGHTS
        at, piece = at + length, piece + count


@pytest.mark.parametrize(("last", "pieces"), [(127, 1), (128, 2)])
def test_a_piece_has_weights_up_to_65535(last: int, pieces: int) -> None:
    weights = np.array([128] * 511 + [last])[:, None]
    _, counts = cut_segments(weights, [(0, 512)], 1)
    assert len(counts) == pieces


def test_channels_without_a_choice_are_constants(multiplying: Variant) -> None:
    """Biases of up to 46 bits, weights of 0: outputs that are known at once."""
    case = layer([5], [0], array("q", [1 << 45, -(1 << 45), 7]), 0.25, 3)
    assert not is_wide(case, multiplying)
    expected = [wrapped(1 << 43), wrapped(-(1 << 43)), 2]
    assert case.run(native(multiplying)) == [max(-32768, min(32767, each)) for each in expected]


# Pools.


def means_of_all(rows: list[list[int]]) -> Case:
    """The mean of each row."""
    quant, taps, count = QuantParam(1.0, 0), len(rows[0]), len(rows)
    params = PoolParams(
        memoryview(array("h", np.concatenate(rows).tolist())),
        (count, 1, taps, 1),
        quant,
        memoryview(array("h", [0] * count)),
        (count, 1, 1, 1),
        quant,
        stride_w=1,
        stride_h=1,
        filter_w=taps,
        filter_h=1,
        padding=Padding.VALID,
        activation=FusedActivation.NONE,
    )
    return Case(BuiltinOperator.AVERAGE_POOL_2D, params)


def near_multiples(taps: int) -> list[list[int]]:
    """Rows of taps whose sums are multiples of their number, and one or a half of it off."""
    rows = []
    for mean in (-32768, -32767, -1, 0, 1, 16384, 32766, 32767):
        for off in (-(taps // 2), -1, 0, 1, taps // 2):
            row = np.full(taps, mean)
            row[: abs(off)] += np.sign(off)
            rows.append(np.clip(row, -32768, 32767).tolist())
    return rows


def test_means_near_whole_numbers(variant: Variant) -> None:
    """Quotients in float32 must not round to the next whole number."""
    backend = native(variant)
    for taps in range(1, 257):
        rows, half = near_multiples(taps), taps // 2
        totals = [sum(row) for row in rows]
        expected = [(each + half) // taps if each > 0 else -((half - each) // taps) for each in totals]
        assert means_of_all(rows).run(backend) == expected


def test_a_pool_of_more_taps_is_left_to_numpy(variant: Variant) -> None:
    assert MOST_TAPS[INT16] == 1 << 8
    case = means_of_all([halves(257, np.random.default_rng(1)).tolist()])
    assert not taken(case, variant)
    assert case.run(native(variant)) == case.run(NumpyBackend())


# ADD.


@pytest.mark.parametrize("scale", [2.0**-15, 2.0**-14, 1.0])
def test_add_of_extremes(scale: float, variant: Variant) -> None:
    """Both inputs at an end: their sum, 15 bits wider, is the largest that there is."""
    ends = [-32768, 32767, -32768, 32767, 0, 1, -1]
    case = Int16Draw(0).add()
    params = replace(
        case.params,
        input1=memoryview(array("h", ends)),
        input2=memoryview(array("h", [-32768, 32767, 32767, -32768, -1, 1, 0])),
        input1_quant=QuantParam(2.0**-15, 0),
        input2_quant=QuantParam(2.0**-15, 0),
        output=memoryview(array("h", [0] * len(ends))),
        output_quant=QuantParam(float32(scale), 0),
        activation=FusedActivation.NONE,
    )
    case = replace(case, params=params)
    assert case.run(native(variant)) == case.run(ReferenceBackend())


def test_add_takes_words_where_they_have_room(multiplying: Variant) -> None:
    case = Int16Draw(0).add()
    quants = {"input1_quant": QuantParam(2.0**-15, 0), "input2_quant": QuantParam(2.0**-15, 0)}
    kinds = []
    for scale in (2.0**-15, 2.0**-30):
        params = replace(case.params, **quants, output_quant=QuantParam(scale, 0))
        kinds.append(prepared(replace(case, params=params), multiplying).steps[0].kind)
    assert kinds == ["ADDITION_INT16", "WIDE_ADDITION_INT16"]


def test_a_softmax_of_too_many_classes_is_left_to_numpy(variant: Variant) -> None:
    case = Int16Draw(0).softmax()
    for classes, is_native in ((1 << 16, True), ((1 << 16) + 1, False)):
        data = halves(classes, np.random.default_rng(1))
        params = replace(
            case.params,
            input=data,
            input_shape=(1, classes),
            output=memoryview(array("h", [0] * classes)),
        )
        assert taken(replace(case, params=params), variant) == is_native
