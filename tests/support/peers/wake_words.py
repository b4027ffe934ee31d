"""The wake words of PyPI's `pymicro-wakeword`: streaming models with variables, which others trained."""

from importlib.util import find_spec
from pathlib import Path

import pytest

REASON = "pymicro-wakeword, which has streaming models, is not installed"


def files() -> list[Path]:
    """Return all of the models, none where the package is not installed."""
    found = find_spec("pymicro_wakeword")
    return sorted((Path(found.origin).parent / "models").glob("*.tflite")) if found and found.origin else []


def file(name: str) -> Path:
    """Return one model by name; the test that asks is skipped where the package is not installed."""
    path = next((path for path in files() if path.stem == name), None)
    return path or pytest.skip(REASON)
