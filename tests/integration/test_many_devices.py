"""Several devices of one process: `--devices` of `aisrv run` and `aisrv exec`, and hosts that find them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import usb.core
import usb.util

from aisrv import digits
from aisrv.board import Board
from aisrv.cli.options.devices import number_boards
from host_tools.client import AiServer
from host_tools.errors import DeviceBusy, DeviceNotFound, NoModelError
from host_tools.standins.pyusb_backend import get_backend
from host_tools.transports.schemes import list_devices
from host_tools.transports.transport import DeviceInfo
from tests.support.models import networks
from tests.support.programs import (
    AISRV,
    HOST,
    TIMEOUT,
    default_engine_line,
    next_command_line,
    run_process,
    running,
)

IMAGES = digits.test_images()


@pytest.fixture(scope="module")
def three() -> Iterator[str]:
    """Address of a server of three devices."""
    with running("--devices", "3", "--serial", "LAB-") as (_, address):
        yield address


def names(address: str) -> list[str]:
    """Addresses of the devices with their serial numbers."""
    return [f"{one.address.rpartition('/')[2]} {one.serial}" for one in list_devices(address)]


# Starting them.


def test_one_line_says_that_all_are_ready() -> None:
    with running("--devices", "3") as (process, address):
        assert names(address) == ["1-1 AISRV-1", "1-2 AISRV-2", "1-3 AISRV-3"]
        process.terminate()
        output, errors = process.communicate(timeout=TIMEOUT)
    lines = default_engine_line() + next_command_line(address)
    assert (process.returncode, output, errors) == (0, "", lines)


@pytest.mark.parametrize("options", [(), ("--devices", "1")])
def test_one_device_has_no_serial_number(options: tuple[str, ...]) -> None:
    with running(*options) as (_, address):
        assert list_devices(address) == [DeviceInfo(f"{address}/1-1", "xAISRV", "XMOS")]


@pytest.mark.parametrize("count", ["0", "-1", "1001", "many"])
def test_number_that_is_none_of_devices(count: str) -> None:
    done = run_process([*AISRV, "run", "--port", "0", "--devices", count])
    assert (done.returncode, done.stdout) == (2, "")
    assert "--devices" in done.stderr


def test_every_device_gets_the_models(tmp_path: Path) -> None:
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    expected = networks.run(digits.model_bytes(), IMAGES[0].image)[0]
    with running("--devices", "2", "--model", str(path)) as (_, address):
        for busid in ("1-1", "1-2"):
            with AiServer.open(f"{address}/{busid}") as server:
                assert server.run(IMAGES[0].image) == expected


# Serial numbers.


def test_numbered_boards_differ_in_their_serial_numbers_only() -> None:
    board = Board(core_clock_mhz=500, serial="A")
    assert number_boards(board, 2) == [
        Board(core_clock_mhz=500, serial="A1"),
        Board(core_clock_mhz=500, serial="A2"),
    ]


@pytest.mark.parametrize("serial", [None, "LAB-7"])
def test_one_board_stays_as_it_is(serial: str | None) -> None:
    assert number_boards(Board(serial=serial), 1) == [Board(serial=serial)]


def test_empty_prefix() -> None:
    assert [board.serial for board in number_boards(Board(serial=""), 2)] == ["1", "2"]


def test_prefix_that_leaves_no_room_for_the_number() -> None:
    number_boards(Board(serial="x" * 125), 9)
    with pytest.raises(click.UsageError, match="at most 126 printable ASCII characters"):
        number_boards(Board(serial="x" * 125), 10)


# Hosts.


def test_pyusb_finds_them_all_and_each_by_its_serial_number(three: str) -> None:
    backend = get_backend(three.removeprefix("usbip:"))
    found = list(usb.core.find(find_all=True, idVendor=0x20B1, backend=backend))
    assert [(one.bus, one.address, one.serial_number) for one in found] == [
        (1, 1, "LAB-1"),
        (1, 2, "LAB-2"),
        (1, 3, "LAB-3"),
    ]
    wanted = usb.core.find(serial_number="LAB-2", backend=backend)
    assert (wanted.address, wanted == found[1]) == (2, True)
    assert usb.core.find(serial_number="LAB-4", backend=backend) is None
    wanted.set_configuration()
    assert wanted.write(0x01, b"\x10\0\0") == 3
    assert wanted.read(0x81, 512).tobytes() == b"\x78\x56\x34\x12"
    for one in (*found, wanted):
        usb.util.dispose_resources(one)


def test_bus_id_names_one_of_them(three: str) -> None:
    with AiServer.open(f"{three}/1-2") as second, AiServer.open(f"{three}/1-3") as third:
        second.load_model(digits.model_bytes())
        assert second.run(IMAGES[0].image)
        with pytest.raises(NoModelError):
            third.read_output()
        with pytest.raises(DeviceBusy):
            AiServer.open(f"{three}/1-2")


def test_address_without_a_bus_id_is_too_little(three: str) -> None:
    with pytest.raises(DeviceNotFound, match=r"exports 3 AI servers; name one of .*/1-1, .*/1-2, .*/1-3"):
        AiServer.open(three)
    with pytest.raises(DeviceNotFound, match="no AI server with bus id 1-4; it has: 1-1, 1-2, 1-3"):
        AiServer.open(f"{three}/1-4")


def test_device_in_use_is_listed_with_the_reason(three: str) -> None:
    with AiServer.open(f"{three}/1-1"):
        done = run_process([*HOST, "--device", three, "--json", "list"], check=True)
    first, second, _ = json.loads(done.stdout)
    assert (first["serial"], first["product"]) == ("", "xAISRV")
    assert "in use by another program" in first["note"]
    assert (second["serial"], second["note"]) == ("LAB-2", "")


def test_program_sees_all_its_private_devices() -> None:
    program = (
        "import usb.core\n"
        "found = usb.core.find(find_all=True, product='xAISRV')\n"
        "print(sorted(one.serial_number for one in found))\n"
    )
    done = run_process([*AISRV, "exec", "--devices", "2", "--", sys.executable, "-c", program])
    assert (done.returncode, done.stdout, done.stderr) == (0, "['AISRV-1', 'AISRV-2']\n", "")
