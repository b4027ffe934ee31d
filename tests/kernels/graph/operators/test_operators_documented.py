"""The guide's table of operators beside the code's."""

import re

from aisrv.kernels.graph.operators import OPERATORS
from tests.support.paths import ROOT


def test_the_guide_has_every_operator_once() -> None:
    guide = (ROOT / "docs/guides/kernels.md").read_text(encoding="utf-8")
    table = guide.partition("## Operators")[2].partition("A model with any other")[0]
    rows = [line for line in table.splitlines() if line.startswith("| the ")]
    # Of groups and of int32, some are named a second time.
    rows = [line.replace("by its CONV_2D", "").replace("CONV_2D of groups", "") for line in rows]
    rows = [line for line in rows if "arithmetic of shapes" not in line]
    named = [name for row in rows for name in re.findall(r"[A-Z][A-Z0-9_]+", row)]
    assert sorted(named) == sorted(OPERATORS)
