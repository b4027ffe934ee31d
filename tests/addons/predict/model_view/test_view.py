"""What is told of a model: each fact as its file, its plan and its predicted times have it."""

import io
import json
import zipfile

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.predict.model_view import view_model
from aisrv.addons.predict.model_view.text import to_text
from aisrv.inference.timings import DeviceModel, Memory
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import ModelFileError, Quantization, Tensor, TensorType
from aisrv.model.arena_plan import plan_arena
from aisrv.model.arena_scratch import tflm_scratch
from aisrv.model.reader import read_model
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from tests.support.amounts import in_ci
from tests.support.models.hostile_models import case
from tests.support.oracles.drawn_models import check_texts
from tests.support.peers import mlperf_tiny

UNIT = Quantization.per_tensor(1.0, 0)


def test_digits() -> None:
    view = view_model(digits.model_bytes(), "digits.tflite")
    assert (view.name, view.nbytes, view.version) == ("digits.tflite", 9424, 3)
    assert [operator.name for operator in view.operators][:2] == ["CONV_2D", "MAX_POOL_2D"]
    first = view.operators[0]
    assert first.macs == 8 * 8 * 16 * 3 * 3
    assert (first.options["padding"], first.options["fused_activation_function"]) == ("SAME", "RELU")
    assert (view.operators[1].macs, view.operators[4].macs) == (0, 10 * 128)
    assert view.macs == sum(operator.macs for operator in view.operators) == 84_224
    image = view.tensors[0]
    assert (image.name, image.spelt, image.kind, image.nbytes) == ("image", "int8[1, 8, 8, 1]", "input", 64)
    assert image.quantization == "scale 0.00416667, zero point -128"
    weights = view.tensors[1]
    assert (weights.kind, weights.place, weights.dimension) == ("constant", None, 0)
    assert weights.quantization == "16 scales by dimension 0"


@pytest.mark.parametrize("name", ["kws_ref_model", "vww_96_int8", "pretrainedResnet_quant"])
def test_places_and_times_are_those_of_plan_and_profile(name: str) -> None:
    data = mlperf_tiny.model_bytes(name)
    view, model = view_model(data), read_model(data)
    plan = plan_arena(model, tflm_scratch(model))
    assert view.head == plan.head
    assert {each.index for each in view.tensors if each.place} == {
        each.tensor for each in plan.allocations if each.tensor < len(model.tensors)
    }
    for time, operator in zip(estimate_times(DeviceModel(), model), view.operators, strict=True):
        assert (operator.ticks, operator.low, operator.high) == (time.ticks, time.low, time.high)
        assert operator.basis == time.basis.value


def test_published_multiply_accumulates() -> None:
    # MLPerf Tiny's README: 7,489,664 of vww, and 12,501,632 of resnet8 with its last layer.
    assert view_model(mlperf_tiny.model_bytes("vww_96_int8")).macs == 7_489_664
    assert view_model(mlperf_tiny.model_bytes("pretrainedResnet_quant")).macs == 12_501_632


def test_a_device_decides_on_the_times() -> None:
    here = view_model(digits.model_bytes())
    there = view_model(
        digits.model_bytes(), device=DeviceModel(clock_mhz=700, reference_mhz=175, arena=Memory.EXTERNAL)
    )
    assert there.total.ticks > here.total.ticks
    assert there.as_json()["reference_mhz"] == 175


def custom(options: bytes) -> bytes:
    return bytes(
        Network(
            tensors=(
                Tensor("a", (1, 4), TensorType.INT8, UNIT),
                Tensor("b", (1, 4), TensorType.INT8, UNIT),
            ),
            operators=(
                NetworkOperator(
                    BuiltinOperator.CUSTOM, ("a",), ("b",), custom_code="XC_own", custom_options=options
                ),
            ),
            inputs=("a",),
            outputs=("b",),
            metadata={"what": b"12345"},
        )
    )


def test_options_of_a_custom_operator() -> None:
    view = view_model(custom(bytes(flexbuffers.Dumps({"n": 3, "s": [1, 2], "f": 1.5}))))
    assert view.operators[0].is_custom
    assert view.operators[0].options == {"f": "not read", "n": 3, "s": [1, 2]}
    assert view.metadata == (("what", 5),)


def test_options_that_cannot_be_read_are_told_by_their_size() -> None:
    assert view_model(custom(b"nonsense")).operators[0].options == {"custom_options": "8 bytes"}
    assert view_model(custom(b"")).operators[0].options == {}


def test_scales_that_are_no_numbers_are_texts_in_json() -> None:
    scales = Quantization((float("nan"), float("inf")), (0, 0), 1)
    weights = constant_tensor("w", np.zeros((1, 2), np.int8), scales)
    tensors = (
        Tensor("a", (1, 2), TensorType.INT8, UNIT),
        weights,
        Tensor("b", (1, 2), TensorType.INT8, UNIT),
    )
    add = NetworkOperator(BuiltinOperator.ADD, ("a", "w"), ("b",))
    view = view_model(bytes(Network(tensors, (add,), ("a",), ("b",))))
    assert view.tensors[1].scales == ("nan", "inf")
    assert json.loads(json.dumps(view.as_json(), allow_nan=False))["tensors"][1]["scales"] == ["nan", "inf"]


def test_the_text_names_everything() -> None:
    view = view_model(digits.model_bytes(), "digits.tflite")
    text = to_text(view)
    assert text.startswith("digits.tflite: 9,424 bytes, schema version 3\n")
    assert "one inference takes 0.414 ms (0.344 to 0.486), not converted" in text
    assert "18,919 ticks, 0.189 ms (0.167 to 0.197), measured" in text
    assert all(f"  {tensor.index} {tensor.name}" in text for tensor in view.tensors)
    assert "  4 pool1, int8[1, 4, 4, 16], 256 bytes, scale 0.0105392, zero point -128, " in text
    assert "arena 1,024 to 1,280, steps 2 to 3\n" in text
    assert "    0  CONV_2D          0 1 2 -> 3 int8[1, 8, 8, 16]\n" in text


def test_labels_are_those_of_the_archive_behind_the_model() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("labels.txt", "zero\none\n")
    view = view_model(digits.model_bytes() + archive.getvalue())
    assert view.labels == ("zero", "one")
    assert "Labels\n  0 zero\n  1 one" in to_text(view)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ModelFileError):
        view_model(b"no model")


@pytest.mark.parametrize("number", range(60, 60 + in_ci(60, every_day=20)))
def test_hostile_models_are_told_or_refused(number: int) -> None:
    try:
        view = view_model(case(number).model, f"case {number}\x1b[2J")
    except ModelFileError:
        return
    check_texts(view)
