"""The fixtures in a project that is not ours."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aisrv import digits
from tests.support.programs import running

pytest_plugins = ["pytester"]

ALONE = ("-p", "no:hypothesispytest", "-p", "no:xdist")
"""Options for a project without other plugins of ours, whose import takes most of the time."""

FOREIGN_TESTS = """
import pathlib
import pytest
from aisrv.addons.jacdac.board import Jacdac
from aisrv.board.catalog import BOARDS

def test_in_process(aisrv_server):
    assert aisrv_server.id == 0x12345678

@pytest.mark.aisrv(engines=2, serial="LAB-7")
def test_over_usbip(aisrv_usbip, aisrv_board):
    assert aisrv_usbip.startswith("usbip:127.0.0.1:")
    assert (len(aisrv_board.engines), aisrv_board.serial) == (2, "LAB-7")

async def leds(device):
    return device.engines[0].gpio.levels

def test_the_device_itself(aisrv_device):
    assert aisrv_device.call(leds) == (False, False, False, False)

def test_on_jacdac(aisrv_jacdac, aisrv_board):
    assert aisrv_jacdac.startswith("127.0.0.1:")
    assert aisrv_board.part(Jacdac) is not None

@pytest.mark.aisrv(board="camera", serial="LAB-8")
def test_a_shipped_board(aisrv_server, aisrv_board):
    assert (aisrv_board.sensor, aisrv_board.serial) == (BOARDS["camera"].sensor, "LAB-8")
    assert aisrv_server.sensor_format() is not None

@pytest.mark.aisrv(board="lab.toml")
def test_a_file_beside_the_test(aisrv_board):
    assert aisrv_board.serial == "LAB-9"

@pytest.mark.aisrv(board=pathlib.Path(__file__).with_name("lab.toml"), engines=2)
def test_a_path(aisrv_board):
    assert (aisrv_board.serial, len(aisrv_board.engines)) == ("LAB-9", 2)

@pytest.mark.aisrv(board=BOARDS["camera"])
def test_a_value(aisrv_board):
    assert aisrv_board == BOARDS["camera"]
"""

WRONG_TESTS = """
import pytest

@pytest.mark.aisrv(usb_tile=7)
def test_a_board_that_cannot_be(aisrv_device):
    pass

@pytest.mark.aisrv(serail="LAB-7")
def test_a_field_that_is_none(aisrv_device):
    pass

@pytest.mark.aisrv(2)
def test_a_number(aisrv_device):
    pass

@pytest.mark.aisrv(board="camra")
def test_a_name_of_no_board(aisrv_server):
    pass

@pytest.mark.aisrv(board="wrong.toml")
def test_a_file_with_a_mistake(aisrv_server):
    pass

@pytest.mark.aisrv(board=7)
def test_a_board_of_another_type(aisrv_server):
    pass

@pytest.mark.aisrv(board="absent.toml")
def test_no_file(aisrv_server):
    pass

@pytest.mark.aisrv(board="picture.toml")
def test_a_device_that_does_not_start(aisrv_server):
    pass
"""

BOARD_TESTS = """
import pytest
from aisrv import AiServer

@pytest.mark.aisrv(serial="LAB-7")
def test_library(aisrv_server):
    assert aisrv_server.spec().input_bytes == 64

def test_again(aisrv_server):
    assert aisrv_server.spec().input_bytes == 64

def test_program(aisrv_usbip):
    with AiServer.open(aisrv_usbip) as server:
        assert server.spec().input_bytes == 64

def test_inside(aisrv_device):
    raise AssertionError("not reached")

def test_bus(aisrv_jacdac):
    raise AssertionError("not reached")
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    folder = pytester.mkdir("below")
    (folder / "lab.toml").write_text('[usb]\nserial = "LAB-9"\n')
    (folder / "wrong.toml").write_text('[usb]\nserail = "LAB-9"\n')
    (folder / "picture.toml").write_text(
        '[sensor]\ntile = 1\nsource = "images:none"\nwidth = 8\nheight = 8\n'
    )
    return folder


def test_a_foreign_project_finds_the_fixtures(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "test_foreign.py").write_text(FOREIGN_TESTS)
    pytester.runpytest_subprocess(*ALONE, "--strict-markers").assert_outcomes(passed=8)


def test_each_error_is_one_line(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "test_wrong.py").write_text(WRONG_TESTS)
    result = pytester.runpytest_subprocess(*ALONE, "--strict-markers", "--no-header", "-rN")
    result.assert_outcomes(errors=8)
    told = result.outlines[next(at for at, line in enumerate(result.outlines) if " ERRORS " in line) :]
    errors = [line.replace(str(folder), "") for line in told if not line.startswith(("=", "_"))]
    assert errors[:3] == [
        "@pytest.mark.aisrv: the USB layer is on tile 7; the node has tiles 0 and 1",
        "@pytest.mark.aisrv: a board has no 'serail'; did you mean serial?",
        "@pytest.mark.aisrv takes the fields of Board by name, not 2",
    ]
    assert errors[3].startswith("@pytest.mark.aisrv: 'camra' is not one of 'app_aisrv', ")
    assert errors[4:7] == [
        "@pytest.mark.aisrv: /wrong.toml:2: usb.serail: 'serail' is not known here; did you mean serial?",
        "@pytest.mark.aisrv: board is a shipped board's name, the path of a board file or a Board, not 7",
        "@pytest.mark.aisrv: /absent.toml: No such file or directory",
    ]
    assert errors[7].startswith("/picture.toml:3: sensor.source: no source is called 'images': there are ")
    assert len(errors) == 8


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A device in another process, which plays the board: it has a model already."""
    from aisrv import digits

    model = tmp_path_factory.mktemp("model") / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    with running("--model", str(model)) as (_, address):
        yield address


def test_the_same_tests_run_on_a_board(pytester: pytest.Pytester, board: str) -> None:
    pytester.makepyfile(BOARD_TESTS)
    result = pytester.runpytest_subprocess(*ALONE, "--aisrv-device", board, "-rs")
    result.assert_outcomes(passed=3, skipped=2)
    result.stdout.fnmatch_lines(
        [
            f"aisrv: the tests run on {board}",
            f"SKIPPED * aisrv_device is the inside of a virtual device, and the tests run on {board}",
            f"SKIPPED * aisrv_jacdac is an address jacdac:HOST:PORT, and the tests run on {board}",
        ]
    )


def test_a_board_that_is_not_there_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(aisrv_server): pass")
    result = pytester.runpytest_subprocess(
        *ALONE, "--aisrv-device", "usbip:127.0.0.1:1", "--no-header", "-rN"
    )
    result.assert_outcomes(errors=1)
    assert result.outlines[-2] == (
        "--aisrv-device usbip:127.0.0.1:1: 127.0.0.1:1: no USB/IP server answers "
        "([Errno 111] Connection refused); is it running?"
    )


def test_an_address_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*ALONE, "--aisrv-device", "usbib:127.0.0.1:3240")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --aisrv-device: 'usbib:127.0.0.1:3240' is not a device address; use *"]
    )


def test_the_fixtures_are_listed_with_their_purpose(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*ALONE, "--fixtures", "--no-header")
    result.stdout.fnmatch_lines(
        ["aisrv_server *", "*Connect the host library to the device, in process, or *"]
    )


def test_evaluate_in_a_test(aisrv_evaluate: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(digits.model_bytes())
    result = aisrv_evaluate(model, "digits", against="kernels:numpy", limit=50)
    assert result["metrics"]["accuracy"]["value"] == 1.0
    assert result["against"]["differing"] == 0
    assert result["check"]["same"]
    with pytest.raises(pytest.fail.Exception, match="nowhere: No such file or directory"):
        aisrv_evaluate(model, "nowhere")
