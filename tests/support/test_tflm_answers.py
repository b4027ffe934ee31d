"""TFLM's answers in a file: what was asked where TFLM is installed is answered where it is not."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aisrv import digits
from tests.support.models.one_operator import random_int8
from tests.support.peers.tflm_answers import RUNTIME, Answers, runtime_of

DATA = random_int8((1, 8, 8, 1))


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[Answers]:
    """A file of answers."""
    with closing(Answers(tmp_path / "answers")) as found:
        yield found


@pytest.fixture
def again(tmp_path: Path, answers: Answers) -> Iterator[Answers]:
    """The same file, as another process has it open."""
    with closing(Answers(tmp_path / "answers")) as found:
        yield found


def test_the_file_answers_what_tflm_answered(answers: Answers, again: Answers) -> None:
    real = pytest.importorskip(RUNTIME)
    found = []
    for runtime in (real, runtime_of(answers, real), runtime_of(again, None)):
        interpreter = runtime.Interpreter.from_bytes(digits.model_bytes(), arena_size=1 << 18)
        interpreter.set_input(DATA, 0)
        interpreter.invoke()
        found.append((interpreter.get_output(0).dtype.str, interpreter.get_output(0).tolist()))
    assert found[0] == found[1] == found[2]


def test_a_question_that_nobody_asked_is_an_error(answers: Answers) -> None:
    interpreter = runtime_of(answers, None).Interpreter.from_bytes(digits.model_bytes())
    with pytest.raises(LookupError, match="no answer of TFLM"):
        interpreter.get_output(0)


def test_the_input_is_part_of_the_question(answers: Answers, again: Answers) -> None:
    real = pytest.importorskip(RUNTIME)
    runtimes = [runtime_of(answers, real), runtime_of(again, None)]
    for runtime, data in zip(runtimes, (DATA, ~DATA), strict=True):
        interpreter = runtime.Interpreter.from_bytes(digits.model_bytes(), arena_size=1 << 18)
        interpreter.set_input(data, 0)
        interpreter.invoke()
        if runtime is runtimes[0]:
            interpreter.get_output(0)
    with pytest.raises(LookupError):
        interpreter.get_output(0)
