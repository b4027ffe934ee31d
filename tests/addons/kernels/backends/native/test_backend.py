"""The native backend, in every variant that this processor runs: byte for byte what the plain loops give."""

import functools
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import Multiplier, float32, multiply_twice_rounded, quantized_multiplier
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.backends.native.backend import NativeBackend
from aisrv.addons.kernels.backends.native.elementwise import MOST_TAPS
from aisrv.addons.kernels.backends.native.library import NativeError, Variant
from aisrv.addons.kernels.backends.native.steps import NativeKernel
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.errors import InvalidShape
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.plan import plan_apart
from aisrv.addons.kernels.params import (
    INT8,
    Conv2dParams,
    FullyConnectedParams,
    FusedActivation,
    PadParams,
    PerChannelQuantParam,
    PoolParams,
    QuantParam,
)
from aisrv.addons.kernels.windows import window
from aisrv.model import Padding, TensorType
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from tests.addons.kernels.backends.numpy.test_backend import (
    BROKEN_TILES,
    CONVOLUTIONS,
    PICTURES,
    POOLS,
    WIDE,
    resized,
)
from tests.support.amounts import amount, in_ci, share
from tests.support.models.native import library, native
from tests.support.models.one_operator import random_int8
from tests.support.models.operators import METHODS, Case, Draw, values, words
from tests.support.oracles.network_runs import run_network
from tests.support.peers import mlperf_tiny, tflite_micro_models

PRODUCTS = (*CONVOLUTIONS, BuiltinOperator.FULLY_CONNECTED)
NETWORKS = (*mlperf_tiny.NAMES, "person_detect", "micro_speech_quantized")


def taken(case: Case, backend: NativeBackend) -> bool:
    """Whether the library itself computes a case."""
    try:
        getattr(backend, METHODS[case.code])(case.params)
    except NotImplementedError:
        return False
    return True


# Against the plain loops. What they give is computed once for all variants.

Expected = list[tuple[Case, list[int]]]


@functools.cache
def by_plain_loops(code: int) -> Expected:
    cases = [Draw(seed).case(code) for seed in range(in_ci(80, every_day=30))]
    return [(case, case.run(ReferenceBackend())) for case in cases]


@functools.cache
def ties_by_numpy(code: int) -> Expected:
    cases = [Draw(seed).wide(code) for seed in range(10)]
    return [(case, case.run(NumpyBackend())) for case in cases]


@functools.cache
def picture_by_numpy(code: int, picture: int) -> Expected:
    draws = [Draw(seed) for seed in range(3)]
    cases = [resized(draw.case(code), draw, **PICTURES[picture]) for draw in draws]
    return [(case, case.run(NumpyBackend())) for case in cases]


@pytest.mark.parametrize("code", METHODS, ids=METHODS.values())
def test_equals_the_plain_loops(code: int, variant: Variant) -> None:
    backend, library_alone = native(variant), NativeBackend(variant)
    cases = by_plain_loops(code)
    for seed, (case, expected) in enumerate(cases):
        assert case.run(backend) == expected, f"seed {seed}"
    # What falls back proves nothing: most cases must be the library's.
    computed = sum(taken(case, library_alone) for case, _ in cases)
    assert computed == 0 if variant is Variant.PLAIN and code in PRODUCTS else computed >= len(cases) * 3 // 4


@pytest.mark.parametrize("code", WIDE, ids=[METHODS[code] for code in WIDE])
def test_equals_numpy_where_ties_are_frequent(code: int, variant: Variant) -> None:
    for seed, (case, expected) in enumerate(ties_by_numpy(code)):
        assert case.run(native(variant)) == expected, f"seed {seed}"


@pytest.mark.parametrize(
    "picture", share(range(len(PICTURES)), one_in=3, also=[PICTURES.index(BROKEN_TILES)])
)
@pytest.mark.parametrize("code", CONVOLUTIONS + POOLS, ids=[METHODS[code] for code in CONVOLUTIONS + POOLS])
def test_equals_numpy_on_pictures_of_all_sizes(code: int, picture: int, variant: Variant) -> None:
    for seed, (case, expected) in enumerate(picture_by_numpy(code, picture)):
        assert case.run(native(variant)) == expected, f"seed {seed}"


def convolution(draw: Draw, batch: int, size: tuple[int, int], taps: tuple[int, int], **options: Any) -> Case:
    """CONV_2D with so many input and output channels."""
    inputs, outputs, stride = options["inputs"], options["outputs"], options["stride"]
    padding, dilation = options["padding"], options["dilation"]
    extents = [window(n, tap, stride, dilation, padding).outputs for n, tap in zip(size, taps, strict=True)]
    input_quant, output_quant = draw.quant(), draw.quant()
    scales = tuple(
        float32(draw.factor(math.prod(taps) * inputs) * output_quant.scale / input_quant.scale)
        for _ in range(outputs)
    )
    params = Conv2dParams(
        input=draw.data(batch * math.prod(size) * inputs),
        input_shape=(batch, *size, inputs),
        input_quant=input_quant,
        weights=draw.data(outputs * math.prod(taps) * inputs).toreadonly(),
        weights_shape=(outputs, *taps, inputs),
        weights_quant=QuantParam(scales[0], 0),
        weights_per_channel_quant=PerChannelQuantParam(scales, (0,) * outputs, 0),
        bias=words(draw.random.randint(-5000, 5000) for _ in range(outputs)),
        output=values([0] * (batch * math.prod(extents) * outputs)),
        output_shape=(batch, extents[0], extents[1], outputs),
        output_quant=output_quant,
        stride_w=stride,
        stride_h=stride,
        dilation_w_factor=dilation,
        dilation_h_factor=dilation,
        padding=padding,
        activation=draw.activation(),
    )
    return Case(BuiltinOperator.CONV_2D, params)


@pytest.mark.in_full
@settings(max_examples=amount(2000, every_day=60), deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 16),
    batch=st.integers(1, 2),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    inputs=st.integers(1, 20),
    outputs=st.integers(1, 150),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.sampled_from([Padding.SAME, Padding.VALID]),
    least=st.sampled_from([-128, *[-127] * 9]),
    has_ends_alone=st.sampled_from([True, *[False] * 4]),
)
def test_convolutions_of_all_forms_equal_numpys(
    seed: int,
    batch: int,
    size: tuple[int, int],
    taps: tuple[int, int],
    least: int,
    has_ends_alone: bool,
    **options: Any,
) -> None:
    """Layers with a weight of -128 have tiles of their own; a fifth has the largest numbers alone."""
    if options["padding"] is Padding.VALID:
        reach = [(tap - 1) * options["dilation"] + 1 for tap in taps]
        size = max(size[0], reach[0]), max(size[1], reach[1])
    case = convolution(Draw(seed), batch, size, taps, **options)
    weights, data = (np.array(each, np.int8) for each in (case.params.weights, case.params.input))
    if has_ends_alone:
        weights, data = (np.where(each < 0, -128, 127) for each in (weights, data))
    weights = np.maximum(weights, least)
    params = replace(case.params, weights=values(weights.tolist()).toreadonly(), input=values(data.tolist()))
    case = replace(case, params=params)
    expected = case.run(NumpyBackend())
    for variant in library().variants:
        assert case.run(native(variant)) == expected


@functools.cache
def tiles_by_numpy(blocks: int, pixels: int) -> Expected:
    form = {"inputs": 4, "stride": 1, "padding": Padding.VALID, "dilation": 1}
    cases = [
        convolution(Draw(pixels), 1, (1, pixels), (1, 1), outputs=outputs, **form)
        for outputs in (16 * blocks, 16 * blocks - 5)
    ]
    return [(case, case.run(NumpyBackend())) for case in cases]


@pytest.mark.parametrize("pixels", [*range(1, 14), 23, 24, 25, 97])
@pytest.mark.parametrize("blocks", share([1, 2, 3, 4, 5, 8, 9], one_in=3, also=(2, 3)))  # tiles are as wide
def test_tiles_of_all_sizes_equal_numpys(blocks: int, pixels: int, variant: Variant) -> None:
    for case, expected in tiles_by_numpy(blocks, pixels):
        assert case.run(native(variant)) == expected


@pytest.mark.parametrize("least", [-127, -128])
def test_layers_with_and_without_weights_of_minus_128(least: int, multiplying: Variant) -> None:
    """Two products in 16 bits, as NEON adds them, overflow where both weights and both inputs are -128."""
    form = {"stride": 1, "padding": Padding.VALID, "dilation": 1}
    for seed, (inputs, outputs) in enumerate([(4, 16), (7, 33), (32, 64), (64, 80)]):
        case = convolution(Draw(seed), 1, (3, 5), (1, 1), inputs=inputs, outputs=outputs, **form)
        for chosen in (random_int8([len(case.params.weights)], seed), np.array([least], np.int8)):
            weights = np.maximum(np.resize(chosen, len(case.params.weights)), least)
            weights[0] = least
            for inputs_given in (list(case.params.input), [-128] * len(case.params.input)):
                params = replace(
                    case.params, input=values(inputs_given), weights=values(weights.tolist()).toreadonly()
                )
                each = replace(case, params=params)
                assert taken(each, NativeBackend(multiplying))
                assert each.run(native(multiplying)) == each.run(NumpyBackend())


@pytest.mark.parametrize("least", [-127, -128])
def test_depthwise_layers_with_and_without_weights_of_minus_128(least: int, multiplying: Variant) -> None:
    draw = Draw(1)
    case = draw.case(BuiltinOperator.DEPTHWISE_CONV_2D)
    case = resized(case, draw, (5, 6), taps=(3, 3), stride=1, channels=17, padding=Padding.VALID, batch=1)
    params = replace(
        case.params,
        input=values([-128] * len(case.params.input)),
        input_quant=QuantParam(1.0, 0),
        weights=values([least] * len(case.params.weights)).toreadonly(),
        weights_per_channel_quant=None,
        weights_quant=QuantParam(2.0**-12, 0),
        bias=None,
        output_quant=QuantParam(1.0, 0),
        activation=FusedActivation.NONE,
    )
    case = replace(case, params=params)
    assert taken(case, NativeBackend(multiplying))
    assert case.run(native(multiplying)) == [round(9 * 128 * -least / 4096)] * len(params.output)


@functools.cache
def depthwise_by_numpy(taps: tuple[int, int], stride: int, channels: int) -> Expected:
    cases = []
    for size, padding in (((11, 12), Padding.SAME), ((12, 11), Padding.VALID)):
        draw = Draw(channels)
        case = draw.case(BuiltinOperator.DEPTHWISE_CONV_2D)
        case = resized(
            case, draw, size, taps=taps, stride=stride, channels=channels, padding=padding, batch=2
        )
        half = replace(
            case.params,
            depth_multiplier=1,
            weights=case.params.weights[: channels * math.prod(taps)],
            weights_shape=(1, *taps, channels),
            weights_per_channel_quant=None,
            weights_quant=QuantParam(case.params.weights_per_channel_quant.scales[0], 0),
            bias=None,
            output=values([0] * (len(case.params.output) // 2)),
            output_shape=(*case.params.output_shape[:3], channels),
        )
        cases += [case, replace(case, params=half)]
    return [(case, case.run(NumpyBackend())) for case in cases]


@pytest.mark.parametrize("channels", share([1, 2, 8, 15, 16, 17, 31, 32, 33, 48], one_in=2, also=(15, 17)))
@pytest.mark.parametrize("stride", [1, 2, pytest.param(3, marks=pytest.mark.long("as 1 and 2"))])
@pytest.mark.parametrize("taps", [(3, 3), (10, 4), (1, 1), (2, 5)])
def test_depthwise_windows_equal_numpys(
    taps: tuple[int, int], stride: int, channels: int, variant: Variant
) -> None:
    for case, expected in depthwise_by_numpy(taps, stride, channels):
        assert case.run(native(variant)) == expected


# Rescaling.


def biased(biases: list[int], real: float) -> FullyConnectedParams:
    """A layer with weights of 0, so that the biases are the sums."""
    one = QuantParam(1.0, 0)
    return FullyConnectedParams(
        input=values([0]),
        input_quant=one,
        weights=values([0] * len(biases)).toreadonly(),
        weights_shape=(len(biases), 1),
        weights_quant=QuantParam(real, 0),
        weights_per_channel_quant=None,
        bias=words(biases),
        output=values([0] * len(biases)),
        output_depth=len(biases),
        output_quant=one,
        activation=FusedActivation.NONE,
    )


def rescaled(biases: list[int], real: float, variant: Variant) -> list[int]:
    """What the library makes of sums."""
    case = Case(BuiltinOperator.FULLY_CONNECTED, biased(biases, real))
    return case.run(NativeBackend(variant))


@pytest.mark.parametrize("shift", share([*range(-22, 4), 6], one_in=3))
def test_two_roundings_where_they_matter(shift: int, multiplying: Variant) -> None:
    chance = np.random.default_rng(shift + 30)
    for mantissa in ((1 << 30), (1 << 31) - 128, int(chance.integers(1 << 23, 1 << 24)) << 7):
        real = math.ldexp(mantissa, shift - 31)
        multiplier = quantized_multiplier(real)
        assert multiplier == Multiplier(mantissa, shift)
        reach = min(1 << 27, (1 << 30) >> max(shift, 0)) - 1
        # Sums on both sides of where the output changes, and anywhere.
        thresholds = (chance.integers(-129, 129, 60) + 0.5) / real
        near = np.clip(np.concatenate([np.rint(thresholds) + step for step in (-1, 0, 1)]), -reach, reach)
        biases = [*near.astype(int).tolist(), *chance.integers(-reach, reach, 40).tolist(), 0, -reach, reach]
        expected = [max(-128, min(127, multiply_twice_rounded(each, multiplier))) for each in biases]
        assert rescaled(biases, real, multiplying) == expected


@pytest.mark.parametrize("shift", share(range(-22, 0), one_in=3))
def test_a_plain_rescaling_where_a_negative_sum_has_a_product_of_0(shift: int, multiplying: Variant) -> None:
    """-1 times a half is 0 when it is rounded: the product has not the sign of the sum."""
    real = math.ldexp(1 << 30, shift - 31)
    multiplier = quantized_multiplier(real)
    assert multiplier == Multiplier(1 << 30, shift)
    biases = list(range(-40, 40))
    kernel = NativeBackend(multiplying).fully_connected(biased(biases, real))
    assert isinstance(kernel, NativeKernel)
    assert kernel.steps[0].arguments.plain == 1
    expected = [multiply_twice_rounded(each, multiplier) for each in biases]
    assert rescaled(biases, real, multiplying) == expected


def test_sums_beyond_32_bits_are_left_to_numpy(multiplying: Variant) -> None:
    case = convolution(
        Draw(1), 1, (1, 1), (1, 1), inputs=4, outputs=1, stride=1, padding=Padding.VALID, dilation=1
    )
    params = replace(
        case.params,
        bias=words([(1 << 30) + (1 << 23)]),
        weights=values([1, 1, 1, 1]).toreadonly(),
        weights_per_channel_quant=None,
        weights_quant=QuantParam(float32(2.0**-22), 0),
        input_quant=QuantParam(1.0, 0),
        output_quant=QuantParam(4.0, 0),
        activation=FusedActivation.NONE,
    )
    case = replace(case, params=params)
    with pytest.raises(NotImplementedError, match="go over 32 bits"):
        NativeBackend(multiplying).conv2d(params)
    assert case.run(native(multiplying)) == case.run(ReferenceBackend())


def test_channel_without_a_choice_is_a_constant(multiplying: Variant) -> None:
    # A dead channel of a trained network: a bias near 2**30, and weights of 0.
    assert rescaled([1 << 30, -(1 << 30), (1 << 31) - 1, -(1 << 31)], 0.5, multiplying) == [
        127,
        -128,
        127,
        -128,
    ]


# ADD.


def test_add_is_a_line_where_one_fits(multiplying: Variant) -> None:
    """A kernel with a wrong line gives right results from a table, several times as slow."""
    params = replace(
        Draw(1).add().params,
        input1=values(range(-20, 20)),
        input2=values(range(40)),
        input1_quant=QuantParam(float32(0.0471), -3),
        input2_quant=QuantParam(float32(0.0313), 5),
        output=values([0] * 40),
        output_quant=QuantParam(float32(0.0617), 7),
        activation=FusedActivation.NONE,
    )
    kernel = NativeBackend(multiplying).add(params)
    assert isinstance(kernel, NativeKernel)
    assert [step.kind for step in kernel.steps] == ["ADDITION"]
    case = Case(BuiltinOperator.ADD, params)
    assert case.run(NativeBackend(multiplying)) == case.run(ReferenceBackend())


# Pools.


def mean_of_all(height: int, width: int, filter_h: int) -> Case:
    """The mean of one picture, or of windows that go over its edges."""
    quant = QuantParam(1.0, 0)
    data = np.random.default_rng(height).integers(100, 128, height * width).tolist()
    params = PoolParams(
        input=values(data),
        input_shape=(1, height, width, 1),
        input_quant=quant,
        output=values([0]),
        output_shape=(1, 1, 1, 1),
        output_quant=quant,
        stride_w=width,
        stride_h=filter_h,
        filter_w=width,
        filter_h=filter_h,
        padding=Padding.SAME,
        activation=FusedActivation.NONE,
    )
    return Case(BuiltinOperator.AVERAGE_POOL_2D, params)


def test_the_largest_pool_of_the_library(variant: Variant) -> None:
    assert MOST_TAPS[INT8] == 1 << 16  # up to which all quotients are exact in float32
    case = mean_of_all(256, 256, 256)
    assert taken(case, NativeBackend(variant))
    assert case.run(NativeBackend(variant)) == case.run(NumpyBackend())


def test_a_larger_pool_is_left_to_numpy(variant: Variant) -> None:
    case = mean_of_all((1 << 16) + 1, 1, (1 << 16) + 1)
    with pytest.raises(NotImplementedError, match="a pool of more than 65536 taps"):
        NativeBackend(variant).avg_pool(case.params)
    assert case.run(native(variant)) == case.run(NumpyBackend())


def test_taps_beside_the_picture_do_not_count(variant: Variant) -> None:
    assert taken(mean_of_all(16, 16, 1 << 16), NativeBackend(variant))


# Networks.


def network(name: str) -> bytes:
    family: Any = mlperf_tiny if name in mlperf_tiny.NAMES else tflite_micro_models
    model: bytes = family.model_bytes(name)
    return model


@pytest.mark.parametrize("name", share(NETWORKS, one_in=3))
def test_networks_equal_numpys(name: str, variant: Variant) -> None:
    model = network(name)
    ours = load_network(model, native(variant), planner=plan_apart)
    numpys = load_network(model, NumpyBackend(), planner=plan_apart)
    for seed in range(3):
        for each in (ours, numpys):
            run_network(each, [random_int8([len(each.inputs[0])], seed)])
        for operator, other in zip(ours.operators, numpys.operators, strict=True):
            for tensor, same in zip(operator.outputs, other.outputs, strict=True):
                assert bytes(tensor.buffer) == bytes(same.buffer), str(operator)


@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_one_call(name: str, multiplying: Variant) -> None:
    loaded = load_network(network(name), native(multiplying))
    assert all(isinstance(operator.kernel, NativeKernel) for operator in loaded.operators)
    (whole,) = loaded.kernels
    assert isinstance(whole, NativeKernel)


@pytest.mark.parametrize("threads", share([2, 3, 8], one_in=2))
@pytest.mark.parametrize("name", share(NETWORKS, one_in=3))
@pytest.mark.usefixtures("shared_steps")
def test_threads_change_nothing(name: str, threads: int, variant: Variant) -> None:
    model = network(name)
    alone, together = load_network(model, native(variant)), load_network(model, native(variant, threads))
    for seed in range(3):
        data = random_int8([len(alone.inputs[0])], seed)
        assert run_network(together, [data]) == run_network(alone, [data])


# The backend itself.


def test_shipped_backend_takes_the_fastest_variant() -> None:
    fastest = library().variants[-1]
    backend = find_backend("native")
    assert isinstance(backend, Fallback)
    assert isinstance(backend.first, NativeBackend)
    assert backend.first.variant is fastest


def test_parameters_are_checked(variant: Variant) -> None:
    params = Draw(1).add().params
    with pytest.raises(InvalidShape, match="input1 has"):
        NativeBackend(variant).add(replace(params, input1=params.input1[:-1]))


def test_variants_that_the_processor_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    only = library()._replace(variants=(Variant.AVX2,))
    monkeypatch.setattr("aisrv.addons.kernels.backends.native.backend.load", lambda: only)
    with pytest.raises(NativeError, match="this processor has no avx512vnni"):
        NativeBackend(Variant.AVX512_VNNI)


def test_buffers_outlive_their_owner(variant: Variant) -> None:
    kernels = []
    for seed in range(20):
        case = Draw(seed).convolution(depthwise=False)
        output = values([0] * len(case.params.output))
        kernels.append((native(variant).conv2d(replace(case.params, output=output)), output, case))
    for kernel, output, case in kernels:
        kernel()
        assert output.tolist() == case.run(ReferenceBackend())


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.float32])
@pytest.mark.parametrize("border", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 2, 3, 0), (1, 1, 2, 5), (0, 0, 0, 1)])
def test_borders(border: tuple[int, int, int, int], kind: type[np.generic], variant: Variant) -> None:
    top, bottom, left, right = border
    pictures = np.random.default_rng(1).integers(-128, 128, (2, 3, 4, 5)).astype(kind)
    fill = -7 if kind is np.int8 else 0
    expected = np.pad(pictures, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    output = np.full_like(expected, 99)
    params = PadParams(
        memoryview(pictures.tobytes()).cast("b"),
        (2, 3, 4, 5 * pictures.itemsize),
        memoryview(output.reshape(-1).view(np.int8).data),
        (2, 3 + top + bottom, 4 + left + right, 5 * pictures.itemsize),
        top,
        left,
        fill,
    )
    native(variant, 2).pad(params)()
    assert output.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [TensorType.INT8, TensorType.INT32])
def test_pad_of_a_network(kind: TensorType, variant: Variant) -> None:
    quantization = Quantization.per_tensor(0.5, 9) if kind is TensorType.INT8 else None
    tensors = (
        Tensor("input", (1, 3, 4, 2), kind, quantization),
        constant_tensor("borders", np.array([[0, 0], [1, 2], [3, 0], [0, 0]], np.int32)),
        Tensor("output", (1, 6, 7, 2), kind, quantization),
    )
    operator = NetworkOperator(BuiltinOperator.PAD, ("input", "borders"), ("output",))
    model = bytes(Network(tensors, (operator,), ("input",), ("output",)))
    ours, numpys = (load_network(model, backend) for backend in (native(variant), NumpyBackend()))
    for each in (ours, numpys):
        each.inputs[0][:] = memoryview(bytes(range(len(each.inputs[0])))).cast("b")
        each.invoke()
    assert bytes(ours.outputs[0]) == bytes(numpys.outputs[0])
    assert isinstance(ours.operators[0].kernel, NativeKernel)


def test_copies_join_their_neighbors(variant: Variant) -> None:
    backend = NativeBackend(variant)
    buffers = [values(range(start, start + 40)) for start in (0, 40, 80)]
    first, second = (backend.copy(a, b) for a, b in pairwise(buffers))
    assert isinstance(first, NativeKernel)
    both = first.followed_by(second)
    assert both is not None
    both()
    assert [buffer.tolist() for buffer in buffers] == [list(range(40))] * 3
    assert first.followed_by(lambda: None) is None
    assert first.followed_by(NativeBackend(variant).copy(*buffers[:2])) is None
