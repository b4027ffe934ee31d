"""The library touches no byte beside its buffers, and does nothing that C leaves undefined.

The tests of its kernels run in a process of their own, in which each buffer lies alone: at a page that nobody
may touch, or in a block of a memory that AddressSanitizer watches.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aisrv.addons.kernels.backends.native.library import COMPILED, FOLDER, SOURCES, Variant, source_crc
from tests.support.amounts import is_in_full, some
from tests.support.models.native import library
from tests.support.paths import ROOT
from tests.support.programs import missing

NAMES = "test_backend", "test_backend_int16", "test_backend_float32", "test_recurrent"
FILES = [f"tests/addons/kernels/backends/native/{name}.py" for name in NAMES]
EVERY_DAY = (
    "plain_loops and not (add or mul or softmax) or convolutions_of_all_forms or svdf_of_any_size "
    "or float32 and threads_change_nothing and 3"
)
SHORT_COPIES = "plain_loops and depthwise"
"""Tests whose kernels read behind a copy of their input."""
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


@pytest.fixture(autouse=True)
def _installed() -> None:
    library()


def run_kernels(memory: str, choice: str = "", **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run the kernels' tests, or some of them, on buffers in a kind of memory."""
    # What this run of pytest was told is not for the other one.
    # Buffers stay until a test ends, and all are copied at each call: in full that takes hours.
    settings |= {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    options = "--long", "-q", "-x", "-p", "tests.support.exact_memory", "-p", "no:cacheprovider"
    return subprocess.run(
        # Sanitizers write to the descriptor of standard error, and end the process.
        [sys.executable, "-m", "pytest", "--capture=sys", *options, "-k", choice, *FILES],
        env=settings | {"AISRV_TEST_MEMORY": memory},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long("it runs the kernels' tests again, all of them in CI")
@pytest.mark.in_full
@pytest.mark.parametrize("memory", some(("behind", "before"), every_day=1))
def test_no_kernel_touches_what_lies_beside_a_buffer(memory: str) -> None:
    done = run_kernels(memory, "" if is_in_full() else EVERY_DAY)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_reading_behind_a_buffer_ends_the_process() -> None:
    """Copies of inputs have some bytes more than their pictures: here they have none."""
    if library().variants == (Variant.PLAIN,):
        pytest.skip("plain C copies no inputs")
    done = run_kernels("behind", SHORT_COPIES, AISRV_TEST_SPARE_ELEMENTS="0")
    assert done.returncode == -signal.SIGSEGV, done.stdout[-4000:]
    assert "aisrv_run" in done.stderr


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of a process with a library that watches itself."""
    if not is_in_full():
        pytest.skip("it takes two minutes: pytest --in-full")
    if shutil.which("gcc") is None:
        missing("gcc is not installed: apt install gcc")
    asked = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    sanitizer = Path(asked.stdout.strip())
    if not sanitizer.is_absolute():
        missing("gcc has no AddressSanitizer here: apt install libasan8, or that of your gcc")
    folder = tmp_path_factory.mktemp("sanitized")
    for name in SOURCES:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(FOLDER / name, folder / name)
    options = (*SANITIZE, f"-DAISRV_SOURCE_CRC={source_crc()}u")
    library_and_source = "-o", folder / "_kernels.so", folder / COMPILED
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-g", "-pthread", *options, *library_and_source], check=True
    )
    # Python itself gives back less than it takes, which is not what is asked here.
    watching = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return watching | {"LD_PRELOAD": str(sanitizer), "AISRV_TEST_LIBRARY": str(folder)}


@pytest.mark.in_full
def test_sanitizers_find_nothing(sanitized: dict[str, str]) -> None:
    done = run_kernels("heap", **sanitized)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.in_full
def test_sanitizers_see_a_read_behind_a_buffer(sanitized: dict[str, str]) -> None:
    done = run_kernels("heap", SHORT_COPIES, AISRV_TEST_SPARE_ELEMENTS="0", **sanitized)
    assert "ERROR: AddressSanitizer" in done.stderr
    assert re.search(r"/(avx512|elements|convolution|avx2|float32)\.h:", done.stderr)
