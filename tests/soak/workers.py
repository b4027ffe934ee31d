"""Signals to the processes that run models, at any moment of a load, a run, a reset, or between them.

A command then fails with the status of its kind, or gives the bytes of the interpreter; a stopped process
costs no more than the limit of its command; the next command finds a new process; none is left at the end.
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import Final

import trio

from aisrv import digits
from aisrv.device.device import Device, open_device
from aisrv.inference.process.isolation import ALARM_SECONDS, Limits
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from tests.soak.check import Check, Figures
from tests.support.benches.engines import EXACT, INSTALLED, isolated_as
from tests.support.models import networks
from tests.support.oracles.process_resources import child_processes

KINDS: Final = (*(kind for kind in INSTALLED if kind in EXACT), "kernels")
LIMITS: Final = Limits(load_seconds=40.0, invoke_seconds=2.0)
SLACK: Final = 20.0
"""Seconds more than a limit, on a busy machine."""
MODEL: Final = digits.model_bytes()
IMAGES: Final = [image for image, _ in digits.test_images()[:8]]
SIGNALS: Final = (
    *(signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGALRM),
    *(signal.SIGSTOP, signal.SIGCONT),
)
ACTIONS: Final = ("load", "run", "run", "run", "run", "between", "between")


async def send(number: signal.Signals, delay: float, before: set[int]) -> None:
    """Send a signal to the worker, after a while."""
    await trio.sleep(delay)
    for pid in set(child_processes()) - before:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


async def disturb(device: Device, chance: random.Random, before: set[int], expected: list[bytes]) -> str:
    """One signal, and one command in its way; what the command came to."""
    engine = device.local[0]
    number, action = chance.choice(SIGNALS), chance.choice(ACTIONS)
    if action == "load" and number is signal.SIGSTOP and chance.random() < 0.9:
        number = signal.SIGKILL  # each of the others takes as long as a load may
    image = chance.randrange(len(IMAGES))
    assert await set_command(engine, Command.SET_INPUT_TENSOR, 0, IMAGES[image]) is Status.OKAY
    started = time.monotonic()
    if action == "between":
        await send(number, 0, before)
        action = "run"
        status = await set_command(engine, Command.START_INFER)
    else:
        delay = chance.uniform(0, 0.25 if action == "load" else 0.002)
        command, data = (Command.SET_MODEL_EXT, MODEL) if action == "load" else (Command.START_INFER, b"")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, number, delay, before)
            status = await set_command(engine, command, 0, data)
            nursery.cancel_scope.cancel()
    seconds = time.monotonic() - started
    if action == "load":
        assert status in (Status.OKAY, Status.ERROR_MODEL_ERR), status
        assert seconds < 2 * LIMITS.load_seconds + SLACK, f"a load took {seconds:.1f} s"
    else:
        assert status in (Status.OKAY, Status.ERROR_INFER_ERR), status
        longest = LIMITS.load_seconds + LIMITS.invoke_seconds + ALARM_SECONDS + SLACK
        assert seconds < longest, f"a run took {seconds:.1f} s"
        if status is Status.OKAY:
            got = await get_command(engine, Command.GET_OUTPUT_TENSOR)
            assert got == (Status.OKAY, expected[image]), "other bytes than the interpreter's"
    return f"{number.name} {action} {'OKAY' if status is Status.OKAY else 'failed'}"


async def recover(device: Device, chance: random.Random, before: set[int], expected: list[bytes]) -> None:
    """Assert that the next commands work, with nothing left of a process that is gone."""
    engine = device.local[0]
    assert await set_command(engine, Command.SET_MODEL_EXT, 0, MODEL) is Status.OKAY
    image = chance.randrange(len(IMAGES))
    assert await set_command(engine, Command.SET_INPUT_TENSOR, 0, IMAGES[image]) is Status.OKAY
    assert await set_command(engine, Command.START_INFER) is Status.OKAY
    assert await get_command(engine, Command.GET_OUTPUT_TENSOR) == (Status.OKAY, expected[image])
    assert len(set(child_processes()) - before) == 1, "a process is left of a worker that is gone"


async def trial(kind: str, size: int, seed: int) -> Counter[str]:
    """Send so many signals to the workers of one device."""
    outcomes: Counter[str] = Counter()
    expected = [networks.run(MODEL, image)[0] for image in IMAGES]
    before = set(child_processes())
    async with open_device(runner=isolated_as(kind, LIMITS)) as device:
        for number in range(size):
            chance = random.Random(f"{seed}:{kind}:{number}")
            try:
                await recover(device, chance, before, expected)
                outcomes[await disturb(device, chance, before, expected)] += 1
            except AssertionError as fault:
                log = bytes(device.engines[0].log).rstrip(b"\0").decode().splitlines()[-1:]
                raise AssertionError(f"{kind} {number} of seed {seed}: {fault} {log}") from fault
        await recover(device, chance, before, expected)
        await send(signal.SIGSTOP, 0, before)  # a device ends whatever its workers do
    assert set(child_processes()) == before, "a worker outlived its device"
    return outcomes


def run(size: int, seed: int) -> Figures:
    """Send so many signals, to each kind of engine in turn."""
    outcomes: Counter[str] = Counter()
    for kind in KINDS:
        outcomes += trio.run(trial, kind, max(1, size // len(KINDS)), seed)
    failed = sum(count for name, count in outcomes.items() if name.endswith("failed"))
    return {
        "signals": outcomes.total(),
        "commands that failed": failed,
        "outcomes": dict(sorted(outcomes.items())),
    }


CHECK: Final = Check(
    "workers", "SIGSTOP, SIGKILL and other signals to the processes of engines", "signals", 600, 8, 12, run
)
