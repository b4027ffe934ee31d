"""XNNPACK as a processor with AVX2 alone would run it, and our kernels in AVX2 beside it.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.without_avx512

Needs gcc and objdump, Linux on x86-64, and ai-edge-litert. XNNPACK chooses its kernels by cpuid: those
instructions of its library are replaced in memory, in this process, before the first interpreter is made.
"""

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from aisrv.addons.kernels.backends.native.library import Variant
from benchmarks import kernels
from benchmarks.rows import Row

SOURCE: Final = Path(__file__).with_suffix(".c")
LIBRARY: Final = "libpywrap_litert_common.so"


def hide_avx512() -> int:
    """Replace all cpuid instructions of XNNPACK's library; return how many there are."""
    import ai_edge_litert.interpreter  # noqa: F401 (which loads the library)

    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "without_avx512.so"
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", built, SOURCE], check=True)
        replace = ctypes.CDLL(str(built)).replace_cpuid
    mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if LIBRARY in line]
    base, path = int(mapped[0][0].partition("-")[0], 16), mapped[0][-1]
    listing = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    places = [
        int(place, 16) for place in re.findall(r"^\s*([0-9a-f]+):\t0f a2 .*cpuid", listing, re.MULTILINE)
    ]
    if not places or not all(replace(ctypes.c_void_p(base + place)) for place in places):
        raise SystemExit(f"{path}: the cpuid instructions could not be replaced")
    return len(places)


def run() -> list[Row]:
    """Measure; about a minute."""
    hide_avx512()
    rows, ratios = list[Row](), list[float]()
    for name, model in kernels.models():
        if name not in kernels.YARDSTICK:
            continue
        network, data = kernels.filled(model, kernels.native(Variant.AVX2)())
        engines = {"ours": network.invoke, kernels.XNNPACK: kernels.xnnpack(model, data)}
        medians = kernels.medians(engines)
        ratios.append(medians[kernels.XNNPACK] / medians["ours"])
        rows += [Row(f"{name}: run, {engine}, AVX2", each * 1e6, "us") for engine, each in medians.items()]
        rows.append(Row(f"{name}: native avx2 over {kernels.XNNPACK} in AVX2", ratios[-1], "times"))
    mean = kernels.geometric_mean(ratios)
    return [*rows, Row(f"geometric mean: native avx2 over {kernels.XNNPACK} in AVX2", mean, "times")]


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>10.2f} {row.unit}")
