"""Replay: recordings played to a device, and what differs named."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from aisrv.analysis.replay import ReplayResult, Transfer, devices_of, replay, transfers_of
from aisrv.attach.background import BackgroundDevice
from aisrv.cli.main import main
from host_tools.transports.schemes import open_transport
from phy.usb.taps.capture_reader import CaptureError, read_capture
from phy.usb.taps.usbmon import EventType

RECORDINGS = Path(__file__).parents[1] / "recordings"
NAMES = ("classic", "design")


@pytest.fixture
def address() -> Iterator[str]:
    with BackgroundDevice() as device:
        yield f"usbip:{device.usbip_address}"


def recorded(name: str) -> list[Transfer]:
    events = list(read_capture((RECORDINGS / f"{name}.pcapng").read_bytes()))
    (device,) = devices_of(events)
    return list(transfers_of(events, device))


def played(transfers: Sequence[Transfer], address: str, *, mask: bool = True) -> ReplayResult:
    transport = open_transport(address)
    try:
        return replay(transfers, transport, mask=mask, timeout=10)  # type: ignore[arg-type]  # it is no SPI
    finally:
        transport.close()


def answers(transfers: Sequence[Transfer]) -> list[int]:
    """Places of the IN transfers with data."""
    return [place for place, each in enumerate(transfers) if each.received and each.endpoint == 0x81]


@pytest.mark.parametrize("name", NAMES)
def test_device_answers_as_recorded(name: str, address: str) -> None:
    result = played(recorded(name), address)
    assert result.difference is None
    assert result.commands >= 14


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


def test_length_that_differs_is_named(address: str) -> None:
    transfers = recorded("classic")
    place = answers(transfers)[0]
    transfers[place] = replace(transfers[place], length=8)
    difference = played(transfers, address).difference
    assert difference is not None
    assert (difference.expected, difference.got) == ("8 bytes", "4 bytes")


def test_stall_that_does_not_come_is_named(address: str) -> None:
    transfers = recorded("classic")
    place = answers(transfers)[0]
    transfers[place] = replace(transfers[place], status=-32, length=0, received=b"")
    difference = played(transfers, address).difference
    assert difference is not None
    assert (difference.expected, difference.got) == ("a stall", "4 bytes")


def test_stall_that_was_not_recorded_is_named(address: str) -> None:
    transfers = recorded("classic")
    stalled = next(place for place, each in enumerate(transfers) if each.status == -32)
    transfers[stalled] = replace(transfers[stalled], status=0, length=4, received=b"1234")
    difference = played(transfers, address).difference
    assert difference is not None
    assert (difference.number, difference.got) == (transfers[stalled].number, "a stall")


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


def test_transfers_that_the_host_took_back_are_left_out(address: str) -> None:
    transfers = recorded("classic")
    place = answers(transfers)[-1]
    gone = replace(transfers[place], status=-104, length=0, received=b"")
    result = played([*transfers, gone], address)
    assert (result.difference, result.left_out) == (None, 8)  # with 7 control transfers of the system


def test_out_data_that_were_not_kept_cannot_be_played() -> None:
    events = list(read_capture((RECORDINGS / "classic.pcapng").read_bytes()))
    for place, each in enumerate(events):
        if each.event.event is EventType.SUBMIT and each.event.length > 100 and each.event.data:
            events[place] = replace(each, event=replace(each.event, data=each.event.data[:100]))
            break
    with pytest.raises(CaptureError, match="has 100 of 9424 bytes that the host sent"):
        list(transfers_of(events, devices_of(events)[0]))


def test_command_ends_with_0_where_all_is_as_recorded(address: str) -> None:
    arguments = ["replay", str(RECORDINGS / "classic.pcapng"), "--device", address]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert result.output.endswith("all answers are as recorded\n")


def test_command_ends_with_1_at_a_difference(address: str, tmp_path: Path) -> None:
    changed = tmp_path / "changed.pcapng"
    data = (RECORDINGS / "classic.pcapng").read_bytes()
    assert data.count(b"\x78\x56\x34\x12") > 0
    changed.write_bytes(data.replace(b"\x78\x56\x34\x12", b"\x78\x56\x34\x13", 1))
    result = CliRunner().invoke(main, ["replay", str(changed), "--device", address])
    assert result.exit_code == 1
    assert "GET_ID of engine 0, tensor 0: expected at byte 3: 13, got at byte 3: 12" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--of", "7.7"], "has no such device; with bulk transfers there: 1.1"),
        (["--of", "seven"], "is no device of a capture; write BUS.DEVICE"),
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
