"""Kinds of engine and their text form."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol import engine_kind
from aisrv.protocol.engine_kind import KINDS, EngineKind, EngineKindError, default_kind

NAMES = st.text("abc._-0", min_size=1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tflite", EngineKind("tflite")),
        ("none", EngineKind("none")),
        ("kernels", EngineKind("kernels")),
        ("kernels:", EngineKind("kernels")),
        ("kernels:reference", EngineKind("kernels", "reference")),
        ("kernels:reference:", EngineKind("kernels", "reference")),
        ("kernels:numpy:/tmp/a:b", EngineKind("kernels", "numpy:/tmp/a:b")),
        ("kernels::out", EngineKind("kernels", ":out")),
        ("package.module:Class", EngineKind("package.module:Class")),
    ],
)
def test_text_is_read(text: str, kind: EngineKind) -> None:
    assert EngineKind.parse(text) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "no kind '', there are tflite, litert, tflm, xcore, kernels, relocatable, none and ",
        ),
        ("TFLM", "no kind 'TFLM', there are"),
        ("tflm ", "no kind 'tflm ', there are"),
        ("module.class", "no kind 'module.class', there are"),
        (":Class", "no kind ':Class', there are"),
        ("module:", "no kind 'module:', there are"),
        ("module:Class:more", "no kind 'module:Class:more', there are"),
        ("tflm:numpy", "'tflm:numpy': tflm takes no options"),
    ],
)
def test_a_kind_that_there_is_not(text: str, message: str) -> None:
    with pytest.raises(EngineKindError) as error:
        EngineKind.parse(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.variant])
def test_kinds_without_variants_take_no_options(name: str) -> None:
    with pytest.raises(EngineKindError, match=f"^'{name}' takes no options$"):
        EngineKind(name, backend="numpy")
    with pytest.raises(EngineKindError, match=f"^'{name}' takes no options$"):
        EngineKind(name, "numpy")


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.variant])
def test_options_that_a_kind_does_not_have(name: str) -> None:
    with pytest.raises(EngineKindError, match=f"^'{name}' does not take these options: speed$"):
        EngineKind(name, speed="high")


@given(NAMES, NAMES)
def test_the_text_form_of_a_class_reads_back(module: str, class_name: str) -> None:
    assert str(EngineKind.parse(f"{module}:{class_name}")) == f"{module}:{class_name}"


@pytest.mark.parametrize(
    ("installed", "kind"),
    [
        ({"tflite_runtime", "ai_edge_litert"}, "tflite"),
        ({"tflite_runtime"}, "tflite"),
        ({"ai_edge_litert"}, "litert"),
        (set(), "kernels"),
    ],
)
def test_the_default_is_the_first_that_is_installed(
    installed: set[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_kind, "find_spec", lambda package: package if package in installed else None)
    assert default_kind.__wrapped__() == EngineKind(kind)


def test_the_default_stays_the_same_within_a_process() -> None:
    assert default_kind() is default_kind()


def test_options_are_those_that_are_given() -> None:
    assert EngineKind("tflite").options == {}
    kind = EngineKind("kernels", tensor_folder=Path("a"))
    assert kind.options == {"tensor_folder": Path("a")}
    assert replace(kind, name="kernels") == kind == EngineKind.parse("kernels::a")
