"""SPI through its attachments, each beside the bare `xfer2` of an echo slave through the same attachment.

    python -m benchmarks.spi

Per transaction: GET_STATUS (7 bytes) and GET_OUTPUT_TENSOR with 512 bytes of data (515 bytes). And a model of
1 MiB, written in blocks of 512 bytes with a status poll before each. The attachments: in process, the
stand-in for `spidev` over the link, and the real `spidev` under umockdev's preload library.
"""

import json
import statistics
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from aisrv.attach.preload.server import Preload, serve_preload
from aisrv.attach.preload.trial import PreloadError
from aisrv.attach.spi_link import SpiLinkServer
from aisrv.device.device import open_device
from benchmarks.rows import Row
from host_tools.standins.launcher import environment
from phy.spi.bus import SpiBus

SIZES: Final = {"7 bytes": 7, "515 bytes": 515}
ROUNDS: Final = 20
TIMES: Final = 50
BIG: Final = 1 << 20
GET_STATUS, GET_OUTPUT, SET_MODEL_EXT, BUSY = 0x01, 0x05, 0x87, 0x01
MICROSECOND: Final = 1e6

_PROGRAM: Final = """
import json, statistics, sys, time
import spidev

rounds, times, sizes, big = json.loads(sys.argv[1])
buses = {"device": spidev.SpiDev(0, 0), "echo": spidev.SpiDev(1, 0)}
seconds = {f"{name}, {label}": [] for name in buses for label in sizes}
for _ in range(rounds):
    for name, bus in buses.items():
        for label, size in sizes.items():
            message = [5 if size > 7 else 1] + [0] * (size - 1)
            for _ in range(times):
                start = time.perf_counter()
                bus.xfer2(message)
                seconds[f"{name}, {label}"].append(time.perf_counter() - start)
answer = {name: statistics.median(each) for name, each in seconds.items()}
for bus in buses.values():
    bus.close()

from host_tools.client import AiServer
from tests.support.models import networks
model = networks.big_network(big)
with AiServer.open("spi:0.0") as server:
    start = time.perf_counter()
    server.load_model(model, memory="ext")
    answer["model"] = time.perf_counter() - start
print(json.dumps(answer))
"""


async def echo_slave(bus: SpiBus) -> None:
    """Echo each byte, one byte late."""
    last = b"\0"
    while True:
        message = await bus.next_message()
        miso = []
        for transfer in message.transfers:
            sent = last + transfer.mosi
            miso.append(sent[:-1])
            last = sent[-1:]
        bus.answer(message, miso)


async def _in_process(buses: Mapping[str, SpiBus]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {f"{name}, {label}": [] for name in buses for label in SIZES}
    for _ in range(ROUNDS):
        for name, bus in buses.items():
            for label, size in SIZES.items():
                message = bytes((GET_OUTPUT if size > 7 else GET_STATUS,)) + bytes(size - 1)
                for _ in range(TIMES):
                    start = time.perf_counter()
                    await bus.transfer(message)
                    seconds[f"{name}, {label}"].append(time.perf_counter() - start)
    answer = {name: statistics.median(each) for name, each in seconds.items()}
    from tests.support.models import networks

    model = networks.big_network(BIG)
    bus = buses["device"]
    start = time.perf_counter()
    for at in range(0, len(model) + 1, 512):
        await bus.transfer(bytes((SET_MODEL_EXT,)) + model[at : at + 512])
        while (await bus.transfer(bytes((GET_STATUS, 0, 0, 0))))[3] & BUSY:
            await trio.lowlevel.checkpoint()
    answer["model"] = time.perf_counter() - start
    return answer


async def _program(variables: Mapping[str, str]) -> dict[str, float]:
    root = str(Path(__file__).parent.parent)
    path = ":".join(filter(None, (variables.get("PYTHONPATH"), root)))
    done = await trio.run_process(
        [sys.executable, "-c", _PROGRAM, json.dumps([ROUNDS, TIMES, SIZES, BIG])],
        env={**variables, "PYTHONPATH": path},
        capture_stdout=True,
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


async def _measure() -> dict[str, dict[str, float]]:
    echo = SpiBus()
    async with open_device() as device, trio.open_nursery() as nursery:
        nursery.start_soon(echo_slave, echo)
        if device.spi is None:
            raise AssertionError("the default board has an SPI port")
        slaves = {"0.0": device.spi, "1.0": echo}
        found = {"in process": await _in_process({"device": device.spi, "echo": echo})}
        host, port = await nursery.start(SpiLinkServer(slaves).serve)
        linked = environment("127.0.0.1:1", spi_address=f"{host}:{port}")
        found["stand-in"] = await _program(linked)
        try:
            preload: Preload = await nursery.start(partial(serve_preload, spi=list(slaves.values())), [])
        except PreloadError as error:
            print(f"preload is not measured: {error}")
        else:
            found["preload"] = await _program(preload.environment(linked))
        nursery.cancel_scope.cancel()
    return found


def run() -> list[Row]:
    """Measure; about 15 s."""
    rows = []
    for attachment, seconds in trio.run(_measure).items():
        for label, size in SIZES.items():
            device, echo = seconds[f"device, {label}"], seconds[f"echo, {label}"]
            rows += [
                Row(f"{attachment}: transaction of {label}", device * MICROSECOND, "us"),
                Row(f"{attachment}: transaction of {label} : echo slave", device / echo, "times"),
                Row(f"{attachment}: bytes in transactions of {label}", size / device / 1e6, "MB/s"),
            ]
        rows += [
            Row(f"{attachment}: model of 1 MiB", seconds["model"], "s"),
            Row(f"{attachment}: model of 1 MiB", BIG / seconds["model"] / 1e6, "MB/s"),
        ]
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}")
