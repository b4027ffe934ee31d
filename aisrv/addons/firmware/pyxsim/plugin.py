"""A plugin of pytest: `pytest -p aisrv.addons.firmware.pyxsim.plugin` has tests find `Pyxsim` here."""

import sys
from typing import Final

import pytest

from aisrv.addons.firmware.pyxsim.runs import UNITS, pyxsim_module

_UNIT: Final = "--pyxsim-unit"
_DEVICE_TIME: Final = "--pyxsim-device-time"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the unit of the checkers' times, and for that of the programs."""
    parser.addoption(
        _UNIT,
        choices=list(UNITS),
        default="fs",
        help="unit of the checkers' times: fs, or ps for checkers that were written before test_support 2.0",
    )
    parser.addoption(
        _DEVICE_TIME,
        action="store_true",
        help="have each call of lib_xcore take the time that it takes on the chip",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Put the module where tests and their conftest find it."""
    options = early_config.known_args_namespace
    module = pyxsim_module(options.pyxsim_unit, device_time=options.pyxsim_device_time)
    sys.modules.update({"Pyxsim": module, "Pyxsim.testers": module.testers, "Pyxsim.pyxsim": module.pyxsim})
