"""A user's kernels and engine, installed with `pip install -e`, run in a device's worker."""

import json
import os
import sys
import sysconfig
from pathlib import Path

import pytest

from aisrv import digits
from tests.support.paths import ROOT
from tests.support.programs import need_package, new_python, run_process

SETUP = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "my-kernels"
version = "1"
[project.entry-points."aisrv.kernel_backends"]
mine = "my_kernels:backend"
[tool.setuptools]
packages = ["my_kernels"]
"""

PACKAGE = """
from aisrv.inference.interpreter import TensorLayout
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.model.reader import read_model

def backend():
    return ReferenceBackend()

class Doubler:
    def load(self, model, arena_bytes, /):
        inputs, outputs = read_model(model).input_tensors, read_model(model).output_tensors
        return TensorLayout((inputs[0].nbytes,), (outputs[0].nbytes,))

    def set_input(self, number, data):
        self.data = bytes(data)

    def invoke(self):
        self.data = bytes(2 * byte & 0xFF for byte in self.data)

    def get_input(self, number, into):
        pass

    def get_output(self, number, into):
        into[:] = self.data[: len(into)]
"""

pytestmark = pytest.mark.long("pip builds a package; engines and backends of users run every day without")

HOST = """
import sys
from host_tools.client import AiServer
with AiServer.open("usb") as server:
    server.load_model(sys.argv[1])
    print(bytes(server.run(bytes.fromhex(sys.argv[2]))).hex())
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the package installed from its directory, which no search path has."""
    need_package("wheel", "wheel")
    home, source = tmp_path_factory.mktemp("venv"), tmp_path_factory.mktemp("source")
    (source / "pyproject.toml").write_text(SETUP)
    (source / "my_kernels").mkdir()
    (source / "my_kernels/__init__.py").write_text(PACKAGE)
    python = new_python(home)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    run_process([*pip, *options, "-e", source], check=True)
    assert list(packages.glob("__editable___my_kernels*_finder.py"))
    return python


def run_model(python: Path, kind: str, model: Path, data: bytes) -> bytes:
    """Run a model once on a device whose engines are of a kind."""
    command = [python, "-m", "aisrv", "exec", "--engine", kind, "--", python, "-c", HOST, model, data.hex()]
    done = run_process(command, env=os.environ | {"PYTHONPATH": ""})
    assert (done.returncode, done.stderr) == (0, "")
    return bytes.fromhex(done.stdout)


def test_a_backend_runs_in_the_worker(python: Path, tmp_path: Path) -> None:
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    image = bytes(digits.test_images()[0][0])
    scores = run_model(python, "kernels:mine", model, image)
    assert scores == run_model(python, "kernels:reference", model, image)


def test_an_engine_runs_in_the_worker(python: Path, tmp_path: Path) -> None:
    model = tmp_path / "digits.tflite"
    model.write_bytes(digits.model_bytes())
    image = bytes(digits.test_images()[0][0])
    doubled = bytes(2 * byte & 0xFF for byte in image[:10])
    assert run_model(python, "my_kernels:Doubler", model, image) == doubled


def test_the_backend_is_listed_with_its_package(python: Path) -> None:
    done = run_process([python, "-m", "aisrv", "backends", "--json"], check=True)
    assert json.loads(done.stdout)[-1] == {
        "name": "kernels:mine",
        "origin": "my-kernels",
        "missing": None,
        "detail": None,
    }
