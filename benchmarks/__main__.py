"""All benchmarks: `python -m benchmarks`, or some of them by name."""

import importlib
import sys

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
        for row in importlib.import_module(f"benchmarks.{name}").run():
            print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")


if __name__ == "__main__":
    main()
