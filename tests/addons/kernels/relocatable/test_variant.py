"""Variants of the engine of relocatable code and their text form."""

import pytest

from aisrv.protocol.engine_kind import EngineKind, EngineKindError


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


@pytest.mark.parametrize("core", ["", "a:b"])
def test_what_is_no_name_of_a_core(core: str) -> None:
    with pytest.raises(EngineKindError, match=r"is not the name of a core$"):
        EngineKind("relocatable", core=core)


@pytest.mark.parametrize(
    ("text", "in_place"),
    [
        ("relocatable", True),
        ("relocatable::copy", False),
        ("relocatable::counted", True),
        ("relocatable:cortex-m7:xip", True),
    ],
)
def test_images_run_in_place_unless_they_are_copied(text: str, in_place: bool) -> None:
    assert EngineKind.parse(text).variant.runs_in_place is in_place
