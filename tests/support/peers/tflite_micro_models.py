"""Models of TensorFlow Lite Micro, which the project does not ship.

They are looked for in the folder that AISRV_TFLITE_MICRO names, else in `../shared/models/tflite_micro`
beside the checkout. Their files come from https://github.com/tensorflow/tflite-micro.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.paths import ROOT

NAMES: Final = (
    "hello_world_int8",
    "keyword_scrambled_8bit",
    "micro_speech_quantized",
    "person_detect",
    "trained_lstm_int8",
)
VARIABLE: Final = "AISRV_TFLITE_MICRO"


def folder() -> Path:
    """Where the models should be."""
    return Path(os.environ.get(VARIABLE, ROOT / "../shared/models/tflite_micro")).resolve()


def model_bytes(name: str) -> bytes:
    """The `.tflite` file of a model by name; the test that asks is skipped where it is missing."""
    path = folder() / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"TFLM's models are not at {folder()}: no {path.name}; set {VARIABLE}")
    return path.read_bytes()
