"""SPI and flash in real processes: `aisrv run`, `exec`, `aisrv-host` over SPI, `aisrv-flash` on a device."""

import json
import socket
import struct
import sys
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.board.specs import FlashSpec
from flash_server.chip.serprog import pack_spi_operation
from host_tools.client import AiServer
from tests.support.models import networks
from tests.support.programs import AISRV, FLASH, HOST, refusal, run_process, running

IMAGES = digits.test_images()[:10]


def outcome(*command: object) -> str:
    return run_process(command, check=True).stdout


def json_of(*command: object) -> object:
    return json.loads(outcome(*command))


@pytest.fixture
def flash_image(tmp_path: Path, digits_file: Path) -> Path:
    path = tmp_path / "flash.bin"
    outcome(*FLASH, "pack", "--engine", f"model={digits_file}", "--output", path)
    return path


def addresses(ready: str) -> dict[str, str]:
    """The parts of a ready line by scheme: `usbip`, `spi` (with the slave's name), `serprog`."""
    return dict(place.split(":", 1) for place in ready.split(", "))


def test_host_tool_finds_usb_and_spi_under_exec(digits_file: Path) -> None:
    script = (
        "import sys, subprocess; host = [sys.executable, '-m', 'host_tools', '--json', '--device']\n"
        "for device in ('spi:0.0', 'usb'): subprocess.run([*host, device, 'info'], check=True)"
    )
    text = outcome(*AISRV, "exec", "--model", digits_file, "--", sys.executable, "-c", script)
    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(text)
    second, _ = decoder.raw_decode(text[end:].lstrip())
    assert first["spec"]["output_bytes"] == second["spec"]["output_bytes"] == 10
    assert (first["spec"]["sensor_bytes"], second["spec"]["sensor_bytes"]) == (0, None)


def test_vcd_of_what_a_program_clocked(tmp_path: Path) -> None:
    drawing = tmp_path / "spi.vcd"
    script = "import spidev; bus = spidev.SpiDev(0, 0); bus.xfer2([0x10, 0, 0, 0, 0, 0, 0])"
    outcome(*AISRV, "exec", "--vcd", drawing, "--", sys.executable, "-c", script)
    text = drawing.read_text()
    assert all(name in text for name in ("CS", "CLK", "MOSI", "MISO"))
    assert text.count("1" + _identifier(text, "CLK")) == 7 * 8


def _identifier(vcd: str, name: str) -> str:
    (line,) = (line for line in vcd.splitlines() if line.startswith("$var") and f" {name} " in line)
    return line.split()[3]


def test_image_written_to_a_running_device_is_loaded_without_a_reset(
    tmp_path: Path, flash_image: Path
) -> None:
    chip = tmp_path / "chip.bin"
    with running("--flash", str(chip), "--flash-port", "0") as (_, ready):
        found = addresses(ready)
        outcome(*FLASH, "write", flash_image, "--device", found["serprog"])
        with AiServer.open(f"usbip:{found['usbip']}") as server:
            server.load_model_from_flash("arena")
            got = [server.run(image) for image, _ in IMAGES]
    assert got == [networks.run(digits.model_bytes(), image)[0] for image, _ in IMAGES]


ACK = b"\x06"


def operate(stream: socket.socket, out: bytes, read: int = 0) -> bytes:
    """One operation of a programmer, serprog's O_SPIOP; returns what the chip answers."""
    stream.sendall(pack_spi_operation(out, read))
    answer = b""
    while len(answer) < 1 + read:
        answer += stream.recv(1 + read - len(answer))
    assert answer[:1] == ACK
    return answer[1:]


def connect(serprog: str) -> socket.socket:
    host, port = serprog.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 30)


def test_image_of_a_programmer_whose_connection_is_reset_is_loaded(tmp_path: Path, flash_image: Path) -> None:
    write_enable, sector_erase, page_program = b"\x06", b"\x20", b"\x02"
    data = flash_image.read_bytes()
    boot_bytes = FlashSpec().boot_bytes
    with running("--flash", str(tmp_path / "chip.bin"), "--flash-port", "0") as (_, ready):
        found = addresses(ready)
        with connect(found["serprog"]) as programmer:
            for at in range(0, len(data), 256):
                address = (boot_bytes + at).to_bytes(3)
                if not at % 4096:
                    operate(programmer, write_enable)
                    operate(programmer, sector_erase + address)
                operate(programmer, write_enable)
                operate(programmer, page_program + address + data[at : at + 256])
            programmer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with connect(found["serprog"]) as programmer:  # has its turn when the chip was read again
            operate(programmer, write_enable)
        with AiServer.open(f"usbip:{found['usbip']}") as server:
            server.load_model_from_flash("arena")
            assert server.run(IMAGES[0].image) == networks.run(digits.model_bytes(), IMAGES[0].image)[0]


def test_protection_bits_survive_a_restart_of_the_device(tmp_path: Path) -> None:
    write_enable, write_status, read_status = b"\x06", b"\x01", b"\x05"
    protected, all_blocks = 0x04, 0x3C
    found = []
    for _ in range(2):
        with (
            running("--flash", str(tmp_path / "chip"), "--flash-port", "0") as (_, ready),
            connect(addresses(ready)["serprog"]) as programmer,
        ):
            found.append(operate(programmer, read_status, 1)[0] & all_blocks)
            operate(programmer, write_enable)
            operate(programmer, write_status + bytes((protected,)))
            operate(programmer, read_status, 1)
    assert found == [0, protected]


def test_device_boots_the_model_that_a_chip_file_holds(tmp_path: Path, flash_image: Path) -> None:
    chip = tmp_path / "chip.bin"
    outcome(*FLASH, "write", flash_image, "--chip", chip, "--part", "MX25R3235F")
    options = ("--flash", str(chip), "--flash-part", "MX25R3235F", "--boot-from-flash", "ext")
    with running(*options) as (_, ready), AiServer.open(ready) as server:
        assert server.run(IMAGES[0].image) == networks.run(digits.model_bytes(), IMAGES[0].image)[0]


def test_upgrade_is_booted_after_a_restart(tmp_path: Path) -> None:
    chip, firmware = tmp_path / "chip.bin", tmp_path / "firmware"
    firmware.write_bytes(b"firmware" * 1000)
    for version in (1, 2):
        image = tmp_path / f"version{version}.boot"
        outcome(*FLASH, "boot-image", firmware, "--version", version, "--output", image)
    outcome(*FLASH, "boot", "--chip", chip, "--part", "MX25R6435F", "--factory", tmp_path / "version1.boot")
    booted = []
    for _ in range(2):
        with running("--flash", str(chip), "--spi-port", "0") as (_, ready):
            found = addresses(ready)
            over_spi = json_of(*HOST, "--json", "--device", f"spi:{found['spi']}", "info")
            over_usb = json_of(*HOST, "--json", "--device", f"usbip:{found['usbip']}", "info")
            assert isinstance(over_spi, dict)
            assert isinstance(over_usb, dict)
            assert over_spi["boot"] == over_usb["boot"]
            booted.append(over_spi["boot"]["version"])
            if len(booted) == 1:
                spi = f"spi:{found['spi']}"
                told = outcome(*HOST, "--device", spi, "upgrade", tmp_path / "version2.boot")
                assert told.endswith("; version 2 boots at the next reset\n")
    assert booted == [1, 2]


def test_upgrade_that_is_older_than_the_factory_image_is_told_so(tmp_path: Path) -> None:
    chip, firmware = tmp_path / "chip.bin", tmp_path / "firmware"
    firmware.write_bytes(b"firmware")
    for version in (3, 2):
        outcome(*FLASH, "boot-image", firmware, "--version", version, "--output", tmp_path / str(version))
    outcome(*FLASH, "boot", "--chip", chip, "--part", "MX25R6435F", "--factory", tmp_path / "3")
    with running("--flash", str(chip), "--spi-port", "0") as (_, ready):
        told = outcome(*HOST, "--device", f"spi:{addresses(ready)['spi']}", "upgrade", tmp_path / "2")
    assert told.endswith("; at the next reset the factory image boots again: its version 3 is newer\n")


def test_device_without_boot_slots_shows_no_fault(tmp_path: Path) -> None:
    with running("--flash", str(tmp_path / "chip")) as (_, ready):
        shown = outcome(*HOST, "--device", ready, "info")
    assert "no boot images: the boot partition is empty" in shown


def test_refused_upgrade_is_an_error_with_the_reason(tmp_path: Path) -> None:
    image = tmp_path / "bad.boot"
    image.write_bytes(b"nonsense" * 100)
    with running("--flash", str(tmp_path / "chip"), "--spi-port", "0") as (_, ready):
        device = f"spi:{addresses(ready)['spi']}"
        done = run_process([*HOST, "--device", device, "upgrade", str(image)])
    assert done.returncode == 1
    assert "SET_SERVER" in done.stderr
    assert "Traceback" not in done.stderr


def test_upgrade_over_usb_is_a_usage_error(tmp_path: Path) -> None:
    image = tmp_path / "any.boot"
    image.write_bytes(b"any")
    command = [*HOST, "--device", "virtual", "upgrade", str(image)]
    done = run_process(command)
    assert (done.returncode, done.stderr) == (
        2,
        "aisrv-host: SET_SERVER cannot be sent over USB, only over SPI\n",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--flash-port", "0"], "--flash-port needs a chip: give --flash FILE"),
        (["--boot-from-flash", "arena"], "need a chip: give --flash FILE"),
        (["--flash", "chip", "--devices", "2"], "--flash is the chip of one device, not of 2"),
        (["--flash", "chip", "--flash-part", "W25Q64"], "'W25Q64' is not one of"),
    ],
)
def test_flash_options_that_make_no_sense_are_usage_errors(options: list[str], message: str) -> None:
    code, output, errors = refusal("run", "--port", "0", *options)
    assert (code, output) == (2, "")
    assert message in errors


def test_chip_file_of_another_size_ends_it_with_the_reason(tmp_path: Path) -> None:
    chip = tmp_path / "chip.bin"
    chip.write_bytes(bytes(1000))
    code, output, errors = refusal("run", "--port", "0", "--flash", str(chip))
    assert (code, output) == (1, "")
    assert str(chip) in errors
    assert "Traceback" not in errors
