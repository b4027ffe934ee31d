"""What commands cost in time of the processor, for machines that do other work meanwhile.

    python -m benchmarks.commands_cpu

The round trip of GET_STATUS beside an echo, and inferences beside the interpreter called directly, as in
`benchmarks/device.py`; but what counts is the time that the host's process, the device's and its workers ran.
On an idle machine with all of them on one core the sums are the times that pass.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from aisrv import digits
from benchmarks.device import interpreter_of, running_device
from benchmarks.echo import echo, one_core
from benchmarks.rows import Row
from host_tools.client import AiServer
from tests.support.models import networks

ROUNDS: Final = 25
TRIPS: Final = 200


def _ran(process: Path) -> float:
    """Microseconds that the threads of a process ran, exact where it sleeps."""
    return (
        sum(int((each / "schedstat").read_text().split()[0]) for each in (process / "task").iterdir()) / 1e3
    )


class Processes:
    """The time that this process, the device's and its workers ran."""

    def __init__(self) -> None:
        (device,) = multiprocessing.active_children()
        self._device = Path(f"/proc/{device.pid}")

    def host(self) -> float:
        """Microseconds of this process."""
        return time.process_time() * 1e6

    def device(self) -> float:
        """Microseconds of the device's process and the workers that run now."""
        numbers = (self._device / "task" / self._device.name / "children").read_text().split()
        return _ran(self._device) + sum(_ran(Path(f"/proc/{number}")) for number in numbers)


def _costs(
    actions: dict[str, Callable[[], object]], rounds: int, times: int
) -> dict[str, tuple[float, float]]:
    """Microseconds of host and device for each action: the medians of blocks that take turns."""
    processes = Processes()
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            host, device = processes.host(), processes.device()
            for _ in range(times):
                action()
            costs[name].append(((processes.host() - host) / times, (processes.device() - device) / times))
    return {
        name: (statistics.median(host for host, _ in each), statistics.median(device for _, device in each))
        for name, each in costs.items()
    }


def _round_trips() -> Iterator[Row]:
    with running_device() as (tcp, unix, task, _), ExitStack() as cleanup:
        for address, name in ((tcp, "GET_STATUS, TCP"), (unix, "GET_STATUS, Unix socket")):
            with AiServer.open(address) as server:
                actions: dict[str, Callable[[], object]] = {"echo": echo(task, cleanup), name: server.status}
                costs = _costs(actions, ROUNDS, TRIPS)
            yield Row(f"{name}: host", costs[name][0], "us")
            yield Row(f"{name}: device", costs[name][1], "us")
            yield Row(f"{name}: echo by a task, both", sum(costs["echo"]), "us")
            yield Row(f"{name} : echo", sum(costs[name]) / sum(costs["echo"]), "times")


def _inferences() -> Iterator[Row]:
    cases = (
        ("digits", digits.model_bytes(), digits.test_images()[0].image, ROUNDS, 50),
        ("50 MMAC", networks.mmac_network(), bytes(networks.MMAC_INPUT_BYTES), ROUNDS, 10),
        ("50 MMAC, one by one", networks.mmac_network(), bytes(networks.MMAC_INPUT_BYTES), 4 * ROUNDS, 1),
    )
    with running_device() as (address, *_):
        for name, model, image, rounds, times in cases:
            with AiServer.open(address) as server:
                server.load_model(model, memory="ext")
                actions: dict[str, Callable[[], object]] = {
                    "device": partial(server.run, image),
                    "direct": interpreter_of(model, image),
                }
                costs = _costs(actions, rounds, times)
            direct, device = sum(costs["direct"]), sum(costs["device"])
            yield Row(f"{name}: called directly", direct / 1e3, "ms")
            yield Row(f"{name}: more through the device", (device - direct) / 1e3, "ms")
            yield Row(f"{name}: more through the device", (device - direct) / direct * 100, "%")


def run() -> Iterator[Row]:
    """Measure; about 30 s."""
    with one_core():
        yield from _round_trips()
        yield from _inferences()


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}", flush=True)
