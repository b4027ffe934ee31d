"""Spare processes: what they are taken for, that there is one of a kind, and that they end."""

import os
import signal
from contextlib import suppress

import pytest
import trio

from aisrv import digits
from aisrv.inference.engine import InferenceEngine
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.process.isolation import IsolatedInterpreter, Limits
from aisrv.inference.process.worker_pool import WorkerPool, open_worker_pool
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.protocol.memory_map import ModelMemory
from tests.support.amounts import amount
from tests.support.benches import puppet
from tests.support.benches.engines import run_once
from tests.support.models import networks
from tests.support.oracles.process_resources import child_processes, count_descriptors, is_alive

ARENA = 1 << 16
ROUNDS = amount(9, every_day=3)


def runner(workers: WorkerPool) -> IsolatedInterpreter:
    return workers.isolated(lambda _text: None, kind=puppet.KIND)


def resources() -> tuple[int, list[int]]:
    """Descriptors and children of this process."""
    return count_descriptors(), child_processes()


async def killed(pid: int) -> None:
    """Kill a process and wait until it is dead, not yet reaped."""
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    await trio.lowlevel.wait_readable(process)
    os.close(process)


async def test_a_load_takes_the_spare_and_another_waits() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        (spare,) = workers.pids
        interpreter = runner(workers)
        await interpreter.load(b"", ARENA)
        assert interpreter.pid == spare
        assert len(workers.pids) == 1
        assert workers.pids != [spare]
        await interpreter.close()
        assert not is_alive(spare)


async def test_the_first_load_of_a_kind_starts_its_spare() -> None:
    with open_worker_pool() as workers:
        assert workers.pids == []
        interpreter = runner(workers)
        await interpreter.load(b"", ARENA)
        assert len(workers.pids) == 1
        await interpreter.close()


async def test_there_is_one_spare_of_a_kind() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        workers.prepare(puppet.KIND)
        interpreters = [runner(workers) for _ in range(3)]
        for interpreter in interpreters:
            await interpreter.load(b"", ARENA)
        assert len(workers.pids) == 1
        for interpreter in interpreters:
            await interpreter.close()


async def test_kinds_do_not_mix() -> None:
    with open_worker_pool(puppet.KIND, default_kind()) as workers:
        waiting = workers.pids
        interpreter = workers.isolated(lambda _text: None)
        await interpreter.load(digits.model_bytes(), ARENA)
        assert interpreter.pid == waiting[1]
        assert waiting[0] in workers.pids
        await interpreter.close()


async def test_spares_end_with_the_block() -> None:
    with open_worker_pool(puppet.KIND, EngineKind("no.such:Thing")) as workers:
        waiting = workers.pids
        assert [is_alive(pid) for pid in waiting] == [True, True]
    assert [is_alive(pid) for pid in waiting] == [False, False]
    assert workers.pids == []


async def test_a_load_after_the_end_starts_no_spare() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        pass
    interpreter = runner(workers)
    await interpreter.load(b"", ARENA)
    await interpreter.close()
    assert workers.pids == []


async def test_a_spare_that_died_is_replaced() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        (spare,) = workers.pids
        await killed(spare)
        interpreter = runner(workers)
        await interpreter.load(b"", ARENA)
        assert interpreter.pid not in (None, spare)
        assert not is_alive(spare)
        await interpreter.close()


async def test_a_worker_that_died_is_replaced_by_the_spare() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        interpreter = runner(workers)
        await interpreter.load(b"", ARENA)
        (spare,) = workers.pids
        interpreter.input(0)[:6] = b"exit 3"
        with pytest.raises(InvokeError, match="exit status 3"):
            await interpreter.invoke()
        interpreter.input(0)[:6] = bytes(6)
        await interpreter.invoke()
        assert interpreter.pid == spare
        await interpreter.close()


async def test_a_failed_load_uses_the_spare_up() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        (spare,) = workers.pids
        with pytest.raises(ModelError, match="SIGSEGV"):
            await runner(workers).load(b"segfault", ARENA)
        assert not is_alive(spare)
        assert len(workers.pids) == 1


async def test_a_cancelled_load_uses_the_spare_up() -> None:
    with open_worker_pool(puppet.KIND) as workers:
        (spare,) = workers.pids
        with trio.move_on_after(0.1):
            await runner(workers).load(b"hang", ARENA)
        assert not is_alive(spare)
        assert len(workers.pids) == 1


async def test_limits_hold_for_spares() -> None:
    with open_worker_pool(puppet.KIND, limits=Limits(invoke_seconds=0.2)) as workers:
        interpreter = runner(workers)
        await interpreter.load(b"", ARENA)
        interpreter.input(0)[:4] = b"hang"
        with pytest.raises(InvokeError, match=r"took more than 0\.2 s"):
            await interpreter.invoke()
        await interpreter.close()


async def test_an_engine_switches_models_by_spares() -> None:
    image = digits.test_images()[0].image
    with open_worker_pool(EngineKind("tflite")) as workers:
        engine = InferenceEngine(workers.isolated, arena_bytes=1 << 18, external_bytes=1 << 18)
        for model in (digits.model_bytes(), digits.two_output_model_bytes(), digits.model_bytes()):
            await engine.load_model(model, ModelMemory.EXT)
            assert await run_once(engine, image) == networks.run(model, image)
        await engine.unload_model()


@pytest.mark.in_full
async def test_loads_of_all_kinds_leak_nothing() -> None:
    """The same as `python -m benchmarks.loads`, which loads 1,000 times."""
    before = resources()
    with open_worker_pool(puppet.KIND) as workers:
        for _ in range(ROUNDS):
            for action in (b"", b"print", b"layout 16 1000", b"exit 3", b"unicode", b"hang"):
                interpreter = runner(workers)
                with suppress(ModelError), trio.move_on_after(0.05 if action == b"hang" else 60):
                    await interpreter.load(action, ARENA)
                    await interpreter.invoke()
                await interpreter.close()
            if pids := workers.pids:
                await killed(pids[0])
    assert resources() == before
