"""Kinds of engines whose packages are not installed: refused before a device starts."""

from importlib.machinery import ModuleSpec

import pytest

from aisrv.board import Board, BoardError, EngineSpec
from aisrv.device.engine_kinds import check_engine_kinds
from aisrv.inference import packages
from aisrv.inference.interpreter import INTERPRETERS, MissingPackageError
from aisrv.inference.packages import packages_of
from aisrv.protocol.engine_kind import ENGINE_KINDS, EngineKind

# Each kind of the product, and each of its variants, that needs a package.
IN_NEED = [
    str(kind)
    for name in ENGINE_KINDS
    for kind in (EngineKind(name), *(EngineKind(name, each) for each in EngineKind(name).variant.names()))
    if packages_of(kind)
]


@pytest.mark.parametrize("name", IN_NEED)
def test_an_engine_without_its_package_is_refused_with_what_helps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = packages_of(EngineKind.parse(name))

    def find(module: str) -> ModuleSpec | None:
        return None if module in {each.module for each in needed} else ModuleSpec(module, None)

    monkeypatch.setattr(packages, "find_spec", find)
    package = needed[0]
    with pytest.raises(BoardError) as caught:
        check_engine_kinds(Board(engines=(EngineSpec(kind=EngineKind.parse(name)),)))
    assert str(caught.value) == f"engine 0: {MissingPackageError(package.name, package.extra)}"


def test_every_interpreter_but_our_own_kernels_has_its_package() -> None:
    assert {name for name in IN_NEED if ":" not in name} == set(INTERPRETERS) - {"kernels"}
    assert "kernels:relocatable" in IN_NEED
