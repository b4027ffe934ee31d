"""The whole device in one process, the host library in another, over USB/IP.

    python -m benchmarks.device

Loading a large model, the round trip of a command through the engine beside a bare TCP echo between the
same two processes, and inferences beside the interpreter called directly. What is compared takes turns.
"""

import multiprocessing
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final

import numpy as np
import trio

from aisrv import digits
from aisrv.attach.usbip.server import Export, UsbipServer
from aisrv.device.device import open_device
from aisrv.values.private_directory import private_socket
from benchmarks.echo import echo, echo_task, echo_thread, one_core
from benchmarks.rows import Row
from host_tools.client import AiServer
from tests.support.models import networks

BUSID: Final = "1-1"
BIG: Final = 4 << 20
HIGH_SPEED: Final = 53.2
"""MB/s that USB high speed can carry: 13 packets of 512 bytes in each of 8,000 microframes a second."""

ROUNDS: Final = 20
TRIPS: Final = 100
LOADS: Final = 9
MILLISECOND: Final = 1e3
MICROSECOND: Final = 1e6


async def _device(pipe: Pipe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thread_listener, private_socket() as path:
        threading.Thread(target=echo_thread, args=(thread_listener,), daemon=True).start()
        async with open_device() as device, trio.open_nursery() as nursery:
            server = UsbipServer([Export(device.usb, BUSID)])
            _, usbip = await nursery.start(server.serve, "127.0.0.1", 0)
            await nursery.start(server.serve_unix, Path(path))
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, echo_task, listeners)
            task = listeners[0].socket.getsockname()[1]
            pipe.send((f"127.0.0.1:{usbip}", f"unix:{path}", task, thread_listener.getsockname()[1]))
            await trio.lowlevel.wait_readable(pipe.fileno())
            nursery.cancel_scope.cancel()


def _device_process(pipe: Pipe) -> None:
    trio.run(_device, pipe)


@contextmanager
def running_device() -> Iterator[tuple[str, str, int, int]]:
    """Run the device's process: its addresses by TCP and Unix socket, the ports of the echoes."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_device_process, args=(theirs,))
    process.start()
    theirs.close()
    try:
        tcp, unix, task, thread = ours.recv()
        yield f"usbip:{tcp}", f"usbip:{unix}", task, thread
    finally:
        ours.close()
        process.join()


def _medians(actions: dict[str, Callable[[], object]], rounds: int, times: int) -> dict[str, float]:
    """Seconds of each action, the median of many, the actions taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            for _ in range(times):
                start = time.perf_counter()
                action()
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in seconds.items()}


def _loading(address: str) -> list[Row]:
    """A 4 MiB model: its bytes received by the engine, and the whole command with the interpreter's start.

    The first is a SET that the engine receives whole and then refuses, since nothing else ends the moment
    that the data are there.
    """
    model = networks.big_network(BIG)
    with AiServer.open(address) as server:

        def whole() -> None:
            server.load_model(model, memory="ext")

        whole()
        seconds = _medians({"data": lambda: _refused(server, model), "whole": whole}, LOADS, 1)
    return [
        Row("4 MiB of model data, host library to engine", BIG / seconds["data"] / 1e6, "MB/s"),
        Row("the same : USB high speed", BIG / seconds["data"] / 1e6 / HIGH_SPEED, "times"),
        Row("4 MiB model, loaded and confirmed, interpreter started", seconds["whole"] * MILLISECOND, "ms"),
    ]


def _refused(server: AiServer, model: bytes) -> None:
    """Send a model with a broken identifier: the engine has all of its bytes when it refuses them."""
    from host_tools.errors import ModelError

    try:
        server.load_model(model[:4] + b"none" + model[8:], memory="ext", force=True)
    except ModelError:
        return
    raise AssertionError("the engine took a model without identifier")


def _round_trips(cores: str) -> list[Row]:
    """One host by TCP, then one by Unix socket, as a device has one host at a time; echoes beside each."""
    rows = []
    with running_device() as (tcp, unix, task, thread), ExitStack() as cleanup:
        echoes = {
            "TCP echo by a task": echo(task, cleanup),
            "TCP echo by a thread": echo(thread, cleanup),
        }
        for address, command in ((tcp, "GET_STATUS"), (unix, "GET_STATUS, Unix socket")):
            with AiServer.open(address) as server:
                seconds = _medians({**echoes, command: server.status}, ROUNDS, TRIPS)
            rows += [Row(f"{name}, {cores}", value * MICROSECOND, "us") for name, value in seconds.items()]
            rows += [
                Row(f"{command} : {name}, {cores}", seconds[command] / seconds[name], "times")
                for name in echoes
            ]
    return rows


def interpreter_of(model: bytes, image: bytes) -> Callable[[], bytes]:
    """The interpreter called directly: write, invoke, read."""
    from tflite_runtime.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    (source,), (sink,) = interpreter.get_input_details(), interpreter.get_output_details()

    def infer() -> bytes:
        data: Any = np.frombuffer(image, source["dtype"]).reshape(source["shape"])
        interpreter.set_tensor(source["index"], data)
        interpreter.invoke()
        return bytes(interpreter.get_tensor(sink["index"]).tobytes())

    return infer


def _inferences(address: str) -> list[Row]:
    """Blocks of runs of either side take turns; then single runs, each after the other side's, all cold."""
    rows = []
    cases = (
        ("digits", digits.model_bytes(), digits.test_images()[0].image, ROUNDS, TRIPS // 4),
        ("50 MMAC", networks.mmac_network(), bytes(networks.MMAC_INPUT_BYTES), ROUNDS // 2, 10),
        ("50 MMAC, one by one", networks.mmac_network(), bytes(networks.MMAC_INPUT_BYTES), ROUNDS * 2, 1),
    )
    for name, model, image, rounds, times in cases:
        with AiServer.open(address) as server:
            server.load_model(model, memory="ext")

            def through_the_device(server: AiServer = server, image: bytes = image) -> bytes:
                return server.run(image)

            direct = interpreter_of(model, image)
            if through_the_device() != direct():
                raise AssertionError(f"{name}: the device and the interpreter disagree")
            seconds = _medians({"device": through_the_device, "direct": direct}, rounds, times)
        more = seconds["device"] - seconds["direct"]
        rows += [
            Row(f"{name}: interpreter called directly", seconds["direct"] * MILLISECOND, "ms"),
            Row(f"{name}: through the device, write to read", seconds["device"] * MILLISECOND, "ms"),
            Row(f"{name}: more", more * MILLISECOND, "ms"),
            Row(f"{name}: more", more / seconds["direct"] * 100, "%"),
        ]
    return rows


def _commands() -> list[Row]:
    def help_of(module: str) -> Callable[[], object]:
        return lambda: subprocess.run(
            [sys.executable, "-m", module, "--help"], capture_output=True, check=True
        )

    seconds = _medians({"aisrv": help_of("aisrv"), "aisrv-host": help_of("host_tools")}, 11, 1)
    return [Row(f"{name} --help", value * MILLISECOND, "ms") for name, value in seconds.items()]


def run() -> list[Row]:
    """Measure; about 15 s."""
    with running_device() as (address, *_):
        rows = _loading(address) + _inferences(address)
    rows += _round_trips("any core")
    with one_core():
        rows += _round_trips("one core")
    return rows + _commands()


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}")
