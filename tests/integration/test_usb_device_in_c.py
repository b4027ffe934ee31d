"""A board whose USB device is in C, under the commands: hosts on libusb, captures and faults."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aisrv.protocol.usb_descriptors import SetupPacket
from phy.usb.taps.capture_reader import read_capture
from phy.usb.taps.usbmon import EventType, TransferType
from tests.support.benches.c_programs import kept_programs, need_compiler
from tests.support.paths import ROOT
from tests.support.programs import AISRV, run_process

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")

BOARD = """
[usb]
task = "usb_device"
[[tasks]]
name = "usb_device"
tile = 1
c = ["{source}"]
"""
HOST = """
import json
import usb.core

device = usb.core.find(idVendor=0x1209, idProduct=2)
device.set_configuration()
device.set_interface_altsetting(1, 1)

def outcome(function, *arguments):
    try:
        value = function(*arguments)
    except usb.core.USBError as error:
        return str(error)
    return value if isinstance(value, int) else bytes(value).hex()

"""


def execute(folder: Path, program: str, *options: str) -> Any:
    """Run a program of a host under `aisrv exec`; it prints JSON as its last line."""
    need_compiler()
    board = folder / "board.toml"
    board.write_text(BOARD.format(source=ROOT / "tests/addons/firmware/programs/usb_device.c"))
    command = [*AISRV, "exec", "--board", str(board), *options, "--", sys.executable, "-c", HOST + program]
    done = run_process(command)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_host_on_libusb_uses_all_of_it(tmp_path: Path) -> None:
    got = execute(
        tmp_path,
        """
answers = [device.manufacturer, device.product, device.serial_number]
for number in (1, 2):
    for size in (0, 1, 511, 512):
        device.write(number, bytes(range(256)) * 2 if size == 512 else bytes(size))
        answers.append(len(device.read(0x80 | number, 512)))
answers.append(outcome(device.ctrl_transfer, 0x40, 1, 0, 0, b"kept by the device"))
answers.append(bytes(device.ctrl_transfer(0xC0, 2, 0, 0, 64)).decode())
answers.append(outcome(device.ctrl_transfer, 0xC0, 99, 0, 0, 8))
device.ctrl_transfer(0x40, 5, 700, 0)
answers.append(len(device.read(0x83, 2048)))
device.ctrl_transfer(0x40, 3, 0, 0x81)
answers.append(outcome(device.read, 0x81, 512))
device.clear_halt(0x81)
device.write(1, b"again")
answers.append(bytes(device.read(0x81, 512)).decode())
device.write(4, b"interrupt")
answers.append(bytes(device.read(0x84, 16)).decode())
device.reset()
device.set_configuration()
device.write(1, b"after a reset")
answers.append(bytes(device.read(0x81, 512)).decode())
print(json.dumps(answers))
""",
    )
    assert got == [
        *("Maker", "All of XUD", "0042"),
        *(0, 1, 511, 512, 0, 1, 511, 512),
        *(18, "kept by the device", "[Errno 32] Pipe error"),
        *(700, "[Errno 32] Pipe error", "again", "interrupt", "after a reset"),
    ]


def test_run_ends_with_its_program_and_names_no_host_of_another_device() -> None:
    need_compiler()
    board = ROOT / "examples/firmware/loopback.toml"
    done = run_process([*AISRV, "run", "--port", "0", "--until-eof", "--board", str(board)])
    assert done.returncode == 0
    assert done.stdout.startswith("aisrv: ready at usbip:127.0.0.1:")
    assert "aisrv-host" not in done.stderr


def test_a_capture_has_what_crossed(tmp_path: Path) -> None:
    path = tmp_path / "usb.pcapng"
    program = (
        'device.write(2, b"captured"); device.read(0x82, 512); device.write(4, b"interrupt"); print("0")'
    )
    execute(tmp_path, program, "--pcap", str(path))
    events = [each.event for each in read_capture(path.read_bytes())]
    data = [(each.endpoint, each.data) for each in events if each.data == b"captured"]
    assert data == [(0x02, b"captured"), (0x82, b"captured")]
    kinds = {each.endpoint: each.transfer for each in events}
    assert (kinds[0x02], kinds[0x04]) == (TransferType.BULK, TransferType.INTERRUPT)
    setups = [each.setup for each in events if each.event is EventType.SUBMIT and each.setup is not None]
    assert bytes(SetupPacket(0x00, 9, 1, 0, 0)) in setups


def test_faults_reach_it_as_any_device(tmp_path: Path) -> None:
    program = """
answers = []
for _ in range(2):
    device.write(1, b"data")
    answers.append(outcome(device.read, 0x81, 512))
device.clear_halt(0x81)
answers.append(outcome(device.read, 0x81, 512))
print(json.dumps(answers))
"""
    got = execute(tmp_path, program, "--fault", "stall:in:2")
    assert got == [b"data".hex(), "[Errno 32] Pipe error", b"data".hex()]
