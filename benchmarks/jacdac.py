"""The Jacdac bus: frames a second, round trips, an upload, and what an idle bus costs.

    python -m benchmarks.jacdac

Frames go through our codec and a whole device, and through the parser of PyPI's `jacdac-python` where it is
installed (it checks no CRC of what it receives), by turns in one run, in CPU time: the best of five rounds
counts. The rest is between two processes, over TCP on the loopback interface.
"""

import importlib.util
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from aisrv.addons.jacdac.task.device import JacdacDevice
from aisrv.addons.jacdac.task.protocol_check import ProtocolTestService
from aisrv.addons.jacdac.wire.frame import ACK_INDEX, PIPE_INDEX, Frame, ServicePacket, command_frame
from benchmarks.rows import Row

DEVICE: Final = 0x1122334455667788
FRAMES: Final = 20_000
ROUNDS: Final = 5
MODEL_BYTES: Final = 100_000
BUS_BITS: Final = 1_000_000
"""A second, of the wire of a real bus: 10 bits a byte."""
PIPE_BYTES: Final = 224


def run() -> Iterator[Row]:
    """Yield the figures."""
    yield from _frames()
    with _device() as (process, port):
        with _connected(port) as peer:
            yield from _round_trips(peer)
        yield from _idle(process, port)


def _frames() -> Iterator[Row]:
    sent: list[bytes] = []
    device = JacdacDevice(DEVICE, sent.append)
    device.start([ProtocolTestService(device, 1)])
    question = command_frame(DEVICE, [ServicePacket(1, 0x1082)])
    pipe = command_frame(DEVICE, [ServicePacket(PIPE_INDEX, 7 << 7, bytes(PIPE_BYTES))], ack=True)

    def codec(data: bytes) -> None:
        Frame.from_bytes(data)

    ways: dict[str, Callable[[bytes], object]] = {"our codec": codec, "codec and device": device.receive}
    if importlib.util.find_spec("jacdac") is not None:
        ways["jacdac-python's parser"] = _their_parser(checks_crc=False)
        ways["the same after its CRC function"] = _their_parser(checks_crc=True)
    for kind, data in (("a get", question), ("224 bytes in a pipe", pipe)):
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                started = time.process_time()
                for _ in range(FRAMES):
                    way(data)
                rates[name].append(FRAMES / (time.process_time() - started))
                sent.clear()
        for name, found in rates.items():
            yield Row(f"{kind}: {name}", max(found), "frames/s")


def _their_parser(*, checks_crc: bool) -> Callable[[bytes], object]:
    packet: Any = importlib.import_module("jacdac.packet").JDPacket

    crc16: Any = importlib.import_module("jacdac.util").crc16

    def parse(data: bytes) -> object:
        if checks_crc:
            crc16(data, 2)
        one = packet(frombytes=data)
        return one.device_id, one.service_index, one.service_command, one.requires_ack

    return parse


@contextmanager
def _device() -> Iterator[tuple["subprocess.Popen[str]", int]]:
    options = ["--port", "0", "--jacdac-port", "0", "--jacdac-websocket-port", "0", "--until-eof"]
    command = [sys.executable, "-m", "aisrv", "run", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            yield process, int(line.split("jacdac:")[1].split(",")[0].rpartition(":")[2])
        finally:
            process.stdin.close()


class _Peer:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        self.device = 0
        while not self.device:
            frame = self.frame()
            if frame.packets[0][:2] == (0, 0):
                self.device = frame.device

    def frame(self) -> Frame:
        (length,) = self._stream.read(1)
        return Frame.from_bytes(self._stream.read(length))

    def send(self, packet: ServicePacket, *, ack: bool = False) -> bytes:
        frame = command_frame(self.device, [packet], ack=ack)
        self._socket.sendall(bytes((len(frame),)) + frame)
        return frame

    def wait(self, service: int, command: int) -> bytes:
        while True:
            for packet in self.frame().packets:
                if packet[:2] == (service, command):
                    return packet.payload

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@contextmanager
def _connected(port: int) -> Iterator[_Peer]:
    peer = _Peer(port)
    try:
        yield peer
    finally:
        peer.close()


def _round_trips(peer: _Peer) -> Iterator[Row]:
    times = []
    for _ in range(1000):
        started = time.perf_counter()
        peer.send(ServicePacket(2, 0x1186))
        peer.wait(2, 0x1186)
        times.append(time.perf_counter() - started)
    yield Row("a register read, median", 1e6 * statistics.median(times), "us")
    peer.send(ServicePacket(2, 0x80, struct.pack("<I", MODEL_BYTES)))
    port = int.from_bytes(peer.wait(2, 0x80), "little")
    started = time.perf_counter()
    wire = 0
    for number in range(0, MODEL_BYTES, PIPE_BYTES):
        data = bytes(min(PIPE_BYTES, MODEL_BYTES - number))
        counter = number // PIPE_BYTES & 0x1F
        frame = peer.send(ServicePacket(PIPE_INDEX, port << 7 | counter, data), ack=True)
        peer.wait(ACK_INDEX, int.from_bytes(frame[:2], "little"))
        wire += len(frame) + 16  # the ACK
    seconds = time.perf_counter() - started
    yield Row("100 KB uploaded, an ACK a packet", 1000 * seconds, "ms")
    yield Row("the same frames on a wire of 1 Mbaud, without its pauses", 10_000 * wire / BUS_BITS, "ms")


def _idle(process: "subprocess.Popen[str]", port: int) -> Iterator[Row]:
    with ExitStack() as peers:
        before = _resident(process.pid)
        for _ in range(10):
            peers.enter_context(_connected(port))
        time.sleep(1)
        cpu = _cpu_seconds(process.pid)
        time.sleep(5)
        yield Row("idle bus with ten clients: CPU", 100 * (_cpu_seconds(process.pid) - cpu) / 5, "%")
        yield Row("the same: memory of the ten", (_resident(process.pid) - before) / 1024, "KiB")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
