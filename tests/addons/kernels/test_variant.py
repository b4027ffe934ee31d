"""Variants of the engine of our own kernels and their text form."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.kernels.variant import KernelsVariant
from aisrv.protocol.engine_kind import EngineKind, EngineKindError

NAMES = st.text("abc._-+0", min_size=1)


@given(st.none() | NAMES, st.none() | st.text("ab/:.", min_size=1).map(Path))
def test_the_text_form_reads_back(backend: str | None, folder: Path | None) -> None:
    variant = KernelsVariant(backend, folder)
    kind = EngineKind("kernels", backend=backend, tensor_folder=folder)
    assert kind.variant == variant
    assert EngineKind.parse(str(kind)) == kind == EngineKind("kernels").with_variant(variant)


@pytest.mark.parametrize("backend", ["", "a:b", ":"])
def test_what_is_no_name_of_a_backend(backend: str) -> None:
    with pytest.raises(EngineKindError, match=r"is not the name of a backend$"):
        EngineKind("kernels", backend=backend)


@pytest.mark.parametrize(
    ("text", "threaded"),
    [("", "native+threads=3"), ("native:out", "native+threads=3:out"), ("numpy", None)],
)
def test_native_kernels_alone_run_on_threads(text: str, threaded: str | None) -> None:
    found = KernelsVariant.parse(text).on_threads(3)
    assert (None if found is None else str(found)) == threaded
