"""XMOS's fwk_io as it is: its drivers compile, and its own checkers at the pins find them right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.amounts import some
from tests.support.benches.c_programs import need_32_bits, need_compiler
from tests.support.peers.fwk_io import DRIVERS, Copy, checkout

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

UART = {
    "test_rx_uart": {"passed": 84, "skipped": 12},
    "test_tx_uart": {"passed": 72, "skipped": 24},
    "test_uart_fifo": {"passed": 1, "failure": 1},
}

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
    ("compiler", "level", "bits"),
    some(
        [("gcc", "-O2", 64), ("clang", "-O2", 32)]
        + [(compiler, "-O0", bits) for compiler in ("gcc", "clang") for bits in (64, 32)]
        + [("gcc", "-O2", 32), ("clang", "-O2", 64)],
        every_day=1,
    ),
)
def test_drivers_compile_unmodified(
    tmp_path: Path, driver: str, compiler: str, level: str, bits: int
) -> None:
    if bits == 32:
        need_32_bits(need_compiler(compiler))
    modules = checkout() / "modules"
    folders = [f"{module}/{folder}" for module in ("i2c", "i2s", "spi", "uart") for folder in ("api", "src")]
    call = [sys.executable, "-P", "-m", "aisrv.addons.firmware.cc", "-w", "-c", level, f"-m{bits}"]
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
    if (compiler, bits, driver) == ("gcc", 32, "i2c/src/i2c_master.c"):
        assert "cannot be clobbered" in done.stderr  # r11, which an i386 has not
        return
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.in_full
def test_i2c_under_its_checkers(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.build([name for name in copy.programs("test_hil_i2c_") if "_10_" not in name])
    assert copy.run_tests("lib_i2c", "ps") == I2C


@pytest.mark.in_full
def test_uart_under_its_checkers(tmp_path: Path) -> None:
    """All that do not skip themselves: with a buffer, rates of 576,000 baud and more do.

    The one that fails prints the lines that it should, in another order: on the chip a producer's line comes
    between two lines of a consumer, which take time to print. Here they take none, also in device time.
    """
    copy = Copy(tmp_path)
    programs = [name for name in copy.programs("test_hil_uart_") if _is_run(name)]
    copy.build(programs)
    assert copy.run_tests("lib_uart", "ps") == UART


def _is_run(program: str) -> bool:
    """Say whether a test runs a program: there are programs for more rates."""
    fast = ("1152000", "576000") if "_tx_" in program else ("700000",)
    rates = (
        "9600",
        "115200",
        *(() if "_BUFFERED_" in program else fast),
        *(("422400",) if "_rx_" in program else ()),
    )
    return "fifo" in program or any(f"_{rate}_" in program for rate in rates)


@pytest.mark.in_full
def test_i2s_under_its_checkers(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    names = [name for name in copy.programs("test_hil_i2s_") if re.search(r"_(16|32)_1_|_tdm_", name)]
    copy.build(names)
    assert len(names) == sum(count["passed"] for count in I2S.values())
    assert copy.run_tests("lib_i2s", "fs", "--ignore=lib_i2s/test_backpressure.py") == I2S


@pytest.mark.in_full
def test_an_spi_master_under_its_checker(tmp_path: Path) -> None:
    """With all cores in use: those with idle ones differ in nothing, as code takes no time."""
    copy = Copy(tmp_path)
    names = [name for name in copy.programs("test_hil_spi_master_sync_") if name.split("_")[-5] == "1"]
    copy.build(names)
    counts = copy.run_tests("lib_spi", "ps", "-k", "master and not not_fully_loaded")
    assert counts == {
        "test_master_sync_rx_tx": {"passed": 36},
        "test_master_sync_multi_device": {"passed": 36},
    }


@pytest.mark.in_full
def test_an_spi_slave_under_its_checker(tmp_path: Path) -> None:
    """All that is collected: without MOSI nothing is."""
    copy = Copy(tmp_path)
    programs = copy.programs("test_hil_spi_slave_rx_tx_")
    copy.build([name for name in programs if name.split("_")[-3] == "1"])
    assert copy.run_tests("lib_spi", "ps", "-k", "slave_rx_tx") == {"test_slave_rx_tx": {"passed": 32}}


@pytest.mark.in_full
def test_an_spi_slave_needs_no_time_between_transactions(tmp_path: Path) -> None:
    """XMOS's test measures how short the time between transactions may be, and wants one at which the slave
    fails. That is what the chip's instructions take between two calls: here they take none, so all get down
    to 0 ns, for which the expected lines have no form.
    So they do in device time, but in modes 1 and 3 of a slave that answers.
    """
    copy = Copy(tmp_path)
    programs = copy.programs("test_hil_spi_slave_intertransaction_1_")
    copy.build([name for name in programs if name.split("_")[-3] == "1" and name.endswith("_1")])
    assert copy.run_tests("lib_spi", "ps", "-k", "intertransaction") == {
        "test_slave_intertransaction": {"failure": 8}
    }
    told = [path.read_text() for path in (copy.tree / "test").glob("spi_slave_intertransaction_results_*")]
    assert [text.splitlines()[-2:] for text in told] == [["Delay is 0", "Request exit on success"]] * 8


@pytest.mark.in_full
def test_an_spi_slave_in_device_time_needs_some_in_modes_1_and_3(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.build([f"test_hil_spi_slave_intertransaction_1_1_1_{mode}_1" for mode in (1, 3)])
    modes = "intertransaction and miso_enabled and (mode_1 or mode_3)"
    counts = copy.run_tests("lib_spi", "ps", "--pyxsim-device-time", "-k", modes)
    assert counts == {"test_slave_intertransaction": {"passed": 2}}
    told = [path.read_text() for path in (copy.tree / "test").glob("spi_slave_intertransaction_results_*")]
    assert [text.splitlines()[-2:] for text in told] == [["Delay is 320.0 ns", "Request exit on error"]] * 2
