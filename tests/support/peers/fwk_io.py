"""XMOS's fwk_io: drivers in C for I2C, SPI, I2S and UART, their test programs, and checkers at the pins.

It is not ours to ship. Tests use a checkout where `AISRV_FWK_IO` names one: they copy it, and build and run
the copy.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from aisrv.addons.firmware.toolchain import write_toolchain
from tests.support.benches.c_programs import need_compiler
from tests.support.programs import missing

VARIABLE: Final = "AISRV_FWK_IO"
COMMIT: Final = "3375a33"
"""The numbers of the tests are of this one."""

DRIVERS: Final = (
    "i2c/src/i2c_master.c",
    "i2c/src/i2c_slave.c",
    "i2s/src/i2s_master.c",
    "i2s/src/i2s_slave.c",
    "i2s/src/i2s_tdm_slave.c",
    "spi/src/spi_master.c",
    "spi/src/spi_slave.c",
    "uart/src/uart_rx.c",
    "uart/src/uart_tx.c",
    "uart/src/uart_util.c",
)

_PROJECT: Final = """
cmake_minimum_required(VERSION 3.21)
project(fwk_io C)
add_library(framework_core_utils INTERFACE)
foreach(module i2c i2s spi uart)
    add_subdirectory(${FWK_IO}/modules/${module} ${module})
endforeach()
include(${FWK_IO}/test/tests.cmake)
"""
"""Ours, as theirs fetches other repositories; programs and their defines are those of their files."""


def checkout() -> Path:
    """Return a checkout of that commit in which nothing was changed; skip the test without one."""
    named = os.environ.get(VARIABLE)
    if named is None:
        pytest.skip(
            f"XMOS's fwk_io is no package and not ours to ship: set {VARIABLE} to a checkout of {COMMIT}"
        )
    tree = Path(named)
    head = subprocess.run(
        ["git", "-C", tree, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert head.stdout.startswith(COMMIT), f"{tree} is at {head.stdout.strip()}, not {COMMIT}"
    changed = subprocess.run(["git", "-C", tree, "diff", "--quiet", "HEAD"], check=False).returncode
    assert changed == 0, f"files of {tree} were changed"
    return tree


class Copy:
    """A copy of the checkout, in which programs are built and tests run."""

    def __init__(self, folder: Path) -> None:
        """Copy the checkout, and have CMake look at it."""
        self._cmake = shutil.which("cmake") or missing("cmake is not installed; .ci/packages does that")
        need_compiler()
        self.tree: Final = folder / "fwk_io"
        shutil.copytree(checkout(), self.tree, ignore=shutil.ignore_patterns(".git"))
        project = folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(_PROJECT)
        self._build = folder / "build"
        toolchain = f"-DCMAKE_TOOLCHAIN_FILE={write_toolchain()}"
        self._call(self._cmake, "-S", project, "-B", self._build, toolchain, f"-DFWK_IO={self.tree}")

    def programs(self, prefix: str) -> list[str]:
        """Return the names of the programs that begin so."""
        listed = self._call(self._cmake, "--build", self._build, "--target", "help")
        return [word for word in listed.split() if word.startswith(prefix) and word.startswith("test_hil_")]

    def build(self, programs: Sequence[str]) -> None:
        """Build programs, into the folders where the tests look for them."""
        self._call(self._cmake, "--build", self._build, "-j", "2", "--target", *programs)

    def run_tests(self, library: str, unit: str, *options: str) -> dict[str, dict[str, int]]:
        """Run the tests of a library, and return for each file how many passed, were skipped, failed."""
        report = self.tree / f"{library}.xml"
        subprocess.run(
            [
                *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "aisrv.addons.firmware.pyxsim.plugin"),
                *("-p", "no:cacheprovider", "--pyxsim-unit", unit, f"--junitxml={report}", library, *options),
            ],
            cwd=self.tree / "test",
            timeout=3000,
            check=False,
        )
        counts: dict[str, Counter[str]] = {}
        for case in ET.parse(report).iter("testcase"):
            kinds = [kind for kind in ("skipped", "failure", "error") if case.find(kind) is not None]
            name = case.get("classname", "").rpartition(".")[2]
            counts.setdefault(name, Counter())[kinds[0] if kinds else "passed"] += 1
        return {name: dict(count) for name, count in counts.items()}

    def _call(self, *command: object) -> str:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout
