"""Our USB/IP server and client beside those of the PyPI package `usbip`, in one run.

    python -m benchmarks.peers

Each server has a process of its own and exports the same device: it takes what comes, and answers a question
of four bytes with as many bytes as that says. Each client is in this process. Servers are compared with our
client, clients on our server; times are medians, of exchanges that take turns, so that all of them meet the
same state of the machine. The package's client cannot have several requests in flight: it does them one after
another. It also leaves TCP_NODELAY alone, which costs it 40 ms in every transfer: it is set here.
On any core the times of small exchanges are those of waking another core, where the system puts one on it.
"""

import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Final, Protocol

import trio

from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, PACKET_SIZE, USB_PRODUCT_ID, USB_VENDOR_ID
from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest, aisrv_descriptors
from benchmarks.echo import one_core
from benchmarks.rows import Row
from host_tools.transports.usbip.connection import Connection
from phy.usb.bus import UsbBus
from phy.usb.data_task import BURST
from phy.usb.ep0 import usb_ep0
from phy.usb.xud import UsbReset

IN_FLIGHT: Final = 32
ROUNDS: Final = 20
TIMES: Final = {20: 50, PACKET_SIZE: 50, 16 * 1024: 50, 1024 * 1024: 2}
"""Exchanges of each size in a round."""

SIZES: Final = {PACKET_SIZE: "512 bytes", 16 * 1024: "16 KiB", 1024 * 1024: "1 MiB"}
MANY_TIMES: Final = 10
QUESTION_SIZE: Final = 4
_SET_CONFIGURATION: Final = bytes(SetupPacket(0, StandardRequest.SET_CONFIGURATION, 1, 0, 0))


# Servers.


async def _firmware(bus: UsbBus) -> None:
    """Take everything; answer a question."""
    while True:
        try:
            packets = await bus.out_endpoint.get_buffer(BURST)
            if packets.short and len(packets.data) == QUESTION_SIZE:
                size = int.from_bytes(packets.data, "little")
                await bus.in_endpoint.set_buffer(bytes(size), last=size % PACKET_SIZE != 0)
        except UsbReset:
            bus.out_endpoint.acknowledge_reset()
            bus.in_endpoint.acknowledge_reset()


async def _our_server(pipe: Pipe) -> None:
    buses = [UsbBus(aisrv_descriptors()) for _ in PAIRS]
    async with trio.open_nursery() as nursery:
        for bus in buses:
            nursery.start_soon(usb_ep0, bus)
            nursery.start_soon(_firmware, bus)
        _, port = await nursery.start(UsbipServer(export_all(buses)).serve, "127.0.0.1", 0)
        pipe.send(port)
        await trio.lowlevel.wait_readable(pipe.fileno())
        nursery.cancel_scope.cancel()


def _run_our_server(pipe: Pipe) -> None:
    trio.run(_our_server, pipe)


def _run_package_server(pipe: Pipe) -> None:
    import usbip

    class Answering(usbip.Interface):  # type: ignore[misc]  # the package has no types
        pipe_in = usbip.In(ENDPOINT_IN, "bulk", mps=PACKET_SIZE)
        pipe_out = usbip.Out(ENDPOINT_OUT, "bulk", mps=PACKET_SIZE)

        def on_out(self, _endpoint: object, data: bytes) -> None:
            if len(data) == QUESTION_SIZE:
                self.pipe_in.write(bytes(int.from_bytes(data, "little")))

    transport = usbip.USBIP("127.0.0.1", 0)
    with ExitStack() as plugged:
        for _ in PAIRS:
            device = usbip.USBDevice(USB_VENDOR_ID, USB_PRODUCT_ID)
            device.set_speed(usbip.SPEED_HIGH)
            device.add(Answering())
            plugged.enter_context(device.plug(via=transport))
        (listener,) = transport._listener.socks  # no other way to learn which port it got
        pipe.send(listener.getsockname()[1])
        pipe.poll(None)


@contextmanager
def _server(main: Callable[[Pipe], None]) -> Iterator[int]:
    """Run a server in a process of its own; gives its port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=main, args=(theirs,))
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


# Clients.


class _Client(Protocol):
    def write(self, data: bytes) -> int:
        """Send one request; returns the bytes taken."""

    def write_many(self, packets: list[bytes]) -> int:
        """Send requests, all in flight at once where that can be; returns the bytes taken."""

    def read(self, size: int) -> int:
        """Receive up to so many bytes; returns how many came."""


class _OurClient:
    def __init__(self, port: int, busid: str, cleanup: ExitStack) -> None:
        self._connection = cleanup.enter_context(Connection.open(f"127.0.0.1:{port}", busid))
        self._connection.control_out(_SET_CONFIGURATION)

    def write(self, data: bytes) -> int:
        return self._connection.bulk_out(ENDPOINT_OUT, data)

    def write_many(self, packets: list[bytes]) -> int:
        transfers = self._connection.submit_batch([(ENDPOINT_OUT, packet) for packet in packets])
        return sum(self._connection.wait(transfer) for transfer in transfers)

    def read(self, size: int) -> int:
        return len(self._connection.bulk_in(ENDPOINT_IN, size))


class _PackageClient:
    def __init__(self, port: int, busid: str, cleanup: ExitStack) -> None:
        import usbip

        class Transport(usbip.USBIP):  # type: ignore[misc]  # the package has no types
            def connect(self) -> socket.socket:
                peer: socket.socket = super().connect()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return peer

        opened = usbip.open(busid=busid, transport=Transport("127.0.0.1", port))
        self._handle = cleanup.enter_context(opened)

    def write(self, data: bytes) -> int:
        taken: int = self._handle.bulk_out(ENDPOINT_OUT, data)
        return taken

    def write_many(self, packets: list[bytes]) -> int:
        return sum(self.write(packet) for packet in packets)

    def read(self, size: int) -> int:
        return len(self._handle.bulk_in(ENDPOINT_IN, size))


CLIENTS: Final[dict[str, Callable[[int, str, ExitStack], _Client]]] = {
    "ours": _OurClient,
    "the package's": _PackageClient,
}
SERVERS: Final[dict[str, Callable[[Pipe], None]]] = {
    "ours": _run_our_server,
    "the package's": _run_package_server,
}
PAIRS: Final = [
    ("ours", "ours"),
    ("the package's", "ours"),
    ("ours", "the package's"),
    ("the package's", "the package's"),
]
"""Server and client of each measurement; every one has a device of its own."""


@dataclass(frozen=True, slots=True)
class _Workload:
    """What a client does, the bytes that it must say have moved, and how often it does that in a round."""

    name: str
    work: Callable[[_Client], int]
    moved: int
    times: int


def _write(size: int) -> _Workload:
    data = bytes(size)
    return _Workload(f"OUT {SIZES[size]}", lambda client: client.write(data), size, TIMES[size])


def _ask(name: str, size: int) -> _Workload:
    question = size.to_bytes(QUESTION_SIZE, "little")
    room = max(size, PACKET_SIZE)

    def ask(client: _Client) -> int:
        client.write(question)
        return client.read(room)

    return _Workload(name, ask, size, TIMES[size])


def _write_many() -> _Workload:
    packets = [bytes(PACKET_SIZE)] * IN_FLIGHT
    return _Workload(
        f"{IN_FLIGHT} x OUT 512 bytes in flight",
        lambda client: client.write_many(packets),
        IN_FLIGHT * PACKET_SIZE,
        MANY_TIMES,
    )


def _workloads() -> list[_Workload]:
    return [
        _ask("round trip of 4 and 20 bytes", 20),
        *(_write(size) for size in SIZES),
        *(_ask(f"IN {name}", size) for size, name in SIZES.items()),
        _write_many(),
    ]


def run() -> Iterator[Row]:
    """Measure on one core and on any; about 10 s."""
    for cores, context in (("one core", one_core()), ("any core", nullcontext())):
        with context:
            for row in _rows_here():
                yield row._replace(name=f"{row.name}, {cores}")


def _rows_here() -> list[Row]:
    rows = []
    with ExitStack() as cleanup:
        ports = {name: cleanup.enter_context(_server(main)) for name, main in SERVERS.items()}
        clients = {
            (server, client): CLIENTS[client](ports[server], f"1-{number}", cleanup)
            for number, (server, client) in enumerate(PAIRS, 1)
        }
        for workload in _workloads():
            times: dict[tuple[str, str], list[float]] = {pair: [] for pair in clients}
            for _ in range(ROUNDS):
                for pair, client in clients.items():
                    times[pair] += _times(client, workload)
            rows += _rows(workload.name, {pair: statistics.median(each) for pair, each in times.items()})
    return rows


def _times(client: _Client, workload: _Workload) -> list[float]:
    """Time a round, in microseconds for each exchange."""
    times = []
    for _ in range(workload.times):
        start = time.perf_counter()
        moved = workload.work(client)
        times.append((time.perf_counter() - start) * 1e6)
        if moved != workload.moved:
            raise RuntimeError(f"{workload.name}: {moved} of {workload.moved} bytes")
    return times


def _rows(name: str, median: dict[tuple[str, str], float]) -> list[Row]:
    ours = median["ours", "ours"]
    others = {
        "server": median["the package's", "ours"],
        "client": median["ours", "the package's"],
        "both": median["the package's", "the package's"],
    }
    return [
        Row(f"{name}: ours", ours, "us"),
        *(Row(f"{name}: the package's {side}", value, "us") for side, value in others.items()),
        *(
            Row(f"{name}: the package's {side} : ours", value / ours, "times")
            for side, value in others.items()
        ),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<75} {row.value:>8.2f} {row.unit}")
