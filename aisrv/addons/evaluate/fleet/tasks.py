"""The tasks of a run on Dask, as a worker does them: whole shards, pieces of one, examples one by one.

Each gets the run's folder and which examples it is for, and returns in less than 1 kB what became of them:
answers go to the folder. What cannot be done is returned, not raised: Dask runs a task again whose worker
died, and only then. A task that was done already does nothing.
"""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, TypedDict

import trio

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.fleet.job import FOLDER, JOB_FILE, Work, read_work
from aisrv.addons.evaluate.fleet.pieces import Pieces
from aisrv.addons.evaluate.folder.part_format import PartRows
from aisrv.addons.evaluate.folder.parts import Parts
from aisrv.addons.evaluate.request import ENGINE
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.addons.evaluate.running.device_run import DeviceError, open_server, run_on_device
from aisrv.addons.evaluate.running.local_run import READ_SECONDS, LocalRun, LocalSettings
from aisrv.inference.packages import missing_package
from host_tools.errors import HostError

START_SECONDS: Final = 60.0
"""Time that a process for one example may take, beside what reading and running it may."""
_REASON_CHARACTERS: Final = 500


class Done(TypedDict):
    """What became of a task."""

    problem: str
    """Why it could not be done; nothing where it was."""
    worker: str


def run_shard(folder: str, shard: int, first: int, end: int) -> Done:
    """Run the examples of a shard, from `first` up to `end`, and write its part."""

    def run(work: Work, parts: Parts) -> None:
        if parts.is_done(shard):
            return
        start = time.monotonic()
        rows = _rows(work, first, end)
        parts.write(shard, rows, platform.node(), time.monotonic() - start)

    return _done(folder, run)


def run_piece(folder: str, shard: int, first: int, end: int) -> Done:
    """Run some examples of a shard, from `first` up to `end`, and write their piece."""

    def run(work: Work, parts: Parts) -> None:
        pieces = Pieces(work.folder, parts)
        if not pieces.is_done(shard, first, end) and not parts.is_done(shard):
            pieces.write(shard, _rows(work, first, end))

    return _done(folder, run)


def run_one_by_one(folder: str, shard: int, first: int, end: int) -> Done:
    """Run some examples of a shard, each in a process of its own: one that kills its process has failed."""

    def run(work: Work, parts: Parts) -> None:
        pieces = Pieces(work.folder, parts)
        for index in range(first, end):
            if parts.is_done(shard):
                return
            if pieces.is_done(shard, index, index + 1):
                continue
            reason = _run_alone(work, shard, index)
            if reason:
                answers = Answers(1, work.output_bytes, work.job.shard, files=work.has_files)
                answers.fail(0, reason)
                pieces.write(shard, _part_rows(work, index, index + 1, answers))

    return _done(folder, run)


def _run_alone(work: Work, shard: int, index: int) -> str:
    """Run one example in a process of its own, which writes its piece; return what ended the process."""
    seconds = START_SECONDS + READ_SECONDS + work.job.seconds
    # -P: the directory that a worker happens to be in must not provide the modules.
    command = [sys.executable, "-P", "-m", "aisrv.addons.evaluate.fleet.one_example"]
    process = subprocess.Popen(
        [*command, str(os.getpid()), str(work.folder), str(shard), str(index)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    with process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"its process took more than {seconds:g} s and was stopped"
        except BaseException:
            process.kill()
            raise
    if process.returncode > 0:
        lines = said.decode(errors="replace").strip().splitlines()
        raise EvaluateError(lines[-1] if lines else f"a process ended with code {process.returncode}")
    if process.returncode < 0:
        return f"its process was killed by {signal.Signals(-process.returncode).name}"
    return ""


def _done(folder: str, run: Callable[[Work, Parts], None]) -> Done:
    """Do a part of a run; what goes wrong is what it returns."""
    try:
        path = Path(folder)
        work = _work(path, (path / FOLDER / JOB_FILE).stat().st_mtime_ns)
        parts = Parts(path, work.form)
        parts.make_folders()
        run(work, parts)
    except (EvaluateError, HostError) as error:
        problem = str(error)
    except OSError as error:
        problem = f"{error.filename or folder}: {error.strerror or error}"
    else:
        problem = ""
    return {"problem": problem[:_REASON_CHARACTERS], "worker": platform.node()}


@lru_cache(maxsize=2)
def _work(folder: Path, _changed: int) -> Work:
    """Read a run once in each worker, as long as it does not change."""
    return read_work(folder)


def _rows(work: Work, first: int, end: int) -> PartRows:
    data = work.examples(first, end)
    answers = Answers(end - first, work.output_bytes, work.job.shard, files=work.has_files)
    if work.job.on == ENGINE:
        package = missing_package(work.kind)
        if package is not None:
            raise DeviceError(f"{work.kind}: {package}", 3)
        settings = LocalSettings(work.kind, work.file.data, 1, work.job.seconds)
        trio.run(LocalRun(settings, data, work.preparation, answers, _watch_nothing).run)
    else:
        with open_server(work.job.on, work.file.data) as server:
            run_on_device(server, data, work.preparation, answers, len(work.outputs), _watch_nothing)
    return _part_rows(work, first, end, answers)


def _part_rows(work: Work, first: int, end: int, answers: Answers) -> PartRows:
    return PartRows(first, answers, work.labels(first, end))


def _watch_nothing(_first: int, _end: int) -> None:
    """See nothing of how far a task is: it is one of thousands."""
