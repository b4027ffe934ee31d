"""What the extras bring, by modules, and whether it can be imported: a package may be there and not work."""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the package."""

    modules: tuple[str, ...]
    use: str
    """Uses that need it."""


EXTRAS: Final = {
    "images": Extra(("PIL",), "pictures as inputs and as sensors"),
    "camera": Extra(("cv2",), "videos and webcams as sensors"),
    "evaluate": Extra(("PIL", "pyarrow.parquet"), "what aisrv evaluate keeps, Parquet"),
    "fleet": Extra(
        ("PIL", "pyarrow.parquet", "dask", "distributed", "bokeh", "cryptography", "fsspec", "aiohttp"),
        "aisrv fleet, evaluate --dask, data by address",
    ),
    "wakewords": Extra(("pymicro_features",), "features of microWakeWord"),
    "litert": Extra(("ai_edge_litert",), "--engine litert"),
    "tflm": Extra(("tflite_micro",), "--engine tflm"),
    "xcore": Extra(("xmos_ai_tools",), "--engine xcore"),
    "relocatable": Extra(("elftools", "unicorn"), "models as relocatable code"),
    "spi": Extra(("spidev",), "aisrv-host --device spi:B.D on hardware"),
}

_IMPORTS: Final = """
import importlib, json, os, sys
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        words = None
    except Exception as error:
        words = " ".join(f"{name}: {error}".split())
    print(json.dumps([name, words]), file=answers)
"""


def import_failures(modules: Iterable[str]) -> dict[str, str]:
    """Return the modules that cannot be imported, with the words of each; one may end its process."""
    left, failures = list(dict.fromkeys(modules)), dict[str, str]()
    while left:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _IMPORTS, *left], stdout=subprocess.PIPE, check=False
        )
        told = [json.loads(line) for line in done.stdout.splitlines()]
        failures |= {module: words for module, words in told if words is not None}
        del left[: len(told)]
        if left:
            failures[left[0]] = f"{left[0]}: importing it ends Python, exit code {done.returncode}"
            del left[0]
    return failures
