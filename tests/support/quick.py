"""What `make quick` runs, which is `pytest -m quick`: what most changes break first.

Values, the substrate, engines, layers, devices, host tools, nodes and sources, and the pages, names and
places that follow from them; few other programs. Left out are captures and arrays, whose tests start tshark
and Python.
"""

from pathlib import Path
from typing import Final

MARK: Final = "quick"
PLACES: Final = (
    *(f"tests/{name}/" for name in ("protocol", "values", "model", "terminal", "xcore", "engine")),
    *(f"tests/{name}/" for name in ("board", "phy", "host_tools", "device", "house")),
    "tests/addons/graph/nodes/",
    "tests/sensors/sources/",
    "tests/docs/generate/",
    "tests/integration/test_written_files.py::test_every_option_of_a_file_is_called",
    "tests/integration/test_time_bands.py::test_every_command_is_known",
)
"""Beginnings of the names of tests."""
LEFT_OUT: Final = ("tests/host_tools/test_client_arrays.py", "tests/phy/usb/taps/")


def is_quick(name: str) -> bool:
    """Whether a test of this name, as pytest prints it, belongs to them."""
    return name.startswith(PLACES) and not name.startswith(LEFT_OUT)


def may_have_quick(path: Path) -> bool:
    """Whether a file or a folder of the checkout, relative to it, has such tests."""
    name = f"{path}/" if path.suffix != ".py" else str(path)
    if name.startswith(LEFT_OUT):
        return False
    return any(name.startswith(each) or each.startswith(name) for each in PLACES)
