"""Installation of extras: by the names of their packages, wherever aisrv itself came from."""

import sys
from typing import Final

EXTRAS: Final = {
    "camera": ("opencv-python-headless",),
    "evaluate": ("pillow", "pyarrow"),
    "fleet": ("pillow", "pyarrow", "aiohttp", "bokeh", "dask", "distributed", "fsspec"),
    "images": ("pillow",),
    "litert": ("ai-edge-litert",),
    "relocatable": ("pyelftools", "unicorn"),
    "spi": ("spidev",),
    "tflm": ("tflite-micro",),
    "video": ("opencv-python-headless",),
    "wakewords": ("pymicro-features",),
    "xcore": ("xmos-ai-tools",),
}
"""The packages of each extra that a use of the product needs; pyproject.toml has their versions."""


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra. Raises KeyError."""
    # xmos-ai-tools asks for numpy 1, which the engine does not use, and Python 3.12 has no wheel of.
    alone = ["--no-deps"] if extra == "xcore" and sys.version_info >= (3, 12) else []
    return " ".join(["pip install", *alone, *EXTRAS[extra]])
