"""The worker process: what a model may do to it, and that the parent is none the worse."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import TensorLayout
from aisrv.inference.process import isolation
from aisrv.inference.process.isolation import IsolatedInterpreter, Limits
from aisrv.model.errors import LoadResult
from aisrv.protocol.engine_kind import EngineKind, EngineKindError
from aisrv.values.extras import install_command
from tests.support.benches import puppet
from tests.support.oracles.process_resources import count_descriptors, is_alive
from tests.support.paths import ROOT

ARENA = 1 << 16


class Isolated:
    """A puppet in a worker, and what it printed."""

    def __init__(self, limits: Limits | None, kind: EngineKind) -> None:
        self.printed: list[str] = []
        self.interpreter = IsolatedInterpreter(self.printed.append, kind, limits)

    async def load(self, action: str = "") -> None:
        await self.interpreter.load(action.encode(), ARENA)

    async def invoke(self, action: str = "") -> int:
        """Run the action; the number of runs of this worker."""
        self.interpreter.input(0)[:] = action.encode().ljust(puppet.NAME_BYTES, b"\0")
        await self.interpreter.invoke()
        return self.interpreter.output(0)[0]

    @property
    def pid(self) -> int:
        assert self.interpreter.pid is not None
        return self.interpreter.pid


@asynccontextmanager
async def open_puppet(
    limits: Limits | None = None, kind: EngineKind = puppet.KIND
) -> AsyncIterator[Isolated]:
    isolated = Isolated(limits, kind)
    try:
        yield isolated
    finally:
        with trio.CancelScope(shield=True):
            await isolated.interpreter.close()


async def load_error(action: str, limits: Limits | None = None) -> str:
    """Load an action that fails; the error's text."""
    async with open_puppet(limits) as isolated:
        with pytest.raises(ModelError) as caught:
            await isolated.load(action)
        assert isolated.interpreter.pid is None
    return str(caught.value)


async def invoke_error(action: str, limits: Limits | None = None) -> tuple[str, int]:
    """Run an action that fails, then one that does not; the error's text and the number of runs."""
    async with open_puppet(limits) as isolated:
        await isolated.load()
        await isolated.invoke()
        with pytest.raises(InvokeError) as caught:
            await isolated.invoke(action)
        return str(caught.value), await isolated.invoke()


# Tensors and lifetime.


async def test_tensors_have_the_sizes_that_the_interpreter_gave() -> None:
    async with open_puppet() as isolated:
        await isolated.load("layout 5 0 64 65")
        assert isolated.interpreter.layout == TensorLayout((5,), (0, 64, 65))
        assert len(isolated.interpreter.input(0)) == 5
        assert [len(isolated.interpreter.output(i)) for i in range(3)] == [0, 64, 65]


async def test_tensors_do_not_overlap() -> None:
    async with open_puppet() as isolated:
        await isolated.load("layout 1 63 64 65")
        views = [isolated.interpreter.input(0), *(isolated.interpreter.output(i) for i in range(3))]
        for number, view in enumerate(views):
            view[:] = bytes([number]) * len(view)
        assert [set(view) for view in views] == [{0}, {1}, {2}, {3}]


async def test_outputs_are_zeros_before_the_first_run() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        assert bytes(isolated.interpreter.output(0)) == b"\0"


async def test_a_model_without_tensors_runs() -> None:
    async with open_puppet() as isolated:
        await isolated.load("layout")
        await isolated.interpreter.invoke()
        assert isolated.interpreter.layout == TensorLayout((), ())


async def test_a_tensor_that_is_not_there_is_an_index_error() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        with pytest.raises(IndexError):
            isolated.interpreter.input(1)


async def test_one_worker_serves_every_run() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        assert [await isolated.invoke() for _ in range(3)] == [1, 2, 3]


async def test_close_reaps_the_worker() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        pid = isolated.pid
        assert is_alive(pid)
        await isolated.interpreter.close()
        assert not is_alive(pid)
        assert isolated.interpreter.pid is None


async def test_close_works_twice_and_when_cancelled() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        with trio.CancelScope() as scope:
            scope.cancel()
            await isolated.interpreter.close()
        assert isolated.interpreter.pid is None
        await isolated.interpreter.close()


async def test_views_outlive_the_worker() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        await isolated.invoke()
        output = isolated.interpreter.output(0)
        await isolated.interpreter.close()
        assert bytes(output) == b"\1"


async def test_invoke_after_close_is_refused() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        await isolated.interpreter.close()
        with pytest.raises(InvokeError, match="no model is loaded"):
            await isolated.interpreter.invoke()


async def test_loading_again_replaces_the_worker() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        first = isolated.pid
        await isolated.load("layout 3 1")
        assert not is_alive(first)
        assert isolated.interpreter.layout == TensorLayout((3,), (1,))


def test_the_kind_without_a_model_has_no_interpreter() -> None:
    with pytest.raises(EngineKindError, match=r"^an engine of kind 'none' has no interpreter$"):
        IsolatedInterpreter(print, EngineKind("none"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no.such.module:Thing", "ModuleNotFoundError: No module named 'no'"),
        (
            "tests.support.benches.puppet:Thing",
            "AttributeError: module 'tests.support.benches.puppet' has no attribute",
        ),
    ],
)
async def test_an_interpreter_that_cannot_be_imported_is_a_model_error(kind: str, message: str) -> None:
    async with open_puppet(None, EngineKind(kind)) as isolated:
        with pytest.raises(ModelError) as caught:
            await isolated.load()
        assert str(caught.value).startswith(f"loading the model: {message}")


# Death.


@pytest.mark.parametrize(
    ("action", "end"),
    [
        ("exit 3", "ended with exit status 3"),
        ("segfault", "was killed by SIGSEGV"),
        ("sigterm", "was killed by SIGTERM"),
        ("signal 40", "was killed by signal 40"),
        ("last words", "was killed by SIGABRT; it printed last: two; three"),
    ],
)
async def test_death(action: str, end: str) -> None:
    assert await load_error(action) == f"loading the model: the interpreter {end}"
    # The 1 says that a new worker ran the model the second time.
    assert await invoke_error(action) == (f"running the model: the interpreter {end}", 1)


async def test_sigkill_while_loading() -> None:
    async with open_puppet() as isolated:

        async def load() -> None:
            with pytest.raises(
                ModelError, match=r"^loading the model: the interpreter was killed by SIGKILL$"
            ):
                await isolated.load("hang")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await wait_all_tasks_blocked()
            os.kill(isolated.pid, signal.SIGKILL)


async def test_sigkill_before_the_tensors_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizing = isolation.SharedFiles.map_tensors
    async with open_puppet() as isolated:

        def kill_and_size(files: isolation.SharedFiles, size: int) -> memoryview:
            os.kill(isolated.pid, signal.SIGKILL)
            return sizing(files, size)

        monkeypatch.setattr(isolation.SharedFiles, "map_tensors", kill_and_size)
        before = count_descriptors()
        with pytest.raises(ModelError, match=r"^mapping the tensors: the interpreter was killed by SIGKILL$"):
            await isolated.load()
        assert count_descriptors() == before
        assert isolated.interpreter.layout == TensorLayout((), ())


async def test_sigkill_while_running() -> None:
    async with open_puppet() as isolated:

        async def invoke() -> None:
            with pytest.raises(InvokeError, match="was killed by SIGKILL"):
                await isolated.invoke("hang")

        await isolated.load()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(invoke)
            await wait_all_tasks_blocked()
            os.kill(isolated.pid, signal.SIGKILL)


async def test_sigkill_between_runs() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        process = os.pidfd_open(isolated.pid)
        os.kill(isolated.pid, signal.SIGKILL)
        await trio.lowlevel.wait_readable(process)
        os.close(process)
        with pytest.raises(InvokeError, match="was killed by SIGKILL"):
            await isolated.invoke()
        assert await isolated.invoke() == 1


async def test_inputs_survive_the_worker() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        with pytest.raises(InvokeError):
            await isolated.invoke("exit 3")
        assert bytes(isolated.interpreter.input(0)) == b"exit 3".ljust(puppet.NAME_BYTES, b"\0")


async def test_a_model_that_no_longer_loads_is_an_error_at_every_run(tmp_path: Path) -> None:
    flag = tmp_path / "removed by the first load"
    flag.touch()
    async with open_puppet() as isolated:
        await isolated.load(f"once {flag}")
        with pytest.raises(InvokeError, match="exit status 3"):
            await isolated.invoke("exit 3")
        for _ in range(2):
            with pytest.raises(InvokeError, match="loading the model: FileNotFoundError"):
                await isolated.invoke()
            assert isolated.interpreter.pid is None


async def test_tensors_of_other_sizes_at_a_restart_are_an_error_at_every_run(tmp_path: Path) -> None:
    """The memory of the tensors was cut for the first worker's."""
    flag = tmp_path / "removed by the first load"
    flag.touch()
    async with open_puppet() as isolated:
        await isolated.load(f"changing {flag}")
        assert await isolated.invoke() == 1
        await isolated.interpreter.reset_variables()
        for _ in range(2):
            with pytest.raises(InvokeError, match="loading the model again gave tensors of other sizes"):
                await isolated.invoke()
            assert isolated.interpreter.pid is None


# What an interpreter is told and tells.


async def test_the_interpreter_gets_the_size_of_the_arena() -> None:
    assert await load_error("arena") == f"loading the model: RuntimeError: {ARENA} bytes of arena"


async def test_an_input_is_what_the_run_left() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        await isolated.invoke("last")
        assert bytes(isolated.interpreter.input(0)) == b"last".ljust(puppet.NAME_BYTES, b"\0")
        await isolated.invoke("overwrite")
        assert bytes(isolated.interpreter.input(0)) == b"something else\0\0"


async def test_a_load_result_crosses_the_process_border() -> None:
    async with open_puppet() as isolated:
        with pytest.raises(ModelError, match=r"^loading the model: too many$") as caught:
            await isolated.load("refuse")
    assert caught.value.load_result is LoadResult.TOO_MANY_INPUTS


async def test_a_shortage_that_is_printed_is_the_load_result() -> None:
    async with open_puppet() as isolated:
        with pytest.raises(ModelError) as caught:
            await isolated.load("tflm")
    assert str(caught.value) == (
        "loading the model: RuntimeError: no; the tensor arena is too small: "
        "1,192 bytes needed next, 32 available, 1,160 missing"
    )
    assert caught.value.load_result is LoadResult.TENSORS_DO_NOT_FIT
    assert isolated.printed == [puppet.TFLM_LINES.decode()]


async def test_a_missing_package_names_the_extra() -> None:
    assert await load_error("missing") == (
        f"loading the model: such-a-package is not installed: {install_command('tflm')}"
    )


# Errors that the interpreter reports.


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("unicode", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("struct", "error: unpack requires a buffer of 4 bytes"),
        ("index", "IndexError: list index out of range"),
        ("type", "TypeError: object of type 'int' has no len()"),
        ("empty", "RuntimeError"),
        ("surrogate", "RuntimeError: \\ud800"),
        ("core limit", "RuntimeError: Max core file size 0 0 bytes"),
    ],
)
async def test_exceptions_of_a_binding(action: str, message: str) -> None:
    assert (await load_error(action)).startswith(f"loading the model: {message}")
    text, runs = await invoke_error(action)
    assert text.startswith(f"running the model: {message}")
    assert runs == 2  # the same worker goes on


async def test_a_long_error_is_cut() -> None:
    assert await load_error("long") == "loading the model: RuntimeError: " + ("long " * 1000)[: 4086 - 14]


async def test_a_layout_that_is_too_long_is_an_error() -> None:
    assert await load_error("layout" + " 1" * 600) == (
        "loading the model: the interpreter's process answers with 4097 bytes"
    )


# What it prints.


@pytest.mark.parametrize(("action", "printed"), [("print", "hello\nworld\n"), ("printf", "from C\n")])
async def test_output_is_captured(action: str, printed: str) -> None:
    async with open_puppet() as isolated:
        await isolated.load(action)
        assert isolated.printed == [printed]
        await isolated.invoke(action)
        await isolated.invoke()
        assert isolated.printed == [printed, printed]


async def test_a_flood_of_output_is_bounded_and_blocks_nothing() -> None:
    async with open_puppet() as isolated:
        await isolated.load("flood")
        assert isolated.printed == ["x" * 65536 + "\n(it printed more, which is lost)"]
        await isolated.invoke("print")
        assert isolated.printed[1:] == ["hello\nworld\n"]


# Limits.


async def test_time_limit_of_load() -> None:
    assert await load_error("hang", Limits(load_seconds=0.2)) == (
        "loading the model: the interpreter took more than 0.2 s and was stopped"
    )


async def test_time_limit_of_invoke() -> None:
    assert await invoke_error("hang", Limits(invoke_seconds=0.5)) == (
        "running the model: the interpreter took more than 0.5 s and was stopped",
        1,
    )


async def test_memory_limit() -> None:
    assert (
        await load_error("hog", Limits(memory_bytes=1 << 30))
        == "loading the model: OSError: [Errno 12] Cannot allocate memory"
    )
    assert await invoke_error("hog", Limits(memory_bytes=1 << 30)) == (
        "running the model: OSError: [Errno 12] Cannot allocate memory",
        2,
    )


async def test_memory_that_is_not_over_the_limit_can_be_had() -> None:
    async with open_puppet(Limits(memory_bytes=1 << 31)) as isolated:
        await isolated.load("hog")


async def test_a_limit_too_small_for_the_process_is_a_model_error() -> None:
    # The puppet imports so little that it may find room in what the process has already.
    async with open_puppet(Limits(memory_bytes=1 << 20), EngineKind("tflite")) as isolated:
        with pytest.raises(ModelError, match=r"^loading the model: "):
            await isolated.load()


async def test_tensors_over_the_memory_limit_are_refused() -> None:
    assert await load_error("layout 1 1073741824") == (
        "the tensors have 1,073,741,888 bytes, more than a worker may take"
    )


# Cancellation.


async def test_a_cancelled_load_leaves_nothing() -> None:
    async with open_puppet() as isolated:
        before = count_descriptors()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(isolated.load, "hang")
                await wait_all_tasks_blocked()
                pid = isolated.pid
                scope.cancel()
        assert not is_alive(pid)
        assert count_descriptors() == before
        assert isolated.interpreter.layout == TensorLayout((), ())


async def test_a_cancelled_run_stops_the_worker_and_the_next_starts_another() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        assert await isolated.invoke() == 1
        pid = isolated.pid
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(isolated.invoke, "hang")
                await wait_all_tasks_blocked()
                scope.cancel()
        assert not is_alive(pid)
        assert bytes(isolated.interpreter.output(0)) == b"\1"
        assert await isolated.invoke() == 1


async def test_a_cancelled_restart_leaves_nothing_of_it() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        with pytest.raises(InvokeError):
            await isolated.invoke("exit 3")
        before = count_descriptors()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(isolated.invoke)
                await wait_all_tasks_blocked()
                scope.cancel()
        assert isolated.interpreter.pid is None
        assert count_descriptors() == before
        assert await isolated.invoke() == 1


# The process itself.


async def test_ctrl_c_is_not_for_the_worker() -> None:
    async with open_puppet() as isolated:
        await isolated.load()
        pid = isolated.pid
        assert os.getpgid(pid) != os.getpgid(0)
        os.kill(pid, signal.SIGINT)
        assert await isolated.invoke() == 1


PARENT = f"""
import trio
from trio.testing import wait_all_tasks_blocked
from aisrv.inference.process.isolation import IsolatedInterpreter
from aisrv.protocol.engine_kind import EngineKind

async def main():
    interpreter = IsolatedInterpreter(print, EngineKind({str(puppet.KIND)!r}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(interpreter.load, b"hang", 0)
        await wait_all_tasks_blocked()
        print(interpreter.pid, flush=True)

trio.run(main)
"""


def test_a_worker_that_hangs_dies_with_its_parent() -> None:
    root = str(ROOT)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root}
    ) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        ended, _, _ = select.select([worker], [], [], 10)
    finally:
        os.close(worker)
    assert ended


async def test_a_module_that_is_imported_late_leaves_no_half_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_module.py").write_text(f"DATA = {'x' * 200_000!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    async with open_puppet() as isolated:
        await isolated.load("import")
    assert {path.name for path in await trio.Path(tmp_path).iterdir()} == {"late_module.py"}
