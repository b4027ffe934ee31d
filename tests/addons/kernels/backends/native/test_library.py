"""The library of native kernels where it does not fit the package, or is none."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aisrv.addons.kernels.backends.native import library as native_library
from aisrv.addons.kernels.backends.native.library import (
    FOLDER,
    SOURCES,
    SUFFIXES,
    VARIABLE,
    NativeError,
    Variant,
    compiled_files,
    held,
    load,
)
from tests.support.models.native import library
from tests.support.paths import ROOT


def copy_sources(folder: Path) -> None:
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / name, folder / name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the library and its source, which `load` takes."""
    library()
    (compiled,) = compiled_files(FOLDER)
    shutil.copy(compiled, tmp_path)
    copy_sources(tmp_path)
    monkeypatch.setattr(native_library, "FOLDER", tmp_path)
    return tmp_path


def test_the_library_of_this_source_loads(folder: Path) -> None:
    assert load.__wrapped__().variants == library().variants


@pytest.mark.parametrize("name", SOURCES)
def test_a_library_of_another_source_is_refused(name: str, folder: Path) -> None:
    with (folder / name).open("a") as source:
        source.write("\n")
    with pytest.raises(NativeError, match="was compiled from another source; install aisrv again"):
        load.__wrapped__()


def test_a_file_that_is_no_library_is_refused(folder: Path) -> None:
    (compiled,) = compiled_files(folder)
    compiled.write_bytes(b"no library")
    with pytest.raises(NativeError, match=r"does not load: .*; install aisrv again"):
        load.__wrapped__()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_library_has_the_suffix_of_any_system(suffix: str, folder: Path) -> None:
    (compiled,) = compiled_files(folder)
    compiled.rename(folder / f"_kernels{suffix}")
    assert load.__wrapped__().variants == library().variants


@pytest.mark.parametrize("name", ["_kernels.pdb", "_kernels.lib", "kernels.so"])
def test_other_files_are_no_library(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert compiled_files(tmp_path) == []


def test_a_missing_library_is_told(folder: Path) -> None:
    (compiled,) = compiled_files(folder)
    compiled.unlink()
    with pytest.raises(NativeError, match="there was no C compiler when aisrv was installed"):
        load.__wrapped__()


def test_every_processor_runs_plain_c() -> None:
    assert library().variants[0] is Variant.PLAIN


ALL = (Variant.PLAIN, Variant.AVX2, Variant.AVX512_VNNI)


@pytest.mark.parametrize("name", [None, ""])
def test_all_variants_serve_unless_one_is_named(name: str | None) -> None:
    assert held(ALL, name) == ALL


def test_the_variant_that_is_named_serves_alone() -> None:
    assert held(ALL, "avx2") == (Variant.AVX2,)


def test_a_variant_that_the_processor_lacks_is_told() -> None:
    with pytest.raises(NativeError, match=r"^this processor has no neondot$"):
        held(ALL, "neondot")


def test_an_unknown_variant_is_told() -> None:
    known = "plain, avx2, avxvnni, avx512vnni, neon, neondot"
    with pytest.raises(NativeError, match=f"^{VARIABLE}=sse: there is no such variant; there are: {known}$"):
        held(ALL, "sse")


def test_the_environment_names_the_variant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "plain")
    assert load.__wrapped__().variants == (Variant.PLAIN,)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux tells what its processor has")
def test_the_processor_is_asked_as_linux_asks_it() -> None:
    if os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} is set")
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert line is not None
    flags = set(line[1].split())
    needs = {
        Variant.AVX2: {"avx2", "fma"},
        Variant.AVX_VNNI: {"avx2", "fma", "avx_vnni"},
        Variant.AVX512_VNNI: {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"},
        Variant.NEON: {"asimd"},
        Variant.NEON_DOT: {"asimddp"},
    }
    has = {Variant.PLAIN, *(variant for variant, all_of in needs.items() if all_of <= flags)}
    assert set(library().variants) == has


def test_a_build_without_a_compiler_says_so(tmp_path: Path) -> None:
    """setuptools alone goes on with a warning among many lines."""
    source = FOLDER.relative_to(ROOT)
    shutil.copy(ROOT / "setup.py", tmp_path)
    copy_sources(tmp_path / source)
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
