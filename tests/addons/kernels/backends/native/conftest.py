"""The variants that the native kernels are tested in."""

import pytest

from aisrv.addons.kernels.backends.native import team
from aisrv.addons.kernels.backends.native.formats import INT8_TARGETS
from aisrv.addons.kernels.backends.native.library import Variant
from tests.support.models.native import VARIANTS, need_variant


@pytest.fixture(params=VARIANTS, ids=lambda variant: variant.value)
def variant(request: pytest.FixtureRequest) -> Variant:
    return need_variant(request.param)


@pytest.fixture(params=[each for each in VARIANTS if each in INT8_TARGETS], ids=lambda variant: variant.value)
def multiplying(request: pytest.FixtureRequest) -> Variant:
    """A variant that computes convolutions itself."""
    return need_variant(request.param)


@pytest.fixture
def shared_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that threads share however small they are, with as many helpers as are asked for."""
    monkeypatch.setattr(team, "usable_cores", lambda: 64)
    monkeypatch.setattr(team, "PIECE_WORK", 64)
