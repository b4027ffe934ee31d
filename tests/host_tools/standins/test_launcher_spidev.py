"""Programs that know nothing of this project import spidev, and find the virtual slave."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_tools.standins.launcher import INJECTION, environment
from tests.support.peers.spi_link_slaves import InvertingSlave, served
from tests.support.programs import need_package, new_python, run_python

spidev = need_package("spidev", "spidev")

USE = "import spidev\nwith spidev.SpiDev(0, 0) as spi: print(spi.xfer2([1, 2]), spi.max_speed_hz)"


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of a virtual environment that has nothing."""
    return new_python(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def spidev_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of a virtual environment that has the package spidev."""
    assert spidev.__file__
    return new_python(tmp_path_factory.mktemp("spidev"), Path(spidev.__file__))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served({"0.0": InvertingSlave()}) as address:
        yield address


def spi_environment(address: str, **more: str) -> dict[str, str]:
    return environment("127.0.0.1:1", {"PATH": "/usr/bin:/bin", **more}, address)


def test_environment_names_the_server() -> None:
    variables = environment("h:1", {"A": "b"}, "h:2")
    assert variables == {
        "A": "b",
        "PYTHONPATH": str(INJECTION),
        "AISRV_USBIP": "h:1",
        "AISRV_DEVICE": "usbip:h:1",
        "AISRV_SPI": "h:2",
    }


def test_environment_without_spi_names_none() -> None:
    assert "AISRV_SPI" not in environment("h:1", {})


def test_environment_for_no_address() -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        environment("h:1", {}, "nowhere")


def test_program_without_the_package_finds_the_slave(bare_python: Path, address: str, tmp_path: Path) -> None:
    assert run_python(USE, bare_python, spi_environment(address), tmp_path) == "[254, 253] 50000000\n"


def test_program_with_the_package_finds_the_slave(spidev_python: Path, address: str, tmp_path: Path) -> None:
    assert run_python(USE, spidev_python, spi_environment(address), tmp_path) == "[254, 253] 50000000\n"


def test_module_looks_like_the_package(bare_python: Path, address: str, tmp_path: Path) -> None:
    code = (
        "import spidev, sys\n"
        "print(spidev.__version__, spidev.SpiDev.__name__, spidev.__name__, bool(spidev.__doc__))\n"
        "print([name for name in sys.modules if name.startswith(('host_tools', 'aisrv.'))])\n"
        "try: import host_tools\n"
        "except ImportError: print('not importable')"
    )
    output = run_python(code, bare_python, spi_environment(address), tmp_path)
    assert output == "3.8 SpiDev spidev True\n[]\nnot importable\n"


def test_missing_slave_is_a_missing_file(bare_python: Path, address: str, tmp_path: Path) -> None:
    code = (
        "import spidev\n"
        "try: spidev.SpiDev(7, 7)\n"
        "except FileNotFoundError as error: print(error)"
    )  # fmt: skip
    output = run_python(code, bare_python, spi_environment(address), tmp_path)
    assert output == "[Errno 2] No such file or directory\n"


WHICH = "import spidev; print(spidev.SpiDev.__module__)"


@pytest.fixture
def preloaded(tmp_path: Path) -> dict[str, str]:
    """LD_PRELOAD with a library that has the preload library's name and does nothing."""
    library = tmp_path / "libumockdev-preload.so.0"
    done = subprocess.run(
        ["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("no C compiler")
    return {"LD_PRELOAD": str(library)}


def test_package_is_used_where_the_preload_library_serves_it(
    spidev_python: Path, address: str, tmp_path: Path, preloaded: dict[str, str]
) -> None:
    env = spi_environment(address, **preloaded)
    assert run_python(WHICH, spidev_python, env, tmp_path) == "builtins\n"


def test_stand_in_is_used_beside_the_preload_library_where_there_is_no_package(
    bare_python: Path, address: str, tmp_path: Path, preloaded: dict[str, str]
) -> None:
    assert run_python(USE, bare_python, spi_environment(address, **preloaded), tmp_path).startswith("[254")


def test_without_the_variable_spidev_is_as_it_was(spidev_python: Path, tmp_path: Path) -> None:
    env = environment("127.0.0.1:1", {})
    assert run_python(WHICH, spidev_python, env, tmp_path) == "builtins\n"


def test_program_without_spidev_pays_nothing(bare_python: Path, address: str, tmp_path: Path) -> None:
    code = "import sys; print([name for name in sys.modules if 'aisrv' in name or name == 'socket'])"
    assert run_python(code, bare_python, spi_environment(address), tmp_path) == "[]\n"
