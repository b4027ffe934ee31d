"""The docs' table of default engines against the project's requirements and, with a network, against pip."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.support.paths import ROOT

SECONDS: Final = 60
"""Time that pip has for one question."""
ASK: Final = (
    *(
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--ignore-installed",
        "--no-deps",
        "--only-binary=:all:",
    ),
    *("--retries", "1", "--timeout", "20"),
)
PACKAGES: Final = {"tflite": "tflite-runtime", "litert": "ai-edge-litert"}
PLATFORMS: Final = {
    "Linux, x86-64": (
        "linux",
        "x86_64",
        [f"manylinux_2_{minor}_x86_64" for minor in range(36, 16, -1)] + ["manylinux2014_x86_64"],
    ),
    "Linux, arm64": (
        "linux",
        "aarch64",
        [f"manylinux_2_{minor}_aarch64" for minor in range(36, 16, -1)] + ["manylinux2014_aarch64"],
    ),
    "Linux, armv7l": ("linux", "armv7l", [f"manylinux_2_{minor}_armv7l" for minor in range(36, 16, -1)]),
    "macOS, arm64": ("darwin", "arm64", [f"macosx_{major}_0_arm64" for major in range(15, 10, -1)]),
    "macOS, x86-64": (
        "darwin",
        "x86_64",
        [f"macosx_{major}_0_x86_64" for major in range(15, 10, -1)] + ["macosx_10_15_x86_64"],
    ),
    "Windows, x86-64": ("win32", "AMD64", ["win_amd64"]),
    "Windows, arm64": ("win32", "ARM64", ["win_arm64"]),
}
"""What markers and pip call the platforms of the table."""
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
REQUIREMENTS: Final = [
    Requirement(text)
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
]


def documented() -> Iterator[tuple[str, str, str]]:
    """Give the platform, the Python and the engine of each cell of the table."""
    text = (ROOT / "docs/guides/engines.md").read_text()
    section = text.partition("## The default\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    for names, *engines in rows[2:]:
        system, _, machines = names.partition(", ")
        for machine in machines.removesuffix(" (glibc)").split(" and "):
            for version in VERSIONS:
                yield f"{system}, {machine}", version, engines[version != "3.11"].strip("`")


CELLS: Final = list(documented())


def has_wheel(package: str, version: str, tags: list[str], folder: Path) -> bool:
    """Ask pip for a wheel, without fetching it; a skipped test where pip cannot tell."""
    platforms = [word for tag in tags for word in ("--platform", tag)]
    done = subprocess.run(
        [sys.executable, *ASK, "--target", str(folder), *platforms, "--python-version", version, package],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode and "No matching distribution" not in done.stderr:
        pytest.skip(f"pip cannot tell: {done.stderr.strip()[-200:]}")
    return not done.returncode


def test_the_table_has_each_platform_and_python_once() -> None:
    assert sorted(cell[:2] for cell in CELLS) == sorted((p, v) for p in PLATFORMS for v in VERSIONS)


@pytest.mark.parametrize(("platform", "version", "engine"), CELLS)
def test_installing_brings_the_engine_of_the_table(platform: str, version: str, engine: str) -> None:
    system, machine, _ = PLATFORMS[platform]
    environment = {"python_version": version, "sys_platform": system, "platform_machine": machine}
    brought = [
        kind
        for kind, package in PACKAGES.items()
        if any(
            each.marker is not None and each.marker.evaluate(environment)
            for each in REQUIREMENTS
            if each.name == package
        )
    ]
    assert brought == ([] if engine == "kernels" else [engine])


@pytest.mark.skipif("AISRV_ASK_PIP" not in os.environ, reason="asks the package index: set AISRV_ASK_PIP=1")
def test_pip_finds_the_wheels_of_the_table_and_no_better_ones(tmp_path: Path) -> None:
    def best(cell: tuple[str, str, str]) -> str:
        platform, version, _ = cell
        for kind, package in PACKAGES.items():
            wanted = f"{package}{next(each.specifier for each in REQUIREMENTS if each.name == package)}"
            if has_wheel(wanted, version, PLATFORMS[platform][2], tmp_path):
                return kind
        return "kernels"

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(best, CELLS)) == [engine for *_, engine in CELLS]
