"""Drawings of models: boxes that do not touch, a title on each box and edge, no script."""

from xml.etree import ElementTree as ET

import pytest

from aisrv import digits
from aisrv.addons.predict.model_view import view_model
from aisrv.addons.predict.model_view.drawing import MOST_BOXES, draw, to_svg
from aisrv.model import ModelFileError
from tests.support.amounts import in_ci
from tests.support.models.branching_networks import adding_network, chain, random_network
from tests.support.models.hostile_models import case
from tests.support.oracles.drawn_models import SVG, check_drawing
from tests.support.peers import mlperf_tiny, tflite_micro_models

MLPERF = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")
MICRO = (
    "hello_world_int8",
    "keyword_scrambled_8bit",
    "micro_speech_quantized",
    "person_detect",
    "trained_lstm_int8",
)


def _file(name: str) -> bytes:
    if name in MLPERF:
        return mlperf_tiny.model_bytes(name)
    if name in MICRO:
        return tflite_micro_models.model_bytes(name)
    return digits.model_bytes() if name == "digits" else digits.two_output_model_bytes()


@pytest.mark.parametrize("name", [*MLPERF, *MICRO, "digits", "two outputs"])
def test_real_models(name: str) -> None:
    view = view_model(_file(name), name)
    assert check_drawing(view) == len(view.operators) + len(view.inputs) + len(view.outputs)
    titles = " ".join(box.title for box in draw(view).boxes)
    assert all(f"{operator.ticks:,} ticks" in titles for operator in view.operators)


@pytest.mark.parametrize("number", range(in_ci(60, every_day=20)))
def test_hostile_models_are_drawn_or_refused(number: int) -> None:
    try:
        view = view_model(case(number).model, f"case {number}")
    except ModelFileError:
        return
    check_drawing(view)


@pytest.mark.parametrize("seed", range(10))
def test_networks_of_any_shape(seed: int) -> None:
    check_drawing(view_model(random_network(seed, 5 + 12 * seed)))


def test_edges_are_the_tensors_that_flow() -> None:
    view = view_model(adding_network([(0, 0), (1, 0), (1, 2)]))
    titles = [line.title.splitlines()[0] for line in draw(view).lines]
    assert titles == [
        "input 0 t0 to 0 ADD",
        "0 ADD to 1 ADD",
        "input 0 t0 to 1 ADD",
        "0 ADD to 2 ADD",
        "1 ADD to 2 ADD",
        "2 ADD to output 0 t3",
    ]


def test_chains_are_folded_above_500_operators() -> None:
    whole, folded = (draw(view_model(chain(length))) for length in (500, 501))
    assert (len(whole.boxes), len(folded.boxes)) == (502, 3)
    assert folded.boxes[1].name == "0 to 500: 501 operators"
    assert "501 ADD" in folded.boxes[1].title
    assert folded.boxes[1].share == 1


def test_what_branches_is_not_folded() -> None:
    # Every third tensor is read by the next two operators.
    reads = [(number, number - 1 if number % 3 == 1 else number) for number in range(600)]
    boxes = draw(view_model(adding_network(reads))).boxes
    assert 200 <= len(boxes) <= 500


def test_a_drawing_has_so_many_boxes_at_the_most() -> None:
    reads = [(number, max(0, number - 1)) for number in range(MOST_BOXES * 2 + 10)]
    assert len(draw(view_model(adding_network(reads))).boxes) <= MOST_BOXES + 2


def test_names_are_escaped() -> None:
    text = to_svg(view_model(digits.model_bytes(), '<script>"&'))
    assert "<script>" not in text
    assert ET.fromstring(text).find(f"{SVG}text").text == '<script>"&'  # type: ignore[union-attr]
