"""Kinds of engines whose packages are not installed: refused before a device starts."""

from importlib.machinery import ModuleSpec

import pytest

from aisrv.board import Board, BoardError, EngineSpec
from aisrv.device.engine_kinds import check_engine_kinds
from aisrv.inference import packages
from aisrv.inference.interpreter import INTERPRETERS, MissingPackageError
from aisrv.inference.packages import PACKAGES
from aisrv.protocol.engine_kind import EngineKind


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_an_engine_without_its_package_is_refused_with_what_helps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(module: str) -> ModuleSpec | None:
        return None if module in {each.module for each in PACKAGES[name]} else ModuleSpec(module, None)

    monkeypatch.setattr(packages, "find_spec", find)
    package = PACKAGES[name][0]
    with pytest.raises(BoardError) as caught:
        check_engine_kinds(Board(engines=(EngineSpec(kind=EngineKind.parse(name)),)))
    assert str(caught.value) == f"engine 0: {MissingPackageError(package.name, package.extra)}"


def test_every_interpreter_but_our_own_kernels_has_its_package() -> None:
    assert {name for name in PACKAGES if ":" not in name} == set(INTERPRETERS) - {"kernels"}
