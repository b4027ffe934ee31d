"""The fixtures in a project that is not ours."""

import pytest

pytest_plugins = ["pytester"]

FOREIGN_TESTS = """
import pytest

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
    assert aisrv_board.jacdac is not None

@pytest.mark.aisrv(usb_tile=7)
def test_a_board_that_cannot_be(aisrv_device):
    pass

@pytest.mark.aisrv(serail="LAB-7")
def test_a_field_that_is_none(aisrv_device):
    pass

@pytest.mark.aisrv(2)
def test_a_number(aisrv_device):
    pass
"""


def test_a_foreign_project_finds_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FOREIGN_TESTS)
    result = pytester.runpytest_subprocess("--strict-markers")
    result.assert_outcomes(passed=4, errors=3)
    result.stdout.fnmatch_lines(
        [
            "*UsageError: @pytest.mark.aisrv: the USB layer is on tile 7; the node has tiles 0 and 1",
            "*UsageError: @pytest.mark.aisrv: a board has no 'serail'; did you mean serial?",
            "*UsageError: @pytest.mark.aisrv takes the fields of Board by name, not 2",
        ]
    )


def test_the_fixtures_are_listed_with_their_purpose(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures", "--no-header")
    result.stdout.fnmatch_lines(["aisrv_server *", "*Connect the host library to the device, in process."])
