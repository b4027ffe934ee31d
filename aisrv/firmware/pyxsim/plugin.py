"""A plugin of pytest: `pytest -p aisrv.firmware.pyxsim.plugin` has tests find `Pyxsim` here."""

import sys
from typing import Final

import pytest

from aisrv.firmware.pyxsim.runs import UNITS, pyxsim_module

_OPTION: Final = "--pyxsim-unit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the unit of the checkers' times."""
    parser.addoption(
        _OPTION,
        choices=list(UNITS),
        default="fs",
        help="unit of the checkers' times: fs, or ps for checkers that were written before test_support 2.0",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Put the module where tests and their conftest find it."""
    module = pyxsim_module(early_config.known_args_namespace.pyxsim_unit)
    sys.modules.update({"Pyxsim": module, "Pyxsim.testers": module.testers, "Pyxsim.pyxsim": module.pyxsim})
