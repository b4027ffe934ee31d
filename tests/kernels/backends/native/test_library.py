"""The library of native kernels where it does not fit the package, or is none."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aisrv.kernels.backends.native import library as native_library
from aisrv.kernels.backends.native.library import FOLDER, PATTERN, SOURCES, NativeError, load
from tests.support.native import library
from tests.support.paths import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library and its source, which `load` takes."""
    library()
    (compiled,) = FOLDER.glob(PATTERN)
    shutil.copy(compiled, tmp_path)
    for name in SOURCES:
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.setattr(native_library, "FOLDER", tmp_path)
    return tmp_path


def test_the_library_of_this_source_loads(folder: Path) -> None:
    assert load.__wrapped__().variants == library().variants


@pytest.mark.parametrize("name", SOURCES)
def test_a_library_of_another_source_is_refused(name: str, folder: Path) -> None:
    with (folder / name).open("a") as source:
        source.write("\n")
    with pytest.raises(NativeError, match=r"was compiled from another kernels\.c; install aisrv again"):
        load.__wrapped__()


def test_a_file_that_is_no_library_is_refused(folder: Path) -> None:
    (compiled,) = folder.glob(PATTERN)
    compiled.write_bytes(b"no library")
    with pytest.raises(NativeError, match=r"does not load: .*; install aisrv again"):
        load.__wrapped__()


def test_a_missing_library_is_told(folder: Path) -> None:
    (compiled,) = folder.glob(PATTERN)
    compiled.unlink()
    with pytest.raises(NativeError, match="there was no C compiler when aisrv was installed"):
        load.__wrapped__()


def test_a_build_without_a_compiler_says_so(tmp_path: Path) -> None:
    """setuptools alone goes on with a warning among many lines."""
    source = FOLDER.relative_to(ROOT)
    (tmp_path / source).mkdir(parents=True)
    shutil.copy(ROOT / "setup.py", tmp_path)
    for name in SOURCES:
        shutil.copy(FOLDER / name, tmp_path / source)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tmp_path,
        env=os.environ | {"CC": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0  # the package works without it
    assert re.search("^aisrv: no native kernels: .*false", done.stderr, re.MULTILINE)
