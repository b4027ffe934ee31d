"""How much a peer that floods one device delays the host of another one in the same process.

    python -m benchmarks flood

Two devices are served by a process, as `aisrv run --devices 2 -v` does, with a standard error that nobody
reads; the flooding peer is another process. Rows give the median and the worst of many status commands to the
second device, in wall time, which other work on the machine lengthens; and the longest turn of the server's
event loop in CPU time of its thread, which it does not. A command takes two or three turns.
"""

import multiprocessing
import os
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Final

import trio

from aisrv.board import Board
from aisrv.cli.options.logging import start_logging
from aisrv.cli.serving import DeviceSet, Listening, serve_devices, short_pauses
from aisrv.monitor.loop_watch import LoopWatch
from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest
from benchmarks.rows import Row
from host_tools.client import AiServer
from host_tools.errors import CommandError

COMMANDS: Final = 2000
WARM_UP: Final = 200
_CONFIGURE: Final = bytes(SetupPacket(0, StandardRequest.SET_CONFIGURATION, 1, 0, 0))
_DEVICE: Final = 0x10001


def _submit(
    seqnum: int, data: bytes, endpoint: int = 1, setup: bytes = bytes(8), devid: int = _DEVICE
) -> bytes:
    header = struct.pack(">7I3I", 1, seqnum, devid, 0, endpoint, 0, len(data), 0, 0xFFFFFFFF, 0)
    return header + setup + data


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(bytes.fromhex("0111800300000000") + b"1-1".ljust(32, b"\0"))
    sock.recv(320, socket.MSG_WAITALL)
    sock.sendall(_submit(1, b"", 0, _CONFIGURE))
    sock.recv(48, socket.MSG_WAITALL)
    return sock


def _flood_messages(port: int, data: bytes, devid: int) -> None:
    """Send requests as fast as they are answered, 64 in flight."""
    sock = _connect(port)
    for first in range(2, 1 << 30, 64):
        sock.sendall(b"".join(_submit(first + n, data, devid=devid) for n in range(64)))
        sock.recv(48 * 64, socket.MSG_WAITALL)


def flood_of_other_devices(port: int) -> None:
    """Requests for another device: each leaves a line in the log."""
    _flood_messages(port, b"abc", 7)


def flood_of_no_commands(port: int) -> None:
    """Packets that are not commands."""
    _flood_messages(port, bytes(100), _DEVICE)


def flood_of_connections(port: int) -> None:
    """Connections that break the protocol at once."""
    while True:
        with socket.create_connection(("127.0.0.1", port)) as sock, suppress(ConnectionError):
            sock.sendall(bytes(48))
            sock.recv(1)


def flood_of_models(port: int) -> None:
    """Models of 4,096 tensors that live at once, which are planned again and again."""
    from benchmarks.hostile_plans import model

    data = model()
    with AiServer.open(f"usbip:127.0.0.1:{port}/1-1", timeout=60) as server:
        while True:
            with suppress(CommandError):  # what it needs of the arena is found out first
                server.load_model(data, "ext")


FLOODS: Final[dict[str, Callable[[int], None]]] = {
    "requests for another device": flood_of_other_devices,
    "packets that are not commands": flood_of_no_commands,
    "connections that break the protocol": flood_of_connections,
    "models of 4,096 tensors": flood_of_models,
}


async def _serve(pipe: Connection, turns: list[float], pauses: ExitStack) -> None:
    async with serve_devices(DeviceSet([Board(), Board()]), Listening()) as service:
        pauses.enter_context(short_pauses())  # as `aisrv run` does
        pipe.send(int(service.usbip.rpartition(":")[2]))
        while True:
            await trio.lowlevel.wait_readable(pipe.fileno())
            pipe.recv()
            pipe.send(max(turns))
            turns.clear()


def _run_server(pipe: Connection) -> None:
    unread, errors = os.pipe()
    os.dup2(errors, 2)
    start_logging(1)
    turns: list[float] = []
    watch = LoopWatch(lambda turn: turns.append(turn.seconds), 0.0, time.thread_time)
    with suppress(EOFError), ExitStack() as pauses:
        trio.run(_serve, pipe, turns, pauses, instruments=[watch])
    os.close(unread)


@contextmanager
def _devices() -> Iterator[tuple[int, Callable[[], float]]]:
    """Serve two devices; yields their port, and what gives the longest turn since it was last asked."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_server, args=(theirs,), daemon=True)
    process.start()
    theirs.close()

    def longest() -> float:
        ours.send(None)
        seconds: float = ours.recv()
        return 1000 * seconds

    try:
        yield ours.recv(), longest
    finally:
        process.kill()
        process.join()


@contextmanager
def _flooded(flood: Callable[[int], None], port: int) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=flood, args=(port,), daemon=True)
    process.start()
    try:
        time.sleep(1.0)
        yield
    finally:
        process.kill()
        process.join()


def _times(port: int) -> list[float]:
    times = []
    with AiServer.open(f"usbip:127.0.0.1:{port}/1-2") as server:
        for number in range(WARM_UP + COMMANDS):
            start = time.perf_counter()
            server.status()
            if number >= WARM_UP:
                times.append(1000 * (time.perf_counter() - start))
    return sorted(times)


def _rows(name: str, port: int, longest: Callable[[], float]) -> Iterator[Row]:
    longest()
    times = _times(port)
    yield Row(f"{name}: median", statistics.median(times), "ms")
    yield Row(f"{name}: 99 of 100 within", times[len(times) * 99 // 100], "ms")
    yield Row(f"{name}: worst", times[-1], "ms")
    yield Row(f"{name}: longest turn of the loop, CPU time", longest(), "ms")


def run() -> Iterator[Row]:
    """Measure with each flood, a quiet run before it."""
    for name, flood in FLOODS.items():
        with _devices() as (port, longest):
            yield from _rows("quiet", port, longest)
            with _flooded(flood, port):
                yield from _rows(name, port, longest)
