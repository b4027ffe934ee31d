"""What the page of `--web` costs the device that it shows, in time of the processor.

    python -m benchmarks.web

The pages are open in another process, whose time does not count. Phases with and without them take turns in
one run; a ratio is the median over the pairs, each beside the mean of the phases before and after it. The
interpreter runs in the device's own process, so that its time counts.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from aisrv import digits
from aisrv.addons.web.cpu_time import CpuTime
from aisrv.addons.web.device.bench import Bench, open_benches
from aisrv.addons.web.device.controls import Controls, Target
from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.hub import GRID, Hub
from aisrv.addons.web.server import PageServer
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, EngineSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_kind import EngineKind
from benchmarks.models_of_others import at_hand
from benchmarks.rows import Row
from tests.support.peers import mlperf_tiny

PAIRS: Final = int(os.environ.get("AISRV_PAIRS", "30"))
PHASE_SECONDS: Final = 0.4
SETTLE_SECONDS: Final = 0.15
IDLE_SECONDS: Final = 5.0
TOKEN: Final = "t" * 32
NAME: Final = "1-1"
ARENA: Final = 400_000
MANY: Final = 300
"""Devices of a grid."""

T = TypeVar("T")
Work = Callable[[], Awaitable[None]]


class TotalCpu(CpuTime):
    """Counts what ticks and sends take in all, too."""

    total = 0.0

    def call(self, work: Callable[[], T]) -> T:
        """As `CpuTime.call`."""
        before = self.spent
        try:
            return super().call(work)
        finally:
            self.total += self.spent - before


class Pages:
    """The pages in the other process."""

    def __init__(self, process: trio.Process, port: int) -> None:
        self.port: Final = port
        self._process = process

    async def have(self, count: int, *, holding: bool = False) -> tuple[int, int]:
        """Have so many pages; return the bytes and reads since the last time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.send_all(b"%d hold\n" % count if holding else b"%d\n" % count)
        line = b""
        while not line.endswith(b"\n"):
            piece = await self._process.stdout.receive_some()
            assert piece, "the readers have ended"
            line += piece
        await trio.sleep(SETTLE_SECONDS)
        got, reads = map(int, line.split())
        return got, reads


class Served:
    """A hub whose server listens, and what its ticks and sends take."""

    def __init__(self, views: list[DeviceView]) -> None:
        self.cpu: Final = TotalCpu()
        self.hub: Final = Hub(views, cpu=self.cpu)

    @asynccontextmanager
    async def listening(self, targets: dict[str, Target]) -> AsyncIterator[int]:
        """Serve pages within the block; yield the port."""
        async with trio.open_nursery() as nursery:
            controls = Controls(targets)
            _, port = await nursery.start(PageServer(self.hub, controls, TOKEN).serve)
            await nursery.start(controls.run)
            nursery.start_soon(self.hub.run)
            yield port
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def pages(self, targets: dict[str, Target], view: str) -> AsyncIterator[Pages]:
        """Serve pages of another process within the block."""
        async with self.listening(targets) as port:
            command = [sys.executable, "-m", "benchmarks.web_readers", str(port), TOKEN, view]
            process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            yield Pages(process, port)
            assert process.stdin is not None
            await process.stdin.aclose()
            await process.wait()


async def _phase(work: Work) -> float:
    """Microseconds of the processor of one piece of work."""
    count, begun, until = 0, time.process_time(), time.perf_counter() + PHASE_SECONDS
    while time.perf_counter() < until:
        for _ in range(8):
            await work()
        count += 8
        await trio.lowlevel.checkpoint()
    return (time.process_time() - begun) / count * 1e6


async def _ratio(name: str, work: Work, plain: Work, other: Work) -> list[Row]:
    """Compare work while `other` has been set up with the same while `plain` has."""
    await plain()
    before = await _phase(work)
    ratios = []
    base = [before]
    for _ in range(PAIRS):
        await other()
        with_it = await _phase(work)
        await plain()
        after = await _phase(work)
        ratios.append(2 * with_it / (before + after))
        base.append(after)
        before = after
    low, middle, high = statistics.quantiles(ratios)
    return [
        Row(f"{name}: without", statistics.median(base), "us"),
        Row(f"{name}: ratio", middle, "times"),
        Row(f"{name}: lower quartile", low, "times"),
        Row(f"{name}: upper quartile", high, "times"),
    ]


async def _nothing() -> None:
    pass


def _works(host: InProcessHost) -> dict[str, Work]:
    """GET_STATUS, and the run of a network that is loaded with its input set."""

    async def command(*words: int) -> None:
        await host.write(bytes((*words, 0, 0)))

    async def status() -> None:
        await command(Command.GET_STATUS)
        await host.read(512)

    async def infer() -> None:
        await command(Command.START_INFER)
        await host.write(b"")
        await command(Command.GET_OUTPUT_TENSOR)
        await host.read(512)

    return {"GET_STATUS": status, "run": infer}


async def _costs() -> list[Row]:
    kind = EngineKind.parse("kernels:native")
    board = Board(engines=(EngineSpec(kind=kind, arena_bytes=ARENA),))
    rows: list[Row] = []
    models = {"digits": digits.model_bytes()}
    for model in at_hand(mlperf_tiny, "vww_96_int8").values():
        models["vww"] = model
    async with open_device(board, runner=inline) as device, open_benches({NAME: device}) as benches:
        host = InProcessHost(device.usb)
        await host.plug_in()
        works = _works(host)
        for name, model in models.items():
            await device.load_model(model, command=Command.SET_MODEL_EXT)
            await works["run"]()
            todo = {f"{name} on kernels:native": works["run"]}
            if name == "digits":
                todo["GET_STATUS"] = works["GET_STATUS"]
            for what, work in todo.items():
                rows += await _beside_no_server(what, work, host, benches[NAME])
                rows += await _with_pages(what, work, host, benches[NAME])
    return rows


async def _beside_no_server(what: str, work: Work, host: InProcessHost, bench: Bench) -> list[Row]:
    """The server listens, and nobody looks; hosts drive the port of the page's bench."""
    async with AsyncExitStack() as stack:
        open_now: list[AsyncExitStack] = []

        async def serve() -> None:
            host.bus = bench.port
            one = await stack.enter_async_context(AsyncExitStack())
            await one.enter_async_context(_served(bench).listening(_targets(bench)))
            open_now.append(one)
            await trio.sleep(SETTLE_SECONDS)

        async def end() -> None:
            host.bus = bench.device.usb
            while open_now:
                await open_now.pop().aclose()
            await trio.sleep(SETTLE_SECONDS)

        return await _ratio(f"{what}, the page is served, nobody looks", work, end, serve)


async def _with_pages(what: str, work: Work, host: InProcessHost, bench: Bench) -> list[Row]:
    rows: list[Row] = []
    served = _served(bench)
    host.bus = bench.port
    async with served.pages(_targets(bench), NAME) as pages:
        for count in (1, 10):

            async def have(count: int) -> None:
                await pages.have(count)

            name = f"{what}, {count} page{'s' * (count > 1)}"
            rows += await _ratio(name, work, partial(have, 0), partial(have, count))
        await pages.have(10)
        before, begun, until = served.cpu.total, time.perf_counter(), time.perf_counter() + IDLE_SECONDS
        while time.perf_counter() < until:
            await work()
        share = (served.cpu.total - before) / (time.perf_counter() - begun)
        rows.append(Row(f"{what}, 10 pages: ticks and sends", 100 * share, "% of a core"))
    return rows


def _served(bench: Bench) -> Served:
    return Served([DeviceView(NAME, bench.device, bench)])


def _targets(bench: Bench) -> dict[str, Target]:
    return {NAME: Target(bench.device, bench.port, bench)}


async def _idle() -> list[Row]:
    """The whole process, of a device that does nothing."""
    rows = []
    async with (
        open_device(runner=inline) as device,
        open_benches({NAME: device}) as benches,
        _served(benches[NAME]).pages(_targets(benches[NAME]), NAME) as pages,
    ):
        for count in (0, 1, 10):
            await pages.have(count)
            before = time.process_time()
            await trio.sleep(IDLE_SECONDS)
            spent = (time.process_time() - before) / IDLE_SECONDS
            rows.append(Row(f"a device at rest, {count} pages: the process", spent * 1e3, "ms a second"))
    return rows


class _Moving(DeviceView):
    """A device with a picture of 160x120, another one five times a second."""

    def pictures(self) -> dict[tuple[int, int], bytes]:
        """As `DeviceView.pictures`."""
        number = int(trio.current_time() * 5)
        return {(1, 0): b"\1\0\xa0\0\x78\0\0\0" + number.to_bytes(4, "little") * (160 * 120 * 3 // 4)}


async def _updates(port: int, device: Device, seconds: float) -> float:
    """Updates a second of a page that reads, of a device that always has news."""
    page = await trio.open_tcp_stream("127.0.0.1", port)
    hello = json.dumps({"token": TOKEN, "see": NAME}).encode()
    upgrade = (
        f"GET /socket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    count = 0

    async def change() -> None:
        while True:
            device.engines[0].inferences += 1
            await trio.sleep(0.01)

    async with page, trio.open_nursery() as nursery:
        nursery.start_soon(change)
        await page.send_all(upgrade.encode() + bytes((0x81, 0x80 | len(hello), 0, 0, 0, 0)) + hello)
        await trio.sleep(1)
        await page.receive_some(1 << 20)
        begun = time.perf_counter()
        with trio.move_on_after(seconds):
            while True:
                count += (await page.receive_some(1 << 20)).count(b'{"patch":{"t":')
        nursery.cancel_scope.cancel()
    return count / (time.perf_counter() - begun)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def _never_read() -> list[Row]:
    async with open_device(runner=inline) as device:
        served = Served([DeviceView(NAME, device), _Moving("1-2", device)])
        async with served.pages({}, "1-2") as pages:
            alone = await _updates(pages.port, device, 5)
            memory = _resident()
            await pages.have(20, holding=True)
            beside = await _updates(pages.port, device, 5)
            more = _resident() - memory
    return [
        Row("updates of a page", alone, "a second"),
        Row("the same beside 20 pages that never read", beside, "a second"),
        Row("memory for 20 pages that never read", more / 1e6, "MB"),
    ]


async def _grid() -> list[Row]:
    async with AsyncExitStack() as stack:
        devices = [
            await stack.enter_async_context(open_device(Board(serial=f"LAB-{number}"), runner=inline))
            for number in range(MANY)
        ]
        views = [
            DeviceView(f"{number // 100 + 1}-{number % 100}", each) for number, each in enumerate(devices)
        ]
        served = Served(views)
        async with served.pages({}, GRID) as pages, trio.open_nursery() as nursery:

            async def change() -> None:
                while True:
                    devices[0].engines[0].inferences += 1
                    await trio.sleep(0.01)

            nursery.start_soon(change)
            await pages.have(1)
            await pages.have(1)
            before, begun = served.cpu.total, time.perf_counter()
            await trio.sleep(IDLE_SECONDS)
            passed = time.perf_counter() - begun
            _, reads = await pages.have(1)
            rows = [
                Row(
                    f"grid of {MANY} devices, one of them busy",
                    reads / (passed + SETTLE_SECONDS),
                    "updates/s",
                ),
                Row("the same: ticks and sends", 100 * (served.cpu.total - before) / passed, "% of a core"),
            ]
            nursery.cancel_scope.cancel()
    return rows


def run() -> Iterator[Row]:
    """Measure; about seven minutes, with AISRV_PAIRS=4 one and a half."""
    for part in (_idle, _never_read, _grid, _costs):
        yield from trio.run(part)


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.3f} {row.unit}", flush=True)
