"""The five reference models of MLPerf Tiny, which the project does not ship.

They are looked for in the folder that AISRV_MLPERF_TINY names, else in `../shared/models/mlperf_tiny` beside
the checkout. Their files come from https://github.com/mlcommons/tiny, below `benchmark/training`.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import ROOT

VARIABLE: Final = "AISRV_MLPERF_TINY"
NAMES: Final = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")


def folder() -> Path:
    """Where the models should be."""
    beside = ROOT / "../shared/models/mlperf_tiny"
    return Path(os.environ.get(VARIABLE, beside)).resolve()


def file(name: str) -> Path:
    """The path of a file of the folder; the test that asks is skipped where it is missing."""
    path = folder() / name
    if not path.exists():
        pytest.skip(f"the MLPerf Tiny models are not at {folder()}: no {name}; set {VARIABLE}")
    return path


def model_bytes(name: str) -> bytes:
    """The `.tflite` file of a model by name."""
    return file(f"{name}.tflite").read_bytes()
