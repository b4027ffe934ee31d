"""Readers: one that hangs is stopped, and another takes its place."""

import os
from pathlib import Path

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from aisrv.addons.evaluate.inputs.preparation import Preparation
from aisrv.addons.evaluate.inputs.settings import InputSettings
from aisrv.addons.evaluate.running.readers import Reader, ReaderDied
from aisrv.inference.process.batches import RowMemory
from host_tools.tensors.npy import npy_file
from host_tools.tensors.tensor_spec import TensorSpec

HANGS = """
import sys
if 'aisrv.addons.evaluate.running.reader_process' in sys.orig_argv:
    import time, aisrv.addons.evaluate.inputs.preparation as made
    real = made.Preparation.file_row
    def file_row(self, data):
        if data == b"hang":
            open({signal!r}, "wb").close()  # whoever waits for it knows that it hangs
            time.sleep(3600)
        return real(self, data)
    made.Preparation.file_row = file_row
"""


def test_a_reader_that_hangs_is_stopped_and_the_next_job_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal = tmp_path / "signal"
    os.mkfifo(signal)
    (tmp_path / "sitecustomize.py").write_text(HANGS.format(signal=str(signal)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    memory = RowMemory(2, 4, 1)
    preparation = Preparation((TensorSpec((4,)),), (InputSettings(kind="array"),))
    reader = Reader(preparation, memory, 60.0)
    clock = MockClock(rate=1)

    async def end_of_time() -> None:
        await trio.to_thread.run_sync(signal.read_bytes)
        clock.jump(60.0)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_of_time)
            with pytest.raises(ReaderDied, match="reading took more than 60 s and was stopped"):
                await reader.read(0, [b"hang"])
        (read,) = await reader.read(1, [npy_file(np.array([1, 2, 3, 4], np.int8))])
        assert not read.failure
        await reader.stop()

    trio.run(main, clock=clock)
    assert memory.inputs[1].tolist() == [1, 2, 3, 4]
    memory.close()
