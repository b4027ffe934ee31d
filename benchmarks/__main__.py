"""All benchmarks: `python -m benchmarks`, or some of them by name.

What one finds replaces its file in `benchmarks/results`, if it came to its end and other programs left the
machine alone. One whose models or packages are not there says so, and the others go on.
"""

import importlib
import sys
from pathlib import Path
from typing import Final

try:
    import pytest
except ModuleNotFoundError:
    sys.exit("pytest is not installed; `make bench` installs what benchmarks need")

from benchmarks.results import MOST_OTHERS, Watch, result_of, write
from benchmarks.rows import Row

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
    here = {path.stem for path in Path(__file__).parent.glob("*.py")}
    unknown = [name for name in sys.argv[1:] if name not in {*BENCHMARKS, *here}]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"== {name}")
        try:
            keep(name)
        except pytest.skip.Exception as missing:  # what modules of tests do without the models of others
            print(f"left out: {missing}")
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] in OURS:
                raise
            print(f"left out: {missing.name} is not installed; `make bench` installs what benchmarks need")


def keep(name: str) -> None:
    """Run a benchmark, print its rows as they come, and write them all where nothing spoiled them."""
    run = importlib.import_module(f"benchmarks.{name}").run
    watch, rows = Watch(), list[Row]()
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
        rows.append(row)
    others = watch.others()
    if others is not None and others > MOST_OTHERS:
        print(f"not kept: other programs took {others:.0%} of the processors meanwhile")
        return
    print(f"written to {write(name, result_of(rows, others))}; `make reference` makes the page of it")


if __name__ == "__main__":
    main()
