"""`aisrv exec`: options that are none, and what boards cannot have, are refused before a program runs."""

import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from aisrv.addons.captures.replay.transfers import devices_of
from aisrv.cli.exec import exec_
from phy.usb.taps.capture_reader import read_capture
from tests.support.command_calls import CommandCalls
from tests.support.programs import AISRV, HOST, run_process

CALLS = CommandCalls(exec_)

SENSOR = """
[sensor]
tile = 1
source = "{source}"
width = 32
height = 32

[[engines]]
tile = 0
{kind}
"""


def refused(*arguments: object, code: int = 2) -> str:
    return CALLS.failed(code, *arguments).rpartition("Error: ")[2].rstrip("\n")


def test_an_option_that_is_none_is_not_run_as_a_program() -> None:
    assert refused("--modle", "x", "--", "true") == "No such option '--modle'. Did you mean '--model'?"


def test_options_after_the_program_are_the_programs() -> None:
    assert CALLS.call("sh", "-c", "exit 7").exit_code == 7


def test_a_report_needs_device_time() -> None:
    assert refused("--report", "--", "true") == (
        "--report needs a device that takes the chip's time: give --device-time"
    )


def test_a_report_knows_one_protocol() -> None:
    ioserver = ("--protocol", "ioserver", "--model", __file__)
    assert refused("--device-time", "--report", *ioserver, "--", "true") == (
        "--report knows the AI server's own commands, not those of ioserver"
    )


def test_json_needs_a_report() -> None:
    assert refused("--json", "--", "true") == "--json is the form of a report: give --report, too"


@pytest.mark.parametrize("options", [("--vcd", "spi.vcd"), ("--strict-spi",)])
def test_options_of_an_spi_port_need_one(options: tuple[str, ...]) -> None:
    assert refused("--no-spi", *options, "--", "true") == (
        f"{options[0]}: the board has no SPI port; --spi gives it one"
    )


def test_a_kernel_backend_that_is_not_there_is_refused_with_the_option() -> None:
    text = refused("--engine", "kernels:nosuch", "--", "true")
    assert text.startswith("--engine: there is no kernel backend 'nosuch'; there are: reference, numpy, ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--engine", "tflm", "--fallback", "tflm"),
            "--engine: an engine of kind 'tflm' has no fallback: only kernels does",
        ),
        (
            ("--engine", "kernels", "--fallback", "kernels:numpy"),
            "--engine: 'kernels:numpy' is not a fallback: another kind must run the models, such as tflm",
        ),
        (
            ("--engine", "kernels", "--fallback", "nosuch.engine:Engine"),
            "--engine: there is no module 'nosuch' for the engine 'nosuch.engine:Engine'",
        ),
    ],
)
def test_a_fallback_that_cannot_be_is_refused(options: tuple[str, ...], message: str) -> None:
    assert refused(*options, "--", "true") == message


def test_a_module_that_is_not_there_is_refused_with_the_option() -> None:
    assert refused("--engine", "nosuch.engine:Engine", "--", "true") == (
        "--engine: there is no module 'nosuch' for the engine 'nosuch.engine:Engine'"
    )


def test_a_kernel_backend_of_a_board_is_refused_with_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(SENSOR.format(source="pattern:bars", kind='kind = "kernels:nosuch"'))
    text = refused("--board", path, "--", "true")
    assert text.startswith(f"{path}:10: engines[0].kind: there is no kernel backend 'nosuch'; there are: ")


def test_a_sensor_source_of_a_board_is_refused_with_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(SENSOR.format(source="pattern:nosuch", kind=""))
    assert refused("--board", path, "--", "true", code=1) == (
        f"{path}:4: sensor.source: no pattern is called 'nosuch': there are bars, gradient, checker, "
        "moving, noise"
    )


def test_the_file_of_a_sensor_is_looked_for_beside_that_of_the_board(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(SENSOR.format(source="image:picture.png", kind=""))
    Image.new("RGB", (8, 8)).save(tmp_path / "picture.png")
    assert CALLS.call("--board", path, "--", "true").exit_code == 0
    (tmp_path / "picture.png").unlink()
    assert str(tmp_path / "picture.png") in refused("--board", path, "--", "true", code=1)


def test_the_program_gets_the_address_of_its_own_device(tmp_path: Path) -> None:
    capture = tmp_path / "usb.pcapng"
    elsewhere = os.environ | {"AISRV_DEVICE": "usbip:127.0.0.1:1"}
    done = run_process([*AISRV, "exec", "--pcap", capture, "--", *HOST, "--json", "info"], env=elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    (device,) = devices_of(list(read_capture(capture.read_bytes())))
    assert device


PLACES = """
import os
import sys
from pathlib import Path

import spidev

LISTENING = "0A"


device = os.getppid()
tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
lines = [line.split() for table in tables for line in table.splitlines()[1:]]
listening = {f"socket:[{line[9]}]" for line in lines if line[3] == LISTENING}
places = [os.environ["AISRV_USBIP"], os.environ["AISRV_SPI"]]
files = [Path(place.removeprefix("unix:")) for place in places]
print(sorted({place.partition(":")[0] for place in places}))
print([oct(file.stat().st_mode & 0o777) for file in files], oct(files[1].parent.stat().st_mode & 0o777))
files_open = Path(f"/proc/{device}/fd")
print(len(listening & {os.readlink(one) for one in files_open.iterdir() if os.path.lexists(one)}))
spi = spidev.SpiDev(0, 0)
print(len(spi.xfer2([1, 0, 0, 0, 0, 0, 0])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_nobody_else_reaches_the_devices_ports(tmp_path: Path) -> None:
    """Any user of the machine may connect to a TCP port of its loopback."""
    (tmp_path / "places.py").write_text(PLACES)
    done = run_process([*AISRV, "exec", "--spi", "--", sys.executable, tmp_path / "places.py"])
    assert done.stdout.splitlines() == ["['unix']", "['0o600', '0o600'] 0o700", "0", "7"], done.stderr
