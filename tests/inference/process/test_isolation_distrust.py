"""A worker that lies or stops costs one error of one command, within the parent's own deadlines."""

import fcntl
import mmap
import os
import signal
from dataclasses import dataclass

import pytest
import trio

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.process import worker_process
from aisrv.inference.process.isolation import ALARM_SECONDS, IsolatedInterpreter, Limits
from aisrv.inference.process.worker import CHANGED, DONE
from aisrv.inference.process.worker_process import WorkerProcess
from tests.support.benches import liar

LIMITS = Limits(load_seconds=3.0, invoke_seconds=0.3)
PATIENCE = 30
"""Seconds after which a parent hangs; workers start slowly on a busy machine."""
HONEST = {"", "resize", "files"}


@dataclass
class StoredModel:
    """A model of zero bytes that runs in place, and how often its storage was changed."""

    descriptor: int
    offset: int = 0
    changes: int = 0

    @property
    def memory(self) -> mmap.mmap:
        return mmap.mmap(self.descriptor, 0)

    def close(self) -> None:
        pass


def runner() -> IsolatedInterpreter:
    return IsolatedInterpreter(lambda _text: None, liar.KIND, LIMITS)


async def run(interpreter: IsolatedInterpreter, lie: str = "") -> int:
    interpreter.input(0)[:] = lie.encode().ljust(liar.NAME_BYTES, b"\0")
    await interpreter.invoke()
    return interpreter.output(0)[0]


@pytest.mark.parametrize("lie", [*sorted(set(liar.LIES) - HONEST), "huge layout", "many"])
async def test_a_lie_at_load_is_one_refused_model(lie: str) -> None:
    interpreter = runner()
    with trio.fail_after(PATIENCE):
        with pytest.raises(ModelError):
            await interpreter.load(lie.encode(), 1 << 16)
        assert interpreter.pid is None
        await interpreter.load(b"", 1 << 16)
        assert await run(interpreter) == 42
        await interpreter.close()


@pytest.mark.parametrize("lie", sorted(set(liar.LIES) - HONEST))
async def test_a_lie_at_a_run_is_one_failed_run(lie: str) -> None:
    interpreter = runner()
    with trio.fail_after(PATIENCE):
        await interpreter.load(b"", 1 << 16)
        with pytest.raises(InvokeError):
            await run(interpreter, lie)
        assert await run(interpreter) == 42
        await interpreter.close()


async def test_memory_that_a_worker_cannot_resize() -> None:
    interpreter = runner()
    await interpreter.load(b"", 1 << 16)
    assert await run(interpreter, "resize") == 42
    assert bytes(interpreter.input(0)).startswith(b"resize")
    await interpreter.close()


async def test_a_worker_seals_no_file_and_writes_only_tensors() -> None:
    """Of a worker without any layer of the sandbox, what it changes of the files that it was given."""
    printed: list[str] = []
    interpreter = IsolatedInterpreter(printed.append, liar.KIND, LIMITS)
    await interpreter.load(b"files", 1 << 16)
    assert await run(interpreter, "files") == 42
    assert set("".join(printed).splitlines()) == {"wrote memfd:aisrv-tensors (deleted)"}
    await interpreter.close()


@pytest.mark.parametrize("moment", ["a reply", "the end"])
async def test_output_that_cannot_be_emptied_is_one_failed_run(moment: str) -> None:
    """As of a file that its worker has sealed, were that possible."""
    interpreter = runner()
    await interpreter.load(b"", 1 << 16)
    worker = interpreter._worker
    assert worker is not None
    sealed = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(sealed, b"words")
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
    worker._output = sealed
    if moment == "the end":
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(InvokeError, match="lets nobody take its output"):
        await run(interpreter)
    assert interpreter.pid is None
    assert await run(interpreter) == 42
    await interpreter.close()
    os.close(sealed)


async def test_a_stopped_worker_ends_after_its_limit_and_a_second() -> None:
    interpreter = runner()
    await interpreter.load(b"", 1 << 16)
    began = trio.current_time()
    with pytest.raises(InvokeError, match=r"took more than 0.3 s and was stopped"):
        await run(interpreter, "stop")
    assert trio.current_time() - began >= LIMITS.invoke_seconds + ALARM_SECONDS
    await interpreter.close()


@pytest.mark.parametrize("reply", [b"?", b"-", b"-\xff", b"-\x09no", b"+more"])
async def test_reply_that_no_worker_gives(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = runner()
    await interpreter.load(b"", 1 << 16)
    real = WorkerProcess.collect

    async def lying(self: WorkerProcess) -> bytes:
        await real(self)
        return reply

    with monkeypatch.context() as patch:
        patch.setattr(WorkerProcess, "collect", lying)
        with pytest.raises(InvokeError):
            await run(interpreter)
    assert interpreter.pid is None
    assert await run(interpreter) == 42
    await interpreter.close()


@pytest.mark.parametrize("body", [b"", bytes(7), bytes(9)])
async def test_a_count_of_another_size_is_one_failed_run(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = runner()
    await interpreter.load(b"", 1 << 16)
    real = WorkerProcess.collect

    async def lying(self: WorkerProcess) -> bytes:
        await real(self)
        return DONE + body

    with monkeypatch.context() as patch:
        patch.setattr(WorkerProcess, "collect", lying)
        with pytest.raises(InvokeError, match=rf"answered {len(body)} bytes for 8$"):
            await interpreter.invoke_counted()
    assert interpreter.pid is None
    assert await interpreter.invoke_counted() == 42
    await interpreter.close()


async def test_more_than_was_asked_when_the_code_has_changed_is_one_failed_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interpreter = runner()
    model = StoredModel(os.memfd_create("stored", os.MFD_CLOEXEC))
    os.ftruncate(model.descriptor, mmap.PAGESIZE)
    await interpreter.load(b"", 1 << 16, model)
    post, collect = WorkerProcess.post, WorkerProcess.collect
    posted: list[bytes] = []

    def noting(self: WorkerProcess, request: bytes, file: int | None = None) -> None:
        posted.append(request)
        post(self, request, file)

    async def lying(self: WorkerProcess) -> bytes:
        reply = await collect(self)
        return DONE + b"more" if posted[-1] == CHANGED else reply

    monkeypatch.setattr(WorkerProcess, "post", noting)
    monkeypatch.setattr(WorkerProcess, "collect", lying)
    assert await run(interpreter) == 42
    model.changes = 1
    with pytest.raises(InvokeError, match=r"^the interpreter's process says more than it was asked$"):
        await run(interpreter)
    assert interpreter.pid is None
    assert await run(interpreter) == 42
    await interpreter.close()
    os.close(model.descriptor)


async def test_process_that_does_not_end_is_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for a device that is gone; here the kill is lost."""
    monkeypatch.setattr(worker_process, "END_SECONDS", 0.05)
    interpreter = runner()
    await interpreter.load(b"", 1 << 16)
    worker = interpreter._worker
    assert worker is not None
    monkeypatch.setattr(worker._process, "kill", lambda: None)
    interpreter.input(0)[:] = b"stop".ljust(liar.NAME_BYTES, b"\0")
    with trio.fail_after(PATIENCE):
        with pytest.raises(InvokeError):
            await interpreter.invoke()
        assert await run(interpreter) == 42
        await interpreter.close()
    monkeypatch.undo()
    worker._process.kill()
    worker._process.wait()
