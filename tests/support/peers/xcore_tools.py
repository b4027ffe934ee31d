"""XMOS's tools for tests: its library for the engine `xcore`, and its converter.

PyPI's `xmos-ai-tools` is not ours to ship: tests use it where it is installed in this environment, or in
the one whose Python `AISRV_XMOS_PYTHON` names. Nothing but the C library and `xcore-opt` is used of it, so
that it need not fit this environment's Python and numpy.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from tflite import BuiltinOperator, TensorType

from aisrv import digits
from aisrv.inference.interpreters.xcore import PACKAGE
from aisrv.model.values import Tensor
from aisrv.model.writer import Network, NetworkOperator, constant_tensor
from tests.support.models import networks
from tests.support.programs import run_process

VARIABLE: Final = "AISRV_XMOS_PYTHON"


@dataclass(frozen=True)
class Converted:
    """A model that the converter made, and the parameters that it moved out of it."""

    model: bytes
    parameters: bytes


def use_library() -> Iterator[None]:
    """Let workers find the library; a fixture's body. Skips where it is nowhere."""
    before = list(sys.path)
    if find_spec(PACKAGE) is None:
        # Behind all others: nothing else of that environment is to be found before this one's.
        sys.path += [str(path) for path in _environment().glob("lib/python3*/site-packages")]
    try:
        if find_spec(PACKAGE) is None:
            pytest.skip(f"no {PACKAGE}: install xmos-ai-tools, or set {VARIABLE} to a Python that has it")
        yield
    finally:
        sys.path[:] = before


def python_with(module: str, name: str) -> str:
    """Return a Python that has a part of XMOS's package; skips where there is none."""
    python = os.environ.get(VARIABLE, sys.executable)
    if run_process([python, "-c", f"from {module} import {name}"]).returncode:
        pytest.skip(
            f"{python} cannot import {name} from {module} (PyPI: xmos-ai-tools, with numpy and pyusb): "
            f"set {VARIABLE} to one that can"
        )
    return python


def convert(model: bytes, folder: Path, *options: str) -> Converted:
    """Convert a model with `xcore-opt`, its weights as parameters of their own."""
    tool = next((path for path in _tools() if path.exists()), None)
    if tool is None:
        pytest.skip(f"no xcore-opt: install xmos-ai-tools, or set {VARIABLE} to a Python that has it")
    source, made, parameters = (folder / name for name in ("model.tflite", "xcore.tflite", "xcore.params"))
    source.write_bytes(model)
    command = [str(tool), str(source), "-o", str(made), f"--xcore-weights-file={parameters}", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return Converted(made.read_bytes(), parameters.read_bytes() if parameters.exists() else b"")


def flat_digits() -> bytes:
    """The digits network with a RESHAPE in front of its fully connected layer.

    The converter makes a convolution of that layer, and gives it an input of a wrong shape where what comes
    in has more than one pixel; TensorFlow's own converter puts a RESHAPE there, too.
    """
    network = networks.read(digits.model_bytes())
    (dense,) = (each for each in network.operators if each.code == BuiltinOperator.FULLY_CONNECTED)
    features = next(tensor for tensor in network.tensors if tensor.name == dense.inputs[0])
    shape = (1, int(np.prod(features.shape)))
    flat = Tensor("flat", shape, TensorType.INT8, features.quantization)
    extents = constant_tensor("flat_shape", np.array(shape, np.int32))
    reshape = NetworkOperator(BuiltinOperator.RESHAPE, (features.name, extents.name), (flat.name,))
    at = network.operators.index(dense)
    flattened = replace(dense, inputs=(flat.name, *dense.inputs[1:]))
    model: Network = replace(
        network,
        tensors=(*network.tensors, flat, extents),
        operators=(*network.operators[:at], reshape, flattened, *network.operators[at + 1 :]),
    )
    return bytes(model)


def _environment() -> Path:
    return Path(os.environ.get(VARIABLE, sys.executable)).parent.parent


def _tools() -> Iterator[Path]:
    yield Path(sys.executable).parent / "xcore-opt"
    yield _environment() / "bin" / "xcore-opt"
