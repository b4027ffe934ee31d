"""USB/IP server, the device in one process and the host in another.

    python -m benchmarks.usbip

Bulk OUT in requests of 512 bytes with 32 in flight and of 4 MiB alone, to firmware that takes what there is;
and the round trip of a 3-byte OUT and a 20-byte IN request, against a bare TCP echo between the same two
processes. Two echoes: a blocking loop in a thread of its own, and a task on the event loop of the device.
Round trips are measured on any core and on one core for both processes: where the two run on different cores,
most of the time goes into waking the other one. Compare ratios, not times, between machines.
"""

import multiprocessing
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Final

import trio

from aisrv.attach.usbip.server import Export, UsbipServer
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, PACKET_SIZE
from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest, aisrv_descriptors
from aisrv.protocol.usbip import HEADER_SIZE, Submit
from benchmarks.echo import ANSWER, QUESTION, echo, echo_task, echo_thread, one_core, receive
from benchmarks.rows import Row
from host_tools.transports.usbip.connection import Connection
from host_tools.transports.usbip.discovery import import_device
from phy.usb.bus import UsbBus
from phy.usb.data_task import BURST
from phy.usb.ep0 import usb_ep0
from phy.usb.xud import UsbReset

BUSID: Final = "1-1"
IN_FLIGHT: Final = 32
REPEATS: Final = 5
"""Rates are the best of so many: other work of the machine only ever slows one down."""

SMALL_TOTAL: Final = 16 * 1024 * 1024
LARGE: Final = 4 * 1024 * 1024
LARGE_TIMES: Final = 16
ROUNDS: Final = 20
ROUND_TRIPS: Final = 100
_SET_CONFIGURATION: Final = bytes(SetupPacket(0, StandardRequest.SET_CONFIGURATION, 1, 0, 0))


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the device's process listens: two USB/IP servers, a device each, and the two echoes."""

    usbip: tuple[int, int]
    task: int
    thread: int


# The device's process.


async def _firmware(bus: UsbBus) -> None:
    """Take everything; answer a question."""
    while True:
        try:
            packets = await bus.out_endpoint.get_buffer(BURST)
            if packets.short and len(packets.data) == len(QUESTION):
                await bus.in_endpoint.set_buffer(ANSWER)
        except UsbReset:
            bus.out_endpoint.acknowledge_reset()
            bus.in_endpoint.acknowledge_reset()


async def _usbip_server(nursery: trio.Nursery) -> int:
    bus = UsbBus(aisrv_descriptors())
    nursery.start_soon(usb_ep0, bus)
    nursery.start_soon(_firmware, bus)
    _, port = await nursery.start(UsbipServer([Export(bus, BUSID)]).serve, "127.0.0.1", 0)
    return int(port)


async def _device(pipe: Pipe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thread_listener:
        threading.Thread(target=echo_thread, args=(thread_listener,), daemon=True).start()
        async with trio.open_nursery() as nursery:
            usbip = await _usbip_server(nursery), await _usbip_server(nursery)
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, echo_task, listeners)
            task = listeners[0].socket.getsockname()[1]
            pipe.send(Ports(usbip, task, thread_listener.getsockname()[1]))
            await trio.lowlevel.wait_readable(pipe.fileno())
            nursery.cancel_scope.cancel()


def _device_process(pipe: Pipe) -> None:
    trio.run(_device, pipe)


@contextmanager
def device_process() -> Iterator[Ports]:
    """Run the device's process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_device_process, args=(theirs,))
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


# The host's process.


def _opened(address: str) -> Connection:
    connection = Connection.open(address, BUSID)
    connection.control_out(_SET_CONFIGURATION)
    return connection


def _raw(address: str) -> tuple[socket.socket, int]:
    """A plain socket to the configured device, and its device number."""
    peer, record = import_device(address, BUSID, 5)
    peer.setblocking(True)
    peer.sendall(bytes(Submit(1, record.devid, 0, 0, length=0, setup=_SET_CONFIGURATION)))
    receive(peer, HEADER_SIZE)
    return peer, record.devid


def _small_requests(address: str) -> float:
    """MB/s of requests that cost the host next to nothing: their bytes are laid out beforehand."""
    peer, devid = _raw(address)
    with peer:
        half = IN_FLIGHT // 2
        halves = [
            b"".join(
                bytes(Submit(number, devid, 0, ENDPOINT_OUT, length=PACKET_SIZE)) + bytes(PACKET_SIZE)
                for number in range(1 + first, 1 + first + half)
            )
            for first in (0, half)
        ]
        start = time.perf_counter()
        peer.sendall(halves[0])
        for turn in range(1, SMALL_TOTAL // PACKET_SIZE // half):
            peer.sendall(halves[turn % 2])
            receive(peer, half * HEADER_SIZE)
        receive(peer, half * HEADER_SIZE)
        return SMALL_TOTAL / (time.perf_counter() - start) / 1e6


def _small_requests_of_library(connection: Connection) -> float:
    """The same with the host library."""
    half = IN_FLIGHT // 2
    requests = [(ENDPOINT_OUT, bytes(PACKET_SIZE))] * half
    start = time.perf_counter()
    flying = connection.submit_batch(requests)
    for _ in range(1, SMALL_TOTAL // PACKET_SIZE // half):
        following = connection.submit_batch(requests)
        for transfer in flying:
            connection.wait(transfer)
        flying = following
    for transfer in flying:
        connection.wait(transfer)
    return SMALL_TOTAL / (time.perf_counter() - start) / 1e6


def _large_requests(connection: Connection) -> float:
    data = b"\x01" * LARGE  # memory in use: a request with fresh zeros measures page faults
    start = time.perf_counter()
    for _ in range(LARGE_TIMES):
        connection.bulk_out(ENDPOINT_OUT, data)
    return LARGE * LARGE_TIMES / (time.perf_counter() - start) / 1e6


def _plain(address: str, cleanup: ExitStack) -> Callable[[], None]:
    peer, devid = _raw(address)
    cleanup.enter_context(peer)
    question = bytes(Submit(1, devid, 0, ENDPOINT_OUT, length=len(QUESTION))) + QUESTION
    answer = bytes(Submit(2, devid, 1, ENDPOINT_IN & 0x0F, length=PACKET_SIZE))

    def exchange() -> None:
        peer.sendall(question)
        receive(peer, HEADER_SIZE)
        peer.sendall(answer)
        receive(peer, HEADER_SIZE + len(ANSWER))

    return exchange


def _of_library(address: str, cleanup: ExitStack) -> Callable[[], None]:
    connection = cleanup.enter_context(_opened(address))

    def exchange() -> None:
        connection.bulk_out(ENDPOINT_OUT, QUESTION)
        connection.bulk_in(ENDPOINT_IN, PACKET_SIZE)

    return exchange


def _round_trips(cores: str) -> list[Row]:
    """Medians of exchanges that take turns, so that all of them meet the same state of the machine."""
    with device_process() as ports, ExitStack() as cleanup:
        addresses = [f"127.0.0.1:{port}" for port in ports.usbip]
        exchanges = {
            "TCP echo by a thread": echo(ports.thread, cleanup),
            "TCP echo by a task": echo(ports.task, cleanup),
            "OUT and IN, plain socket": _plain(addresses[0], cleanup),
            "OUT and IN, host library": _of_library(addresses[1], cleanup),
        }
        times: dict[str, list[float]] = {name: [] for name in exchanges}
        for _ in range(ROUNDS):
            for name, exchange in exchanges.items():
                for _ in range(ROUND_TRIPS):
                    start = time.perf_counter()
                    exchange()
                    times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) * 1e6 for name, each in times.items()}
    rows = [Row(f"{name}, {cores}", value, "us") for name, value in medians.items()]
    echoes, transfers = list(medians)[:2], list(medians)[2:]
    return rows + [
        Row(f"{transfer} : {echo}, {cores}", medians[transfer] / medians[echo], "times")
        for transfer in transfers
        for echo in echoes
    ]


def run() -> list[Row]:
    """Measure; about 10 s."""
    with device_process() as ports:
        address = f"127.0.0.1:{ports.usbip[0]}"
        small = max(_small_requests(address) for _ in range(REPEATS))
        with _opened(address) as connection:
            small_of_library = max(_small_requests_of_library(connection) for _ in range(REPEATS))
            large = max(_large_requests(connection) for _ in range(REPEATS))
    rows = [
        Row("OUT requests of 512 bytes, 32 in flight, plain socket", small, "MB/s"),
        Row("OUT requests of 512 bytes, 32 in flight, host library", small_of_library, "MB/s"),
        Row("OUT requests of 4 MiB, host library", large, "MB/s"),
        *_round_trips("any core"),
    ]
    with one_core():
        return rows + _round_trips("one core")


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>8.2f} {row.unit}")
