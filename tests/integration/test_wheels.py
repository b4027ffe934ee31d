"""Wheels with native kernels for other platforms, as zig makes them of a pure one, and the check of each."""

import hashlib
import os
import runpy
import shutil
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from aisrv.addons.kernels.backends.native.library import FOLDER, SOURCES
from tests.support.paths import ROOT
from tests.support.programs import need_package, run_process

MAKE, CHECK = ROOT / ".ci/platform-wheels", ROOT / ".ci/check-wheels"
if not MAKE.exists():
    pytest.skip("the tree has no .ci: only a checkout has", allow_module_level=True)

NATIVE = "aisrv/addons/kernels/backends/native"
PLATFORM = "musllinux_1_2_x86_64"
Checking = Callable[..., tuple[int, str, str]]


def write_wheel(
    folder: Path, platform: str, library: tuple[str, bytes] | None = None, pure: str = "false", tag: str = ""
) -> Path:
    """Write a wheel with the sources of the library, and perhaps with it."""
    path = folder / f"aisrv-1.0-py3-none-{platform}.whl"
    tags = "".join(f"Tag: py3-none-{each}\n" for each in (tag or platform).split("."))
    about = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {pure}\n{tags}"
    files = {f"{NATIVE}/{name}": (FOLDER / name).read_bytes() for name in SOURCES}
    if library is not None:
        files[f"{NATIVE}/{library[0]}"] = library[1]
    files["aisrv-1.0.dist-info/METADATA"] = b"Metadata-Version: 2.1\nName: aisrv\nVersion: 1.0\n"
    files["aisrv-1.0.dist-info/WHEEL"] = about.encode()
    files["aisrv-1.0.dist-info/RECORD"] = "".join(map(record_line, files, files.values())).encode()
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    return path


def record_line(name: str, data: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}\n"


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Checking:
    """The check of wheels: its exit code, and what it prints and tells."""
    need_package("lief", "lief")
    check_all = runpy.run_path(str(CHECK))["main"]

    def run(*wheels: Path) -> tuple[int, str, str]:
        code = check_all(*wheels)
        return (code, *capsys.readouterr())

    return run


def complaint(check: Checking, wheel: Path) -> str:
    """Return what is wrong with a wheel, as it is told."""
    code, output, errors = check(wheel)
    assert (code, output) == (1, "")
    return errors.removeprefix(f"{wheel.name}: ").rstrip("\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of PLATFORM, made of a pure one by zig."""
    need_package("ziglang", "ziglang==0.17.1")
    folder = tmp_path_factory.mktemp("wheels")
    pure = write_wheel(folder, "any", pure="true")
    done = run_process([sys.executable, MAKE, pure, folder / "made", PLATFORM], check=True)
    assert done.stdout == f"{PLATFORM}\n"
    (wheel,) = (folder / "made").iterdir()
    return wheel


@pytest.fixture(scope="module")
def library(made: Path) -> bytes:
    """The library that zig compiled."""
    with zipfile.ZipFile(made) as wheel:
        return wheel.read(f"{NATIVE}/_kernels.so")


def test_a_platform_gets_a_wheel_that_is_as_it_should_be(made: Path, check: Checking) -> None:
    assert made.name == f"aisrv-1.0-py3-none-{PLATFORM}.whl"
    size = zipfile.ZipFile(made).getinfo(f"{NATIVE}/_kernels.so").file_size
    assert check(made)[1] == f"{made.name}: ELF for X86_64, {size} bytes\n"


def test_every_file_is_in_the_record(made: Path) -> None:
    with zipfile.ZipFile(made) as wheel:
        record = wheel.read("aisrv-1.0.dist-info/RECORD").decode()
        assert sorted(line.split(",")[0] for line in record.splitlines()) == sorted(wheel.namelist())


@pytest.mark.parametrize(
    ("platform", "name", "wrong"),
    [
        ("musllinux_1_2_aarch64", "_kernels.so", "the processor is X86_64, not AARCH64"),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "_kernels.so", "the library needs libc.so"),
        ("macosx_11_0_x86_64", "_kernels.dylib", "the format of the library is ELF, not MACHO"),
        ("win_amd64", "_kernels.dll", "the format of the library is ELF, not PE"),
    ],
)
def test_a_library_of_another_platform_is_refused(
    platform: str, name: str, wrong: str, library: bytes, tmp_path: Path, check: Checking
) -> None:
    assert complaint(check, write_wheel(tmp_path, platform, (name, library))) == wrong


def test_a_library_that_the_platform_does_not_load_is_refused(
    library: bytes, tmp_path: Path, check: Checking
) -> None:
    wrong = complaint(check, write_wheel(tmp_path, "win_amd64", ("_kernels.so", library)))
    assert wrong == f"the list of libraries is ['{NATIVE}/_kernels.so'], not ['{NATIVE}/_kernels.dll']"


def test_a_library_that_lacks_a_function_is_refused(library: bytes, tmp_path: Path, check: Checking) -> None:
    renamed = library.replace(b"aisrv_team_leave\0", b"aisrv_team_parts\0")
    wrong = complaint(check, write_wheel(tmp_path, PLATFORM, ("_kernels.so", renamed)))
    assert wrong == "the library lacks aisrv_team_leave"


def test_a_library_of_another_source_is_refused(made: Path, tmp_path: Path, check: Checking) -> None:
    changed = tmp_path / made.name
    shutil.copy(made, changed)
    with zipfile.ZipFile(changed, "a") as wheel:
        wheel.writestr(f"{NATIVE}/zzz.h", "\n")
    assert complaint(check, changed) == "the library was compiled from another source"


def test_bytes_that_are_no_library_are_refused(tmp_path: Path, check: Checking) -> None:
    wrong = complaint(check, write_wheel(tmp_path, PLATFORM, ("_kernels.so", b"no library")))
    assert wrong == "the format of the library is unknown, not ELF"


def test_a_pure_wheel_has_no_library(tmp_path: Path, check: Checking) -> None:
    pure = write_wheel(tmp_path, "any", pure="true")
    assert check(pure)[1] == f"{pure.name}: pure\n"
    wrong = complaint(check, write_wheel(tmp_path, "any", ("_kernels.so", b""), pure="true"))
    assert wrong == f"the list of libraries is ['{NATIVE}/_kernels.so'], not []"


def test_a_wheel_of_a_platform_is_not_pure(tmp_path: Path, check: Checking) -> None:
    wrong = complaint(check, write_wheel(tmp_path, PLATFORM, ("_kernels.so", b""), pure="true"))
    assert wrong == "Root-Is-Purelib is true, not false"


def test_tags_are_those_of_the_name(tmp_path: Path, check: Checking) -> None:
    wrong = complaint(check, write_wheel(tmp_path, PLATFORM, tag="any"))
    assert wrong == f"the list of tags in WHEEL is ['py3-none-any'], not ['py3-none-{PLATFORM}']"


def test_one_wrong_wheel_of_several_is_named(tmp_path: Path, check: Checking) -> None:
    good, bad = write_wheel(tmp_path, "any", pure="true"), write_wheel(tmp_path, PLATFORM)
    code, output, errors = check(bad, good)
    assert (code, output) == (1, f"{good.name}: pure\n")
    assert errors.startswith(f"{bad.name}: the list of libraries is []")


def refused(*arguments: object, before: str = "pass") -> str:
    """Return what `.ci/platform-wheels` says before it ends with exit code 1."""
    start = f"sys.argv[0] = {str(MAKE)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run_process([sys.executable, "-c", f"import runpy, sys; {before}; {start}", *arguments])
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_a_missing_zig_is_told(tmp_path: Path) -> None:
    told = refused(write_wheel(tmp_path, "any"), tmp_path, before="sys.modules['ziglang'] = None")
    assert told == "ziglang is missing: pip install ziglang==0.17.1\n"


def test_an_unknown_platform_is_told_with_those_there_are(tmp_path: Path) -> None:
    told = refused("a.whl", tmp_path, "win32").splitlines()
    assert told[0] == "unknown platform win32; there are:"
    assert [line.strip() for line in told[1:]] == [
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        "manylinux_2_17_aarch64.manylinux2014_aarch64",
        "musllinux_1_2_x86_64",
        "musllinux_1_2_aarch64",
        "macosx_11_0_x86_64",
        "macosx_11_0_arm64",
        "win_amd64",
        "win_arm64",
    ]


def test_a_wheel_of_a_platform_is_no_pure_one(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, PLATFORM)
    told = refused(wheel, tmp_path)
    assert told == f"{wheel} is not a pure wheel: CC=/bin/false makes one\n"


def test_without_a_compiler_the_wheel_is_pure(tmp_path: Path, check: Checking) -> None:
    """Its library comes later, for each platform; a wheel that says it is not pure would be none for all."""
    need_package("wheel", "wheel")
    native = tmp_path / NATIVE
    native.mkdir(parents=True)
    shutil.copy(FOLDER / "kernels.c", native)
    shutil.copy(ROOT / "setup.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'aisrv'\nversion = '1.0'\n")
    command = [sys.executable, "setup.py", "-q", "bdist_wheel"]
    environment = os.environ | {"CC": "/bin/false"}
    run_process(command, cwd=tmp_path, env=environment, check=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name == "aisrv-1.0-py3-none-any.whl"
    assert check(wheel)[1] == f"{wheel.name}: pure\n"
