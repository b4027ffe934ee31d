"""How costs grow with sizes: CPU time at sizes of three decades, and the exponent; 1 is linear.

    python -m benchmarks.growth

The exponent is the slope of the logarithms over the largest decade, where what every call costs counts least.
Engines have fewer sizes: a device has cores for eight. Figures are the least of a few runs, in time of this
process, so that other work on the machine counts little.
"""

import gc
import itertools
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import trio
import trio.testing
from tflite import BuiltinOperator, TensorType

from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.board import Board, EngineSpec
from aisrv.device.device import open_device, open_devices
from aisrv.inference.process.inline import inline
from aisrv.model.arena_plan import plan_arena
from aisrv.model.reader import read_model
from aisrv.model.values import Quantization, Tensor
from aisrv.model.writer import Network, NetworkOperator
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_kind import EngineKind
from benchmarks.rows import Row
from tests.support.models import networks
from tests.support.models.arena_models import lives
from tests.support.peers.usbip_host import UsbipHost, submit_in, submit_out

ROUNDS: Final = 3
DECADES: Final = (1, 10, 100, 1000)
_SCALE: Final = Quantization.per_tensor(1.0, 0)

Measure = Callable[[int], float]
"""CPU seconds of something of a size."""


def run() -> Iterator[Row]:
    """Measure; about a minute."""
    yield from _growth("model bytes, load through a device", _load, [16_000 * each for each in DECADES])
    yield from _growth("engines, start of a device", _engines, [1, 2, 4, 8])
    yield from _growth("devices, start", _devices, DECADES)
    gc.disable()
    yield from _growth("devices, start, without Python's garbage collector", _devices, DECADES)
    gc.enable()
    yield from _growth("hosts of a device, one after the other", _hosts, DECADES)
    yield from _growth("commands in flight, USB/IP", _commands, DECADES)
    yield from _growth("live tensors, arena plan", _live_tensors, [10 * each for each in DECADES])
    yield from _growth("nodes of a network, load", _load_nodes, [4 * each for each in DECADES])
    yield from _growth("nodes of a network, run", _run_nodes, [4 * each for each in DECADES])


def _growth(name: str, measure: Measure, sizes: list[int] | tuple[int, ...]) -> Iterator[Row]:
    seconds = [min(measure(size) for _ in range(ROUNDS)) for size in sizes]
    for size, taken in zip(sizes, seconds, strict=True):
        yield Row(f"{name}: {size:,}", taken * 1e3, "ms")
    slope = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
    yield Row(f"{name}: exponent", slope, "")


def _timed(program: Callable[[], Awaitable[float]]) -> float:
    return trio.run(program)


def _load(size: int) -> float:
    model = networks.big_network(size)

    async def program() -> float:
        board = Board(engines=(EngineSpec(external_bytes=48 << 20, kind=EngineKind("kernels")),))
        async with open_device(board, runner=inline) as device:
            begin = time.process_time()
            await device.load_model(model, command=Command.SET_MODEL_EXT)
            return time.process_time() - begin

    return _timed(program)


def _engines(count: int) -> float:
    engines = tuple(EngineSpec(tile=number % 2, arena_bytes=32 << 10) for number in range(count))

    async def program() -> float:
        begin = time.process_time()
        async with open_device(Board(engines=engines, spi=None)):
            return time.process_time() - begin

    return _timed(program)


def _devices(count: int) -> float:
    async def program() -> float:
        begin = time.process_time()
        async with open_devices([Board()] * count):
            return time.process_time() - begin

    return _timed(program)


def _hosts(count: int) -> float:
    async def program() -> float:
        async with open_device() as device, trio.open_nursery() as nursery:
            _, port = await nursery.start(UsbipServer(export_all([device.usb])).serve, "127.0.0.1", 0)
            begin = time.process_time()
            for _ in range(count):
                host = UsbipHost(await trio.open_tcp_stream("127.0.0.1", port))
                await host.attach()
                await host.leave()
                await host.stream.aclose()
                await trio.testing.wait_all_tasks_blocked()
            taken = time.process_time() - begin
            nursery.cancel_scope.cancel()
        return taken

    return _timed(program)


def _commands(count: int) -> float:
    """GET_STATUS so many times, all asked for before an answer is read."""
    asked = b"".join(
        submit_out(2 * number + 1, b"\x01\0\0") + submit_in(2 * number + 2, 512) for number in range(count)
    )

    async def program() -> float:
        async with open_device() as device, trio.open_nursery() as nursery:
            _, port = await nursery.start(UsbipServer(export_all([device.usb])).serve, "127.0.0.1", 0)
            host = UsbipHost(await trio.open_tcp_stream("127.0.0.1", port))
            await host.attach()
            begin = time.process_time()
            await host.stream.send_all(asked)
            await host.answers(2 * count)
            taken = time.process_time() - begin
            nursery.cancel_scope.cancel()
        return taken

    return _timed(program)


def _live_tensors(count: int) -> float:
    model = lives([(number % 64 * 16 + 16, 0, 1) for number in range(count)], 2)
    begin = time.process_time()
    plan_arena(model)
    return time.process_time() - begin


def _chain(count: int) -> bytes:
    names = [f"t{number}" for number in range(count + 1)]
    tensors = tuple(Tensor(name, (1, 16), TensorType.INT8, _SCALE) for name in names)
    operators = tuple(
        NetworkOperator(BuiltinOperator.ADD, (source, source), (target,))
        for source, target in itertools.pairwise(names)
    )
    return bytes(Network(tensors, operators, (names[0],), (names[-1],), "chain"))


def _load_nodes(count: int) -> float:
    model = _chain(count)
    begin = time.process_time()
    read_model(model)
    load_network(model, find_backend("numpy"))
    return time.process_time() - begin


def _run_nodes(count: int) -> float:
    network = load_network(_chain(count), find_backend("numpy"))
    begin = time.process_time()
    network.invoke()
    return time.process_time() - begin


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>10.3f} {row.unit}", flush=True)
