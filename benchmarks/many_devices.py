"""A thousand idle devices in one process, alone and then each with a host attached that does nothing.

    python -m benchmarks.many_devices

Memory is what the process has more resident than with one device, divided by the number; CPU is what the
process takes in 2 s. The lines that hold most of it are from a run of their own: tracing costs memory, too.
"""

import gc
import multiprocessing
import resource
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

import trio
import trio.testing

from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board
from aisrv.device.device import open_devices
from aisrv.xcore.deadlock_watch import WATCH_SECONDS
from benchmarks.rows import Row
from host_tools.transports.usbip.discovery import import_device, list_devices

COUNT: Final = 1000
TRACED: Final = 100
TRACED_LINES: Final = 8
IDLE_SECONDS: Final = 2.0
_ROOT: Final = Path(__file__).parent.parent


def _resident() -> int:
    """Bytes of this process in memory, without garbage."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _allow_files() -> None:
    """Let this process have as many files open as it may: a socket for each host."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _idle_cpu() -> float:
    before = time.process_time()
    await trio.sleep(IDLE_SECONDS)
    return (time.process_time() - before) * 1000


async def _serve(pipe: Pipe) -> None:
    """Be the devices: send the port, wait for the hosts, send the rows."""
    async with open_devices([Board()]):
        before = _resident()  # what is loaded once is loaded now
    start = time.perf_counter()
    async with open_devices([Board()] * COUNT) as devices, trio.open_nursery() as nursery:
        server = UsbipServer(export_all([device.usb for device in devices]))
        _, port = await nursery.start(server.serve, "127.0.0.1", 0)
        await trio.testing.wait_all_tasks_blocked()
        started = time.perf_counter() - start
        alone = _resident()
        await trio.sleep(2 * WATCH_SECONDS)  # each device looks for a deadlock once after its start
        alone_cpu = await _idle_cpu()
        pipe.send(port)
        await trio.lowlevel.wait_readable(pipe.fileno())
        pipe.recv()
        await trio.testing.wait_all_tasks_blocked()
        attached = _resident()
        await trio.sleep(2 * WATCH_SECONDS)
        attached_cpu = await _idle_cpu()
        nursery.cancel_scope.cancel()
        start = time.perf_counter()
    stopped = time.perf_counter() - start
    pipe.send(
        [
            Row(f"start of {COUNT} devices", started * 1000, "ms"),
            Row(f"end of {COUNT} devices", stopped * 1000, "ms"),
            Row("memory of a device", (alone - before) / COUNT / 1000, "kB"),
            Row("memory of a device with a host", (attached - before) / COUNT / 1000, "kB"),
            Row(f"CPU of {COUNT} devices in {IDLE_SECONDS:g} s", alone_cpu, "ms"),
            Row(f"CPU of {COUNT} devices with hosts in {IDLE_SECONDS:g} s", attached_cpu, "ms"),
        ]
    )


async def _trace(pipe: Pipe) -> None:
    """Send what the lines that allocate most hold."""
    async with open_devices([Board()]):
        pass
    tracemalloc.start()
    async with open_devices([Board()] * TRACED):
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        lines = tracemalloc.take_snapshot().statistics("lineno")
    pipe.send(
        [
            Row(f"of it at {_short(line.traceback[0].filename)}:{line.traceback[0].lineno}", size, "kB")
            for line in lines[:TRACED_LINES]
            if (size := line.size / TRACED / 1000)
        ]
    )


def _short(filename: str) -> str:
    path = Path(filename)
    if path.is_relative_to(_ROOT) and "site-packages" not in path.parts:
        return str(path.relative_to(_ROOT))
    return "/".join(path.parts[-2:])


def _process(work: Callable[[Pipe], Awaitable[None]], pipe: Pipe) -> None:
    _allow_files()
    trio.run(work, pipe)


def _in_process(work: Callable[[Pipe], Awaitable[None]], use: Callable[[Pipe], list[Row]]) -> list[Row]:
    """Run `work` in a new process; `use` gets our end of the pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_process, args=(work, theirs))
    process.start()
    theirs.close()
    try:
        return use(ours)
    finally:
        ours.close()
        process.join()


def _attach_to_all(pipe: Pipe) -> list[Row]:
    _allow_files()
    address = f"127.0.0.1:{pipe.recv()}"
    with ExitStack() as hosts:
        for exported in list_devices(address):
            peer, _ = import_device(address, exported.record.busid)
            hosts.enter_context(peer)
        pipe.send("all are attached")
        rows: list[Row] = pipe.recv()
    return rows


def _receive(pipe: Pipe) -> list[Row]:
    rows: list[Row] = pipe.recv()
    return rows


def run() -> list[Row]:
    """Measure; about 8 s."""
    return _in_process(_serve, _attach_to_all) + _in_process(_trace, _receive)


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}")
