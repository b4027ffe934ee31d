"""A real scheduler and real workers of Dask, each a process, for tests that kill them."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SLOW_ENGINE: Final = '''
import time
from aisrv.addons.kernels.interpreter import KernelsInterpreter

class Slow(KernelsInterpreter):
    """Takes 10 ms a run, so that something is left to be killed."""

    def invoke(self):
        time.sleep(0.01)
        super().invoke()
'''


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Cluster:
    """A scheduler and its workers, which `tend` starts again where they have ended."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        *,
        allowed_failures: int,
        modules: Path | None,
        nanny: bool = False,
        tls: Path | None = None,
    ) -> None:
        """`tls` has ca.pem, cert.pem and key.pem."""
        self._tls: tuple[str, ...] = ()
        if tls is not None:
            files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
            words = [(option, str(tls / name)) for option, name in files.items()]
            self._tls = ("--protocol", "tls", *(word for pair in words for word in pair))
        self._folder = folder
        self._nanny = nanny
        self.port = free_port()
        self.address = f"{'tls' if tls else 'tcp'}://127.0.0.1:{self.port}"
        self._environment = os.environ | {
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
            "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False",
            "PYTHONWARNINGS": "ignore",
        }
        if modules is not None:
            self._environment["PYTHONPATH"] = str(modules)
        self.scheduler = self._start_scheduler()
        self.workers = [self._start_worker() for _ in range(workers)]

    def _start(self, program: str, *words: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"distributed.cli.dask_{program}",
                    *words,
                    *self._tls,
                    "--host",
                    "127.0.0.1",
                ],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _start_scheduler(self) -> "subprocess.Popen[bytes]":
        return self._start("scheduler", "--port", str(self.port), "--no-dashboard", "--no-show")

    def _start_worker(self) -> "subprocess.Popen[bytes]":
        scratch = str(self._folder / "scratch")
        words = ["--nthreads", "1", "--memory-limit", "0", "--no-dashboard", "--local-directory", scratch]
        nanny = "--nanny" if self._nanny else "--no-nanny"
        return self._start("worker", self.address, nanny, "--death-timeout", "30", *words)

    def tend(self) -> None:
        """Start again what has ended."""
        if self.scheduler.poll() is not None:
            self.scheduler = self._start_scheduler()
        for number, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[number] = self._start_worker()

    def worker_ids(self) -> list[int]:
        """The processes that do the work: a nanny's is its child."""
        if not self._nanny:
            return [worker.pid for worker in self.workers if worker.poll() is None]
        found = [child for worker in self.workers for child in children_of(worker.pid)]
        return [each for each in found if "spawn_main" in command_of(each)]

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            for each in (*descendants_of(process.pid), process.pid):
                kill(each)
            process.wait()


@contextmanager
def cluster(
    folder: Path,
    workers: int = 2,
    *,
    allowed_failures: int = 3,
    modules: Path | None = None,
    nanny: bool = False,
    tls: Path | None = None,
) -> Iterator[Cluster]:
    """Run a cluster whose logs are in a folder; `modules` are on the path of its workers."""
    folder.mkdir(exist_ok=True)
    found = Cluster(folder, workers, allowed_failures=allowed_failures, modules=modules, nanny=nanny, tls=tls)
    try:
        yield found
    finally:
        found.stop()


def kill(process: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def children_of(process: int) -> list[int]:
    """Children of all threads of a process: a nanny starts its worker from one of its own."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue
    return found


def descendants_of(process: int) -> list[int]:
    found: list[int] = []
    for child in children_of(process):
        found += [child, *descendants_of(child)]
    return found


def shuffled(kinds: Sequence[str], seed: int) -> list[str]:
    found = list(kinds)
    random.Random(seed).shuffle(found)
    return found
