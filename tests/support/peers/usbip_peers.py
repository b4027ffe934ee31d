"""Servers for the tests of the USB/IP client: an independent one, and one that follows a script.

`plugged` exports devices with the PyPI package `usbip`, which shares no code with ours. `scripted` is a bare
TCP server for what no sound server does: stalls, half messages, garbage, lying lengths.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import usbip

from aisrv.protocol.usbip import (
    HEADER_SIZE,
    DeviceRecord,
    MessageCode,
    Operation,
    OperationHeader,
    Submit,
    SubmitReply,
    Unlink,
    UnlinkReply,
    pack_busid,
)
from host_tools.transports.usbip.connection import Connection

RECORD = DeviceRecord(
    busid="1-1", bus_number=1, device_number=2, path="/sys/devices/virtual/1-1", vendor=0x20B1, product=0xA15E
)
DEADLINE = 10.0
"""Seconds after which a test that hangs fails."""

Script = Callable[["Peer"], None]


class Echo(usbip.Interface):  # type: ignore[misc]  # the package has no types
    """Vendor interface: what comes in on endpoint 1 OUT leaves on endpoint 1 IN, reversed."""

    bInterfaceSubClass = 0xFF  # noqa: N815 - the package takes the specification's names
    bInterfaceProtocol = 0xFF  # noqa: N815
    pipe_in = usbip.In(0x81, "bulk", mps=512)
    pipe_out = usbip.Out(0x01, "bulk", mps=512)

    def on_out(self, ep: object, data: bytes) -> None:
        self.pipe_in.write(data[::-1])

    def on_control(self, setup: usbip.Setup, data: bytes = b"") -> bytes:
        """Vendor request 1 reads bytes that count up, 2 takes data, anything else stalls."""
        if setup.bRequest == 1:
            return bytes(i % 256 for i in range(setup.wLength))
        if setup.bRequest == 2:
            return b""
        raise usbip.Stall


def echo_device(product: str = "xAISRV", serial: str | None = None) -> usbip.USBDevice:
    device = usbip.USBDevice(
        0x20B1,
        0xA15E,
        product=product,
        manufacturer="XMOS",
        serial=serial,
        bcdDevice=0x1000,
        device_class=0xFF,
        device_subclass=0xFF,
        device_protocol=0xFF,
    )
    device.set_speed(usbip.SPEED_HIGH)
    device.echo = device.add(Echo())
    return device


@contextmanager
def plugged(*devices: usbip.USBDevice) -> Iterator[str]:
    """Export devices on a free port; give the address. Their bus ids are 1-1, 1-2, ..."""
    transport = usbip.USBIP("127.0.0.1", 0)
    with ExitStack() as stack:
        for device in devices:
            stack.enter_context(device.plug(via=transport))
        (listener,) = transport._listener.socks
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError(f"the client left after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def send(self, *values: object) -> None:
        self.socket.sendall(b"".join(bytes(value) for value in values))  # type: ignore[call-overload]

    def accept_import(self, record: DeviceRecord = RECORD) -> None:
        assert self.read(8) == bytes(OperationHeader(code=Operation.REQ_IMPORT))
        assert self.read(32) == pack_busid(record.busid)
        self.send(OperationHeader(code=Operation.REP_IMPORT), record)

    def submit(self) -> tuple[Submit, bytes]:
        """The next request and its OUT data."""
        request = Submit.from_bytes(self.read(HEADER_SIZE))
        return request, b"" if request.direction else self.read(request.length)

    def unlink(self) -> Unlink:
        return Unlink.from_bytes(self.read(HEADER_SIZE))

    def answer_unlink(self, status: int) -> Unlink:
        unlink = self.unlink()
        self.send(UnlinkReply(unlink.seqnum, status))
        return unlink

    def message(self) -> Submit | Unlink:
        header = self.read(HEADER_SIZE)
        kind = Unlink if header[3] == MessageCode.CMD_UNLINK else Submit
        return kind.from_bytes(header)

    def reply(self, request: Submit, data: bytes = b"", status: int = 0, actual: int | None = None) -> None:
        length = actual if actual is not None else len(data) if request.direction else request.length
        self.send(SubmitReply(request.seqnum, status, length), data)

    def wait_for_end(self) -> None:
        """Read until the client lets go."""
        while self.socket.recv(65536):
            pass


def list_device(peer: Peer) -> None:
    """List one device, with an interface."""
    peer.read(8)
    peer.send(OperationHeader(code=Operation.REP_DEVLIST), b"\0\0\0\1", RECORD, b"\xff\xff\xff\0")
    peer.wait_for_end()


def refuse_import(peer: Peer) -> None:
    """Refuse to give a device: another client has it."""
    peer.read(40)
    peer.send(OperationHeader(code=Operation.REP_IMPORT, status=2))
    peer.wait_for_end()


@contextmanager
def scripted(*scripts: Script) -> Iterator[str]:
    """A server whose first connection is served by the first script, and so on; give the address.

    What a script raises, the test raises at the end, and likewise where a script was not used.
    """
    failures: list[BaseException] = []
    servers: list[threading.Thread] = []

    def serve(script: Script, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(DEADLINE)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                script(Peer(connection))
        except BaseException as error:
            failures.append(error)

    def accept(listener: socket.socket) -> None:
        for script in scripts:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the test is over
            server = threading.Thread(target=serve, args=(script, connection))
            servers.append(server)
            server.start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE)
        acceptor = threading.Thread(target=accept, args=(listener,))
        acceptor.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (acceptor, *servers):
                thread.join(DEADLINE)
    if failures:
        raise failures[0]
    assert len(servers) == len(scripts), f"{len(servers)} of {len(scripts)} connections were made"


@contextmanager
def connected(script: Script) -> Iterator[Connection]:
    """A connection to a device that follows a script once it is imported, and then stays."""

    def device(peer: Peer) -> None:
        peer.accept_import()
        script(peer)
        peer.wait_for_end()

    with scripted(device) as address, open_scripted(address) as connection:
        yield connection


@contextmanager
def echoing() -> Iterator[Connection]:
    """A connection to the device that sends back what it gets."""
    with plugged(echo_device()) as address, Connection.open(address, "1-1") as connection:
        yield connection


def open_scripted(address: str) -> Connection:
    """Import the device of a scripted server."""
    return Connection.open(address, RECORD.busid, DEADLINE)
