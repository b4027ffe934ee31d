"""The worked example of docs/inside/kernels.md: as it stands there, installed, and right."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tflite import BuiltinOperator

from aisrv import digits
from aisrv.addons.kernels.backend import SCRATCH_SIZES
from aisrv.addons.kernels.backends import registry
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.checks import Params
from tests.support.models import networks
from tests.support.models.operators import METHODS, Case, Draw, values
from tests.support.paths import ROOT
from tests.support.programs import run_process

DOC = ROOT / "docs/inside/kernels.md"
GUIDE = ROOT / "docs/guides/kernels.md"
EXAMPLE, IN_PROGRAM, COMPARISON, *_ = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)


@pytest.fixture
def module() -> ModuleType:
    made = ModuleType("my_kernels")
    exec(EXAMPLE, made.__dict__)
    return made


def halving(seed: int) -> Case:
    """A pool that the example takes."""
    case = Draw(seed).case(BuiltinOperator.MAX_POOL_2D)
    height, width, channels = 2 + seed % 3 * 2, 4, 1 + seed % 4
    changes: dict[str, Any] = {
        "input": Draw(seed).data(height * width * channels),
        "input_shape": (1, height, width, channels),
        "output": values([0] * (height * width * channels // 4)),
        "output_shape": (1, height // 2, width // 2, channels),
    }
    changes |= dict.fromkeys(("filter_h", "filter_w", "stride_h", "stride_w"), 2)
    return replace(case, params=replace(case.params, **changes))


def test_example_equals_reference_on_pools_of_both_kinds(module: ModuleType) -> None:
    namespace: dict[str, Any] = {}
    exec(COMPARISON, namespace)
    others = [Draw(seed).case(BuiltinOperator.MAX_POOL_2D) for seed in range(20)]
    for case in [*map(halving, range(20)), *others]:
        ours = namespace["outputs"](module.backend(), case.params)
        assert ours == namespace["outputs"](ReferenceBackend(), case.params)


def test_example_is_what_computes_such_pools(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.np, "clip", lambda *_, out, **__: out.fill(99))
    assert set(halving(0).run(module.backend())) == {99}


def test_example_in_a_program(module: ModuleType) -> None:
    image = bytes(range(0, 256, 4)) * 16
    namespace = {"model_bytes": digits.model_bytes(), "backend": module.backend}
    exec(IN_PROGRAM, namespace)
    network: Any = namespace["network"]
    data = image[: len(network.inputs[0])]
    network.inputs[0][:] = memoryview(data).cast("b")
    network.invoke()
    assert [bytes(output) for output in network.outputs] == networks.run(digits.model_bytes(), data)


def test_example_as_an_installed_package(tmp_path: Path) -> None:
    (entry,) = re.findall(
        r"```toml\n\[project.entry-points.\"(.*?)\"\]\n(.*?)\n```", DOC.read_text(), re.DOTALL
    )
    group, line = entry
    assert group == registry.GROUP
    line = line.replace('"', "")  # TOML has quotes, the file that an installer makes of it has none
    (tmp_path / "my_kernels.py").write_text(EXAMPLE)
    metadata = tmp_path / "my_kernels-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-kernels\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{line}\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from aisrv.addons.kernels.backends.registry import backend_names, find_backend\n"
        "print(backend_names()[-1], type(find_backend('halving').first).__name__)\n"
    )
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout == "halving Halving\n"


def test_doc_names_every_method_and_error() -> None:
    text = DOC.read_text()
    methods = [*METHODS.values(), *SCRATCH_SIZES]
    assert [name for name in methods if f"`{name}`" not in text] == []
    assert [kind.__name__ for kind in Params.__args__ if f"`{kind.__name__}`" not in text] == []


def test_guide_names_every_shipped_backend() -> None:
    text = GUIDE.read_text()
    assert [name for name in registry.SHIPPED if f"`{name}`" not in text] == []
