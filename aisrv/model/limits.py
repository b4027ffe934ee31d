"""Limits of the device on models that it takes ("Inference engines", section Device limits)."""

from typing import Final

MAX_INPUTS: Final = 40
MAX_OUTPUTS: Final = 40
"""Tensors that the device can number."""
