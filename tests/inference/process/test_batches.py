"""Batches in a worker process: the same bytes, two in flight, and workers that die or hang."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trio

from aisrv import digits
from aisrv.inference.batch import BatchJob
from aisrv.inference.errors import InvokeError
from aisrv.inference.process.batches import BatchRunner, RowMemory
from aisrv.inference.process.isolation import Limits
from aisrv.protocol.engine_kind import EngineKind

IMAGES = np.array([np.frombuffer(each.image, np.uint8) for each in digits.test_images()])
LABELS = [each.label for each in digits.test_images()]

FRAGILE = '''
import os, time
from aisrv.addons.kernels.interpreter import KernelsInterpreter

class Fragile(KernelsInterpreter):
    """Dies of a first byte of 1, hangs on one of 2, refuses one of 3."""

    def set_input(self, number, data):
        self.first = data[0]
        super().set_input(number, data)

    def invoke(self):
        if self.first == 1:
            os._exit(7)
        if self.first == 2:
            time.sleep(60)
        if self.first == 3:
            raise RuntimeError("three")
        super().invoke()
'''


def memory_of(images: np.ndarray) -> RowMemory:  # type: ignore[type-arg]
    memory = RowMemory(len(images), 64, 10)
    memory.inputs[:] = images
    return memory


def run(body: Callable[[BatchRunner], object], memory: RowMemory, kind: str = "kernels:native") -> None:
    async def main() -> None:
        inputs = (memory.descriptor, memory.input_area)
        limits = Limits(invoke_seconds=1.0)
        runner = BatchRunner(lambda _: None, EngineKind.parse(kind), limits, inputs, memory)
        await runner.load(digits.model_bytes(), 1 << 20)
        try:
            await body(runner)  # type: ignore[misc]
        finally:
            await runner.close()
            memory.close()

    trio.run(main)


def test_all_digits_in_two_batches_in_flight() -> None:
    memory = memory_of(IMAGES)

    async def body(runner: BatchRunner) -> None:
        await runner.start(BatchJob(0, 0, 200))
        await runner.start(BatchJob(200, 200, 197))
        assert len(await runner.finish()) == 100  # in groups of two
        await runner.finish()

    run(body, memory)
    found = memory.outputs.view(np.int8).argmax(axis=1)
    assert int((found == LABELS).sum()) == 394


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "fragile_engine.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(tmp_path)
    return "fragile_engine:Fragile"


@pytest.mark.parametrize(
    ("byte", "reason"),
    [(1, "ended with exit status 7"), (2, "took more than 1 s and was stopped"), (3, "RuntimeError: three")],
)
def test_a_batch_that_fails_says_why_and_the_next_one_runs(byte: int, reason: str, fragile: str) -> None:
    images = IMAGES[:6].copy()
    images[2, 0] = byte
    memory = memory_of(images)

    async def body(runner: BatchRunner) -> None:
        await runner.start(BatchJob(0, 0, 4))
        await runner.start(BatchJob(4, 4, 2))
        with pytest.raises(InvokeError, match=reason):
            await runner.finish()
        if byte == 3:
            await runner.finish()  # the worker lives, and has gone on
        else:
            with pytest.raises(InvokeError, match="the interpreter was stopped"):
                await runner.finish()
        memory.outputs[:] = 0
        for row in (0, 1, 3, 4, 5):
            await runner.run(BatchJob(row, row, 1))

    run(body, memory, fragile)
    found = memory.outputs.view(np.int8).argmax(axis=1)
    assert [int(found[row]) for row in (0, 1, 3, 4, 5)] == [LABELS[row] for row in (0, 1, 3, 4, 5)]
    assert not memory.outputs[2].any()


def test_rows_of_another_size_are_refused() -> None:
    memory = RowMemory(1, 65, 10)
    with pytest.raises(Exception, match="rows have 65 bytes, the model's tensors 64"):
        run(lambda _: None, memory)


def test_the_memory_cannot_be_shrunk() -> None:
    memory = RowMemory(3, 5, 7)
    assert (memory.inputs.shape, memory.outputs.shape) == ((3, 5), (3, 7))
    with pytest.raises(OSError, match="Operation not permitted"):
        os.ftruncate(memory.descriptor, 1)
    memory.close()
