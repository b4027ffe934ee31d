"""What a device makes of a hostile model, and what it must never do with one.

Whatever the file: its commands end with a status that they may end with, tensors have the sizes that the file
gives them, results are those of the interpreter called directly, and the device answers afterwards.
"""

import enum
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from aisrv import digits
from aisrv.device.device import Device
from aisrv.inference.engine import Runners
from aisrv.inference.errors import InferenceError
from aisrv.inference.process.isolation import Limits
from aisrv.model import Model
from aisrv.model.relocatable.container import is_image
from aisrv.model.relocatable.model import read_loadable
from aisrv.protocol.commands import SERVER_ID, Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from tests.support.models.hostile_models import Case

LIMITS: Final = Limits(memory_bytes=1 << 29, load_seconds=5.0, invoke_seconds=1.0)


class Outcome(enum.Enum):
    """How a case ended."""

    REFUSED = "refused by our check"
    FAILED = "error of the interpreter"
    KILLED = "killed worker"
    TIMED_OUT = "timed out"
    RAN = "ran"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case ended, with the last line of the debug log that says why."""

    outcome: Outcome
    reason: str = ""
    outputs: tuple[bytes, ...] = ()
    """Bytes of the output tensors where it ran."""


async def try_model(device: Device, case: Case) -> Verdict:
    """Load a model and run it once on inputs of the case's own; AssertionError for what may not happen."""
    engine = device.local[0]
    status = await set_command(engine, Command.SET_MODEL_EXT, 0, case.model)
    if status:
        assert status is Status.ERROR_MODEL_ERR, (case.number, status)
        return await _failure(device, Command.SET_MODEL_EXT)
    model = read_loadable(case.model)
    for number, data in enumerate(inputs_of(case, model)):
        assert await set_command(engine, Command.SET_INPUT_TENSOR, number, data) is Status.OKAY
    status = await set_command(engine, Command.START_INFER)
    if status:
        assert status is Status.ERROR_INFER_ERR, (case.number, status)
        return await _failure(device, Command.START_INFER)
    outputs = []
    for number, tensor in enumerate(model.output_tensors):
        status, data = await get_command(engine, Command.GET_OUTPUT_TENSOR, number)
        assert (status, len(data)) == (Status.OKAY, tensor.nbytes), case.number
        outputs.append(data)
    return Verdict(Outcome.RAN, outputs=tuple(outputs))


def inputs_of(case: Case, model: Model) -> list[bytes]:
    """Random bytes for each input, the same at every call."""
    chance = Random(case.number)
    return [chance.randbytes(tensor.nbytes) for tensor in model.input_tensors]


async def _failure(device: Device, command: Command) -> Verdict:
    """Tell from the debug log, as a host reads it, what was wrong."""
    status, log = await get_command(device.local[0], Command.GET_DEBUG_LOG)
    assert status is Status.OKAY
    text = log.rstrip(b"\0").decode()
    reason = text.rpartition(f"{command.name}: ")[2].rstrip("\n")
    assert reason, "a refusal without a reason"
    return Verdict(_outcome(reason), reason)


_OUTCOMES: Final = (
    (r"took more than .* and was stopped", Outcome.TIMED_OUT),
    (r"the interpreter (was killed by|ended with)", Outcome.KILLED),
    (r"^(loading|running) the model: ", Outcome.FAILED),
)


def _outcome(reason: str) -> Outcome:
    return next((outcome for pattern, outcome in _OUTCOMES if re.search(pattern, reason)), Outcome.REFUSED)


def has_one_result(model: Model) -> bool:
    """Whether the network reads only what was written before; otherwise any bytes are a correct result."""
    written = {tensor.index for tensor in model.tensors if tensor.is_constant or tensor.is_variable}
    written.update(model.inputs)
    for operator in model.operators:
        if not written.issuperset(index for index in operator.inputs if index >= 0):
            return False
        written.update(operator.outputs)
    return written.issuperset(model.outputs)


async def check_result(verdict: Verdict, case: Case, runner: Runners, arena_bytes: int) -> None:
    """Assert that a case that ran has the bytes that an interpreter without a device gives.

    One that reads what nobody wrote, or outside its tensors, gives what its memory held before: no result of
    such a model is wrong. It gives another where the memory is filled before.
    """
    model = read_loadable(case.model)
    if not is_image(case.model) and not has_one_result(model):
        return
    direct = await _run_directly(runner, case, model, arena_bytes)
    if direct != verdict.outputs:
        with _filled_memory():
            again = await _run_directly(runner, case, model, arena_bytes)
        assert direct != again, f"{verdict.outputs} are not the interpreter's own {direct}"


@contextmanager
def _filled_memory() -> Iterator[None]:
    """Have processes that start now fill what they allocate, see mallopt(3)."""
    before = os.environ.get("MALLOC_PERTURB_")
    os.environ["MALLOC_PERTURB_"] = "85"
    try:
        yield
    finally:
        del os.environ["MALLOC_PERTURB_"]
        if before is not None:
            os.environ["MALLOC_PERTURB_"] = before


async def _run_directly(
    runner: Runners, case: Case, model: Model, arena_bytes: int
) -> tuple[bytes, ...] | None:
    """The bytes of the outputs; None where it fails."""
    interpreter = runner(lambda _: None)
    try:
        await interpreter.load(case.model, arena_bytes)
        for number, data in enumerate(inputs_of(case, model)):
            interpreter.input(number)[:] = data
        await interpreter.invoke()
        return tuple(bytes(interpreter.output(number)) for number in range(len(model.outputs)))
    except InferenceError:
        return None
    finally:
        await interpreter.close()


async def check_alive(device: Device, model: bytes = digits.model_bytes()) -> None:
    """Assert that the device says who it is, and classifies a digit with a model of them."""
    engine = device.local[0]
    identity = SERVER_ID.to_bytes(4, "little")
    assert await get_command(engine, Command.GET_ID) == (Status.OKAY, identity)
    image, label = digits.test_images()[0]
    assert await set_command(engine, Command.SET_MODEL_EXT, 0, model) is Status.OKAY
    assert await set_command(engine, Command.SET_INPUT_TENSOR, 0, image) is Status.OKAY
    assert await set_command(engine, Command.START_INFER) is Status.OKAY
    status, scores = await get_command(engine, Command.GET_OUTPUT_TENSOR)
    assert status is Status.OKAY
    assert max(range(digits.CLASSES), key=memoryview(scores).cast("b").__getitem__) == label


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
