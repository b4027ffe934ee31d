"""An engine of a comparison in a process of its own: if it crashes, the comparison goes on."""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection

from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.predict.engine_comparison import EngineError, Tensors, run_engine
from aisrv.model import ModelFileError
from aisrv.protocol.engine_kind import EngineKind


def run_apart(kind: EngineKind, data: bytes, inputs: Sequence[bytes]) -> Tensors:
    """Run an engine once in a process of its own. EngineError if it refuses the model, or dies of it."""
    (tensors,) = run_each_apart(kind, data, [inputs])
    return tensors


def run_each_apart(kind: EngineKind, data: bytes, runs: Sequence[Sequence[bytes]]) -> list[Tensors]:
    """Do as `run_apart` for the inputs of several runs, in one process."""
    context = multiprocessing.get_context("spawn")
    answers, answering = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(answering, kind, data, [list(each) for each in runs]))
    # The mask is inherited: Ctrl-C is for this process, which ends the other.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    answering.close()
    try:
        answer: list[Tensors] | str = answers.recv()
    except EOFError:
        process.join()
        raise EngineError(f"its process {_ending(process.exitcode or 0)}") from None
    finally:
        process.kill()
        process.join()
        answers.close()
    if isinstance(answer, str):
        raise EngineError(answer)
    return answer


def _answer(answering: Connection, kind: EngineKind, data: bytes, runs: Sequence[Sequence[bytes]]) -> None:
    """Send the engine's results, or its error; its output goes to standard error."""
    os.dup2(2, 1)
    try:
        answer: list[Tensors] | str = [run_engine(kind, data, inputs) for inputs in runs]
    except (KernelError, ModelFileError) as error:
        answer = str(error)
    answering.send(answer)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
