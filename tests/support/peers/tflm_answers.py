"""TensorFlow Lite Micro's answers in a file, for processors that its wheels leave out: a plugin of pytest.

    pytest -p tests.support.peers.tflm_answers --tflm-answers FILE ...

Where tflite-micro is installed, tests ask it, and the file keeps what it answers. Elsewhere the file answers.
A question is a model with all that was done to it before; one that the file does not know is an error of the
test. So Hypothesis draws the same on both sides: it takes no constants from modules that happen to be there.
"""

import hashlib
import io
import sqlite3
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis.internal.conjecture import providers

RUNTIME: Final = "tflite_micro.python.tflite_micro.runtime"

Answer = npt.NDArray[Any]


class Answers:
    """Arrays by the digests of questions, in a file that several processes write at once."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE IF NOT EXISTS answers (question BLOB PRIMARY KEY, answer BLOB)")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def keep(self, question: bytes, answer: Answer) -> None:
        """Keep what was answered."""
        data = io.BytesIO()
        np.save(data, answer, allow_pickle=False)
        self._database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", (question, data.getvalue()))

    def find(self, question: bytes) -> Answer:
        """What was answered; LookupError where nobody asked."""
        found = self._database.execute(
            "SELECT answer FROM answers WHERE question = ?", (question,)
        ).fetchone()
        if found is None:
            raise LookupError("the file has no answer of TFLM for this model and input")
        array: Answer = np.load(io.BytesIO(found[0]), allow_pickle=False)
        return array


class Conversation:
    """An interpreter as tests use it: what is done to it becomes part of the next question."""

    def __init__(self, answers: Answers, model: bytes, interpreter: Any) -> None:
        self._answers = answers
        self._interpreter = interpreter
        self._so_far = hashlib.sha256(hashlib.sha256(model).digest())

    def set_input(self, data: Answer, index: int) -> None:
        """Give an input."""
        values = np.ascontiguousarray(data)
        self._so_far.update(f"input {index} {values.dtype.str} {values.shape}".encode() + values.tobytes())
        if self._interpreter is not None:
            self._interpreter.set_input(data, index)

    def invoke(self) -> None:
        """Run the model."""
        self._so_far.update(b"invoke")
        if self._interpreter is not None:
            self._interpreter.invoke()

    def get_output(self, index: int) -> Answer:
        """An output."""
        return self._answer(f"output {index}", lambda: self._interpreter.get_output(index))

    def GetTensor(self, tensor: int, subgraph: int) -> dict[str, Answer]:  # noqa: N802  # TFLM's name
        """A tensor."""
        ask = lambda: self._interpreter.GetTensor(tensor, subgraph)["tensor_data"]  # noqa: E731
        return {"tensor_data": self._answer(f"tensor {tensor} of {subgraph}", ask)}

    def _answer(self, what: str, ask: Callable[[], Answer]) -> Answer:
        question = self._so_far.copy()
        question.update(what.encode())
        if self._interpreter is None:
            return self._answers.find(question.digest())
        answer = ask()
        self._answers.keep(question.digest(), answer)
        return answer


def runtime_of(answers: Answers, real: Any) -> Any:
    """What stands for TFLM's module `runtime`; `real` is that module, or None where it is not installed."""

    class Interpreter(Conversation):
        @classmethod
        def from_bytes(cls, model: bytes, **options: Any) -> Self:
            return cls(answers, model, real and real.Interpreter.from_bytes(model, **options))

    config = real.InterpreterConfig if real else SimpleNamespace(kPreserveAllTensors=None)
    return SimpleNamespace(Interpreter=Interpreter, InterpreterConfig=config)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names the file."""
    parser.addoption("--tflm-answers", type=Path, required=True, help="the file with TFLM's answers")


def pytest_configure(config: pytest.Config) -> None:
    """Put the module into the place of TFLM's."""
    providers._get_local_constants = lambda: providers._local_constants
    real = import_module(RUNTIME) if find_spec("tflite_micro") else None
    if real is None:
        for end in range(3):
            name = ".".join(RUNTIME.split(".")[: end + 1])
            sys.modules[name] = module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None, is_package=True)
    stand_in = runtime_of(Answers(config.getoption("--tflm-answers")), real)
    sys.modules[RUNTIME] = stand_in
    sys.modules[RUNTIME.rpartition(".")[0]].runtime = stand_in  # type: ignore[attr-defined]
