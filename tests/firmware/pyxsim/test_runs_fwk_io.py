"""XMOS's fwk_io as it is: its drivers compile, and its own checkers at the pins find them right.

Without what needs XC (its UART's loopback is no program of its CMake files) and without the test of I2S under
back pressure, which runs xsim by itself with a plugin.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.amounts import some
from tests.support.c_programs import need_compiler
from tests.support.fwk_io import DRIVERS, checkout


@pytest.mark.in_full
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("compiler", "level"),
    some([("gcc", "-O2"), ("clang", "-O0"), ("gcc", "-O0"), ("clang", "-O2")], every_day=1),
)
def test_drivers_compile_unmodified(tmp_path: Path, driver: str, compiler: str, level: str) -> None:
    modules = checkout() / "modules"
    includes = [
        f"-I{modules}/{module}/{folder}"
        for module in ("i2c", "i2s", "spi", "uart")
        for folder in ("api", "src")
    ]
    call = [sys.executable, "-P", "-m", "aisrv.firmware.cc", "-c", level, *includes]
    done = subprocess.run(
        [*call, f"{modules}/{driver}", "-o", f"{tmp_path}/driver.o"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CC": need_compiler(compiler)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
