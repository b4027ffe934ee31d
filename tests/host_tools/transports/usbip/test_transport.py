"""The transport over our own USB/IP connection, against an independent server and scripted ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aisrv.protocol.usbip import UrbStatus
from host_tools.errors import DeviceBusy, TransferStall
from host_tools.transports.schemes import list_devices, open_transport
from host_tools.transports.transport import DeviceInfo
from host_tools.transports.usbip.transport import UsbipTransport
from tests.support.peers.usbip_peers import (
    DEADLINE,
    Peer,
    Script,
    connected,
    echo_device,
    echoing,
    list_device,
    plugged,
    refuse_import,
    scripted,
)

SIZES = [0, 1, 3, 4, 511, 512, 513, 1024]


@contextmanager
def opened(script: Script = lambda _: None) -> Iterator[UsbipTransport]:
    """A transport to a device that follows a script once it is configured."""

    def configured(peer: Peer) -> None:
        request, _ = peer.submit()
        assert request.setup == bytes.fromhex("00 09 01 00 00 00 00 00")
        peer.reply(request)
        script(peer)

    with connected(configured) as connection:
        transport = UsbipTransport(connection)
        yield transport
        transport.close()


# Transfers


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    with echoing() as connection:
        transport = UsbipTransport(connection)
        transport.write(data, DEADLINE)
        assert transport.read(2048, DEADLINE) == data[::-1]


@pytest.mark.parametrize("size", SIZES)
def test_exchange_has_all_in_flight_at_once(size: int) -> None:
    seen: list[tuple[int, bytes]] = []

    def script(peer: Peer) -> None:
        requests = [peer.submit() for _ in range(3)]
        seen.extend((request.endpoint, data) for request, data in requests)
        peer.reply(requests[0][0])
        peer.reply(requests[1][0])
        peer.reply(requests[2][0], bytes(size))

    with opened(script) as transport:
        assert transport.exchange([b"one", b""], 2048, DEADLINE) == bytes(size)
    assert seen == [(1, b"one"), (1, b""), (1, b"")]


@pytest.mark.parametrize("length", [-512, 0, 1, 511, 513])
def test_read_of_part_packets_is_refused(length: int) -> None:
    with opened() as transport, pytest.raises(ValueError, match="multiple of 512"):
        transport.read(length, 1)


def test_halts_of_both_endpoints_are_cleared() -> None:
    setups: list[bytes] = []

    def script(peer: Peer) -> None:
        for _ in range(2):
            request, _ = peer.submit()
            setups.append(request.setup)
            peer.reply(request)

    with opened(script) as transport:
        transport.clear_halts()
    assert setups == [bytes.fromhex("0201000001000000"), bytes.fromhex("0201000081000000")]


def test_reset_configures_anew() -> None:
    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        assert request.setup == bytes.fromhex("0009010000000000")
        peer.reply(request)

    with opened(script) as transport:
        transport.reset()


# Opening and closing


def test_device_that_cannot_be_configured_is_given_back() -> None:
    def script(peer: Peer) -> None:
        peer.reply(peer.submit()[0], status=UrbStatus.STALL)

    with connected(script) as connection:
        with pytest.raises(TransferStall, match="writing to endpoint 0x00: the transfer ended with a stall"):
            UsbipTransport(connection)
        assert not connection.is_open


def test_device_that_another_program_has() -> None:
    with (
        scripted(list_device, refuse_import) as address,
        pytest.raises(DeviceBusy, match="device '1-1' is in use by another program"),
    ):
        open_transport(f"usbip:{address}")


def test_what_is_called_on_close_comes_after_the_device() -> None:
    seen: list[bool] = []
    with opened() as transport:
        connection = transport._connection
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
