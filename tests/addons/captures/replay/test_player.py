"""Replay: recordings played to a device, and what differs named."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aisrv import digits
from aisrv.addons.captures.replay.player import ReplayResult, replay
from aisrv.addons.captures.replay.transfers import Transfer, devices_of, transfers_of
from aisrv.attach.background import BackgroundDevice
from aisrv.cli.main import main
from aisrv.inference.process.inline import inline
from host_tools.standins.pyusb_backend import get_backend
from host_tools.transports.schemes import open_transport
from host_tools.transports.transport import Outcome, Request, RequestTransport, Ticket
from host_tools.transports.usb import UsbTransport
from host_tools.transports.usbip.transport import UsbipTransport, open_usbip
from host_tools.transports.virtual import VirtualDevice
from phy.usb.taps.capture_reader import read_capture
from phy.usb.taps.usbmon import TransferType
from tests.support.peers.usbpcap_files import as_usbpcap
from tests.support.programs import missing, run_process

RECORDINGS = Path(__file__).parents[3] / "recordings"
NAMES = ("classic", "design", "pipelined", "descriptors")
"""Recordings of a device like the one that they are played to."""


@pytest.fixture
def address() -> Iterator[str]:
    with BackgroundDevice(runner=inline) as device:
        yield f"usbip:{device.usbip_address}"


def recorded(name: str) -> list[Transfer]:
    events = list(read_capture((RECORDINGS / f"{name}.pcapng").read_bytes()))
    (device,) = devices_of(events)
    return list(transfers_of(events, device))


def played(transfers: Sequence[Transfer], address: str, *, mask: bool = True) -> ReplayResult:
    transport = open_transport(address)
    try:
        return replay(transfers, transport, mask=mask, timeout=60)  # type: ignore[arg-type]  # it is not SPI
    finally:
        transport.close()


def answers(transfers: Sequence[Transfer]) -> list[int]:
    """Places of the IN transfers with data."""
    return [place for place, each in enumerate(transfers) if each.received and each.endpoint == 0x81]


@pytest.mark.parametrize("name", NAMES)
def test_device_answers_as_recorded(name: str, address: str) -> None:
    result = played(recorded(name), address)
    assert result.difference is None
    assert result.commands == {"classic": 17, "design": 14, "pipelined": 13, "descriptors": 1}[name]


@pytest.mark.parametrize("name", NAMES)
def test_twice_in_a_row(name: str, address: str) -> None:
    transfers = recorded(name)
    assert played(transfers[:6], address).difference is None
    assert played(transfers[:6], address).difference is None


def test_data_that_differ_are_named_with_packet_and_command(address: str) -> None:
    transfers = recorded("classic")
    place = answers(transfers)[0]
    transfers[place] = replace(transfers[place], received=b"\x78\x56\x34\x99")
    difference = played(transfers, address).difference
    assert str(difference) == (
        f"packet {transfers[place].number}, GET_ID of engine 0, tensor 0: "
        "expected at byte 3: 99, got at byte 3: 12"
    )


@pytest.mark.parametrize("mask", [True, False])
def test_timings_are_masked_unless_they_are_asked_for(mask: bool, address: str) -> None:
    transfers = recorded("classic")
    asked = next(n for n, each in enumerate(transfers) if each.sent == b"\x09\x00\x00")
    answer = next(n for n in answers(transfers) if n > asked)
    transfers[answer] = replace(transfers[answer], received=bytes(transfers[answer].length))
    difference = played(transfers, address, mask=mask).difference
    named = None if difference is None else difference.command
    assert named == (None if mask else "GET_TIMINGS of engine 0, tensor 0")


def test_status_before_masked_data_is_compared(address: str) -> None:
    transfers = recorded("design")
    asked = next(n for n, each in enumerate(transfers) if each.sent == b"\x09".ljust(12, b"\0"))
    status = next(n for n in answers(transfers) if n > asked)
    transfers[status] = replace(transfers[status], received=b"\x04\0\0\0")
    difference = played(transfers, address).difference
    assert difference is not None
    assert difference.number == transfers[status].number


def test_request_that_the_host_took_back_is_taken_back(address: str) -> None:
    transfers = recorded("classic")
    place = answers(transfers)[-1]
    last = transfers[-1].end
    gone = replace(
        transfers[place], number=last + 1, end=last + 2, status=-104, length=0, received=b"", seconds=0.05
    )
    result = played([*transfers, gone], address)
    assert (result.difference, result.transfers) == (None, len(transfers) + 1)


def changed(transfers: list[Transfer], number: int, **fields: Any) -> list[Transfer]:
    """The transfers with one of them changed, by the number of its packet."""
    place = next(place for place, each in enumerate(transfers) if each.number == number)
    return [*transfers[:place], replace(transfers[place], **fields), *transfers[place + 1 :]]


# Several requests in flight.


def test_requests_begin_and_end_in_the_order_of_the_capture(address: str) -> None:
    events: list[tuple[str, int, bytes]] = []

    class Watched:
        """A transport that notes what happens."""

        def __init__(self, inner: UsbipTransport) -> None:
            self.inner = inner

        def start(self, request: Request, timeout: float | None) -> Ticket:
            ticket = self.inner.start(request, timeout)
            events.append(("starts", request.endpoint, request.data))
            return WatchedTicket(ticket, request)

    class WatchedTicket:
        def __init__(self, inner: Ticket, request: Request) -> None:
            self.inner, self.request = inner, request

        def finish(self) -> Outcome:
            events.append(("ends", self.request.endpoint, self.request.data))
            return self.inner.finish()

        def withdraw(self) -> Outcome:
            events.append(("is taken back", self.request.endpoint, self.request.data))
            return self.inner.withdraw()

    transport = open_usbip(address.removeprefix("usbip:"))
    result = replay(recorded("pipelined"), Watched(transport), timeout=60)
    transport.close()
    assert result.difference is None
    assert events[-18:-1] == [
        *[("starts", 0x81, b"")] * 3,
        ("starts", 0x01, b"\x10\0\0"),
        ("ends", 0x01, b"\x10\0\0"),
        ("ends", 0x81, b""),
        ("starts", 0x01, b"\x08\0\0"),
        ("ends", 0x01, b"\x08\0\0"),
        ("ends", 0x81, b""),
        ("starts", 0x01, b"\x15\0\0"),
        ("ends", 0x01, b"\x15\0\0"),
        ("ends", 0x81, b""),
        ("starts", 0x81, b""),
        ("is taken back", 0x81, b""),
        ("starts", 0x01, b"\x10\0\0"),
        ("ends", 0x01, b"\x10\0\0"),
        ("starts", 0x81, b""),
    ]


def test_answer_of_a_request_in_flight_belongs_to_its_own_command(address: str) -> None:
    """The second of three reads that wait at once differs."""
    transfers = recorded("pipelined")
    waiting = [each for each in transfers if each.wanted == 512][:3]
    assert waiting[1].number < waiting[0].end  # it began before the first ended
    difference = played(changed(transfers, waiting[1].number, received=bytes(20)), address).difference
    assert difference is not None
    assert (difference.number, difference.command) == (waiting[1].number, "GET_SPEC of engine 0, tensor 0")


class Scripted:
    """A transport whose requests end as told."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.requests: list[Request] = []

    def start(self, request: Request, timeout: float | None) -> Ticket:
        self.requests.append(request)
        return self

    def finish(self) -> Outcome:
        return self.outcome

    def withdraw(self) -> Outcome:
        return self.outcome


def read_of(status: int, received: bytes = b"", wanted: int = 512) -> Transfer:
    return Transfer(1, 2, TransferType.BULK, 0x81, None, b"", wanted, status, len(received), received)


@pytest.mark.parametrize(
    ("recorded_status", "outcome", "expected", "got"),
    [
        (-104, Outcome(0, 4, b"abcd"), "no answer until the host took the request back", "4 bytes"),
        (-2, Outcome(0, 4, b"abcd"), "no answer until the host took the request back", "4 bytes"),
        (0, Outcome(-32, 0), "4 bytes", "a stall"),
        (-32, Outcome(0, 4, b"abcd"), "a stall", "4 bytes"),
        (0, Outcome(-110, 0), "4 bytes", "no answer in time"),
        (0, Outcome(-75, 0), "4 bytes", "more data than there is room for"),
        (-71, Outcome(0, 4, b"abcd"), "status -71", "4 bytes"),
        (0, Outcome(0, 3, b"abc"), "4 bytes", "3 bytes"),
        (-121, Outcome(0, 3, b"abc"), "4 bytes", "3 bytes"),
        (0, Outcome(0, 4, b"abce"), "at byte 3: 64", "at byte 3: 65"),
    ],
)
def test_ends_that_differ(recorded_status: int, outcome: Outcome, expected: str, got: str) -> None:
    received = b"abcd" if recorded_status in (0, -121) else b""
    difference = replay([read_of(recorded_status, received)], Scripted(outcome)).difference
    assert difference is not None
    assert (difference.expected, difference.got) == (expected, got)


@pytest.mark.parametrize(
    ("recorded_status", "outcome"),
    [
        (-104, Outcome(-104, 0)),
        (-2, Outcome(-104, 0)),
        (-104, Outcome(-110, 0)),
        (-32, Outcome(-32, 0)),
        (-121, Outcome(0, 4, b"abcd")),
        (-71, Outcome(-71, 0)),
    ],
)
def test_ends_that_are_the_same(recorded_status: int, outcome: Outcome) -> None:
    received = b"abcd" if recorded_status == -121 else b""
    assert replay([read_of(recorded_status, received)], Scripted(outcome)).difference is None


@pytest.mark.parametrize("status", [-108, -19])
def test_what_ended_with_the_connection_is_not_played(status: int) -> None:
    transport = Scripted(Outcome(0, 0))
    result = replay([read_of(status)], transport)
    assert (result.left_out, transport.requests) == (1, [])


@pytest.mark.parametrize(("wanted", "room"), [(0, 512), (4, 512), (512, 512), (513, 1024), (16384, 16384)])
def test_reads_have_room_for_whole_packets(wanted: int, room: int) -> None:
    transport = Scripted(Outcome(0, 0))
    replay([read_of(0, b"", wanted)], transport)
    assert [each.room for each in transport.requests] == [room]


def test_log_of_another_length_is_read_whole_and_the_rest_of_it_not_played() -> None:
    """The recorded log takes a second read: of the one played, the first takes all."""
    command = Transfer(1, 2, TransferType.BULK, 0x01, None, b"\x0f\0\0", 0, 0, 3, b"")
    first = Transfer(3, 4, TransferType.BULK, 0x81, None, b"", 512, 0, 512, bytes(512))
    rest = Transfer(5, 6, TransferType.BULK, 0x81, None, b"", 512, 0, 0, b"")
    transport = Scripted(Outcome(0, 3, b"abc"))
    result = replay([command, first, rest], transport)
    assert (result.difference, result.transfers, result.left_out) == (None, 2, 1)
    assert [each.room for each in transport.requests] == [0, 64 * 1024]


def test_device_that_does_not_answer_in_time(address: str) -> None:
    transfers = recorded("classic")
    answer = transfers[answers(transfers)[0]]
    alone = [each for each in transfers if each.end < answer.number and each.transfer is TransferType.CONTROL]
    transport = open_transport(address)
    assert isinstance(transport, RequestTransport)
    difference = replay([*alone, answer], transport, timeout=0.2).difference
    transport.close()
    assert difference is not None
    assert (difference.expected, difference.got) == ("4 bytes", "no answer in time")


# Control requests.


def test_field_of_a_descriptor_that_differs_is_named(address: str) -> None:
    transfers = recorded("descriptors")
    asked = next(
        each
        for each in transfers
        if each.setup is not None and each.setup.value == 0x100 and each.length == 18
    )
    received = asked.received[:12] + b"\x34\x12" + asked.received[14:]
    difference = played(changed(transfers, asked.number, received=received), address).difference
    assert str(difference) == (
        f"packet {asked.number}, GET_DESCRIPTOR of device: "
        "expected bcd_device of the device descriptor 0x1234, got bcd_device of the device descriptor 0x1000"
    )


def test_length_of_a_descriptor_that_differs_is_named(address: str) -> None:
    transfers = recorded("descriptors")
    asked = next(each for each in transfers if each.setup is not None and each.setup.value == 0x302)
    difference = played(changed(transfers, asked.number, length=30), address).difference
    assert difference is not None
    assert (difference.command, difference.expected, difference.got) == (
        "GET_DESCRIPTOR of string 2",
        "30 bytes",
        "14 bytes",
    )


def test_refused_request_that_is_carried_out_is_named(address: str) -> None:
    transfers = recorded("descriptors")
    refused = next(each for each in transfers if each.status == -32)
    carried_out = changed(transfers, refused.number, status=0, length=4, received=b"1234")
    difference = played(carried_out, address).difference
    assert difference is not None
    assert (difference.expected, difference.got) == ("4 bytes", "a stall")


def test_serial_number_of_another_device_is_no_difference(address: str) -> None:
    """The recorded device has LAB-7, this one has none: its text is not asked for."""
    result = played(recorded("descriptors"), address)
    assert (result.difference, result.left_out) == (None, 2)


# Other recorders, other protocols.


def test_recording_of_a_kernel_with_the_enumeration(address: str) -> None:
    """What Linux did when the device was plugged in, and a program on libusb."""
    result = played(recorded("linux"), address)
    assert result.difference is None
    assert result.commands == 18


@pytest.mark.parametrize("name", NAMES)
def test_the_same_session_recorded_by_usbpcap(name: str, address: str, tmp_path: Path) -> None:
    events = list(read_capture((RECORDINGS / f"{name}.pcapng").read_bytes()))
    converted = list(read_capture(as_usbpcap(events)))
    (device,) = devices_of(converted)
    result = played(transfers_of(converted, device), address)
    assert result.difference is None
    assert result.transfers >= played(recorded(name), address).transfers - 1


@pytest.mark.parametrize("file_format", ["pcap", "nsecpcap", "pcapng"])
def test_file_that_another_program_wrote(file_format: str, address: str, tmp_path: Path) -> None:
    editcap = shutil.which("editcap") or missing("Debian's package wireshark-common is not installed")
    path = tmp_path / "rewritten"
    run_process([editcap, "-F", file_format, str(RECORDINGS / "classic.pcapng"), str(path)], check=True)
    events = list(read_capture(path.read_bytes()))
    result = played(transfers_of(events, devices_of(events)[0]), address)
    assert (result.difference, result.commands) == (None, 17)


def test_ioserver_session(tmp_path: Path) -> None:
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    command = [
        sys.executable,
        "-m",
        "aisrv",
        "run",
        "--port",
        "0",
        "--protocol",
        "ioserver",
        "--model",
        model,
    ]
    with VirtualDevice([*map(str, command), "--until-eof"]) as device:
        transfers = recorded("ioserver")
        transport = open_usbip(device.address)
        same = replay(transfers, transport, protocol="ioserver", timeout=20)
        last = [each for each in transfers if each.is_in and each.transfer is TransferType.BULK][-1]
        other = changed(transfers, last.number, received=bytes(last.length))
        different = replay(other, transport, protocol="ioserver", timeout=20)
        transport.close()
    assert (same.difference, same.commands) == (None, 7)
    assert different.difference is not None
    assert different.difference.command == "TENSOR_SEND_OUTPUT of model 0, tensor 0"


@pytest.mark.parametrize("name", NAMES)
def test_through_pyusb(name: str, address: str) -> None:
    backend = get_backend(address.removeprefix("usbip:"))
    transport = UsbTransport(backend, next(iter(backend.enumerate_devices())))
    result = replay(recorded(name), transport, timeout=60)
    transport.close()
    assert result.difference is None


def test_difference_through_pyusb(address: str) -> None:
    backend = get_backend(address.removeprefix("usbip:"))
    transport = UsbTransport(backend, next(iter(backend.enumerate_devices())))
    transfers = recorded("classic")
    stalled = next(each for each in transfers if each.status == -32)
    other = changed(transfers, stalled.number, status=0, length=4, received=b"1234")
    difference = replay(other, transport, timeout=60).difference
    transport.close()
    assert difference is not None
    assert (difference.number, difference.got) == (stalled.number, "a stall")


# The command.


def test_json_of_a_difference(address: str, tmp_path: Path) -> None:
    path = tmp_path / "changed.pcapng"
    data = (RECORDINGS / "classic.pcapng").read_bytes()
    path.write_bytes(data.replace(b"\x78\x56\x34\x12", b"\x78\x56\x34\x13", 1))
    result = CliRunner().invoke(main, ["replay", str(path), "--device", address, "--json"])
    assert result.exit_code == 1
    assert json.loads(result.output) == {
        "transfers": 6,
        "commands": 17,
        "left_out": 0,
        "cut_at_byte": None,
        "as_recorded": False,
        "difference": {
            "packet": 11,
            "command": "GET_ID of engine 0, tensor 0",
            "expected": "at byte 3: 13",
            "got": "at byte 3: 12",
        },
    }


def test_json_where_all_is_as_recorded(address: str) -> None:
    arguments = ["replay", str(RECORDINGS / "pipelined.pcapng"), "--device", address, "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert (found["as_recorded"], found["difference"]) == (True, None)


def test_command_ends_with_0_where_all_is_as_recorded(address: str) -> None:
    arguments = ["replay", str(RECORDINGS / "classic.pcapng"), "--device", address]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert result.output.endswith("all answers are as recorded\n")


def test_a_capture_that_was_cut_ends_with_a_code_of_its_own(address: str, tmp_path: Path) -> None:
    whole = (RECORDINGS / "classic.pcapng").read_bytes()
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(whole[:-5])
    last = len(list(read_capture(cut.read_bytes())))
    place = int.from_bytes(whole[-4:], "little")  # of the last block, which ends with its length
    result = CliRunner().invoke(main, ["replay", str(cut), "--device", address])
    assert result.exit_code == 3
    assert result.output.splitlines()[1:] == [
        f"the capture was cut: it ends within what is behind packet {last}, at byte {len(whole) - place:,}",
        "all answers up to there are as recorded",
    ]
    found = json.loads(CliRunner().invoke(main, ["replay", str(cut), "--json"]).output)
    assert (found["cut_at_byte"], found["as_recorded"]) == (len(whole) - place, True)


def test_a_difference_counts_more_than_a_cut(address: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    data = (RECORDINGS / "classic.pcapng").read_bytes()[:-5]
    cut.write_bytes(data.replace(b"\x78\x56\x34\x12", b"\x78\x56\x34\x13", 1))
    result = CliRunner().invoke(main, ["replay", str(cut), "--device", address])
    assert result.exit_code == 1
    assert "GET_ID of engine 0, tensor 0: expected at byte 3: 13, got at byte 3: 12" in result.output
    assert "the capture was cut" in result.output


def test_replay_to_a_virtual_device_of_a_board(tmp_path: Path) -> None:
    board = tmp_path / "mine.toml"
    board.write_text("description = 'mine'\n")
    classic = str(RECORDINGS / "classic.pcapng")
    assert CliRunner().invoke(main, ["replay", classic, "--board", str(board)]).exit_code == 0
    absent = CliRunner().invoke(main, ["replay", classic, "--board", "absent"])
    assert absent.exit_code == 2
    assert "'absent' is not one of" in absent.output
    chained = CliRunner().invoke(main, ["replay", classic, "--board", "two-engines"])
    assert chained.exit_code == 1
    assert "GET_SPEC of engine 0" in chained.output


def test_board_and_device_exclude_each_other() -> None:
    options = ["--board", "camera", "--device", "usb"]
    result = CliRunner().invoke(main, ["replay", str(RECORDINGS / "classic.pcapng"), *options])
    assert result.exit_code == 2
    assert "give one of them" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--of", "7.7"], "has no such device; with bulk transfers there: 1.1"),
        (["--of", "seven"], "is not a device of a capture; write BUS.DEVICE"),
    ],
)
def test_device_that_the_capture_has_not_is_a_usage_error(options: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["replay", str(RECORDINGS / "classic.pcapng"), *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_file_that_is_no_capture_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"no capture")
    result = CliRunner().invoke(main, ["replay", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert "neither a pcapng nor a pcap file" in result.output
