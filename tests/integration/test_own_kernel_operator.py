"""The example of docs/inside/kernels.md: as it stands there, beside TensorFlow Lite Micro."""

import re
from typing import Any

import pytest

import tests.support.models.one_operator
import tests.support.oracles.network_runs
from aisrv.addons.kernels.network import load, operator_node, operators
from aisrv.addons.kernels.network.operators.floats import elements
from aisrv.model import TensorType
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/inside/kernels.md").read_text().split("\n## Add an operator\n")[1]
SHORT, WRITTEN_OUT, ROW, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("function", [SHORT, WRITTEN_OUT], ids=["short", "written-out"])
def test_example(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {**vars(operator_node), **vars(elements), "TensorType": TensorType}
    exec(function, names)
    monkeypatch.setattr(elements, "square", names["square"], raising=False)
    exec(f"rows = {{{ROW}}}", {**vars(operators)}, names)
    for module in (operators, load):
        monkeypatch.setattr(module, "OPERATORS", {**operators.OPERATORS, **names["rows"]})
    namespace: dict[str, Any] = {
        **vars(tests.support.oracles.network_runs),
        **vars(tests.support.models.one_operator),
    }
    exec(f"import numpy as np\nfrom tflite import BuiltinOperator, TensorType\n{TEST}", namespace)
    namespace["test_square"]()
