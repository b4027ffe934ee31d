"""Runs on devices: all answers in order, what a device refuses, and which examples are checked."""

import numpy as np
import pytest

from aisrv import digits
from aisrv.addons.evaluate.data.arrays import digits_data
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.device_run import (
    checked_indices,
    first_difference,
    open_virtual_server,
    run_on_device,
)
from aisrv.model.reader import read_model
from aisrv.protocol.engine_kind import EngineKind
from host_tools.tensors.tensor_spec import TensorSpec

KIND = EngineKind.parse("kernels:native")


@pytest.mark.parametrize(
    ("model", "output_bytes"), [(digits.model_bytes(), 10), (digits.two_output_model_bytes(), 138)]
)
def test_a_device_answers_all_examples_and_the_first_difference_is_found(
    model: bytes, output_bytes: int
) -> None:
    data = digits_data("digits").first(150)
    specs = tuple(map(TensorSpec.of, read_model(model).input_tensors))
    preparation = Preparation(specs, (InputSettings(kind="raw"),))
    answers = Answers(150, output_bytes, 100)
    seen: list[int] = []
    outputs = 1 if output_bytes == 10 else 2
    with open_virtual_server(KIND, model) as server:
        run_on_device(server, data, preparation, answers, outputs, lambda first, _end: seen.append(first))
        assert seen == list(range(150))
        assert answers.done.all()
        found = answers.outputs[:, :10].copy().view(np.int8).argmax(axis=1)
        assert int((found == np.asarray(data.labels)).sum()) >= 147
        indices = checked_indices(answers, 8)
        assert first_difference(server, data, preparation, answers, outputs, indices) is None
        answers.outputs[indices[3], 4] ^= 1
        difference = first_difference(server, data, preparation, answers, outputs, indices)
        assert difference is not None
        assert difference[0] == indices[3]


def test_an_example_that_a_device_refuses_fails_alone() -> None:
    data = DataSet("x", "parquet", ["1", "2"], "", files=[b"no picture", b"none either"], names=["a", "b"])
    specs = tuple(map(TensorSpec.of, read_model(digits.model_bytes()).input_tensors))
    preparation = Preparation(specs, (InputSettings(kind="image"),))
    answers = Answers(2, 10, 100, files=True)
    with open_virtual_server(KIND, digits.model_bytes()) as server:
        run_on_device(server, data, preparation, answers, 1, lambda _first, _end: None)
    assert list(answers.failed) == [0, 1]
    assert answers.content.any()


def test_checked_examples_are_the_first_the_last_and_others_of_those_that_ran() -> None:
    answers = Answers(100, 1, 10)
    answers.put(0, np.zeros((90, 1), np.uint8), ())
    answers.fail(0, "why")
    found = checked_indices(answers, 10)
    assert (found[0], found[-1], len(set(found))) == (1, 89, 10)
    assert found == checked_indices(answers, 10)
    assert checked_indices(answers, 200) == list(range(1, 90))
