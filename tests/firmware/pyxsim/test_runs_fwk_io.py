"""XMOS's fwk_io as it is: its drivers compile, and its own checkers at the pins find them right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.amounts import some
from tests.support.c_programs import need_compiler
from tests.support.fwk_io import DRIVERS, Copy, checkout

I2C = {
    "test_basic_master": {"passed": 20, "skipped": 10},
    "test_basic_slave": {"passed": 1, "skipped": 2},
    "test_bus_lock": {"passed": 1},
    "test_master_acks": {"passed": 2},
    "test_master_clock_stretch": {"passed": 10},
    "test_reg_ops": {"passed": 1},
    "test_reg_ops_nack": {"passed": 1},
    "test_repeated_start": {"passed": 1},
}
"""What passes of each file; what is skipped is for `--nightly` alone."""

I2S = {
    "test_basic_master_external_clock": {"passed": 8},
    "test_i2s_basic_master": {"passed": 8},
    "test_i2s_basic_slave": {"passed": 10},
    "test_slave_bclk_invert": {"passed": 10},
    "test_tdm_slave_tx16_cb": {"passed": 3},
}
"""All but `test_backpressure`, which needs a plugin of xsim. `--nightly` has more rates."""


@pytest.mark.in_full
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("compiler", "level"),
    some([("gcc", "-O2"), ("clang", "-O0"), ("gcc", "-O0"), ("clang", "-O2")], every_day=1),
)
def test_drivers_compile_unmodified(tmp_path: Path, driver: str, compiler: str, level: str) -> None:
    modules = checkout() / "modules"
    folders = [f"{module}/{folder}" for module in ("i2c", "i2s", "spi", "uart") for folder in ("api", "src")]
    call = [sys.executable, "-P", "-m", "aisrv.firmware.cc", "-w", "-c", level]
    done = subprocess.run(
        [
            *call,
            *(f"-I{modules}/{folder}" for folder in folders),
            modules / driver,
            "-o",
            tmp_path / "driver.o",
        ],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CC": need_compiler(compiler)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.in_full
def test_i2c_under_its_checkers(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.build([name for name in copy.programs("test_hil_i2c_") if "_10_" not in name])
    assert copy.run_tests("lib_i2c", "ps") == I2C


@pytest.mark.in_full
def test_uart_under_its_checkers(tmp_path: Path) -> None:
    """Without a buffer: with one the test programs spin on a variable, and code takes no time.

    Sending at 9600 baud: at higher rates the driver leaves out 170 ns of each start bit, which its code takes
    on the chip.
    """
    copy = Copy(tmp_path)
    programs = copy.programs("test_hil_uart_rx_test_UNBUFFERED_")
    programs += copy.programs("test_hil_uart_tx_test_UNBUFFERED_9600_")
    copy.build([*programs, "test_hil_uart_fifo_test"])
    chosen = "test_fifo_function or (UNBUFFERED and (uart_rx or 9600))"
    counts = copy.run_tests("lib_uart", "ps", "-k", chosen)
    assert counts == {
        "test_rx_uart": {"passed": 48},
        "test_tx_uart": {"passed": 12},
        "test_uart_fifo": {"passed": 1},
    }


@pytest.mark.in_full
def test_i2s_under_its_checkers(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    names = [name for name in copy.programs("test_hil_i2s_") if re.search(r"_(16|32)_1_|_tdm_", name)]
    copy.build(names)
    assert len(names) == sum(count["passed"] for count in I2S.values())
    assert copy.run_tests("lib_i2s", "fs", "--ignore=lib_i2s/test_backpressure.py") == I2S


@pytest.mark.in_full
def test_an_spi_slave_under_its_checker(tmp_path: Path) -> None:
    """All that is collected: without MOSI nothing is. How short the time between transactions may be is a
    matter of what code takes on the chip: here that checker gets down to none, and its test wants some.
    """
    copy = Copy(tmp_path)
    programs = copy.programs("test_hil_spi_slave_rx_tx_")
    copy.build([name for name in programs if name.split("_")[-3] == "1"])
    assert copy.run_tests("lib_spi", "ps", "-k", "slave_rx_tx") == {"test_slave_rx_tx": {"passed": 32}}
