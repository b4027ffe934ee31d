"""The examples on pins, as a reader runs them, and the guide that shows what they print."""

import sys
from pathlib import Path

import pytest
import trio

from aisrv import digits
from aisrv.addons.pins.board import recorded
from aisrv.addons.pins.device import peripherals_of
from aisrv.addons.pins.peripherals.i2c_target import I2cTarget
from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from tests.support.benches.pin_bench import sigrok
from tests.support.benches.simulation import simulated
from tests.support.paths import ROOT
from tests.support.programs import AISRV, run_process, start_process

EXAMPLES = ROOT / "examples/pins"
LINES = [f"reader: {image.label}" for image in digits.test_images()[:4]]
GUIDE = (ROOT / "docs/guides/pins.md").read_text()


def test_the_guide_shows_what_the_sensor_s_task_prints() -> None:
    assert "\n".join(("$ aisrv run --board examples/pins/sensor.toml", *LINES, "```")) in GUIDE


def test_a_task_reads_a_sensor_over_i2c_on_a_live_clock(tmp_path: Path) -> None:
    command = [*AISRV, "run", "--port", "0", "--until-eof", "--board", EXAMPLES / "sensor.toml"]
    with start_process(command, writes=True, cwd=tmp_path) as device:
        assert device.stdout is not None
        lines = [device.stdout.readline().rstrip("\n") for _ in range(1 + len(LINES))]
        _, errors = device.communicate(timeout=30)
    assert [line for line in lines if line.startswith("reader: ")] == LINES
    assert "sensor: " not in errors


@pytest.mark.long("a decoder reads each bit of its bus; the same board runs on a live clock every day")
@simulated
async def test_its_bus_keeps_all_rules_on_virtual_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pins.vcd"
    async with open_device(recorded(read_board(EXAMPLES / "sensor.toml"), path), runner=inline) as device:
        await trio.sleep(0.05)
        sensor = peripherals_of(device)["sensor"]
        assert isinstance(sensor, I2cTarget)
        assert list(sensor.violations) == []
    assert capsys.readouterr().out.splitlines() == LINES
    reads = sigrok(path, "i2c:scl=scl:sda=sda", "i2c=data-read")
    assert reads[0] == "Data read: D8"
    pixels = [int(line.rpartition(" ")[2], 16) for line in reads[1:]]
    images = [image.image for image in digits.test_images()[:4]]
    assert pixels == [pixel for image in images for pixel in digits.pixels_of(image)]


def test_a_buffered_port_receives_a_camera_s_frame() -> None:
    done = run_process([sys.executable, EXAMPLES / "camera_receiver.py"], check=True)
    shown = GUIDE.partition("$ python examples/pins/camera_receiver.py\n")[2].partition("```")[0]
    assert (done.stdout, done.stderr) == (shown, "")


@pytest.mark.long("many transfers, bit by bit; the other examples on pins run every day")
def test_a_master_of_four_ports_has_the_device_classify_a_digit(tmp_path: Path) -> None:
    path = tmp_path / "pins.vcd"
    done = run_process([sys.executable, EXAMPLES / "spi_master.py", path], check=True)
    assert done.stderr == ""
    shown = GUIDE.partition("$ python examples/pins/spi_master.py pins.vcd\n")[2].partition("$ sigrok")[0]
    assert done.stdout == shown
    image, label = digits.test_images()[7]
    assert shown.splitlines()[1] == f"reads {label}, it is a {label}"
    sent = sigrok(path, "spi:clk=clk:mosi=mosi:miso=miso:cs=cs", "spi=mosi-transfer")
    assert bytes.fromhex(sent[0])[0] == 0x10  # GET_ID
    assert image in [bytes.fromhex(line)[1:] for line in sent]
