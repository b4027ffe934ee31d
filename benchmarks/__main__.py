"""All benchmarks: `python -m benchmarks`, or some of them by name.

One whose models or packages are not there says so, and the others go on.
"""

import importlib
import sys
from typing import Final

import pytest

OURS: Final = ("aisrv", "phy", "flash_server", "host_tools", "benchmarks", "tests")

BENCHMARKS = (
    "starting",
    "substrate",
    "ports",
    "firmware",
    "usbip",
    "device",
    "commands_cpu",
    "many_devices",
    "growth",
    "peers",
    "flood",
    "spi",
    "jacdac",
    "flash",
    "engines",
    "sensors",
    "opencv",
    "kernels",
    "compilers",
    "operators",
    "floats",
    "relocatable",
    "evaluate",
    "web",
    "graph",
    "graph_compile",
)


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"== {name}")
        try:
            for row in importlib.import_module(f"benchmarks.{name}").run():
                print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
        except pytest.skip.Exception as missing:  # what modules of tests do without the models of others
            print(f"left out: {missing}")
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] in OURS:
                raise
            print(f"left out: {missing.name} is not installed; `make bench` installs what benchmarks need")


if __name__ == "__main__":
    main()
