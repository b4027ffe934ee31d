"""Kinds of engine and their text form."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol import engine_kind
from aisrv.protocol.engine_kind import ENGINE_KINDS, EngineKind, EngineKindError, default_kind

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
        ("kernels:numpy:/tmp/a:b", EngineKind("kernels", "numpy", Path("/tmp/a:b"))),
        ("kernels::out", EngineKind("kernels", None, Path("out"))),
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


@pytest.mark.parametrize("name", [name for name in ENGINE_KINDS if name not in ("kernels", "relocatable")])
def test_only_kernels_have_options(name: str) -> None:
    for backend, folder in ((None, Path("out")), ("numpy", None)):
        with pytest.raises(EngineKindError, match=f"'{name}' has no backend and writes no tensors"):
            EngineKind(name, backend, folder)


@pytest.mark.parametrize("backend", ["", "a:b", ":"])
def test_what_is_no_name_of_a_backend(backend: str) -> None:
    with pytest.raises(EngineKindError, match=r"is not the name of a backend$"):
        EngineKind("kernels", backend)


@given(st.none() | NAMES, st.none() | st.text("ab/:.", min_size=1).map(Path))
def test_the_text_form_of_kernels_reads_back(backend: str | None, folder: Path | None) -> None:
    kind = EngineKind("kernels", backend, folder)
    assert EngineKind.parse(str(kind)) == kind


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
    assert EngineKind("kernels", tensor_folder=Path("a")).options == {"tensor_folder": Path("a")}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("relocatable", EngineKind("relocatable")),
        ("relocatable:cortex-m7", EngineKind("relocatable", core="cortex-m7")),
        ("relocatable::copy", EngineKind("relocatable", mode="copy")),
        ("relocatable:cortex-m33:xip", EngineKind("relocatable", core="cortex-m33", mode="xip")),
    ],
)
def test_a_kind_of_relocatable_code(text: str, kind: EngineKind) -> None:
    assert EngineKind.parse(text) == kind
    assert str(kind) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("relocatable:cortex-m4:fast", "one of xip, copy, counted; not as 'fast'"),
        ("relocatable:cortex-m4:copy:", "not as 'copy:'"),
    ],
)
def test_a_mode_that_there_is_not(text: str, reason: str) -> None:
    with pytest.raises(EngineKindError, match=reason):
        EngineKind.parse(text)


def test_only_relocatable_code_has_a_core() -> None:
    with pytest.raises(EngineKindError, match="'tflite' has no core and no mode"):
        EngineKind("tflite", core="cortex-m4")
