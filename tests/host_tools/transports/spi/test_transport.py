"""Ways to an SPI slave: through the link, through spidev, and what is wrong with an address."""

import errno
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from aisrv.protocol.spi_link import MAX_MESSAGE, LinkTransfer
from host_tools.errors import (
    BadAddressError,
    DeviceAccessDenied,
    DeviceGone,
    DeviceNotFound,
    TransferError,
    TransferTimeout,
)
from host_tools.standins.spidev import SpiDev
from host_tools.transports.schemes import list_devices, open_transport
from host_tools.transports.spi import transport as spi_transport
from host_tools.transports.spi.link import SpiLink
from host_tools.transports.spi.transport import LinkTransport, SpidevTransport, SpiTransport
from host_tools.transports.transport import DeviceInfo
from tests.support.peers.spi_link_slaves import InvertingSlave, served
from tests.support.peers.usbip_peers import Peer, scripted

SLAVES = bytes.fromhex("02000000 00000007 0001 01 03302e30")
OPENED = bytes.fromhex("04000000 00000008 00000000 02faf080")


@pytest.fixture
def echo() -> InvertingSlave:
    return InvertingSlave()


@pytest.fixture
def address(echo: InvertingSlave) -> Iterator[str]:
    with served({"0.0": echo, "1.1": InvertingSlave()}) as address:
        yield address


def open_spi(device: str) -> SpiTransport:
    transport = open_transport(device)
    assert isinstance(transport, SpiTransport)
    return transport


# Directly to a link server


@pytest.mark.parametrize("size", [1, 3, 4, 511, 512, 513, 1024, 5000, MAX_MESSAGE])
def test_transaction_over_the_link(address: str, echo: InvertingSlave, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    transport = open_spi(f"spi:0.0@{address}")
    assert transport.transact(data[:size], 10) == bytes(255 - byte for byte in data[:size])
    (transfer,) = echo.transfers
    assert (transfer.mosi, transfer.deselect, transfer.clock_hz) == (data[:size], True, 10_000_000)
    transport.close()


def test_transaction_past_the_largest_message_keeps_chip_select_low(
    address: str, echo: InvertingSlave
) -> None:
    transport = open_spi(f"spi:0.0@{address}")
    assert transport.transact(bytes(MAX_MESSAGE + 1), None) == b"\xff" * (MAX_MESSAGE + 1)
    assert [(len(each.mosi), each.deselect) for each in echo.transfers] == [(MAX_MESSAGE, False), (1, True)]
    transport.close()


def test_address_without_numbers_is_the_first_slave(address: str, echo: InvertingSlave) -> None:
    transport = open_spi(f"spi:@{address}")
    transport.transact(b"\1", 1)
    transport.close()
    assert echo.mosi == [b"\1"]


@pytest.mark.parametrize(
    "spec",
    ["0", "0.x", "0.0.0", "-1.0", "/dev/spidev0.0", "0.0@", "0.0@host", "0.0@host:x", " 0.0", "9.123456"],
)
def test_address_that_means_nothing(spec: str) -> None:
    with pytest.raises(BadAddressError):
        open_transport(f"spi:{spec}")


def test_slave_that_the_server_does_not_have(address: str) -> None:
    with pytest.raises(DeviceNotFound, match=r"no SPI slave 0\.1; it has 0\.0, 1\.1"):
        open_transport(f"spi:0.1@{address}")


def test_no_server() -> None:
    with pytest.raises(DeviceNotFound, match="no SPI link server answers"):
        open_transport("spi:0.0@127.0.0.1:1")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        SLAVES[:-1] + b"\xff",
        bytes.fromhex("02000000 00000007 0002 01 03302e30"),
        SLAVES + b"extra",
        SLAVES + bytes.fromhex("05000000 00000000"),
        SLAVES[:-2],
        b"",
    ],
    ids=["HTTP", "name", "version", "extra", "order", "half", "nothing"],
)
def test_server_that_speaks_something_else(answer: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.socket.recv(100)
        peer.socket.sendall(answer)

    with scripted(script) as server, pytest.raises(DeviceNotFound):
        open_transport(f"spi:0.0@{server}")


def test_server_that_goes_away() -> None:
    with served({"0.0": InvertingSlave()}) as address:
        transport = LinkTransport(address, "0.0")
    with pytest.raises(DeviceGone, match="connection"):
        transport.transact(b"\1", 1)


def test_slave_that_was_given_back(address: str) -> None:
    transport = LinkTransport(address, "0.0")
    transport.close()
    transport.close()
    with pytest.raises(DeviceGone, match="given back"):
        transport.transact(b"\1", 1)


def test_silent_server_is_a_time_out_and_its_late_answer_is_never_read() -> None:
    opened = []

    def script(peer: Peer) -> None:
        opened.append(peer)
        for answer in (SLAVES, OPENED):
            peer.socket.recv(1000)
            peer.socket.sendall(answer)
        peer.socket.recv(1000)
        if len(opened) == 2:
            peer.socket.sendall(bytes.fromhex("06000000 00000005 00000000 07"))
        peer.socket.recv(1000)

    with scripted(script, script) as server:
        transport = LinkTransport(server, "0.0")
        with pytest.raises(TransferTimeout, match="no answer in time"):
            transport.transact(b"\1", 0.05)
        assert transport.transact(b"\1", 5) == b"\7"
        transport.close()
    assert len(opened) == 2


def test_errno_of_the_server_is_a_transfer_error() -> None:
    def script(peer: Peer) -> None:
        for answer in (SLAVES, OPENED, bytes.fromhex("06000000 00000004 0000005a")):
            peer.socket.recv(1000)
            peer.socket.sendall(answer)
        peer.socket.recv(1000)

    with scripted(script) as server:
        transport = LinkTransport(server, "0.0")
        with pytest.raises(TransferError, match=r"clocking 1 bytes: .*Message too long"):
            transport.transact(b"\1", 5)
        transport.close()


def test_time_out_of_a_message_does_not_stay(address: str) -> None:
    with SpiLink.open(address, "0.0") as link:
        assert link.message([LinkTransfer(b"\1")], timeout=5) == b"\xfe"
        assert link.message([LinkTransfer(b"\1")]) == b"\xfe"
        assert link._socket.gettimeout() is None


# Through spidev


@pytest.fixture
def spidev(address: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in under the package's name."""
    module: Any = ModuleType("spidev")
    module.SpiDev = SpiDev
    monkeypatch.setitem(sys.modules, "spidev", module)
    monkeypatch.setenv("AISRV_SPI", address)
    return module


@pytest.mark.usefixtures("spidev")
@pytest.mark.parametrize("size", [1, 3, 4, 511, 512, 513, 1024, 4096])
def test_transaction_through_spidev(echo: InvertingSlave, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    transport = open_spi("spi:0.0")
    assert transport.transact(data[:size], 10) == bytes(255 - byte for byte in data[:size])
    (transfer,) = echo.transfers
    assert (transfer.mosi, transfer.deselect, transfer.clock_hz) == (data[:size], True, 10_000_000)
    transport.close()


@pytest.mark.usefixtures("spidev")
def test_transaction_past_the_buffer_of_the_driver(echo: InvertingSlave) -> None:
    transport = open_spi("spi")
    with pytest.raises(TransferError, match=r"of 4097 bytes, spidev takes 4096 at once.*bufsiz"):
        transport.transact(bytes(4097), 10)
    assert echo.messages == []
    transport.close()


def test_larger_buffer_of_the_driver_is_used(
    spidev: object, echo: InvertingSlave, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bufsiz").write_text("65536\n")
    monkeypatch.setattr(spi_transport, "BUFSIZ_FILE", tmp_path / "bufsiz")
    monkeypatch.setattr("host_tools.standins.spidev.BUFSIZ_FILE", str(tmp_path / "bufsiz"))
    transport = open_spi("spi:0.0")
    assert len(transport.transact(bytes(65_535), 10)) == 65_535
    assert [len(each) for each in echo.mosi] == [65_535]
    with pytest.raises(TransferError, match="takes 65535 at once"):
        transport.transact(bytes(65_536), 10)
    transport.close()


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOENT, DeviceNotFound),
        (errno.ENODEV, DeviceNotFound),
        (errno.EACCES, DeviceAccessDenied),
        (errno.ESHUTDOWN, DeviceGone),
        (errno.EIO, TransferError),
    ],
)
def test_errors_of_the_driver(number: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("spidev")

    def refuse(bus: int, device: int) -> None:
        raise OSError(number, "as the driver says")

    module.SpiDev = refuse
    monkeypatch.setitem(sys.modules, "spidev", module)
    with pytest.raises(error, match=r"opening /dev/spidev3\.4"):
        open_transport("spi:3.4")


def test_driver_that_refuses_the_settings_is_closed() -> None:
    class Refuses:
        def __setattr__(self, name: str, value: object) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    with pytest.raises(TransferError, match="setting up the SPI bus: Invalid argument"):
        SpidevTransport(Refuses(), 4096)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spidev", None)
    told = r"^SPI needs Linux and the package spidev \(.*spidev.*\): pip install .*\[spi\]\"; spi:B.D@HOST"
    with pytest.raises(DeviceNotFound, match=told):
        open_transport("spi:0.0")


# Lists


def test_list_of_a_server(address: str) -> None:
    assert [one.address for one in list_devices(f"spi:@{address}")] == [
        f"spi:0.0@{address}",
        f"spi:1.1@{address}",
    ]
    assert list_devices(f"spi:1.1@{address}") == [DeviceInfo(f"spi:1.1@{address}", note="SPI slave")]


def test_list_of_the_server_in_the_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISRV_SPI", address)
    assert [one.address for one in list_devices("spi")] == ["spi:0.0", "spi:1.1"]


def test_list_without_a_server() -> None:
    with pytest.raises(DeviceNotFound, match="no SPI link server"):
        list_devices("spi:@127.0.0.1:1")
    with pytest.raises(BadAddressError, match="HOST:PORT"):
        list_devices("spi:@nowhere")
