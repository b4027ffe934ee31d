"""Two runs beside each other: distances, noise, agreement, the first difference; layers."""

import math
from pathlib import Path

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.against import compare_runs, drift, sqnr_db
from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.layers import pairs
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.model.reader import read_model
from host_tools.tensors.tensor_spec import TensorSpec

SPEC = TensorSpec((1, 2), "int8", 0.5, 0)


def answers(values: list[list[int]]) -> Answers:
    found = Answers(len(values), 2, 100)
    found.put(0, np.array(values, np.int8).view(np.uint8), ())
    return found


def test_two_runs_by_hand() -> None:
    one = answers([[4, 2], [2, 4], [6, 0], [1, 1]])
    other = answers([[4, 2], [4, 2], [6, 1], [9, 9]])
    other.fail(3, "why")
    found = compare_runs(one, other, (SPEC,), (SPEC,), np.array([0, 1, 0, 0], np.int32))
    assert found["examples"] == 3
    assert found["agreement"] == pytest.approx(2 / 3)
    assert (found["right_here_only"], found["right_there_only"]) == (1, 0)
    assert found["changed"] == [1]
    assert found["first"] == {"index": 1, "output": 0, "element": 0, "values": [1.0, 2.0]}
    (output,) = found["outputs"]
    assert (output["differing"], output["max_abs"], output["max_steps"]) == (2, 1.0, 2.0)
    assert output["mean_abs"] == pytest.approx((1 + 1 + 0.5) / 6)
    squares = 4 + 1 + 1 + 4 + 9
    assert output["sqnr_db"] == pytest.approx(10 * math.log10(squares / (1 + 1 + 0.25)))
    products = 4 + 1 + 2 + 2 + 9
    assert output["cosine"] == pytest.approx(products / math.sqrt(squares * (squares + 0.25)))


def test_equal_runs_have_no_noise() -> None:
    one = answers([[4, 2]])
    found = compare_runs(one, answers([[4, 2]]), (SPEC,), (SPEC,), None)
    assert found["sqnr_db"] is None
    assert found["first"] is None
    assert found["differing"] == 0
    assert sqnr_db(0.0, 1.0) is None


def test_outputs_of_other_scales_have_no_steps() -> None:
    real = TensorSpec((1, 2), "float32")
    found = drift(np.array([[2, 4]], np.int8), np.array([[1.0, 2.5]], np.float32), SPEC, real).values()
    assert found["max_steps"] is None
    assert found["max_abs"] == 0.5


def test_layers_pair_by_name_or_by_order() -> None:
    model = read_model(digits.model_bytes())
    whole = pairs(model, model)
    assert [pair.one for pair in whole] == [pair.other for pair in whole]
    assert len(whole) == sum(len(operator.outputs) for operator in model.operators)
    other = read_model(digits.two_output_model_bytes())
    assert len(pairs(model, other)) == len(whole)


def test_layers_of_other_models_do_not_pair() -> None:
    path = Path(__file__).parents[2] / "support"
    assert path.is_dir()
    model = read_model(digits.model_bytes())
    shorter = model.__class__(
        **{
            **{name: getattr(model, name) for name in model.__struct_fields__},
            "operators": model.operators[:-1],
            "tensors": tuple(
                type(each)(**{**{n: getattr(each, n) for n in each.__struct_fields__}, "name": ""})
                for each in model.tensors
            ),
        }
    )
    count = len(model.operators)
    with pytest.raises(EvaluateError, match=f"layers do not pair: {count} and {count - 1} operators"):
        pairs(model, shorter)
