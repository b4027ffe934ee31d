"""The map of the code: every package once, by the floors of the import contract."""

import re

from docs.generate.code_map import code_map
from tests.support.paths import ROOT


def test_every_package_is_on_the_map_once() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \|", code_map(), re.MULTILINE)
    packages = {
        ".".join(found.parent.relative_to(ROOT).parts)
        for root in ("aisrv", "phy", "flash_server", "host_tools", "docs", "benchmarks")
        for found in (ROOT / root).rglob("__init__.py")
    }
    assert len(listed) == len(set(listed))
    assert packages - {"aisrv"} <= set(listed)


def test_a_package_is_on_its_floor_with_the_first_line_of_its_docstring() -> None:
    floors = dict(re.findall(r"### (Floor \d+)\n(.*?)(?=\n###)", code_map(), re.DOTALL))
    assert "| `aisrv.digits` | The digits network: a small int8 classifier" in floors["Floor 2"]
    assert "`phy.usb.taps`" in floors["Floor 4"]
    assert "`aisrv.pytest_plugin`" in floors["Floor 8"]
