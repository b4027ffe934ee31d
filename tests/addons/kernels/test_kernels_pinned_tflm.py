"""The TensorFlow Lite Micro that the kernels are compared with: one version, which the manual names."""

import re
import tomllib
from importlib.metadata import version

import pytest

from tests.support.paths import ROOT


def pinned() -> str:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [requirement] = [each for each in extras["test"] if each.startswith("tflite-micro")]
    found = re.match(r"tflite-micro==([\w.]+);", requirement)
    assert found, requirement
    return found[1]


def test_the_tests_have_the_pinned_version() -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    assert version("tflite-micro") == pinned()


@pytest.mark.parametrize("page", ["guides/kernels.md", "guides/engines.md", "inside/kernels.md"])
def test_the_manual_names_it(page: str) -> None:
    assert pinned() in (ROOT / "docs" / page).read_text()
