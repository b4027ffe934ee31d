"""Backends against the vectors of CMSIS-NN, where these are there; and the reader of these."""

from pathlib import Path
from typing import Final

import pytest
from tflite import BuiltinOperator

from aisrv.addons.kernels.arithmetic import Rounding
from aisrv.addons.kernels.backends.numpy.backend import NumpyBackend
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.errors import InternalError
from aisrv.model import Padding
from tests.support.amounts import share
from tests.support.models import kernel_backends
from tests.support.oracles.cmsis_nn import VARIABLE, Unsuitable, folders, read
from tests.support.oracles.cmsis_nn_cases import OperatorSet, operator_set
from tests.support.oracles.cmsis_nn_models import any_set

NOT_RUN: Final = {
    "fully_connected_int4_6": "its output has the zero point 128, which is no int8",
}
"""Sets that no backend runs, and why."""

SETS: Final = {each.name: any_set(read(each)) for each in folders() if each.name not in NOT_RUN}

FIRST_OF_KIND = {
    (each.case.code, each.case.params.output.format): name
    for name, each in reversed(SETS.items())
    if isinstance(each, OperatorSet)
}
"""One set of each operator and type."""

TELL_ROUNDING = (
    "conv_1_x_n_7",
    "conv_2x2_dilation",
    "conv_5",
    "depthwise_dilation",
    "kernel1x1_stride_x_y",
)
"""Sets that a policy of single rounding does not pass, save in some ages of them."""

needs_vectors = pytest.mark.skipif(not folders(), reason=f"no vectors: {VARIABLE} can name CMSIS-NN")


@needs_vectors
@pytest.mark.parametrize("name", SETS)
def test_golden_set_on_native(name: str) -> None:
    """On the backend that is the default."""
    assert SETS[name].run(kernel_backends.shipped_backend("native")) == SETS[name].expected


@needs_vectors
@pytest.mark.parametrize("backend", [name for name in kernel_backends.NAMES if name != "native"])
@pytest.mark.parametrize("name", share(SETS, one_in=4, also=FIRST_OF_KIND.values()))
def test_golden_set_on_another_backend(name: str, backend: str) -> None:
    assert SETS[name].run(kernel_backends.shipped_backend(backend)) == SETS[name].expected


@needs_vectors
def test_every_set_is_run_or_has_a_reason_not_to_be() -> None:
    assert {each.name for each in folders()} == {*SETS, *NOT_RUN}


@needs_vectors
@pytest.mark.parametrize("name", NOT_RUN)
def test_what_is_not_run_cannot_be(name: str) -> None:
    folder = next(each for each in folders() if each.name == name)
    with pytest.raises((Unsuitable, InternalError)):
        any_set(read(folder)).run(ReferenceBackend())


@needs_vectors
def test_sets_tell_double_from_single_rounding() -> None:
    single = NumpyBackend(Rounding.SINGLE)
    sets = [SETS[name] for name in TELL_ROUNDING]
    assert [each.name for each in sets if each.run(single) != each.expected] != []


@needs_vectors
def test_every_operator_has_a_set_of_each_type() -> None:
    types = {
        (each.case.code, each.case.params.output.format)
        for each in SETS.values()
        if isinstance(each, OperatorSet)
    }
    # There is none of a softmax of int16.
    assert len(types) == 15


# The reader, on sets that were worked by hand.

CONV = """
#define SUM_OUT_CH 1
#define SUM_IN_CH 1
#define SUM_INPUT_W 2
#define SUM_INPUT_H 2
#define SUM_DST_SIZE 4
#define SUM_OUT_ACTIVATION_MIN -128
#define SUM_OUT_ACTIVATION_MAX 11
#define SUM_INPUT_BATCHES 1
#define SUM_FILTER_X 1
#define SUM_FILTER_Y 1
#define SUM_STRIDE_X 1
#define SUM_STRIDE_Y 1
#define SUM_PAD_X 0
#define SUM_PAD_Y 0
#define SUM_OUTPUT_W 2
#define SUM_OUTPUT_H 2
#define SUM_INPUT_OFFSET 1
#define SUM_OUTPUT_OFFSET 1
#define SUM_DILATION_X 1
#define SUM_DILATION_Y 1
"""
DATA = """
#pragma once
#include <stdint.h>

const int8_t sum_input[4] = {0,
                             1, 2, 3};
const int8_t sum_weights[1] = {3};
const int32_t sum_output_mult[1] = {1073741824};
const int32_t sum_output_shift[1] = {0};
"""
BIAS = "const int32_t sum_biases[1] = {10};\n"
# Half of 3 * (x + 1) + 10, half away from zero, and one more: 8, 9, 11 and 12, which is clamped.
OUTPUT = "const int8_t sum_output_ref[4] = {8, 9, 11, 11};\n"
OTHER_DIALECT = [
    ("_X ", "_W "),
    ("_Y ", "_H "),
    ("SUM_IN_CH", "SUM_INPUT_C"),
    ("SUM_OUT_CH", "SUM_OUTPUT_C"),
    ("INPUT_BATCHES", "INPUT_N"),
    ("sum_biases", "sum_bias"),
    ("sum_output_ref", "sum_output"),
    ("sum_output_mult", "sum_output_multiplier"),
]


def written(folder: Path, *headers: str) -> Path:
    folder.mkdir()
    for number, header in enumerate(headers):
        (folder / f"part{number}.h").write_text(header)
    includes = [f'#include "part{number}.h"' for number in range(len(headers))]
    (folder / "test_data.h").write_text("\n".join(includes))
    (folder / "older.h").write_text("const int8_t sum_input[1] = {99};")  # not included
    return folder


def passes(found: OperatorSet) -> bool:
    return found.run(ReferenceBackend()) == found.expected


@pytest.mark.parametrize("dialect", [[], OTHER_DIALECT], ids=["FILTER_X", "FILTER_W"])
def test_both_dialects_are_read(tmp_path: Path, dialect: list[tuple[str, str]]) -> None:
    headers = [CONV, DATA, BIAS, OUTPUT]
    for old, new in dialect:
        headers = [header.replace(old, new) for header in headers]
    found = operator_set(read(written(tmp_path / "sum", *headers)))
    assert (found.case.code, found.low, found.high) == (BuiltinOperator.CONV_2D, -128, 11)
    assert found.case.params.input_quant.zero_point == -1
    assert list(found.case.params.bias) == [10]
    assert found.expected == [8, 9, 11, 11]
    assert passes(found)


def test_one_changed_output_is_noticed(tmp_path: Path) -> None:
    wrong = OUTPUT.replace("9", "10")
    assert not passes(operator_set(read(written(tmp_path / "sum", CONV, DATA, BIAS, wrong))))


def test_bias_may_be_absent(tmp_path: Path) -> None:
    # Half of 3 * (x + 1), and one more: 3, 4, 6, 7.
    output = OUTPUT.replace("8, 9, 11, 11", "3, 4, 6, 7")
    null = "const int32_t *const sum_biases = NULL;\n"
    found = operator_set(read(written(tmp_path / "sum", CONV, DATA, null, output)))
    assert found.case.params.bias is None
    assert passes(found)


def test_padding_of_neither_kind_is_put_around_the_input(tmp_path: Path) -> None:
    # One pixel on every side of a 1x1 window: 1 + half of the bias there, which is 6.
    config = CONV.replace("PAD_X 0", "PAD_X 1").replace("PAD_Y 0", "PAD_Y 1")
    config = config.replace("OUTPUT_W 2", "OUTPUT_W 4").replace("OUTPUT_H 2", "OUTPUT_H 4")
    edge = "6, 6, 6, 6,"
    output = f"const int8_t sum_output_ref[16] = {{{edge} 6, 8, 9, 6, 6, 11, 11, 6, {edge}}};\n"
    found = operator_set(read(written(tmp_path / "sum", config, DATA, BIAS, output)))
    assert (found.case.params.padding, found.case.params.input_shape) == (Padding.VALID, (1, 4, 4, 1))
    assert passes(found)


def test_pools_are_known_by_name(tmp_path: Path) -> None:
    config = (
        CONV.replace("SUM_", "AVG_SUM_")
        .replace("FILTER_X 1", "FILTER_X 2")
        .replace("OUTPUT_W 2", "OUTPUT_W 1")
    )
    data = "const int8_t avg_sum_input[4] = {0, 1, 2, 5};\nconst int8_t avg_sum_output_ref[2] = {1, 4};\n"
    found = operator_set(read(written(tmp_path / "avg_sum", config, data)))
    assert found.case.code == BuiltinOperator.AVERAGE_POOL_2D
    assert passes(found)


def test_fully_connected_with_zero_point_of_weights(tmp_path: Path) -> None:
    config = """
#define SUM_OUT_CH 1
#define SUM_INPUT_BATCHES 2
#define SUM_ACCUMULATION_DEPTH 2
#define SUM_INPUT_OFFSET 1
#define SUM_FILTER_OFFSET -2
#define SUM_OUTPUT_OFFSET 5
#define SUM_OUTPUT_MULTIPLIER 1610612736
#define SUM_OUTPUT_SHIFT -1
"""
    # 3/8 of (0 + 1)(3 - 2) + (1 + 1)(7 - 2) = 11 is 4.1, of (2 + 1) + (3 + 1)5 = 23 is 8.6
    data = "const int8_t sum_input[4] = {0, 1, 2, 3};\nconst int8_t sum_weights[2] = {3, 7};\n"
    output = "const int8_t sum_output_ref[2] = {9, 14};\n"
    found = operator_set(read(written(tmp_path / "sum", config, data, output)))
    assert found.case.params.weights_quant.zero_point == 2
    assert passes(found)


def test_elementwise_sets(tmp_path: Path) -> None:
    config = """
#define SUM_INPUT1_OFFSET 1
#define SUM_INPUT2_OFFSET -1
#define SUM_OUTPUT_OFFSET 2
#define SUM_OUTPUT_MULT 1073741824
"""
    scales = """
#define SUM_LEFT_SHIFT 20
#define SUM_INPUT1_MULT 1073741824
#define SUM_INPUT1_SHIFT 0
#define SUM_INPUT2_MULT 1073741824
#define SUM_INPUT2_SHIFT -1
#define SUM_OUTPUT_SHIFT -18
"""
    data = "const int8_t sum_input1[2] = {9, -9};\nconst int8_t sum_input2[2] = {5, 5};\n"
    # 10 + 4/2 = 12 and -8 + 2 = -6, and two more; half of 10 * 4 and of -8 * 4, and two more
    added, multiplied = "{14, -4}", "{22, -14}"
    output = "const int8_t sum_output_ref[2] = {};\n"
    adds = written(tmp_path / "sum", config, scales, data, output.replace("{}", added))
    found = operator_set(read(adds))
    assert found.case.code == BuiltinOperator.ADD
    assert passes(found)
    (tmp_path / "mul").mkdir()
    multiplies = written(
        tmp_path / "mul/sum", config, "#define SUM_OUTPUT_SHIFT 0\n", data, output.replace("{}", multiplied)
    )
    found = operator_set(read(multiplies))
    assert found.case.code == BuiltinOperator.MUL
    assert passes(found)


@pytest.mark.parametrize(
    ("folder", "headers"),
    [
        ("sum_int16", (CONV, DATA, BIAS, OUTPUT)),
        ("transpose_sum", (CONV, DATA, BIAS, OUTPUT)),
        ("sum", (CONV, DATA.replace("int8_t sum_input", "int16_t sum_input"), BIAS, OUTPUT)),
        ("sum", (CONV, DATA.replace("weights[1] = {3}", "weights[2] = {3, 4}"), BIAS, OUTPUT)),
        ("sum", (CONV, DATA, BIAS)),
        ("sum", (CONV.replace("STRIDE_X", "STEP"), DATA, BIAS, OUTPUT)),
        ("sum", ("",)),
    ],
    ids=["another set's names", "another operator", "two types", "groups", "no output", "no stride", "empty"],
)
def test_sets_for_other_kernels_are_left_out(tmp_path: Path, folder: str, headers: tuple[str, ...]) -> None:
    path = written(tmp_path / folder, *headers)
    with pytest.raises(Unsuitable):
        operator_set(read(path))
