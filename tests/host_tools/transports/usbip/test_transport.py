"""The transport over our own USB/IP connection, against an independent server and scripted ones."""

import pytest

from aisrv.protocol.usbip import UnlinkReply, UrbStatus
from host_tools.errors import DeviceBusy, DeviceGone, TransferError, TransferStall, TransferTimeout
from host_tools.transports.schemes import list_devices, open_transport
from host_tools.transports.transport import DeviceInfo
from host_tools.transports.usbip.connection import Connection
from host_tools.transports.usbip.transport import UsbipTransport
from tests.support.usbip_peers import (
    DEADLINE,
    RECORD,
    Peer,
    Script,
    echo_device,
    list_device,
    plugged,
    refuse_import,
    scripted,
)

SIZES = [0, 1, 3, 4, 511, 512, 513, 1024]
SOON = 0.05
"""Seconds of a time-out that is meant to pass."""


def configured(peer: Peer) -> None:
    """Give the device away and take its configuration."""
    peer.accept_import()
    request, _ = peer.submit()
    assert request.setup == bytes.fromhex("00 09 01 00 00 00 00 00")
    peer.reply(request)


def opened(address: str) -> UsbipTransport:
    return UsbipTransport(Connection.open(address, RECORD.busid, DEADLINE))


def answering(*replies: tuple[bytes, int]) -> Script:
    """A device that ends each request with data and a status."""

    def script(peer: Peer) -> None:
        configured(peer)
        for data, status in replies:
            peer.reply(peer.submit()[0], data, status)
        peer.wait_for_end()

    return script


# Transfers


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    with plugged(echo_device()) as address:
        transport = opened(address)
        transport.write(data, DEADLINE)
        assert transport.read(2048, DEADLINE) == data[::-1]
        transport.close()


@pytest.mark.parametrize("size", SIZES)
def test_exchange_has_all_in_flight_at_once(size: int) -> None:
    seen: list[tuple[int, bytes]] = []

    def script(peer: Peer) -> None:
        configured(peer)
        requests = [peer.submit() for _ in range(3)]
        seen.extend((request.endpoint, data) for request, data in requests)
        peer.reply(requests[0][0])
        peer.reply(requests[1][0])
        peer.reply(requests[2][0], bytes(size))
        peer.wait_for_end()

    with scripted(script) as address:
        transport = opened(address)
        assert transport.exchange([b"one", b""], 2048, DEADLINE) == bytes(size)
        transport.close()
    assert seen == [(1, b"one"), (1, b""), (1, b"")]


def test_exchange_without_a_read() -> None:
    with scripted(answering((b"", 0))) as address:
        transport = opened(address)
        assert transport.exchange([b"only"], 0, DEADLINE) == b""
        transport.close()


@pytest.mark.parametrize("length", [-512, 0, 1, 511, 513])
def test_read_of_part_packets_is_refused(length: int) -> None:
    with scripted(answering()) as address:
        transport = opened(address)
        with pytest.raises(ValueError, match="multiple of 512"):
            transport.read(length, 1)
        transport.close()


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (UrbStatus.STALL, TransferStall, "reading from endpoint 0x81: the transfer ended with a stall"),
        (UrbStatus.NO_DEVICE, DeviceGone, "reading from endpoint 0x81: the device is gone"),
        (UrbStatus.SHUTDOWN, DeviceGone, "reading from endpoint 0x81: the device is gone"),
        (UrbStatus.OVERFLOW, TransferError, r"status -75 \(OVERFLOW\)"),
        (-71, TransferError, r"status -71 \(unknown\)"),
    ],
)
def test_status_of_a_request(status: int, error: type[Exception], message: str) -> None:
    with scripted(answering((b"", status))) as address:
        transport = opened(address)
        with pytest.raises(error, match=message) as caught:
            transport.read(512, DEADLINE)
        assert caught.type is error
        transport.close()


@pytest.mark.parametrize(("before", "done"), [(0, 0), (1, 1), (2, 2)])
def test_stall_tells_how_many_writes_were_done(before: int, done: int) -> None:
    def script(peer: Peer) -> None:
        configured(peer)
        requests = [peer.submit()[0] for _ in range(3)]
        for index, request in enumerate(requests):
            peer.reply(request, b"", 0 if index < before else UrbStatus.STALL)
        peer.wait_for_end()

    with scripted(script) as address:
        transport = opened(address)
        with pytest.raises(TransferStall, match=r"endpoint 0x.1: ") as caught:
            transport.exchange([b"one", b"two"], 512, DEADLINE)
        transport.close()
    assert caught.value.writes_done == done


def test_read_that_times_out_leaves_the_connection() -> None:
    with plugged(echo_device()) as address:
        transport = opened(address)
        with pytest.raises(TransferTimeout, match=r"^reading from endpoint 0x81: timed out after 0 bytes$"):
            transport.read(512, SOON)
        transport.write(b"again", DEADLINE)
        assert transport.read(512, DEADLINE) == b"niaga"
        transport.close()


def test_write_that_times_out_half_way() -> None:
    def script(peer: Peer) -> None:
        configured(peer)
        request, _ = peer.submit()
        unlink = peer.unlink()
        peer.reply(request, b"", UrbStatus.UNLINKED, actual=1024)
        peer.send(UnlinkReply(unlink.seqnum, UrbStatus.OKAY))
        peer.wait_for_end()

    with scripted(script) as address:
        transport = opened(address)
        with pytest.raises(TransferTimeout, match=r"^writing to endpoint 0x01: timed out after 1024 bytes$"):
            transport.write(bytes(2048), SOON)
        transport.close()


def test_halts_of_both_endpoints_are_cleared() -> None:
    setups: list[bytes] = []

    def script(peer: Peer) -> None:
        configured(peer)
        for _ in range(2):
            request, _ = peer.submit()
            setups.append(request.setup)
            peer.reply(request)
        peer.wait_for_end()

    with scripted(script) as address:
        transport = opened(address)
        transport.clear_halts()
        transport.close()
    assert setups == [bytes.fromhex("0201000001000000"), bytes.fromhex("0201000081000000")]


def test_reset_configures_anew() -> None:
    def script(peer: Peer) -> None:
        configured(peer)
        request, _ = peer.submit()
        assert request.setup == bytes.fromhex("0009010000000000")
        peer.reply(request)
        peer.wait_for_end()

    with scripted(script) as address:
        transport = opened(address)
        transport.reset()
        transport.close()


# Opening and closing


def test_device_that_cannot_be_configured_is_given_back() -> None:
    def script(peer: Peer) -> None:
        peer.accept_import()
        peer.reply(peer.submit()[0], status=UrbStatus.STALL)
        peer.wait_for_end()

    with (
        scripted(script) as address,
        pytest.raises(TransferStall, match="writing to endpoint 0x00: the transfer ended with a stall"),
    ):
        opened(address)


def test_device_that_another_program_has() -> None:
    with (
        scripted(list_device, refuse_import) as address,
        pytest.raises(DeviceBusy, match="device '1-1' is in use by another program"),
    ):
        open_transport(f"usbip:{address}")


def test_device_that_goes_away() -> None:
    def script(peer: Peer) -> None:
        configured(peer)

    with scripted(script) as address:
        transport = opened(address)
        with pytest.raises(DeviceGone, match="the device is gone: the server closed the connection"):
            transport.read(512, None)
        transport.close()


def test_what_is_called_on_close_comes_after_the_device() -> None:
    seen: list[bool] = []
    with scripted(answering()) as address:
        connection = Connection.open(address, RECORD.busid, DEADLINE)
        transport = UsbipTransport(connection)
        transport.call_on_close(lambda: seen.append(connection.is_open))
        transport.close()
        transport.close()
    assert seen == [False]


# Listing


@pytest.mark.parametrize("serial", [None, "LAB-7"])
def test_devices_are_listed_with_their_names(serial: str | None) -> None:
    with plugged(echo_device(serial=serial)) as address:
        assert list_devices(f"usbip:{address}") == [
            DeviceInfo(f"usbip:{address}/1-1", "xAISRV", "XMOS", serial or "")
        ]


def test_device_in_use_is_listed_with_the_reason() -> None:
    with scripted(list_device, refuse_import) as address:
        assert list_devices(f"usbip:{address}") == [
            DeviceInfo(
                f"usbip:{address}/1-1",
                "xAISRV",
                "XMOS",
                note=f"{address}: device '1-1' is in use by another program",
            )
        ]


@pytest.mark.parametrize("size", [0, 1, 14, 17])
def test_device_with_a_short_descriptor_is_listed_with_the_reason(size: int) -> None:
    def short(peer: Peer) -> None:
        peer.accept_import()
        peer.reply(peer.submit()[0], bytes(size))
        peer.wait_for_end()

    with scripted(list_device, short) as address:
        (info,) = list_devices(f"usbip:{address}")
    sent = bytes(min(size, 9)).hex(" ") or "nothing"
    assert info.note == f"descriptor 0 of type 1: expected 18 bytes of descriptor type 1, got {sent}"


@pytest.mark.parametrize(
    ("descriptor", "text"),
    [
        (b"", ""),
        (b"\x02\x03", ""),
        (b"\x06\x03A\0B\0", "AB"),
        (b"\x04\x03A\0B\0", "A"),
        (b"\xff\x03A\0B\0", "AB"),
        (b"\x05\x03A\0B", "A\N{REPLACEMENT CHARACTER}"),
        (b"\x04\x03\x00\xd8", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_serial_number_as_the_device_sends_it(descriptor: bytes, text: str) -> None:
    def script(peer: Peer) -> None:
        peer.accept_import()
        peer.reply(peer.submit()[0], b"\x12\x01" + bytes(12) + b"\0\0\3\1")
        peer.reply(peer.submit()[0], descriptor)
        peer.wait_for_end()

    with scripted(list_device, script) as address:
        assert list_devices(f"usbip:{address}") == [
            DeviceInfo(f"usbip:{address}/1-1", "xAISRV", "XMOS", text)
        ]
