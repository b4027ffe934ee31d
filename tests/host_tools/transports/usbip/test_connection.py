"""The USB/IP client against an independent server, and against servers that misbehave."""

import signal
import socket
import threading
from collections import deque
from typing import Any

import pytest

from aisrv.protocol.usb_descriptors import SetupPacket
from aisrv.protocol.usbip import (
    MAX_TRANSFER,
    DeviceRecord,
    InterfaceRecord,
    Operation,
    OperationHeader,
    Submit,
    SubmitReply,
    Unlink,
    UnlinkReply,
    UrbStatus,
)
from host_tools.errors import (
    DeviceBusy,
    DeviceGone,
    DeviceNotFound,
    TransferError,
    TransferStall,
    TransferTimeout,
)
from host_tools.transports.server_address import parse_address
from host_tools.transports.usbip import pipeline as usbip_pipeline
from host_tools.transports.usbip.connection import Connection
from host_tools.transports.usbip.discovery import list_devices
from tests.support.peers.usbip_peers import (
    DEADLINE,
    RECORD,
    Peer,
    Script,
    connected,
    echo_device,
    echoing,
    open_scripted,
    plugged,
    scripted,
)

SIZES = [0, 1, 3, 4, 511, 512, 513, 1024]
IN, OUT = 0x81, 0x01
SOON = 0.05
"""Seconds of a time-out that is meant to pass."""


# Addresses


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost:3240", ("localhost", 3240)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_address(address: str, expected: tuple[str, int]) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize(
    "address",
    ["", "localhost", ":3240", "localhost:", "localhost:0", "localhost:65536", "h:-1", "h:x", "h:²", "[]:1"],
)
def test_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address of the form HOST:PORT"):
        parse_address(address)


def test_ipv6_address_without_brackets() -> None:
    with pytest.raises(ValueError, match="brackets"):
        parse_address("::1:3240")


# Listing and importing


def test_list_names_every_device() -> None:
    with plugged(echo_device(), echo_device()) as address:
        devices = list_devices(address)
    assert [(d.record.busid, d.record.vendor, d.record.product) for d in devices] == [
        ("1-1", 0x20B1, 0xA15E),
        ("1-2", 0x20B1, 0xA15E),
    ]
    assert devices[0].interfaces == (InterfaceRecord(0xFF, 0xFF, 0xFF),)


def test_empty_list() -> None:
    def script(peer: Peer) -> None:
        assert peer.read(8) == bytes(OperationHeader(code=Operation.REQ_DEVLIST))
        peer.send(OperationHeader(code=Operation.REP_DEVLIST), bytes(4))

    with scripted(script) as address:
        assert list_devices(address) == []


def test_list_of_a_device_without_interfaces() -> None:
    record = DeviceRecord(busid="9-9", interface_count=0)

    def script(peer: Peer) -> None:
        peer.read(8)
        peer.send(OperationHeader(code=Operation.REP_DEVLIST), (1).to_bytes(4, "big"), record)

    with scripted(script) as address:
        (device,) = list_devices(address)
    assert (device.record, device.interfaces) == (record, ())


def test_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DeviceNotFound, match=f"^127.0.0.1:{port}: no USB/IP server answers"):
        list_devices(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "closed the connection mid-answer"),
        (b"\x01\x11\x00", "closed the connection mid-answer"),
        (b"HTTP/1.1", "expected reply 0x0005 of USB/IP version 0x0111, got 0x5450 of version 0x4854"),
        (bytes(OperationHeader(code=Operation.REP_IMPORT)), "expected reply 0x0005"),
        (bytes(OperationHeader(code=Operation.REP_DEVLIST, version=0x0106)), "got 0x0005 of version 0x0106"),
        (
            bytes(OperationHeader(code=Operation.REP_DEVLIST, status=1)),
            r"refuses to list its devices \(status 1\)",
        ),
        (
            bytes(OperationHeader(code=Operation.REP_DEVLIST)) + b"\xff\xff\xff\xff",
            "claims 4294967295 devices",
        ),
        (bytes(OperationHeader(code=Operation.REP_DEVLIST)) + b"\0\0\0\1" + bytes(311), "mid-answer"),
    ],
)
def test_list_that_is_none(answer: bytes, message: str) -> None:
    def script(peer: Peer) -> None:
        peer.read(8)
        peer.send(answer)
        peer.socket.shutdown(socket.SHUT_WR)
        peer.wait_for_end()

    with scripted(script) as address, pytest.raises(DeviceNotFound, match=message):
        list_devices(address, DEADLINE)


def test_silent_server() -> None:
    with scripted(Peer.wait_for_end) as address, pytest.raises(DeviceNotFound, match="no answer"):
        list_devices(address, SOON)


def test_dripping_server_does_not_stretch_the_time() -> None:
    dripping = threading.Event()

    def script(peer: Peer) -> None:
        peer.read(8)
        answer = bytes(OperationHeader(code=Operation.REP_DEVLIST)) + b"\0\0\0\1" + bytes(400)
        try:
            for byte in answer:
                peer.send(bytes([byte]))
                dripping.wait(0.005)
        except OSError:
            return
        raise AssertionError("the client waited for the whole drip")

    with scripted(script) as address, pytest.raises(DeviceNotFound, match=r"in time|no answer"):
        list_devices(address, 4 * SOON)


def test_import_gives_the_record() -> None:
    with plugged(echo_device(), echo_device()) as address, Connection.open(address, "1-2") as connection:
        assert (connection.record.busid, connection.record.vendor) == ("1-2", 0x20B1)


def test_unknown_busid() -> None:
    with plugged(echo_device()) as address, pytest.raises(DeviceNotFound, match="no device '7-7'"):
        Connection.open(address, "7-7")


def test_busid_that_no_server_can_have() -> None:
    with pytest.raises(ValueError, match="longer than 31 bytes"):
        Connection.open("localhost:3240", "x" * 32)


def refuse(status: int) -> Script:
    def script(peer: Peer) -> None:
        peer.read(40)
        peer.send(OperationHeader(code=Operation.REP_IMPORT, status=status))
        peer.wait_for_end()

    return script


def give_list(*records: DeviceRecord) -> Script:
    def script(peer: Peer) -> None:
        peer.read(8)
        peer.send(OperationHeader(code=Operation.REP_DEVLIST), len(records).to_bytes(4, "big"))
        for record in records:
            peer.send(record, bytes(4))
        peer.wait_for_end()

    return script


def test_refused_although_listed_is_busy() -> None:
    with scripted(refuse(1), give_list(RECORD)) as address, pytest.raises(DeviceBusy, match="in use"):
        open_scripted(address)


@pytest.mark.parametrize(
    ("status", "error"),
    [(2, DeviceBusy), (4, DeviceNotFound), (3, DeviceNotFound), (99, DeviceNotFound)],
)
def test_refusal_that_tells_why(status: int, error: type[Exception]) -> None:
    with scripted(refuse(status)) as address, pytest.raises(error) as caught:
        open_scripted(address)
    assert caught.type is error


def test_import_of_another_device_than_asked_for() -> None:
    def script(peer: Peer) -> None:
        peer.read(40)
        peer.send(OperationHeader(code=Operation.REP_IMPORT), DeviceRecord(busid="2-2"))
        peer.wait_for_end()

    with (
        scripted(script) as address,
        pytest.raises(DeviceNotFound, match="asked for device '1-1', was given '2-2'"),
    ):
        open_scripted(address)


def test_server_that_leaves_during_import() -> None:
    def script(peer: Peer) -> None:
        peer.read(40)

    with scripted(script) as address, pytest.raises(DeviceNotFound, match="mid-answer"):
        open_scripted(address)


# Transfers


@pytest.mark.parametrize("size", [*SIZES, 300_000])
def test_bulk_there_and_back(size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    with echoing() as connection:
        assert connection.bulk_out(OUT, data, DEADLINE) == size
        assert connection.bulk_in(IN, size + 512, DEADLINE) == data[::-1]


@pytest.mark.parametrize("size", [1, 512, 4096])
def test_control_in(size: int) -> None:
    with echoing() as connection:
        data = connection.control_in(bytes(SetupPacket(0xC0, 1, 0, 0, size)), size, DEADLINE)
    assert data == bytes(i % 256 for i in range(size))


@pytest.mark.parametrize("size", [0, 64])
def test_control_out(size: int) -> None:
    with echoing() as connection:
        assert connection.control_out(bytes(SetupPacket(0x40, 2, 0, 0, size)), bytes(size), DEADLINE) == size


def test_control_that_is_refused() -> None:
    with echoing() as connection:
        with pytest.raises(TransferStall) as caught:
            connection.control_in(bytes(SetupPacket(0xC0, 99, 0, 0, 1)), 1, DEADLINE)
        assert (caught.value.status, caught.value.transferred) == (-32, 0)
        assert str(caught.value) == "reading from endpoint 0x80: the transfer ended with a stall"


def test_halted_endpoint_works_after_the_halt_is_cleared() -> None:
    with echoing() as connection:
        connection.control_out(bytes(SetupPacket(0x02, 3, 0, IN, 0)))  # SET_FEATURE(ENDPOINT_HALT)
        with pytest.raises(TransferStall):
            connection.bulk_in(IN, 512, DEADLINE)
        connection.control_out(bytes(SetupPacket(0x02, 1, 0, IN, 0)))
        connection.bulk_out(OUT, b"again")
        assert connection.bulk_in(IN, 512, DEADLINE) == b"niaga"


def test_requests_on_the_wire() -> None:
    seen = []

    def script(peer: Peer) -> None:
        for _ in range(3):
            request, data = peer.submit()
            seen.append((request, data))
            peer.reply(request, b"ok" if request.direction else b"")

    setup = bytes(SetupPacket(0xC0, 1, 2, 3, 2))
    with connected(script) as connection:
        connection.bulk_out(0x02, b"data")
        connection.bulk_in(0x83, 512)
        connection.control_in(setup, 2)
    assert seen == [
        (Submit(1, 0x10002, 0, 2, length=4), b"data"),
        (Submit(2, 0x10002, 1, 3, length=512), b""),
        (Submit(3, 0x10002, 1, 0, length=2, setup=setup), b""),
    ]


def test_flags_reach_the_server() -> None:
    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        peer.reply(request, actual=request.flags)

    with connected(script) as connection:
        assert connection.wait(connection.submit(OUT, bytes(512), flags=0x40), DEADLINE) == 0x40


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (UrbStatus.STALL, TransferStall),
        (UrbStatus.OVERFLOW, TransferError),
        (UrbStatus.UNLINKED, TransferError),
        (-71, TransferError),
        (7, TransferError),
    ],
)
def test_status_of_a_request(status: int, error: type[TransferError]) -> None:
    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        peer.reply(request, b"part", status)

    with (
        connected(script) as connection,
        pytest.raises(TransferError) as caught,
    ):
        connection.bulk_in(IN, 512, DEADLINE)
    assert (caught.type, caught.value.status, caught.value.transferred) == (error, status, 4)


@pytest.mark.parametrize("status", [UrbStatus.NO_DEVICE, UrbStatus.SHUTDOWN])
def test_status_of_a_device_that_is_gone(status: int) -> None:
    def script(peer: Peer) -> None:
        peer.reply(peer.submit()[0], b"", status)

    with connected(script) as connection, pytest.raises(DeviceGone, match=rf"gone, status {status} "):
        connection.bulk_in(IN, 512, DEADLINE)


def test_write_that_the_device_took_in_part() -> None:
    def script(peer: Peer) -> None:
        peer.reply(peer.submit()[0], actual=512)

    with connected(script) as connection:
        assert connection.bulk_out(OUT, bytes(1024), DEADLINE) == 512


def test_large_write_is_one_request_up_to_the_limit() -> None:
    lengths = []

    def script(peer: Peer) -> None:
        for _ in range(2):
            request, _ = peer.submit()
            lengths.append(request.length)
            peer.reply(request)

    with connected(script) as connection:
        assert connection.bulk_out(OUT, bytes(MAX_TRANSFER + 3), DEADLINE) == MAX_TRANSFER + 3
    assert lengths == [16 * 1024 * 1024, 3]


def test_large_read_fills_the_callers_buffer() -> None:
    size = 1_000_003
    data = bytes(range(256)) * 4096

    def script(peer: Peer) -> None:
        peer.reply(peer.submit()[0], data[:size])

    buffer = bytearray(size)
    with connected(script) as connection:
        assert connection.bulk_in_into(IN, buffer, DEADLINE) == size
        assert buffer == data[:size]
        buffer.append(0)  # nothing holds on to the buffer any more


def test_read_past_the_limit_ends_at_a_short_request() -> None:
    lengths = []

    def script(peer: Peer) -> None:
        for size in (MAX_TRANSFER, 5):
            request, _ = peer.submit()
            lengths.append(request.length)
            peer.reply(request, bytes(size))

    with connected(script) as connection:
        assert connection.bulk_in_into(IN, bytearray(MAX_TRANSFER + 1024), DEADLINE) == MAX_TRANSFER + 5
    assert lengths == [MAX_TRANSFER, 1024]


def test_request_beyond_the_limit_is_refused_before_it_is_sent() -> None:
    with echoing() as connection:
        for submit in (connection.submit, lambda ep, data: connection.submit_batch([(ep, b"x"), (ep, data)])):
            with pytest.raises(
                ValueError, match=f"moves {MAX_TRANSFER} bytes at most, not {MAX_TRANSFER + 1}"
            ):
                submit(OUT, bytes(MAX_TRANSFER + 1))
        connection.bulk_out(OUT, b"still here")
        assert connection.bulk_in(IN, 512, DEADLINE) == b"ereh llits"


# Many requests at once


@pytest.mark.parametrize("size", SIZES)
def test_window_of_32_requests_keeps_order(size: int) -> None:
    count = 200
    device = echo_device()
    payloads = [bytes([i]) * size for i in range(count)]
    buffers = [bytearray(size) for _ in range(count)]
    with plugged(device) as address, Connection.open(address, "1-1") as connection:
        outward = deque(connection.submit_batch([(OUT, payload) for payload in payloads[:32]]))
        inward = connection.submit_batch([(IN, buffer) for buffer in buffers])
        for payload in payloads[32:]:
            assert connection.wait(outward.popleft(), DEADLINE) == size
            outward.append(connection.submit(OUT, payload))
        if size:  # a read of no bytes means a whole packet to this server
            assert [connection.wait(transfer, DEADLINE) for transfer in inward] == [size] * count
    if size:
        assert buffers == payloads


def test_no_requests_at_all() -> None:
    with echoing() as connection:
        assert connection.submit_batch([]) == []


def test_out_of_order_answers() -> None:
    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(3)]
        for request in reversed(requests):
            peer.reply(request, b"%d" % request.seqnum)

    with connected(script) as connection:
        buffers = [bytearray(1) for _ in range(3)]
        for transfer in connection.submit_batch([(IN, buffer) for buffer in buffers]):
            connection.wait(transfer, DEADLINE)
    assert buffers == [b"1", b"2", b"3"]


def test_one_thread_reads_while_another_writes() -> None:
    received: list[bytes] = []

    def read() -> None:
        received.extend(connection.bulk_in(IN, 512, DEADLINE) for _ in range(100))

    with echoing() as connection:
        reader = threading.Thread(target=read)
        reader.start()
        for i in range(100):
            connection.bulk_out(OUT, b"%03d" % i, DEADLINE)
        reader.join(DEADLINE)
    assert received == [(b"%03d" % i)[::-1] for i in range(100)]


def test_many_threads_each_get_their_own_answer() -> None:
    wrong: list[tuple[int, int, bytes]] = []

    def ask(number: int) -> None:
        for length in range(1, 100):
            data = connection.control_in(bytes(SetupPacket(0xC0, 1, number, 0, length)), length, DEADLINE)
            if data != bytes(range(length)):
                wrong.append((number, length, data))

    with echoing() as connection:
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
    assert wrong == []


def test_server_that_only_reads_once_it_has_been_read() -> None:
    """The client's send blocks until it takes in answers that it asked for before."""
    size = 4 * 1024 * 1024

    def script(peer: Peer) -> None:
        first, _ = peer.submit()
        peer.reply(first, bytes(size))  # blocks until the client reads, and it is sending by then
        peer.reply(peer.submit()[0])

    buffer = bytearray(size)
    with connected(script) as connection:
        pending = connection.submit(IN, buffer)
        assert connection.bulk_out(OUT, bytes(4 * size), DEADLINE) == 4 * size
        assert connection.wait(pending, DEADLINE) == size


def test_thread_that_stops_reading_wakes_one_that_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server reads on once it has been read: by the thread that sends, as the one that read has left."""
    size = 4 * 1024 * 1024
    reading, full = threading.Event(), threading.Event()
    poll_of, lead = usbip_pipeline._poll, Connection._lead

    def watched_poll(*looked_at: tuple[socket.socket, int]) -> Any:
        if len(looked_at) == 2:  # for room to send, or to be woken
            full.set()
        return poll_of(*looked_at)

    def watched_lead(*arguments: Any) -> None:
        reading.set()
        lead(*arguments)

    def script(peer: Peer) -> None:
        small, large = peer.submit()[0], peer.submit()[0]
        assert full.wait(DEADLINE)
        peer.reply(small, b"x")
        peer.reply(large, bytes(size))
        peer.reply(peer.submit()[0])

    with connected(script) as connection:
        monkeypatch.setattr(usbip_pipeline, "_poll", watched_poll)
        monkeypatch.setattr(Connection, "_lead", watched_lead)
        small, large = connection.submit_batch([(IN, bytearray(1)), (IN, bytearray(size))])
        reader = threading.Thread(target=lambda: connection.wait(small, DEADLINE))
        reader.start()
        assert reading.wait(DEADLINE)
        assert connection.bulk_out(OUT, bytes(4 * size), DEADLINE) == 4 * size
        assert connection.wait(large, DEADLINE) == size
        reader.join(DEADLINE)


# Time-outs


def test_read_times_out_and_the_connection_stays() -> None:
    with echoing() as connection:
        with pytest.raises(TransferTimeout) as caught:
            connection.bulk_in(IN, 512, SOON)
        assert str(caught.value) == "reading from endpoint 0x81: timed out after 0 bytes"
        connection.bulk_out(OUT, b"abc")
        assert connection.bulk_in(IN, 512, DEADLINE) == b"cba"


def test_timed_out_request_is_unlinked() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.submit()
        seen.append(peer.answer_unlink(UrbStatus.UNLINKED))

    with (
        connected(script) as connection,
        pytest.raises(TransferTimeout),
    ):
        connection.bulk_in(IN, 512, SOON)
    assert seen == [Unlink(2, 0x10002, 1)]


def test_data_that_comes_just_before_the_unlink_is_returned() -> None:
    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        unlink = peer.unlink()
        peer.reply(request, b"late")
        peer.send(UnlinkReply(unlink.seqnum, 0))
        request, _ = peer.submit()
        peer.reply(request, b"next")

    with connected(script) as connection:
        assert connection.bulk_in(IN, 512, SOON) == b"late"
        assert connection.bulk_in(IN, 512, DEADLINE) == b"next"


def test_write_that_ends_in_part_after_its_time() -> None:
    """An OUT request whose end comes too late tells how far it got."""

    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        unlink = peer.unlink()
        peer.reply(request, status=UrbStatus.UNLINKED, actual=512)
        peer.send(UnlinkReply(unlink.seqnum, 0))

    with (
        connected(script) as connection,
        pytest.raises(TransferTimeout) as caught,
    ):
        connection.bulk_out(OUT, bytes(1024), SOON)
    assert caught.value.transferred == 512


def test_write_in_pieces_counts_the_pieces_before_a_time_out() -> None:
    def script(peer: Peer) -> None:
        peer.reply(peer.submit()[0])
        peer.submit()
        peer.answer_unlink(UrbStatus.UNLINKED)

    with (
        connected(script) as connection,
        pytest.raises(TransferTimeout) as caught,
    ):
        connection.bulk_out(OUT, bytes(MAX_TRANSFER + 1), 40 * SOON)
    assert caught.value.transferred == MAX_TRANSFER


def test_time_out_of_one_of_many_leaves_the_others() -> None:
    def script(peer: Peer) -> None:
        requests = [peer.submit()[0] for _ in range(3)]
        peer.answer_unlink(UrbStatus.UNLINKED)
        for request in requests[1:]:
            peer.reply(request, b"x")

    with connected(script) as connection:
        first, *others = connection.submit_batch([(IN, bytearray(1)) for _ in range(3)])
        with pytest.raises(TransferTimeout):
            connection.wait(first, SOON)
        assert [connection.wait(transfer, DEADLINE) for transfer in others] == [1, 1]


def test_time_out_of_none_at_all() -> None:
    """Zero seconds take what is there and wait for nothing."""
    with echoing() as connection:
        with pytest.raises(TransferTimeout):
            connection.bulk_in(IN, 512, 0)
        connection.bulk_out(OUT, b"abc", DEADLINE)
        assert connection.bulk_in(IN, 512, DEADLINE) == b"cba"


def test_unlink_without_an_answer_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_pipeline, "ANSWER_GRACE", SOON)

    def script(peer: Peer) -> None:
        """Nothing."""

    with connected(script) as connection:
        with pytest.raises(DeviceGone, match="did not answer UNLINK"):
            connection.bulk_in(IN, 512, SOON)
        assert not connection.is_open


def test_server_that_stops_reading_mid_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_pipeline, "ANSWER_GRACE", SOON)
    done = threading.Event()

    def script(peer: Peer) -> None:
        peer.accept_import()
        done.wait(DEADLINE)

    with scripted(script) as address, open_scripted(address) as connection:
        with pytest.raises(DeviceGone, match="stopped reading in the middle of a message"):
            connection.bulk_out(OUT, bytes(MAX_TRANSFER), SOON)
        done.set()


def test_half_an_answer_is_waited_for_after_the_time_out() -> None:
    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        peer.send(SubmitReply(request.seqnum, 0, 512), bytes(100))
        unlink = peer.unlink()
        peer.send(bytes(412), UnlinkReply(unlink.seqnum, 0))

    with connected(script) as connection:
        assert connection.bulk_in(IN, 512, SOON) == bytes(512)


def test_interrupted_wait_takes_the_request_back() -> None:
    messages = []

    def script(peer: Peer) -> None:
        messages.append(peer.message())
        messages.append(unlink := peer.unlink())
        peer.send(UnlinkReply(unlink.seqnum, UrbStatus.UNLINKED))
        request, _ = peer.submit()
        peer.reply(request, b"next")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with connected(script) as connection:
            signal.setitimer(signal.ITIMER_REAL, SOON)
            with pytest.raises(KeyboardInterrupt):
                connection.bulk_in(IN, 512, DEADLINE)
            assert connection.bulk_in(IN, 512, DEADLINE) == b"next"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert messages[1] == Unlink(2, 0x10002, 1)


# The end


def test_server_leaves_while_a_request_waits() -> None:
    def script(peer: Peer) -> None:
        peer.accept_import()
        peer.submit()

    with scripted(script) as address, open_scripted(address) as connection:
        with pytest.raises(DeviceGone, match="the server closed the connection"):
            connection.bulk_in(IN, 512, DEADLINE)
        assert not connection.is_open
        with pytest.raises(DeviceGone):
            connection.bulk_out(OUT, b"more", DEADLINE)


def test_answers_before_the_end_still_count() -> None:
    def script(peer: Peer) -> None:
        peer.accept_import()
        requests = [peer.submit()[0] for _ in range(2)]
        peer.reply(requests[0], b"last")

    with scripted(script) as address, open_scripted(address) as connection:
        transfers = connection.submit_batch([(IN, bytearray(4)), (IN, bytearray(4))])
        with pytest.raises(DeviceGone):
            connection.wait(transfers[1], DEADLINE)
        assert connection.wait(transfers[0], DEADLINE) == 4


def test_all_waiting_threads_learn_of_the_end() -> None:
    errors: list[str] = []

    def read() -> None:
        try:
            connection.bulk_in(IN, 512, DEADLINE)
        except DeviceGone as error:
            errors.append(str(error))

    def script(peer: Peer) -> None:
        peer.accept_import()
        for _ in range(3):
            peer.submit()

    with scripted(script) as address, open_scripted(address) as connection:
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
    assert errors == ["the device is gone: the server closed the connection"] * 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"garbage!" * 6, "message 1734439522 where a reply belongs"),
        (bytes(48), "message 0 where a reply belongs"),
        (bytes(Submit(1, 0, 1, 1, length=0)), "message 1 where a reply belongs"),
        (bytes(SubmitReply(2, 0, 0)), "a reply to request 2, which is not in flight"),
        (bytes(SubmitReply(1, 0, 513)), "513 bytes moved by a request of 512"),
        (bytes(SubmitReply(1, 0, 0x7FFFFFFF)), "2147483647 bytes moved by a request of 512"),
        (bytes(SubmitReply(1, 0, -1)), "-1 bytes moved by a request of 512"),
        (bytes(UnlinkReply(1, 0)), "a reply to UNLINK 1, which is not in flight"),
    ],
)
def test_nonsense_ends_the_connection(answer: bytes, message: str) -> None:
    def script(peer: Peer) -> None:
        peer.submit()
        peer.send(answer)

    with (
        connected(script) as connection,
        pytest.raises(DeviceGone, match=message),
    ):
        connection.bulk_in(IN, 512, DEADLINE)


def test_second_answer_to_one_request() -> None:
    def script(peer: Peer) -> None:
        request, _ = peer.submit()
        peer.reply(request, b"one")
        peer.reply(request, b"two")

    with connected(script) as connection:
        assert connection.bulk_in(IN, 512, DEADLINE) == b"one"
        with pytest.raises(DeviceGone, match="not in flight"):
            connection.bulk_in(IN, 512, DEADLINE)


def test_close_lets_the_server_finish_first() -> None:
    """When close returns, the server has noticed: an import right after it is not refused."""
    noticed = []

    def script(peer: Peer) -> None:
        peer.accept_import()
        peer.wait_for_end()
        noticed.append(True)

    with scripted(script) as address:
        connection = open_scripted(address)
        connection.close()
        assert noticed == [True]


def test_close_waits_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_pipeline, "CLOSE_GRACE", SOON)
    done = threading.Event()

    def script(peer: Peer) -> None:
        peer.accept_import()
        done.wait(DEADLINE)

    with scripted(script) as address:
        open_scripted(address).close()
        done.set()


def test_close_wakes_a_thread_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_pipeline, "CLOSE_GRACE", SOON)
    done, submitted = threading.Event(), threading.Event()
    errors: list[str] = []

    def script(peer: Peer) -> None:
        peer.accept_import()
        peer.submit()
        submitted.set()
        done.wait(DEADLINE)

    def read() -> None:
        try:
            connection.bulk_in(IN, 512)
        except DeviceGone as error:
            errors.append(str(error))

    with scripted(script) as address:
        connection = open_scripted(address)
        reader = threading.Thread(target=read)
        reader.start()
        assert submitted.wait(DEADLINE)
        connection.close()
        reader.join(DEADLINE)
        done.set()
    assert errors == ["the device is gone: the connection was closed"]


def test_closed_connection() -> None:
    with plugged(echo_device()) as address:
        connection = Connection.open(address, "1-1")
        connection.close()
        connection.close()
        with pytest.raises(DeviceGone, match="the connection was closed"):
            connection.bulk_out(OUT, b"x")
