"""The device under Debian's kernel, by vhci_hcd and by CUSE: programs in Python and C; one boot for all."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aisrv import digits
from tests.guest.machine import run_guest
from tests.support.benches.spi_echo import echo
from tests.support.models import networks
from tests.support.peers.spidev_expected import EXPECTED
from tests.support.peers.spidev_program import pattern
from tests.support.programs import missing

pytestmark = pytest.mark.long("an emulated machine boots: 54 s of CPU time")

HERE = Path(__file__).parent
LIBUSB_CLIENT = HERE.parent / "support/peers/libusb_client.c"
SPIDEV_CLIENT = HERE.parent / "support/peers/spidev_client.c"
ID = "78563412"
ETIMEDOUT, EPIPE, ENODEV = 110, 32, 19
TIMEOUT, PIPE, CANCELLED = -7, -9, 3  # LIBUSB_ERROR_TIMEOUT, LIBUSB_ERROR_PIPE, LIBUSB_TRANSFER_CANCELLED

DESCRIPTORS = (
    "12010002ffffff40b1205ea1001001020001"  # USB 2.0, class 255, 20b1:a15e, 10.00, strings 1, 2 and none
    "0902200001010080fa"  # configuration 1 of 32 bytes, one interface, 500 mA
    "0904000002ffffff03"  # interface 0, two endpoints, string 3
    "07050102000201"  # endpoint 1 OUT, bulk, 512 bytes
    "07058102000201"  # endpoint 1 IN
)


def install_spidev(folder: Path) -> None:
    """Compile PyPI's package spidev, of which there are no wheels, into a folder; or leave there why not."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--target", folder, "spidev"], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        folder.mkdir(exist_ok=True)
        (folder / "why-not").write_text(done.stderr)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the programs in the guest saw."""
    if not Path("/usr/include/linux/spi/spidev.h").exists():
        missing("no headers of the kernel: install the package linux-libc-dev")
    if shutil.which("cc") is None or not Path("/usr/include/libusb-1.0/libusb.h").exists():
        missing("no C compiler or no libusb: install the packages gcc and libusb-1.0-0-dev")
    job, folder = tmp_path_factory.mktemp("job"), tmp_path_factory.mktemp("machine")
    flags = ("-I/usr/include/libusb-1.0", "-lusb-1.0", "-lpthread")
    subprocess.run(["cc", "-O1", "-o", job / "client", LIBUSB_CLIENT, *flags], check=True)
    subprocess.run(["cc", "-O1", "-o", job / "spidev_client", SPIDEV_CLIENT], check=True)
    install_spidev(job / "packages")
    (job / "model").write_bytes(digits.model_bytes())
    (job / "image").write_bytes(digits.test_images()[3].image)
    return run_guest(HERE / "in_guest.py", job, folder)


@pytest.fixture(scope="module")
def spidev(guest: dict[str, Any]) -> str:
    """Where the guest has the package spidev."""
    place: str | None = guest["package spidev"]
    if place is None:
        missing(f"pip does not install spidev: {guest['why there is no spidev']}")
    return place


EXPECTED_OUTPUT = networks.run(digits.model_bytes(), digits.test_images()[3].image)[0].hex()


def test_kernel_boots_however_busy_the_machine_is(guest: dict[str, Any]) -> None:
    """It panics where ticks of its timer come late as it boots, unless it is told not to count them."""
    assert "no_timer_check" in guest["kernel's words"].split()


# Attaching.


def test_attach_prints_one_line_with_the_port(guest: dict[str, Any]) -> None:
    assert guest["first: line"] == "aisrv: attached to vhci_hcd port 0\n"


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_port_is_in_use_while_attached(guest: dict[str, Any], name: str) -> None:
    assert guest[f"{name}: state"] == "006"


@pytest.mark.parametrize(("name", "code"), [("first", 130), ("third", 0)], ids=["SIGINT", "SIGTERM"])
def test_signal_detaches_and_ends_without_a_word(guest: dict[str, Any], name: str, code: int) -> None:
    assert guest[f"{name}: end"] == [code, ""]


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_port_is_free_afterwards_even_after_a_kill(guest: dict[str, Any], name: str) -> None:
    assert guest[f"{name}: freed"] is True


# Descriptors.


def test_kernel_read_the_descriptors(guest: dict[str, Any]) -> None:
    assert guest["descriptors"] == DESCRIPTORS


@pytest.mark.parametrize(
    "line",
    [
        "bcdUSB 2.00",
        "bDeviceClass 255",
        "bMaxPacketSize0 64",
        "bcdDevice 10.00",
        "iManufacturer 1 XMOS",
        "iProduct 2 xAISRV",
        "iSerial 0",
        "MaxPower 500mA",
        "iInterface 3 Config",
        "bEndpointAddress 0x01 EP 1 OUT",
        "bEndpointAddress 0x81 EP 1 IN",
        "wMaxPacketSize 0x0200 1x 512 bytes",
    ],
)
def test_lsusb_shows(guest: dict[str, Any], line: str) -> None:
    shown = [" ".join(each.split()) for each in guest["lsusb"].splitlines()]
    assert [each for each in shown if each.startswith(line)]  # names may follow, where usb.ids is installed


# pyusb.


def test_pyusb_program_ran_to_its_end(guest: dict[str, Any]) -> None:
    assert guest["pyusb: errors"] == []


@pytest.mark.parametrize("when", ["id", "id after time-out", "id after stall", "id after reset"])
def test_pyusb_reads_the_id(guest: dict[str, Any], when: str) -> None:
    assert guest[f"pyusb: {when}"] == ID


def test_read_without_an_answer_times_out(guest: dict[str, Any]) -> None:
    assert guest["pyusb: time-out"] == ["USBTimeoutError", ETIMEDOUT]


def test_time_out_comes_no_earlier_than_it_was_asked_for(guest: dict[str, Any]) -> None:
    assert guest["pyusb: time-out seconds"] >= 0.3


@pytest.mark.parametrize("direction", ["in", "out"])
def test_refused_command_stalls_both_endpoints(guest: dict[str, Any], direction: str) -> None:
    assert guest[f"pyusb: stall {direction}"] == ["USBError", EPIPE]


def test_status_tells_the_reason_of_the_stall(guest: dict[str, Any]) -> None:
    assert guest["pyusb: status after stall"] == "04000000"  # ERROR_NO_MODEL


def test_four_mebibytes_go_in_one_write(guest: dict[str, Any]) -> None:
    assert guest["pyusb: written"] == 4 << 20


def test_kernel_sends_four_mebibytes_as_one_request(guest: dict[str, Any]) -> None:
    assert len(guest["usbmon"]) == 1


def test_model_of_four_mebibytes_is_accepted(guest: dict[str, Any]) -> None:
    assert guest["pyusb: status of model"] == "00000000"


def test_inference_gives_the_interpreters_output(guest: dict[str, Any]) -> None:
    assert guest["pyusb: output"] == EXPECTED_OUTPUT


def test_model_and_input_outlast_a_reset(guest: dict[str, Any]) -> None:
    assert guest["pyusb: output after reset"] == EXPECTED_OUTPUT


# A C program on libusb.


def steps(guest: dict[str, Any], first: int, count: int) -> list[str]:
    """The lines of the C program, see `FIRST_STEPS` and those after it in `in_guest.py`."""
    lines: list[str] = guest["libusb"]
    return [line.strip() for line in lines[first : first + count]]


def test_libusb_knows_a_high_speed_device_and_claims_it(guest: dict[str, Any]) -> None:
    assert steps(guest, 0, 3) == ["speed 3", "config 0", "claim 0"]


def test_libusb_reads_the_id(guest: dict[str, Any]) -> None:
    assert steps(guest, 3, 2) == ["bytes 0 3", f"read 0 4 {ID}"]


def test_libusb_read_times_out(guest: dict[str, Any]) -> None:
    assert steps(guest, 5, 1) == [f"read {TIMEOUT} 0"]


def test_libusb_sees_the_stall_of_an_unknown_command(guest: dict[str, Any]) -> None:
    assert steps(guest, 6, 3) == ["bytes 0 3", f"read {PIPE} 0", f"bytes {PIPE} 0"]


def test_libusb_clears_the_halts(guest: dict[str, Any]) -> None:
    assert steps(guest, 9, 4) == ["clear 0", "clear 0", "bytes 0 3", f"read 0 4 {ID}"]


def test_libusb_cancels_a_read(guest: dict[str, Any]) -> None:
    assert steps(guest, 13, 2) == ["cancelling 0", f"cancelled {CANCELLED} 0"]


def test_libusb_resets_the_device(guest: dict[str, Any]) -> None:
    assert steps(guest, 15, 4) == ["reset 0", "bytes 0 3", f"read 0 4 {ID}", "release 0"]


# Detached in the middle of a transfer, and attached again.


@pytest.mark.parametrize("name", ["interrupted", "interrupted over TCP"])
def test_program_in_the_middle_of_a_read_learns_that_the_device_is_gone(
    guest: dict[str, Any], name: str
) -> None:
    assert guest[f"{name}: read"] == ["USBError", ENODEV]


@pytest.mark.parametrize("name", ["again", "after a kill"])
def test_device_works_when_it_is_attached_again(guest: dict[str, Any], name: str) -> None:
    assert (guest[f"{name}: errors"], guest[f"{name}: id"]) == ([], ID)


# Over TCP, by the kernel's own tool.


def test_usbip_plugs_in_a_served_device(guest: dict[str, Any]) -> None:
    assert guest["tcp: plugged in"] is True


def test_device_that_was_unplugged_in_mid_transfer_works_when_it_is_back(guest: dict[str, Any]) -> None:
    assert (guest["tcp: errors"], guest["tcp: id"]) == ([], ID)


def test_usbip_unplugs_a_served_device(guest: dict[str, Any]) -> None:
    assert guest["tcp: freed"] is True


# A spidev node by CUSE.


def test_attached_device_is_on_spi_as_well(guest: dict[str, Any], spidev: str) -> None:
    assert guest["third: id over SPI"] == "[0, 0, 0, 120, 86, 52, 18]"


def test_attached_device_is_gone_from_spi_with_its_server(guest: dict[str, Any]) -> None:
    assert guest["third: spidev gone"] is True


def test_cuse_makes_a_character_device(guest: dict[str, Any]) -> None:
    assert (guest["spidev: line"], guest["spidev: node"]) == ("ready\n", True)


def test_device_is_gone_with_its_server(guest: dict[str, Any]) -> None:
    assert guest["spidev: gone"] is True


@pytest.mark.parametrize("name", EXPECTED)
def test_package_spidev(guest: dict[str, Any], spidev: str, name: str) -> None:
    assert guest[f"spidev: {name}"] == EXPECTED[name]


def test_package_spidev_complains_of_nothing(guest: dict[str, Any], spidev: str) -> None:
    assert guest["spidev: errors"] == []


def _answer(mosi: bytes, start: int = 0) -> str:
    return echo(mosi, start)[:16].hex()


SENT = bytes(pattern(4096))
SPIDEV_LINES = [
    "write 3",
    f"read 5 {_answer(bytes(5))}",
    f"read 4096 {_answer(bytes(16))}",
    "read -1 errno 90",
    "write -1 errno 90",
    "write -1 errno 90",
    f"message 8 {_answer(bytes(5), 3)}",
    f"message 8 {_answer(bytes(5))}",  # chip select was high before, and is low after
    f"read 1 {_answer(bytes(1), 5)}",
    f"message 3 {_answer(SENT[:3])}",
    f"message 4096 {_answer(SENT)}",
    "message -1 errno 90",
    "message -1 errno 22",
    "many 0",
    f"many 127 {echo(SENT[:127])[-4:].hex()}",
    "get 0 8",
    "put -1 errno 22",
    "put -1 errno 22",
    "ioctl -1 errno 25",
    "ioctl -1 errno 22",
    "ioctl -1 errno 14",
    "ioctl -1 errno 14",
    "pointers -1 errno 14",
    "pointers -1 errno 14",
    "writefrom -1 errno 14",
    "readto -1 errno 14",
    f"read 2 {_answer(bytes(2))}",
]


@pytest.mark.parametrize("number", range(len(SPIDEV_LINES)))
def test_spidev_program_in_c(guest: dict[str, Any], number: int) -> None:
    assert guest["spidev: client"][number].strip() == SPIDEV_LINES[number]


def test_program_killed_with_chip_select_low_lets_it_go_high(guest: dict[str, Any]) -> None:
    assert guest["spidev: after a kill"] == f"read 3 {_answer(bytes(3))}"
