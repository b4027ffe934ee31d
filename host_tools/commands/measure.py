"""How fast a device answers: each measurement repeats one operation and keeps the time of every run."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from host_tools.client import AiServer

LEAST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operation: the seconds of each run, and the bytes that a run moves, where it moves data."""

    name: str
    seconds: tuple[float, ...]
    nbytes: int = 0

    @property
    def median(self) -> float:
        """Seconds of the run in the middle."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> str:
        """What the median amounts to: bytes a second where bytes are moved, else runs a second."""
        if self.nbytes:
            from rich.filesize import decimal

            return f"{decimal(round(self.nbytes / self.median))}/s"
        return f"{1 / self.median:,.0f}/s" if self.median <= 0.1 else f"{1 / self.median:.2g}/s"


def measure(name: str, operation: Callable[[], object], seconds: float, nbytes: int = 0) -> Measurement:
    """Repeat an operation for some seconds, three times at least."""
    clock = time.perf_counter
    runs: list[float] = []
    end = clock() + seconds
    while len(runs) < LEAST_RUNS or clock() < end:
        started = clock()
        operation()
        runs.append(clock() - started)
    return Measurement(name, tuple(runs), nbytes)


def measure_server(server: AiServer, seconds: float, model: bytes | None = None) -> Iterator[Measurement]:
    """Yield round trips; with `model` its loading; with a model on the engine its tensors and inferences.

    Input 0 is left full of zeros. Where no model is loaded, only what works without one is measured.
    """
    yield measure("status round trip", server.status, seconds)
    if model is not None:
        yield measure("load model", lambda: server.load_model(model, force=True), seconds, len(model))
    if not server.spec().input_bytes:
        return
    data = bytes(server.input_length())
    yield measure("write input 0", lambda: server.write_input(data), seconds, len(data))
    yield measure("inference", server.infer, seconds)
    yield measure("read output 0", server.read_output, seconds, server.output_length())
    yield measure("write, infer, read", lambda: server.run(data), seconds)
