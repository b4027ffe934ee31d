"""TFLM's answers in a file: what was asked where TFLM is installed is answered where it is not."""

from pathlib import Path

import pytest

from aisrv import digits
from tests.support.models import random_int8
from tests.support.tflm_answers import RUNTIME, Answers, runtime_of

DATA = random_int8((1, 8, 8, 1))


def test_the_file_answers_what_tflm_answered(tmp_path: Path) -> None:
    real = pytest.importorskip(RUNTIME)
    found = []
    for runtime in (
        real,
        runtime_of(Answers(tmp_path / "answers"), real),
        runtime_of(Answers(tmp_path / "answers"), None),
    ):
        interpreter = runtime.Interpreter.from_bytes(digits.model_bytes(), arena_size=1 << 18)
        interpreter.set_input(DATA, 0)
        interpreter.invoke()
        found.append((interpreter.get_output(0).dtype.str, interpreter.get_output(0).tolist()))
    assert found[0] == found[1] == found[2]


def test_a_question_that_nobody_asked_is_an_error(tmp_path: Path) -> None:
    interpreter = runtime_of(Answers(tmp_path / "answers"), None).Interpreter.from_bytes(digits.model_bytes())
    with pytest.raises(LookupError, match="no answer of TFLM"):
        interpreter.get_output(0)


def test_the_input_is_part_of_the_question(tmp_path: Path) -> None:
    real = pytest.importorskip(RUNTIME)
    runtimes = [runtime_of(Answers(tmp_path / "answers"), each) for each in (real, None)]
    for runtime, data in zip(runtimes, (DATA, ~DATA), strict=True):
        interpreter = runtime.Interpreter.from_bytes(digits.model_bytes(), arena_size=1 << 18)
        interpreter.set_input(data, 0)
        interpreter.invoke()
        if runtime is runtimes[0]:
            interpreter.get_output(0)
    with pytest.raises(LookupError):
        interpreter.get_output(0)
